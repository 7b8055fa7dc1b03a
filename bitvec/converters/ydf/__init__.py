"""YDF (Yggdrasil Decision Forests): models and model directories into a Forest."""

from bitvec.converters.ydf.model import convert
from bitvec.converters.ydf.oracle import oracle_of

__all__ = ["convert", "oracle_of"]

"""YDF (Yggdrasil Decision Forests): models and model directories into a Forest."""

from bitvec.converters.ydf.oracle import oracle_of
from bitvec.converters.ydf.read import convert

__all__ = ["convert", "oracle_of"]

"""YDF (Yggdrasil Decision Forests): models and model directories into a Forest."""

from bitvec.converters.ydf.model import convert
from bitvec.converters.ydf.questions import subject

__all__ = ["convert", "subject"]

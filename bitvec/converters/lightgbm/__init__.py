"""LightGBM: boosters, estimators and text files into a Forest, and text again."""

from bitvec.converters.lightgbm.model import convert
from bitvec.converters.lightgbm.oracle import oracle_of
from bitvec.converters.lightgbm.writer import to_lightgbm

__all__ = ["convert", "oracle_of", "to_lightgbm"]

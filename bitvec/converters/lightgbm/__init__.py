"""LightGBM: boosters, estimators and text files into a Forest, and text again."""

from bitvec.converters.lightgbm.oracle import oracle_of
from bitvec.converters.lightgbm.read import convert
from bitvec.converters.lightgbm.write import to_lightgbm

__all__ = ["convert", "oracle_of", "to_lightgbm"]

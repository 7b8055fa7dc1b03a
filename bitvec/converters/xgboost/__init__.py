"""xgboost: boosters, estimators and their files, read without the library, and written back."""

from bitvec.converters.xgboost.read import convert, oracle_of
from bitvec.converters.xgboost.write import to_xgboost

__all__ = ["convert", "oracle_of", "to_xgboost"]

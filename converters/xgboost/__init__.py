"""xgboost: boosters, estimators and their files, read without the library."""

from bitvec.converters.xgboost.model import convert, subject

__all__ = ["convert", "subject"]

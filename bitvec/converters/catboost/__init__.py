"""CatBoost: JSON models, fitted models and binary files into a Forest."""

from bitvec.converters.catboost.oracle import oracle_of
from bitvec.converters.catboost.read import convert
from bitvec.core.city_hash import category_hash

__all__ = ["category_hash", "convert", "oracle_of"]

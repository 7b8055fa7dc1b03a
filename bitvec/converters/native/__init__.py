"""The trees of the papers as plain arrays in the papers' own symbols, into a Forest."""

from bitvec.converters.native.cpt import CPT, from_cpt
from bitvec.converters.native.e2edt import E2EDF, E2EDT, from_e2edf, from_e2edt
from bitvec.converters.native.kddt import (
    KDDT,
    KDDTForest,
    from_kddt,
    from_kddt_forest,
    gaussian_pieces,
)
from bitvec.converters.native.read import convert
from bitvec.converters.native.tao import TAO, TAOForest, from_tao, from_tao_forest
from bitvec.converters.native.tao_boosting import TAOBoosting, from_tao_boosting

__all__ = [
    "CPT",
    "E2EDF",
    "E2EDT",
    "KDDT",
    "TAO",
    "KDDTForest",
    "TAOBoosting",
    "TAOForest",
    "convert",
    "from_cpt",
    "from_e2edf",
    "from_e2edt",
    "from_kddt",
    "from_kddt_forest",
    "from_tao",
    "from_tao_boosting",
    "from_tao_forest",
    "gaussian_pieces",
]

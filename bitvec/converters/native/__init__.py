"""The trees of the papers as plain arrays in the papers' own symbols, into a Forest.

Each is loaded when it is first used: who converts a model of a library needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOME = {
    "CPT": "cpt",
    "from_cpt": "cpt",
    "E2EDF": "e2edt",
    "E2EDT": "e2edt",
    "from_e2edf": "e2edt",
    "from_e2edt": "e2edt",
    "KDDT": "kddt",
    "KDDTForest": "kddt",
    "from_kddt": "kddt",
    "from_kddt_forest": "kddt",
    "gaussian_pieces": "kddt",
    "convert": "read",
    "TAO": "tao",
    "TAOForest": "tao",
    "from_tao": "tao",
    "from_tao_forest": "tao",
    "TAOBoosting": "tao_boosting",
    "from_tao_boosting": "tao_boosting",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value

"""Estimators of scikit-learn's interface: they grow native trees, or retrain a given model's.

Names are loaded when first used, so that importing the room needs no library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitvec.learners.cpt.sklearn import CPTClassifier, CPTRegressor
    from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTRegressor
    from bitvec.learners.e2edt.sklearn_forests import E2EDFClassifier, E2EDFRegressor
    from bitvec.learners.kddt.sklearn import KDDTClassifier, KDDTRegressor
    from bitvec.learners.kddt.sklearn_forests import (
        KDDTExtraTreesClassifier,
        KDDTExtraTreesRegressor,
        KDDTRandomForestClassifier,
        KDDTRandomForestRegressor,
    )
    from bitvec.learners.oblique.sklearn import ObliqueForestClassifier, ObliqueForestRegressor
    from bitvec.learners.retrained.sklearn import RetrainedClassifier, RetrainedRegressor
    from bitvec.learners.tao.refine import tao_refine
    from bitvec.learners.tao.sklearn import TAOClassifier, TAORegressor
    from bitvec.learners.tao.sklearn_boosting import TAOBoostingClassifier, TAOBoostingRegressor
    from bitvec.learners.tao.sklearn_forests import TAOForestClassifier, TAOForestRegressor

_HOME = {
    "CPTClassifier": "cpt.sklearn",
    "CPTRegressor": "cpt.sklearn",
    "E2EDFClassifier": "e2edt.sklearn_forests",
    "E2EDFRegressor": "e2edt.sklearn_forests",
    "E2EDTClassifier": "e2edt.sklearn",
    "E2EDTRegressor": "e2edt.sklearn",
    "KDDTClassifier": "kddt.sklearn",
    "KDDTExtraTreesClassifier": "kddt.sklearn_forests",
    "KDDTExtraTreesRegressor": "kddt.sklearn_forests",
    "KDDTRandomForestClassifier": "kddt.sklearn_forests",
    "KDDTRandomForestRegressor": "kddt.sklearn_forests",
    "KDDTRegressor": "kddt.sklearn",
    "ObliqueForestClassifier": "oblique.sklearn",
    "ObliqueForestRegressor": "oblique.sklearn",
    "RetrainedClassifier": "retrained.sklearn",
    "RetrainedRegressor": "retrained.sklearn",
    "TAOBoostingClassifier": "tao.sklearn_boosting",
    "TAOBoostingRegressor": "tao.sklearn_boosting",
    "TAOClassifier": "tao.sklearn",
    "TAOForestClassifier": "tao.sklearn_forests",
    "TAOForestRegressor": "tao.sklearn_forests",
    "TAORegressor": "tao.sklearn",
    "tao_refine": "tao.refine",
}

__all__ = [
    "CPTClassifier",
    "CPTRegressor",
    "E2EDFClassifier",
    "E2EDFRegressor",
    "E2EDTClassifier",
    "E2EDTRegressor",
    "KDDTClassifier",
    "KDDTExtraTreesClassifier",
    "KDDTExtraTreesRegressor",
    "KDDTRandomForestClassifier",
    "KDDTRandomForestRegressor",
    "KDDTRegressor",
    "ObliqueForestClassifier",
    "ObliqueForestRegressor",
    "RetrainedClassifier",
    "RetrainedRegressor",
    "TAOBoostingClassifier",
    "TAOBoostingRegressor",
    "TAOClassifier",
    "TAOForestClassifier",
    "TAOForestRegressor",
    "TAORegressor",
    "tao_refine",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bitvec.learners' has no attribute {name!r}")
    value = getattr(import_module(f"bitvec.learners.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})

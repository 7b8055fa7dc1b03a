"""Conversion of native trees, by a table of their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bitvec.converters.native import cpt, e2edt, fitted_estimators, kddt, tao, tao_boosting
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError

_CONVERTERS: Final[dict[type, Callable[[Any], Forest]]] = {
    cpt.CPT: cpt.convert_tree,
    e2edt.E2EDT: e2edt.convert_trees,
    e2edt.E2EDF: e2edt.convert_trees,
    kddt.KDDT: kddt.convert_trees,
    kddt.KDDTForest: kddt.convert_trees,
    tao.TAO: tao.convert_trees,
    tao.TAOForest: tao.convert_trees,
    tao_boosting.TAOBoosting: tao_boosting.convert_boosting,
}


def convert(model: Any) -> Forest:
    """Convert a native tree exactly, or return the Forest of an estimator that grew one.

    Parameters
    ----------
    model : CPT, E2EDT, E2EDF, KDDT, KDDTForest, TAO, TAOForest or TAOBoosting, or a fitted \
estimator of this package

    Raises
    ------
    UnsupportedModelError
        If it is something else, or an estimator that is not fitted or answers otherwise than its
        forest.

    Examples
    --------
    >>> from bitvec.converters.native.tao import from_tao
    >>> convert(from_tao(W=[[1, 1]], bias=[-1], left=[-1], right=[-2], V=[3, 4]))
    Forest(1 tree, 1 nodes, 2 leaves, 2 features -> 1 outputs, float64, from tao)
    """
    if fitted_estimators.is_estimator(model):
        return fitted_estimators.held_forest(model)
    require_native(model)
    return _CONVERTERS[type(model)](model)


def require_native(model: Any) -> None:
    """Refuse what is no native tree.

    Raises
    ------
    UnsupportedModelError
    """
    if type(model) not in _CONVERTERS:
        known = ", ".join(kind.__name__ for kind in _CONVERTERS)
        raise UnsupportedModelError(
            f"a native tree must be one of {known}, got an object of class "
            f"{type(model).__module__}.{type(model).__qualname__}."
        )

"""From a native tree to a Forest, and to what that Forest is compared with: one table of types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from bitvec.converters.native import cpt, e2edt, estimators, kddt, tao
from bitvec.converters.native.walker import is_walked, source_trees
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError
from bitvec.verify.oracle import Oracle

_TABLE: dict[type, tuple[Callable[[Any], Forest], Callable[[Any], Oracle]]] = {
    cpt.CPT: (cpt.lift, cpt.oracle_of),
    e2edt.E2EDT: (e2edt.lift, e2edt.oracle_of),
    e2edt.E2EDF: (e2edt.lift_forest, e2edt.oracle_of_forest),
    kddt.KDDT: (kddt.lift, kddt.oracle_of),
    kddt.KDDTForest: (kddt.lift_forest, kddt.oracle_of_forest),
    tao.TAO: (tao.lift, tao.oracle_of),
}


def convert(model: Any) -> Forest:
    """Lift a native tree exactly, or return the Forest of an estimator that grew one.

    Parameters
    ----------
    model : CPT, E2EDT, E2EDF, KDDT, KDDTForest or TAO, or a fitted estimator of this package

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
    if estimators.is_estimator(model):
        return estimators.held_forest(model)
    return _entry(model)[0](model)


def oracle_of(model: Any) -> Oracle:
    """Return what a lifted native tree is compared with: its own walk by the paper's rule.

    To the walk of an estimator's trees come the answers of the estimator itself.
    """
    if estimators.is_estimator(model):
        return estimators.oracle_of_estimator(model, oracle_of)
    answering = _entry(model)[1](model)
    return replace(answering, trees=partial(source_trees, model) if is_walked(model) else None)


def _entry(model: Any) -> tuple[Callable[[Any], Forest], Callable[[Any], Oracle]]:
    try:
        return _TABLE[type(model)]
    except KeyError:
        known = ", ".join(kind.__name__ for kind in _TABLE)
        raise UnsupportedModelError(
            f"a native tree must be one of {known}, got an object of class "
            f"{type(model).__module__}.{type(model).__qualname__}."
        ) from None

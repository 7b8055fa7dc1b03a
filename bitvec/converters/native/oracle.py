"""Native trees' own traversal by their papers' rules, by a table of their classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from bitvec.converters.native import cpt, e2edt, fitted_estimators, kddt, tao
from bitvec.converters.native.read import entry
from bitvec.converters.native.walker import is_walked, source_trees
from bitvec.verify.oracle import Oracle

_ORACLES: Final[dict[type, Callable[[Any], Oracle]]] = {
    cpt.CPT: cpt.oracle_of,
    e2edt.E2EDT: e2edt.oracle_of,
    e2edt.E2EDF: e2edt.oracle_of_forest,
    kddt.KDDT: kddt.oracle_of,
    kddt.KDDTForest: kddt.oracle_of_forest,
    tao.TAO: tao.oracle_of,
}


def oracle_of(model: Any) -> Oracle:
    """Return the answers that a converted native tree is compared with.

    For an estimator they are those of its trees and of the estimator itself.

    Raises
    ------
    UnsupportedModelError
        As `convert`.
    """
    if fitted_estimators.is_estimator(model):
        return fitted_estimators.oracle_of_estimator(model, oracle_of)
    answering = entry(_ORACLES, model)(model)
    return replace(answering, trees=partial(source_trees, model) if is_walked(model) else None)

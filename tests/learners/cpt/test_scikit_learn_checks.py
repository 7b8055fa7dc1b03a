"""Convex Polytope Trees: scikit-learn's own checks."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bitvec.learners.cpt.sklearn import CPTClassifier, CPTRegressor

TINY: dict[str, Any] = {
    "max_depth": 3, "n_facets": 3, "steps": 25, "restarts": 1, "refine": 0, "min_rows": 2,
    "random_state": 0,
}  # fmt: skip


@parametrize_with_checks([CPTClassifier(**TINY)])
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@parametrize_with_checks([CPTRegressor(**TINY)])
def test_a_regressor_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [CPTClassifier(**{**TINY, "refine": 20}), CPTRegressor(**{**TINY, "refine": 20})]
)
def test_passes_the_checks_of_scikit_learn_with_refinement(estimator: Any, check: Any) -> None:
    check(estimator)

"""End-to-End Decision Trees: scikit-learn's own checks."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTRegressor

TINY: dict[str, Any] = {
    "max_depth": 2, "steps": 10, "restarts": 1, "refine": 0, "min_rows": 2, "random_state": 0
}  # fmt: skip


@parametrize_with_checks([E2EDTClassifier(**TINY)])
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@parametrize_with_checks([E2EDTRegressor(**TINY)])
def test_a_regressor_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [E2EDTClassifier(**{**TINY, "refine": 20}), E2EDTRegressor(**{**TINY, "refine": 20})]
)
def test_passes_the_checks_of_scikit_learn_with_refinement(estimator: Any, check: Any) -> None:
    check(estimator)

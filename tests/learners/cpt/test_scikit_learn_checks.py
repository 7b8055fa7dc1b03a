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


def known(estimator: Any) -> dict[str, str]:
    """Return what cannot pass: a row of weight two is one row where rows are drawn."""
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": "rows to choose by are drawn"
        for kind in ("dense", "sparse")
    }


@parametrize_with_checks([CPTClassifier(**TINY)])
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@parametrize_with_checks([CPTRegressor(**TINY)])
def test_a_regressor_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [CPTClassifier(**{**TINY, "refine": 20}), CPTRegressor(**{**TINY, "refine": 20})],
    expected_failed_checks=known,
)
def test_passes_the_checks_of_scikit_learn_with_refinement(estimator: Any, check: Any) -> None:
    check(estimator)

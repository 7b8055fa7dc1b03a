"""The table of kernel density trees: a forest that answers crisply is not grown anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from sklearn.datasets import load_wine

from bitvec.learners.kddt.sklearn import KDDTClassifier
from bitvec.learners.kddt.sklearn_forests import (
    KDDTExtraTreesClassifier,
    KDDTRandomForestClassifier,
)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (KDDTClassifier, {}),
        (KDDTRandomForestClassifier, {"n_estimators": 5}),
        (KDDTExtraTreesClassifier, {"n_estimators": 5}),
    ],
)
def test_trees_that_answer_crisply_are_those_of_a_crisp_fit(make: Any, options: Any) -> None:
    from benchmarks.tables.kddt_fits import crisply

    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    options = {"bandwidth": 0.8, "max_depth": 4, "random_state": 3, **options}
    soft = make(**options).fit(X, y)
    answer = soft.predict_proba(X)
    crisp = make(**options, predict_kernel=None).fit(X, y).predict_proba(X)
    assert np.array_equal(crisply(soft).predict_proba(X), crisp)
    assert not np.array_equal(answer, crisp)
    assert np.array_equal(soft.predict_proba(X), answer)

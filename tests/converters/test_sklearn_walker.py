"""Laws of scikit-learn's own trees as they are walked for proofs, apart from the conversion."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from source_walks import leaf_ids

from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.converters.sklearn.walker import source_trees
from bitvec.converters.sklearn.write import to_sklearn
from tests.models.sklearn import trained


def test_a_boosted_model_that_may_hold_its_base_score_in_leaves_shows_no_trees() -> None:
    model = trained("GradientBoostingRegressor, loss=squared_error")
    assert oracle_of(model).trees is not None
    assert oracle_of(to_sklearn(convert(model))).trees is None


def test_a_frame_of_categories_is_walked_by_its_codes() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 300)
    frame = pd.DataFrame(
        {"a": rng.normal(size=300), "word": pd.Categorical(np.array(list("xzby"))[codes])}
    )
    frame["flag"] = rng.random(300) < 0.5
    y = (codes == 1) ^ frame["flag"].to_numpy()
    model = HistGradientBoostingClassifier(
        max_iter=3, categorical_features=["word", "flag"], early_stopping=False
    ).fit(frame, y)
    trees, source = source_trees(model), oracle_of(model)
    rows = np.stack(
        [
            rng.normal(size=60),
            rng.choice([*range(5), -1, np.nan], 60),
            rng.choice([0, 1, 2, np.nan], 60),
        ],
        1,
    )
    assert source.leaf_ids is not None
    np.testing.assert_array_equal(leaf_ids(trees, rows), source.leaf_ids(rows))


def test_a_large_forest_is_walked_in_time_of_its_own_size() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 10)), rng.integers(0, 10, 4000)
    model = RandomForestClassifier(30, random_state=0, n_jobs=1).fit(X, y)
    began = time.process_time()
    trees = source_trees(model)
    # 500,000 nodes take about a tenth of a second; this small part has a generous bound.
    assert time.process_time() - began < 1.0
    assert trees.tests.n_nodes > 40_000

"""Laws of scikit-learn's own trees as they are walked for proofs, apart from the conversion."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from proof_laws import some_in_full
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from source_walks import exit_leaves, leaf_ids
from wrong_forests import wrong

from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.converters.sklearn.walker import source_trees
from bitvec.converters.sklearn.write import to_sklearn
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate
from bitvec.verify.certificates.proof import Proof, prove
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import SourceTrees
from tests.models.sklearn import KINDS, MODELS, sample, trained

FULL = some_in_full([(name,) for name in MODELS])


def rows_at_thresholds(trees: SourceTrees, source: Oracle, X: np.ndarray, n: int) -> np.ndarray:
    """Return rows of values at thresholds, an ulp to each side, codes, and what is special."""
    rng = np.random.default_rng(0)
    dtype = trees.row_dtype
    values = [-1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 31.0, 59.0, 177.0, 6000.0, 1e9]
    plain = trees.tests.b[(trees.tests.kind != Kind.SET) & np.isfinite(trees.tests.b)]
    with np.errstate(over="ignore"):
        near = plain.astype(dtype)
    parts = [np.array(values, dtype), near, *(np.nextafter(near, dtype.type(s)) for s in (-9, 9))]
    if source.accepts_missing:
        parts.append(np.full(near.size // 4 + 2, np.nan, dtype))
    if source.accepts_infinite:
        parts.append(np.tile(np.array([np.inf, -np.inf], dtype), near.size // 8 + 1))
    rows = np.array(X[rng.integers(len(X), size=n)], dtype)
    put = rng.random(rows.shape) < 0.5
    rows[put] = rng.choice(np.concatenate(parts), int(put.sum()))
    return rows if source.accepts_missing else np.nan_to_num(rows)


@pytest.mark.parametrize("name", FULL)
def test_walked_trees_leave_where_the_library_leaves_and_hold_what_it_adds(name: str) -> None:
    model = trained(name)
    source, trees = oracle_of(model), source_trees(model)
    rows = rows_at_thresholds(trees, source, sample(MODELS[name]).X, 12)
    leaves = exit_leaves(trees, rows)
    assert source.leaf_ids is not None
    np.testing.assert_array_equal(trees.leaf_id[leaves], source.leaf_ids(rows))
    np.testing.assert_array_equal(raw(trees, leaves), source.raw(rows))


@pytest.mark.parametrize("name", FULL)
def test_the_conversion_is_proved_by_the_walked_trees(name: str) -> None:
    result = proof(convert(trained(name)), trained(name))
    assert result.holds, result
    assert result.unstated == ()


@pytest.mark.parametrize("name", KINDS.values())
def test_wrong_forests_are_not_proved(name: str) -> None:
    model = trained(name)
    forest = convert(model)
    others = wrong(forest, missing=oracle_of(model).accepts_missing)
    assert len(others) >= 4
    assert [name for name, other in others.items() if proof(other, model).holds] == []


def test_a_boosted_model_that_may_hold_its_base_score_in_leaves_shows_no_trees() -> None:
    model = trained("GradientBoostingRegressor, loss=squared_error")
    assert oracle_of(model).trees is not None
    assert oracle_of(to_sklearn(convert(model))).trees is None


def proof(forest: Forest, model: Any) -> Proof:
    source = oracle_of(model)
    return prove(
        forest,
        source_trees(model),
        missing=source.accepts_missing,
        infinite=source.accepts_infinite,
    )


def raw(trees: SourceTrees, leaves: np.ndarray) -> np.ndarray:
    """Return the raw scores that leaves add up to, by what the walked trees state."""
    stated = trees.stated
    n_outputs = stated["n_outputs"]
    total = np.tile(stated["base_score"], (len(leaves), 1))
    if stated["aggregate"] is Aggregate.WEIGHTED_MEDIAN:
        values, weight = trees.v[leaves][:, :, 0], stated["tree_weight"]
        order = np.argsort(values, axis=1)
        share = np.cumsum(weight[order], axis=1)
        median = (share >= 0.5 * share[:, -1:]).argmax(axis=1)
        return np.take_along_axis(values, order, 1)[np.arange(len(leaves)), median][:, None]
    for leaf in leaves.T:
        if trees.output is None:
            total += trees.v[leaf]
        else:
            total[np.arange(len(leaf)), trees.output[leaf]] += trees.v[leaf, 0]
    if stated["aggregate"] is Aggregate.MEAN:
        divisor = stated["divisor"]
        total /= np.full(n_outputs, leaves.shape[1]) if divisor is None else divisor
    return total


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

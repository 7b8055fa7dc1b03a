"""The first law: a reader's own argmax(B · (S φ(x) > b)) is the exit leaf, for every x."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    AXIS,
    EQUAL,
    KERNEL,
    OBLIQUE,
    ONE_HOT,
    POLYTOPE,
    SET,
    examples,
    forests,
    forests_with_rows,
    rows,
)

import bitvec
from bitvec.core import expansion, reference
from bitvec.core.expansion import ColumnKind
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, axis_aligned, set_bits
from bitvec.core.output import Output
from bitvec.core.structure import from_children
from bitvec.errors import InputError, InvalidForestError

WRITTEN = (AXIS, OBLIQUE, SET, EQUAL, KERNEL)


def exits(forest: Forest, X: np.ndarray, *, dense: bool = False) -> np.ndarray:
    """Compute the equation as a reader would, from the matrices and φ alone."""
    phi = forest.expand(X)
    assert phi.dtype == forest.dtype
    assert np.isfinite(phi).all()
    found = np.zeros((len(X), forest.n_trees), np.int64)
    for tree, (S, b, B, _) in enumerate(forest.matrices()):
        matrix = S.toarray() if dense else S
        found[:, tree] = np.argmax(B @ (matrix @ phi.T > b[:, None]), axis=0)
    return found


def traversed(forest: Forest, X: np.ndarray) -> np.ndarray:
    return reference.exit_leaf_traversal(forest, reference.columns(forest, X))


@given(forests_with_rows(kinds=WRITTEN, linear=False))
def test_the_literal_equation_is_the_traversal(drawn):
    forest, X = drawn
    assert np.array_equal(exits(forest, X), traversed(forest, X))


@given(forests_with_rows(kinds=(*ONE_HOT, KERNEL), linear=False))
def test_a_dense_product_of_any_order_is_the_traversal_where_no_node_is_oblique(drawn):
    forest, X = drawn
    assert np.array_equal(exits(forest, X, dense=True), traversed(forest, X))


@given(st.data())
def test_oblique_rows_of_any_scale_offset_and_weight_keep_the_equation(data):
    forest = data.draw(forests(kinds=(OBLIQUE,), linear=False))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    tests, dtype = forest.tests, forest.dtype
    most = float(np.finfo(dtype).max)
    n = tests.n_rows
    tests = replace(
        tests,
        r=rng.choice([1, 0, -1, 0.3, -1e-30, 1e30, -most], n).astype(dtype),
        offset=rng.choice([0, 0.1, -3, most / 3, most], n).astype(dtype),
        weight=tests.weight * rng.choice([1, 0.1, 3e25, most], tests.weight.size).astype(dtype),
        b=rng.choice([0, 0.25, -1, most, -most, np.inf, -np.inf], n).astype(dtype),
    )
    forest = replace(forest, tests=tests)
    with np.errstate(over="ignore"):
        X = data.draw(rows(forest)) * rng.choice([1, 1, 1e20], forest.n_features).astype(dtype)
    assert np.array_equal(exits(forest, X), traversed(forest, X))


@examples(10)
@given(forests_with_rows(kinds=WRITTEN, linear=False))
def test_the_matrices_of_a_tree_alone_and_of_its_forest_agree(drawn):
    forest, X = drawn
    phi, names = forest.expand(X), forest.expanded_columns
    for tree, (S, b, B, v) in zip(forest, forest.matrices(), strict=True):
        alone = tree.b[:, None] < tree.S @ tree.expand(X).T
        assert np.array_equal(alone, b[:, None] < S @ phi.T)
        assert np.array_equal(tree.b, b)
        assert np.array_equal(tree.B, B)
        assert np.array_equal(tree.v, v)
    assert phi.shape[1] == forest.S.shape[1] == len(names)
    assert [column.reads for column in names[: forest.n_features]] == list(range(forest.n_features))


@cache
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    X[:, 3] = rng.integers(0, 6, 400)
    X[:, 4] = rng.integers(0, 3, 400)
    y = X[:, 0] + np.isin(X[:, 3], [1, 4]) + X[:, 1] * (X[:, 4] == 1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = np.nan_to_num(X[:, 4])
    return X, y > 0.4


def _xgboost() -> object:
    xgb = pytest.importorskip("xgboost")
    X, y = table()
    types = ["q", "q", "q", "c", "q"]
    options = {"max_depth": 4, "objective": "binary:logistic", "max_cat_to_onehot": 1, "nthread": 1}
    data = xgb.DMatrix(X, y, feature_types=types, enable_categorical=True)
    return xgb.train(options, data, 8)


def _lightgbm(**options: object) -> object:
    lgb = pytest.importorskip("lightgbm")
    X, y = table()
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_per_group": 5}
    data = lgb.Dataset(X, y, categorical_feature=[3, 4], params={"verbose": -1})
    return lgb.train({**settings, **options}, data, 8)


def _catboost() -> object:
    cb = pytest.importorskip("catboost")
    X, y = table()
    codes = [[*map(float, row[:3]), int(np.nan_to_num(row[3])), int(row[4])] for row in X]
    model = cb.CatBoostClassifier(
        iterations=8,
        depth=3,
        one_hot_max_size=10,
        cat_features=[3, 4],
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    return model.fit(codes, y.astype(int))


def _forest() -> object:
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.RandomForestClassifier(6, random_state=0).fit(*table())


def _histogram() -> object:
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.HistGradientBoostingClassifier(max_iter=8, categorical_features=[3, 4])
    return model.fit(*table())


def _onnx(folder) -> object:
    pytest.importorskip("onnx")
    path = folder / "model.onnx"
    bitvec.export(bitvec.convert(_forest()), path)
    return path


def _ydf() -> object:
    ydf = pytest.importorskip("ydf")
    ydf.verbose(0)
    X, y = table()
    columns = {f"x{j}": X[:, j] for j in range(3)}
    columns |= {f"c{j}": np.nan_to_num(X[:, j]).astype(int).astype(str) for j in (3, 4)}
    learner = ydf.RandomForestLearner(
        label="y",
        num_trees=6,
        split_axis="SPARSE_OBLIQUE",
        num_threads=1,
        compute_oob_performances=False,
    )
    return learner.train({**columns, "y": y.astype(int)})


MODELS = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "lightgbm, zero as missing": lambda: _lightgbm(zero_as_missing=True),
    "catboost": _catboost,
    "sklearn": _forest,
    "sklearn, histogram": _histogram,
    "ydf": _ydf,
}


def hostile_rows(forest: Forest) -> np.ndarray:
    """Values at the stored thresholds, one ulp to each side, codes, and values without a place."""
    rng = np.random.default_rng(0)
    X = np.zeros((1000, forest.n_features), forest.dtype)
    feature, b = forest.tests.feature, forest.tests.b
    for column in range(forest.n_features):
        at = np.unique(b[feature == column])
        pool = [
            at,
            np.nextafter(at, at.dtype.type(np.inf)),
            np.nextafter(at, -at.dtype.type(np.inf)),
        ]
        others = [0, -0.0, 1, 2, 3, 4, 5, 6, 40, 1.5, -0.5, -1, 1e-36, np.nan, np.inf, -np.inf]
        X[:, column] = rng.choice(np.concatenate([*pool, *[np.array(others, b.dtype)] * 3]), 1000)
    return X


@pytest.mark.parametrize("name", [*MODELS, "onnx"])
def test_the_literal_equation_holds_for_a_model_of_each_library(name, tmp_path):
    forest = bitvec.convert(_onnx(tmp_path) if name == "onnx" else MODELS[name]())
    X = hostile_rows(forest)
    assert forest.n_nodes > 30
    assert np.array_equal(exits(forest, X), traversed(forest, X))
    if np.all(forest.tests.is_one_hot):
        assert np.array_equal(exits(forest, X, dense=True), traversed(forest, X))


def test_the_stored_rows_and_thresholds_alone_are_not_the_equation():
    """The product of what is stored goes elsewhere: at ties of xgboost, and at every set."""
    forest = bitvec.convert(_xgboost())
    X = np.nan_to_num(hostile_rows(forest), posinf=9, neginf=-9)
    h = forest.tests.b < X @ forest.rows.toarray().T
    stored = reference.exit_leaf_bitvector(forest.bitvectors, h)
    assert np.any(stored != traversed(forest, X))


def stump(b: float, kind: Kind = Kind.MARGIN, **options) -> Forest:
    return Forest(
        tests=axis_aligned([0], np.array([b], float), kind=kind, **options),
        bitvectors=from_children([-1], [-2], [0]),
        leaves=Leaves(np.array([[0.0], [1.0]])),
        output=Output(1, np.dtype(np.float64)),
        inputs=Inputs(1),
    )


def test_the_columns_of_a_set_are_indicators_of_its_codes():
    ptr, words = set_bits([np.array([1, 4])])
    options = {"set_ptr": ptr, "set_words": words, "code_rule": CodeRule.FLOOR}
    tree = stump(0, Kind.SET, missing_right=True, **options)
    assert [(c.kind, c.code) for c in tree.expanded_columns] == [
        (ColumnKind.MISSING_LOW, -1),
        (ColumnKind.MISSING, -1),
        (ColumnKind.CODE, 1),
        (ColumnKind.CODE, 4),
    ]
    assert tree.S.toarray().tolist() == [[0, 1, 1, 1]]
    assert tree.b.tolist() == [0.5]
    most = np.finfo(float).max
    assert tree.expand(np.array([[4.7], [np.nan], [np.inf], [3]])).tolist() == [
        [4.7, 0, 0, 1],
        [-most, 1, 0, 0],
        [most, 0, 0, 0],
        [3, 0, 0, 0],
    ]
    others = stump(0, Kind.SET, other_right=True, **options)
    assert others.b.tolist() == [-0.5]
    assert others.S.toarray().tolist() == [[0] + [-1] * 31], "30 codes of 32, and missing"


def test_a_missing_value_that_goes_left_and_a_finite_threshold_need_no_column_more():
    assert stump(0.25).S.toarray().tolist() == [[1]]
    assert stump(0.25).b.tolist() == [0.25]
    high = stump(0.25, missing_right=True)
    assert [c.kind for c in high.expanded_columns] == [
        ColumnKind.MISSING_LOW,
        ColumnKind.MISSING_HIGH,
    ]


def test_matrices_given_are_the_matrices_of_the_equation():
    S, B = [[0.5, -2.0], [1.0, 0.25]], [[0, 0], [0, 1], [1, 1]]
    tree = Forest.from_matrices(S, [1, -1], B, [1, 2, 3])
    assert np.array_equal(tree.S.toarray()[:, :2], S)
    assert tree.b.tolist() == [1, -1]
    assert [c.kind for c in tree.expanded_columns] == [ColumnKind.BOUNDED] * 2 + [
        ColumnKind.DECIDED
    ] * 2
    X = np.array([[3.0, 0.2], [1e300, 1], [np.nan, 0]])
    assert tree.expand(X).tolist() == [[3, 0.2, 0, 0], [0, 1, 1, 1], [0, 0, -1, -1]]


@examples(2)
@given(st.data())
def test_what_is_more_than_S_b_and_B_says_what_it_needs(data):
    polytopes = data.draw(forests(kinds=(POLYTOPE,), linear=False).filter(lambda f: f.n_nodes))
    X = np.zeros((1, polytopes.n_features))
    for ask in (lambda: polytopes.S, lambda: polytopes.b, lambda: polytopes.expand(X)):
        with pytest.raises(InvalidForestError, match=r"one row of S.*forest\.tests"):
            ask()


@examples(2)
@given(st.data())
def test_soft_forests_linear_leaves_and_forests_of_many_trees_say_what_they_need(data):
    soft = data.draw(forests(kinds=(KERNEL,), soft=True).filter(lambda f: f.kernel is not None))
    with pytest.raises(InvalidForestError, match=r"forest\.kernel"):
        soft.expand(np.zeros((1, soft.n_features)))
    linear = data.draw(forests(kinds=(AXIS,)).filter(lambda f: f.leaves.linear is not None))
    with pytest.raises(InvalidForestError, match=r"linear functions of x: use forest\.leaves"):
        _ = linear.v
    several = data.draw(forests(kinds=(AXIS,)).filter(lambda f: f.n_trees > 1))
    with pytest.raises(InvalidForestError, match=r"use forest\[i\]\.B"):
        _ = several.B


def test_shapes_and_numbers_of_columns_are_bounded(monkeypatch):
    tree = stump(0.25, missing_right=True)
    with pytest.raises(InputError, match=r"rows of 1 features, got shape \(1,\): pass x\[None\]"):
        tree.expand(np.zeros(1))
    with pytest.raises(InvalidForestError, match=r"2 rows.*forest\.expand\(X\)\.T"):
        _ = tree.S @ np.zeros((1, 3))
    monkeypatch.setattr(expansion, "MOST_COLUMNS", 0)
    with pytest.raises(InvalidForestError, match="at most 0 columns besides those of X, got 1"):
        _ = tree.S
    monkeypatch.undo()
    monkeypatch.setattr(expansion, "DENSE_LIMIT", 3)
    with pytest.raises(InvalidForestError, match="2 rows x 2 columns: expand fewer"):
        tree.expand(np.zeros((2, 1)))


@pytest.mark.parametrize("X", [[["a", "b"]], [[None, object()]]])
def test_words_are_refused_with_the_call_that_makes_numbers_of_a_frame(X):
    forest = stump(0.25, missing_right=True)
    with pytest.raises(InputError, match=r"`X` must be numbers.*bitvec\.compile\(forest\)\.rows"):
        forest.expand(X)


def test_a_column_is_shared_by_nodes_of_one_missing_rule():
    tests = axis_aligned(
        [0, 0, 0],
        np.array([1.0, 2.0, 3.0]),
        missing_right=True,
        missing_rule=np.array([MissingRule.NAN_OR_ZERO, MissingRule.NAN, MissingRule.NAN]),
    )
    forest = replace(
        Forest.from_matrices(
            [[1.0]] * 3, [1, 2, 3], [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]], range(4)
        ),
        tests=tests,
    )
    high = [c.missing_rule for c in forest.expanded_columns if c.kind == ColumnKind.MISSING_HIGH]
    assert high == [MissingRule.NAN, MissingRule.NAN_OR_ZERO]

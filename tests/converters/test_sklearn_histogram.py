"""Details of the HistGradientBoosting conversion: categories, missing values, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn_laws import certified
from threadpoolctl import threadpool_limits

import bitvec
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.core.node_tests import Kind
from bitvec.errors import InvalidForestError, UnsupportedModelError
from tests.models.sklearn import trained

CANCER = data.load_breast_cancer(return_X_y=True)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Train in one thread: on shared cores the threads of small fits only wait for each other."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def with_holes(X: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)


def test_a_split_of_missing_from_present_sends_infinity_left() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(400) < 0.5, np.nan, 1.0)
    model = HistGradientBoostingRegressor(max_iter=1).fit(x[:, None], np.isnan(x) * 1.0)
    forest = certified(model, x[:, None])
    assert forest.tests.b.tolist() == [np.inf]
    special = np.array([[np.inf], [-np.inf], [0.0], [np.nan]])
    np.testing.assert_array_equal(bitvec.compile(forest).predict(special), model.predict(special))


def categorical_problem(numbers: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Columns 1 and 3 hold categories, which decide the class, and holes."""
    X, y = CANCER
    rng = np.random.default_rng(0)
    # A category must stand in some rows before a tree looks at it.
    repeats = 1 + len(numbers) // 25
    X, y = np.tile(with_holes(X[:, :5]), (repeats, 1)), np.tile(y, repeats)
    for column in (1, 3):
        kinds = rng.integers(len(numbers), size=len(X))
        X[:, column] = np.array(numbers)[kinds]
        y = (y + (kinds % 3 == column // 2)) % 2
        X[rng.random(len(X)) < 0.1, column] = np.nan
    return X, y


@pytest.mark.parametrize(
    "numbers",
    [list(range(5)), [3 * k for k in range(40)], list(range(32)), list(range(255)), [7, 7000]],
    ids=["5", "every third", "one word", "255", "far apart"],
)
def test_whole_numbers_are_read_as_themselves(numbers: list[float]) -> None:
    X, y = categorical_problem(numbers)
    model = HistGradientBoostingClassifier(max_iter=6, categorical_features=[1, 3]).fit(X, y)
    forest = certified(model, X)
    assert forest.inputs.categories is None
    assert np.any(forest.tests.kind == Kind.SET)
    # Codes of every sort: known, unseen inside and beyond the range, negative, broken, missing.
    rng = np.random.default_rng(1)
    odd = np.repeat(X[:60], 8, axis=0)
    for column in (1, 3):
        odd[:, column] = rng.choice(
            [*numbers[:3], numbers[-1] + 1, 4.0, 31.0, 32.0, 1e5, 1e300, -1.0, 0.5, -0.0, np.nan],
            size=len(odd),
        )
    np.testing.assert_array_equal(
        bitvec.compile(forest).raw(odd)[:, 0], model.decision_function(odd)
    )


@pytest.fixture(scope="module")
def frame() -> tuple[Any, np.ndarray]:
    pd = pytest.importorskip("pandas")
    X, y = CANCER
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(with_holes(X[:, :3]), columns=["a", "b", "c"])
    words = np.array(["", "x", "é", "zz", None], dtype=object)[rng.integers(5, size=len(X))]
    frame.insert(1, "word", pd.Categorical(words))
    frame["flag"] = rng.integers(2, size=len(X)).astype(bool)
    return frame, (y ^ (frame["word"] == "x") ^ frame["flag"]).to_numpy().astype(int)


def test_strings_and_booleans_become_code_books(frame: Any) -> None:
    X, y = frame
    model = HistGradientBoostingClassifier(max_iter=6, categorical_features=["word", "flag"])
    model.fit(X, y)
    codes = X.assign(word=X["word"].cat.codes.astype(float).replace(-1, np.nan)).to_numpy(float)
    forest = certified(model, codes)
    assert forest.inputs.categories == (None, ("", "x", "zz", "é"), None, None, (False, True))
    assert forest.inputs.feature_names == tuple(X.columns)
    # The predictor reads the frame itself: categories by name, unseen ones, nulls, columns by name.
    asked = X.iloc[:50].copy()
    asked["word"] = asked["word"].cat.add_categories("unseen")
    asked.loc[asked.index[:20], "word"] = "unseen"
    got = bitvec.compile(forest).raw(asked[["flag", "c", "b", "word", "a"]])
    np.testing.assert_array_equal(got[:, 0], model.decision_function(asked))


def test_categories_from_the_dtype_of_a_frame_are_converted(frame: Any) -> None:
    X, y = frame
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype")
    assert bitvec.certify(convert(model.fit(X, y)), model).passed


@pytest.mark.parametrize("numbers", [[-1, 0, 1], [0.5, 1.5], [0, 2**40]], ids=str)
def test_categories_that_are_no_codes_are_refused(numbers: list[float]) -> None:
    X, y = categorical_problem(numbers)
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=[1, 3]).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="must be strings, booleans, or whole numbers"):
        convert(model)


def test_the_oracle_accepts_every_number() -> None:
    source = oracle_of(trained("HistGradientBoostingClassifier"))
    assert source.accepts_missing
    assert source.accepts_infinite


def edited(change: Any) -> HistGradientBoostingClassifier:
    X, y = categorical_problem(list(range(5)))
    model = HistGradientBoostingClassifier(max_iter=6, categorical_features=[1, 3]).fit(X, y)
    for stage in model._predictors:
        change(stage[0])
    return model


DAMAGE = {
    "child beyond the tree": lambda tree: tree.nodes["left"].__setitem__(0, 10**6),
    "cycle": lambda tree: tree.nodes["left"].__setitem__(0, 0),
    "feature beyond X": lambda tree: tree.nodes["feature_idx"].__setitem__(0, 5),
    "feature below zero": lambda tree: tree.nodes["feature_idx"].__setitem__(0, -1),
    "threshold NaN": lambda tree: tree.nodes["num_threshold"].__setitem__(slice(None), np.nan),
    "set beyond the sets": lambda tree: tree.nodes["bitset_idx"].__setitem__(slice(None), 99),
    "set on numbers": lambda tree: (
        tree.nodes["is_categorical"].__setitem__(slice(None), 1),
        tree.nodes["feature_idx"].__setitem__(slice(None), 4),
    ),
    "no sets": lambda tree: setattr(tree, "raw_left_cat_bitsets", None),
    "no nodes": lambda tree: setattr(tree, "nodes", tree.nodes[:0]),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_damaged_nodes_are_refused_before_anything_follows_them(change: Any) -> None:
    model = edited(change)
    for reading in (convert, oracle_of):
        with pytest.raises(InvalidForestError):
            reading(model)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_baseline_prediction", None),
        ("_baseline_prediction", np.zeros((1, 2))),
        ("_predictors", [[]]),
        ("classes_", np.arange(1)),
        ("is_categorical_", np.zeros(2, bool)),
        ("_preprocessor", None),
        ("_bin_mapper", None),
        ("_loss", lambda: 0),
        ("n_features_in_", 4),
    ],
)
def test_attributes_that_contradict_the_trees_are_refused(name: str, value: Any) -> None:
    model = edited(lambda tree: None)
    setattr(model, name, value)
    with pytest.raises((InvalidForestError, UnsupportedModelError)):
        convert(model)


def test_an_unfitted_model_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="call fit first"):
        convert(HistGradientBoostingRegressor())


def test_a_model_of_objects_is_asked_in_objects() -> None:
    rng = np.random.default_rng(0)
    X = np.empty((200, 2), object)
    X[:, 0], X[:, 1] = rng.integers(0, 3, 200).astype(float), rng.random(200) < 0.5
    y = (X[:, 0] == 1) ^ X[:, 1].astype(bool)
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=[0]).fit(X, y)
    assert bitvec.certify(bitvec.convert(model), model, X, progress=False).passed

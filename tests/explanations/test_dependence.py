"""Importances, dependence and changes of labels: equal to the libraries, and to definitions."""

from __future__ import annotations

import numpy as np
import pytest
from explanation_games import path_game
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, SET, examples, forests, rows

import bitvec
from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.explanations.changes import nearest_rows, smallest_changes
from bitvec.explanations.dependence import partial_dependence, recursion
from bitvec.explanations.importances import KINDS, split_importances
from tests.explanations.test_explainer import explained, size

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)).astype(np.float32)
Y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.1 * RNG.normal(size=300)
STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


def test_importances_are_those_of_xgboost():
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.train({"max_depth": 4, "seed": 0}, xgboost.DMatrix(X, Y), 20)
    forest = bitvec.convert(model)
    for kind, theirs in zip(
        KINDS, ("weight", "total_gain", "gain", "total_cover", "cover"), strict=True
    ):
        score = model.get_score(importance_type=theirs)
        expected = [score.get(f"f{column}", 0.0) for column in range(5)]
        # xgboost sums in float32.
        np.testing.assert_allclose(split_importances(forest, kind), expected, rtol=1e-5)


def test_importances_are_those_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.train({"num_leaves": 15, "verbose": -1}, lightgbm.Dataset(X, Y), 20)
    forest = bitvec.convert(model)
    for kind, theirs in (("splits", "split"), ("gain", "gain")):
        expected = model.feature_importance(theirs)
        # Model files hold gains in six digits.
        np.testing.assert_allclose(split_importances(forest, kind), expected, rtol=1e-4)


def test_importances_of_a_tree_are_those_of_scikit_learn():
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.RandomForestRegressor(10, max_depth=5, random_state=0).fit(X, Y)
    trees = [split_importances(tree) for tree in bitvec.convert(model)]
    found = np.mean([gains / gains.sum() for gains in trees], axis=0)
    np.testing.assert_allclose(found / found.sum(), model.feature_importances_, rtol=1e-10)


def test_importances_need_a_record():
    assert split_importances(STUMP, "splits").tolist() == [1, 0]
    with pytest.raises(InputError, match=r"by gain need `source.gain`.*another kind"):
        split_importances(STUMP)
    with pytest.raises(InputError, match="with_cover"):
        split_importances(STUMP, "mean_cover")
    with pytest.raises(InputError, match="`kind` must be one of splits"):
        split_importances(STUMP, "weight")
    oblique = Forest.from_matrices([[1, 1]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(UnsupportedModelError, match="read one column"):
        split_importances(oblique, "splits")


@pytest.mark.parametrize("name", ["RandomForestRegressor", "HistGradientBoostingRegressor"])
@pytest.mark.parametrize("columns", [[0], [0, 2]])
def test_dependence_is_that_of_scikit_learn(name, columns):
    ensemble, inspection = (
        pytest.importorskip(f"sklearn.{part}") for part in ("ensemble", "inspection")
    )
    model = getattr(ensemble, name)(random_state=0, max_depth=4).fit(X, Y)
    forest = bitvec.convert(model)
    for method in ("brute", "recursion"):
        theirs = inspection.partial_dependence(
            model, X, [columns[0]] if len(columns) == 1 else [tuple(columns)],
            method=method, grid_resolution=12, kind="average",
        )  # fmt: skip
        grid = theirs["grid_values"]
        given = grid[0] if len(columns) == 1 else grid
        ours = partial_dependence(forest, X, columns, grid=given, method=method)
        offset = 0.0
        if method == "recursion" and name.startswith("Hist"):
            offset = model._baseline_prediction.item()  # left out by scikit-learn, as it says
        np.testing.assert_allclose(ours.average - offset, theirs["average"], rtol=1e-6, atol=1e-9)


@examples(40)
@given(explained(), st.data())
def test_recursion_is_the_expectation_of_the_game_by_cover(drawn, data):
    forest, X = drawn
    assume(forest.n_features and len(X))
    places = tuple(data.draw(st.permutations(range(forest.n_features)))[:2])
    points = X[:, places].astype(forest.dtype)
    found = recursion(forest, places, points)
    for point, average in zip(points, found, strict=True):
        row = np.zeros(forest.n_features, forest.dtype)
        row[list(places)] = point
        expected = path_game(forest, row)(frozenset(places))
        np.testing.assert_allclose(average, expected, rtol=0, atol=1e-13 * (1 + size(forest)))


def test_every_row_is_averaged_and_grids_are_made_of_the_rows():
    forest = Forest.from_matrices([[1, 0], [0, 1]], [0.5, 0], [[0, 1], [1, 0], [1, 1]], [1, 2, 4])
    table = np.array([[0, -1], [1, 1], [2, 1]])
    found = partial_dependence(forest, table, [0], individual=True)
    raw = bitvec.compile(forest).raw
    assert found.grid[0].tolist() == [0, 1, 2]
    for at, value in enumerate(found.grid[0]):
        moved = table.copy()
        moved[:, 0] = value
        np.testing.assert_array_equal(found.individual[:, :, at], raw(moved).T)
    np.testing.assert_array_equal(found.average, found.individual.mean(axis=1))
    many = partial_dependence(forest, X[:, :2], 0, n_points=7).grid[0]
    np.testing.assert_allclose(many[[0, -1]], np.percentile(X[:, 0], [5, 95]), rtol=1e-6)
    assert many.size == 7


def test_probabilities_depend_too():
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.RandomForestClassifier(5, random_state=0).fit(X, Y > 0)
    found = partial_dependence(bitvec.convert(model), X, 1, grid=[0.0], response="predict_proba")
    moved = X.copy()
    moved[:, 1] = 0
    np.testing.assert_allclose(found.average[:, 0], model.predict_proba(moved).mean(axis=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": 5}, "number below 2"),
        ({"columns": [0, 0]}, "two different ones"),
        ({"columns": [0, 1], "grid": [[1.0]]}, "one list of values for each"),
        ({"columns": 0, "grid": ["red"]}, "`grid` must hold numbers"),
        ({"columns": 0, "method": "fast"}, "`method` must be one of"),
        ({"columns": 0, "response": "label"}, "`response` must be one of"),
        ({"columns": 0, "method": "recursion", "individual": True}, "averages of raw scores alone"),
        ({"columns": 0, "method": "recursion"}, "with_cover"),
        ({"columns": 0, "n_points": 1}, "at least 2"),
        ({"columns": 0, "X": [[np.nan, 0]]}, "finite value to make a grid"),
        ({"columns": 0, "X": np.ones((0, 2))}, "at least one row"),
    ],
)
def test_wrong_options_of_dependence_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        partial_dependence(STUMP, **{"X": [[0, 1]], **options})


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Forest, Array]:
    forest = draw(
        forests(kinds=(AXIS, EQUAL, SET), aggregates=(Aggregate.SUM,), linear=False, max_leaves=12)
    )
    assume(forest.output.classes is not None and forest.output.post_transform is not None)
    return forest, draw(rows(forest, max_rows=3, finite=True))


@examples(40)
@given(labelled())
def test_no_nearer_value_changes_the_label(drawn):
    """Every threshold of a column and its neighbours are tried, beside what was found."""
    forest, X = drawn
    predictor = bitvec.compile(forest)
    for row in X[:, None].astype(forest.dtype):
        label = predictor.predict(row)[0]
        found = {change.column: change for change in smallest_changes(forest, row)}
        for column in range(forest.n_features):
            b = forest.tests.b[forest.tests.feature == column]
            with np.errstate(over="ignore"):
                tried = np.concatenate([b, np.nextafter(b, -np.inf), np.nextafter(b, np.inf)])
            tried = tried if tried.size else row[:, column]
            moved = np.repeat(row, tried.size, axis=0)
            moved[:, column] = tried
            changed = predictor.predict(moved) != label
            if column not in found:
                assert not changed.any()
                continue
            change = found[column]
            moved[0, column] = change.becomes
            assert predictor.predict(moved[:1])[0] == change.changed != label
            distance = np.abs(tried[changed].astype(np.float64) - float(row[0, column]))
            assert abs(change.becomes - float(row[0, column])) <= distance.min(initial=np.inf)


def test_changes_of_categories_are_named():
    lightgbm, pd = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    colour = RNG.choice(["red", "green", "blue"], 300)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "size": RNG.normal(size=300)})
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(frame, colour == "red")
    forest = bitvec.convert(model)
    row = frame[frame.colour == "red"][:1]
    change = next(one for one in smallest_changes(forest, row) if one.name == "colour")
    assert change.value == "red"
    assert change.becomes in ("green", "blue")
    assert (change.label, change.changed) == (True, False)


def test_changes_of_other_forests_are_refused():
    with pytest.raises(InputError, match="classifier of one label"):
        smallest_changes(STUMP, [[0, 0]])
    oblique = Forest.from_matrices([[1, 1]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(UnsupportedModelError, match="single columns"):
        smallest_changes(oblique, [[0, 0]])


@examples(20)
@given(explained(), st.data())
def test_nearest_rows_share_most_leaves(drawn, data):
    forest, X = drawn
    assume(len(X))
    k = data.draw(st.integers(1, len(X)))
    found, shared = nearest_rows(forest, X, X, k=k)
    leaf = reference.exit_leaves(forest, X)
    counts = (leaf[:, None] == leaf[None]).sum(axis=2)
    for row, (near, count) in enumerate(zip(found, shared, strict=True)):
        order = sorted(range(len(X)), key=lambda other: (-counts[row, other], other))
        assert near.tolist() == order[:k]
        assert count.tolist() == counts[row, order[:k]].tolist()


def test_too_many_neighbours_are_refused():
    with pytest.raises(InputError, match="`k` must be from 1"):
        nearest_rows(STUMP, [[0, 0]], [[0, 0]], k=2)

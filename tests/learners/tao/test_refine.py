"""Forests of other libraries, refined: never worse, what is fixed untouched, and written back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from strategies import forests_with_rows

import bitvec
from bitvec.converters.sklearn.write import to_sklearn
from bitvec.core import reference, structure
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.learners.tao import Verdict, forest_trees, tao_refine
from bitvec.learners.tao.forest_trees import fixed_outcomes, joined, kinds_of, tree_of
from bitvec.learners.tao.training_rows import make_rows, route
from bitvec.learners.tao.tree import NodeKind

lightgbm = pytest.importorskip("lightgbm")

CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def loss_of(forest, X, y, name):
    """The mean loss by the forest's own answers."""
    predictor = bitvec.compile(forest)
    if name == "zero_one":
        return np.mean(predictor.predict(X) != y)
    if name == "squared":
        return np.mean((predictor.predict(X) - y) ** 2)
    p = predictor.predict_proba(X)[np.arange(len(y)), y]
    return -np.mean(np.log(np.maximum(p, 1e-12)))


def fitted():
    X, y = CANCER
    yield "tree", DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y), X, y, "zero_one"
    X, y = IRIS
    forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, y)
    yield "random forest", forest, X, y, "zero_one"
    X, y = DIABETES
    yield "regression tree", DecisionTreeRegressor(max_depth=4).fit(X, y), X, y, "squared"
    forest = RandomForestRegressor(4, max_depth=3, random_state=0).fit(X, y)
    yield "regression forest", forest, X, y, "squared"
    boosted = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, y)
    yield "boosting", boosted, X, y, "squared"
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(X, y)
    yield "xgboost", model, X, y, "squared"
    model = lightgbm.LGBMRegressor(n_estimators=5, num_leaves=6, verbose=-1).fit(X, y)
    yield "lightgbm", model, X, y, "squared"
    X, y = CANCER
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(X, y)
    yield "xgboost binary", model, X, y, "log_loss"
    model = lightgbm.LGBMClassifier(n_estimators=4, num_leaves=4, verbose=-1).fit(X, y)
    yield "lightgbm binary", model, X, y, "log_loss"
    X, y = IRIS
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(X, y)
    yield "xgboost classes", model, X, y, "log_loss"


MODELS = {name: rest for name, *rest in fitted()}
SHORT = ("tree", "boosting", "xgboost", "lightgbm binary")
SOME = [name if name in SHORT else pytest.param(name, marks=pytest.mark.full) for name in MODELS]


@pytest.mark.parametrize("name", MODELS)
def test_refining_lowers_the_loss_and_never_raises_it(name):
    model, X, y, loss = MODELS[name]
    forest = bitvec.convert(model)
    result = tao_refine(forest, X, y, max_iter=3, n_jobs=1)
    assert result.loss == loss
    objectives = [each.objective for each in result.history]
    assert all(b <= a for a, b in pairwise(objectives))
    # What it says is what the forest answers, up to the rounding of its float32 sums: of log p
    # near 0, a millionth.
    assert loss_of(forest, X, y, loss) == pytest.approx(
        result.start_objective / len(X), rel=1e-5, abs=1e-6
    )
    assert loss_of(result.forest, X, y, loss) == pytest.approx(
        result.objective / len(X), rel=1e-5, abs=1e-6
    )
    assert result.improved == (result.objective < result.start_objective)
    assert np.all(kinds_of(result.forest) == NodeKind.AXIS)


@pytest.mark.parametrize("name", ["tree", "regression tree", "boosting", "xgboost", "lightgbm"])
def test_there_is_something_to_gain(name):
    model, X, y, _ = MODELS[name]
    assert tao_refine(bitvec.convert(model), X, y, max_iter=2).improved


@pytest.mark.parametrize("name", SOME)
def test_a_refined_forest_is_written_back_and_reads_the_same(name, tmp_path):
    model, X, y, _ = MODELS[name]
    refined = tao_refine(bitvec.convert(model), X, y, max_iter=2, n_jobs=1).forest
    kind = "sklearn"
    for library in ("xgboost", "lightgbm"):
        kind = library if name.startswith(library) else kind
    suffix = {"sklearn": "skops", "xgboost": "ubj", "lightgbm": "txt"}[kind]
    path = bitvec.export(refined, tmp_path / f"model.{suffix}")
    again = bitvec.convert(path)
    rows = np.concatenate([X, X + 0.01, X[:, ::-1]])
    expected = bitvec.compile(refined).raw(rows)
    assert np.array_equal(bitvec.compile(again).raw(rows), expected)
    if kind == "xgboost":
        booster = xgboost.Booster(model_file=path)
        margins = booster.predict(xgboost.DMatrix(rows), output_margin=True)
        assert np.array_equal(margins.reshape(expected.shape), expected)
    if kind == "lightgbm":
        booster = lightgbm.Booster(model_file=str(path))
        assert np.array_equal(
            booster.predict(rows, raw_score=True).reshape(expected.shape), expected
        )


@pytest.mark.parametrize("name", SOME)
def test_a_refined_forest_is_certified_against_what_it_is_written_as(name, tmp_path):
    model, X, y, _ = MODELS[name]
    forest = bitvec.convert(model)
    refined = tao_refine(forest, X, y, max_iter=2, n_jobs=1).forest
    library = forest.source.library
    path = tmp_path / {"xgboost": "r.ubj", "lightgbm": "r.txt"}.get(library, "r.skops")
    bitvec.export(refined, path)
    written = to_sklearn(refined) if library == "sklearn" else path
    certificate = bitvec.certify(refined, written, X)
    assert certificate.passed
    assert "leaf ids" in certificate.parts
    # Another forest of the same shape is still told from it, by its leaves too.
    other = bitvec.certify(forest, written, X)
    assert not other.passed
    assert other.n_leaf_mismatches > 0


def test_children_that_change_places_in_xgboost_keep_the_ids_of_the_places():
    """There a right child's id is one more than the left one's."""
    X = np.arange(40.0)[:, None]
    y = np.where(X[:, 0] < 20, X[:, 0] < 10, 3 + (X[:, 0] < 30)).astype(np.float64)
    options = {"n_estimators": 1, "max_depth": 2, "learning_rate": 1.0}
    forest = bitvec.convert(xgboost.XGBRegressor(**options).fit(X, y))
    tree = tree_of(forest)
    for above in ([False, True, True], [True, False, True], [False, False, False]):
        swapped = joined(forest, [replace(tree, above=np.array(above))])
        left, right = structure.children(swapped.bitvectors)
        source = swapped.source
        for ids in (
            np.concatenate([source.node_id, source.leaf_id]),
            np.concatenate([forest.source.node_id, forest.source.leaf_id]),
        ):
            assert sorted(ids.tolist()) == list(range(7))
        place = np.concatenate([source.node_id, source.leaf_id])
        at = [np.where(side >= 0, side, left.size + ~side) for side in (left, right)]
        assert np.array_equal(place[at[1]], place[at[0]] + 1)
        assert source.node_id[0] == 0


@settings(max_examples=15)
@given(forests_with_rows(max_trees=3))
def test_the_tree_that_is_optimised_routes_as_the_forest_and_joins_to_it(given_forest):
    forest, X = given_forest
    if forest.kernel is not None:
        forest = replace(forest, kernel=None)
    if forest.feature_map is not None:
        return
    Z = X.astype(forest.dtype)
    exits = reference.exit_leaves(forest, Z)
    trees = []
    for number, alone in enumerate(forest):
        tree = tree_of(alone)
        outcomes, place = fixed_outcomes(alone, tree.kind, Z)
        rows = make_rows(Z, n_threads=1, is_sorted=False, outcomes=outcomes, outcome_row=place)
        assert np.array_equal(~route(rows, tree)[-1], exits[:, number])
        trees.append(tree)
    again = joined(forest, trees)
    for name in ("b", "relation", "row_ptr", "column", "weight", "missing_right"):
        old, new = getattr(forest.tests, name), getattr(again.tests, name)
        assert old.tobytes() == new.tobytes()


@pytest.mark.parametrize("right", [False, True])
def test_a_test_that_becomes_constant_sends_missing_values_along(right):
    forest = Forest.from_matrices([[0, 2, 1]], [0.5], [[0], [1]], [10, 20])
    tree = tree_of(forest)
    threshold = np.full(1, -1.0 if right else 1.0)
    tree = replace(tree, W=np.zeros_like(tree.W), threshold=threshold)
    tests = forest_trees._moved_tests(forest.tests, {0: (tree, 0)})
    assert (tests.column.tolist(), tests.weight.tolist()) == ([1], [0.0])
    X = np.array([[0.0, value, 0.0] for value in (1.0, np.nan, np.inf)])
    exits = reference.exit_leaves(replace(forest, tests=tests), X)
    assert exits.ravel().tolist() == [int(right)] * 3


def test_what_may_not_move_comes_back_bit_for_bit():
    model, X, y, _ = MODELS["boosting"]
    forest = bitvec.convert(model)
    nodes = np.arange(0, forest.n_nodes, 3)
    result = tao_refine(forest, X, y, nodes=nodes, leaves=[], max_iter=2)
    assert result.improved
    assert np.array_equal(np.sort(result.forest.leaves.v.ravel()), np.sort(forest.leaves.v.ravel()))
    fixed = np.setdiff1d(np.arange(forest.n_nodes), nodes)
    assert np.all(result.nodes.verdict[fixed] == Verdict.FIXED)
    ids = {id_: k for k, id_ in enumerate(zip(*ids_of(result.forest), strict=True))}
    for node in fixed:
        at = ids[tuple(part[node] for part in ids_of(forest))]
        assert result.forest.tests.b[at] == forest.tests.b[node]
        assert result.forest.tests.column[at] == forest.tests.column[node]


def ids_of(forest):
    """Tree and source id of each node: names that a change of numbering keeps."""
    return forest.bitvectors.tree_of_node.tolist(), forest.source.node_id.tolist()


def test_a_forest_that_may_not_move_comes_back_itself():
    model, X, y, _ = MODELS["boosting"]
    forest = bitvec.convert(model)
    result = tao_refine(forest, X, y, nodes=[], leaves=[])
    assert result.forest is forest
    assert not result.improved


def test_missing_values_keep_going_where_they_went():
    X, y = CANCER
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=3).fit(X, y)
    forest = bitvec.convert(model)
    result = tao_refine(forest, X, y, max_iter=3)
    assert result.improved
    assert loss_of(result.forest, X, y, "log_loss") == pytest.approx(
        result.objective / len(X), rel=1e-5, abs=1e-6
    )


def test_category_sets_stay_as_they_are():
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 8, 400), rng.standard_normal(400)], axis=1)
    y = np.isin(X[:, 0], [1, 4, 6]) * 2.0 + (X[:, 1] > 0.3) * X[:, 1]
    data = lightgbm.Dataset(X, y, categorical_feature=[0])
    options = {"num_leaves": 6, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1}
    forest = bitvec.convert(lightgbm.train(options, data, 3))
    sets = kinds_of(forest) == NodeKind.FIXED
    assert sets.any()
    assert not sets.all()
    result = tao_refine(forest, X, y, max_iter=3)
    assert result.improved
    assert np.all(result.nodes.verdict[sets] == Verdict.FIXED)
    words = [sorted(f.tests.set_words.tolist()) for f in (forest, result.forest)]
    assert words[0] == words[1]
    assert loss_of(result.forest, X, y, "squared") == pytest.approx(
        result.objective / len(X), rel=1e-5, abs=1e-6
    )


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_oblique_refinement_keeps_the_promise_too(penalty):
    X, y = CANCER
    forest = bitvec.convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
    result = tao_refine(forest, X, y, oblique=True, penalty=penalty, max_iter=4)
    assert result.improved
    assert np.any(kinds_of(result.forest) == NodeKind.OBLIQUE)
    if penalty == "l2":
        wrong = loss_of(result.forest, X, y, "zero_one") * len(X)
        assert wrong == pytest.approx(result.objective)
        assert result.objective < result.start_objective


@pytest.mark.parametrize("loss", ["zero_one", "squared", "log_loss"])
def test_every_loss_of_a_classifier_falls(loss):
    model, X, y, _ = MODELS["random forest"]
    result = tao_refine(bitvec.convert(model), X, y, loss=loss, max_iter=3)
    objectives = [each.objective for each in result.history]
    assert objectives == sorted(objectives, reverse=True)
    p = bitvec.compile(result.forest).predict_proba(X)
    assert np.all(p >= 0)
    assert p.sum(axis=1) == pytest.approx(1)


LABELLED = {
    "boundary of a probability": {"boundary": 0.49999997},
    "another boundary": {"boundary": 0.3},
    "boundary of a raw score": {"boundary": 0.4, "labels_from_raw": True},
    "half": {},
}


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("model", ["xgboost binary", "lightgbm binary"])
def test_wrong_labels_are_those_of_the_forest_wherever_its_boundary_lies(model, name):
    model, X, y, _ = MODELS[model]
    forest = bitvec.convert(model)
    forest = replace(forest, output=replace(forest.output, **LABELLED[name]))
    result = tao_refine(forest, X, y, loss="zero_one", max_iter=2, n_jobs=1)
    assert result.start_objective == pytest.approx(loss_of(forest, X, y, "zero_one") * len(X))
    wrong = loss_of(result.forest, X, y, "zero_one") * len(X)
    assert wrong == pytest.approx(result.objective)
    assert result.objective <= result.start_objective


def test_a_tie_goes_where_the_forest_says():
    """A forest of one leaf that answers 0: all rows are of the second class."""
    X, y = CANCER
    model = GradientBoostingClassifier(n_estimators=1, max_depth=1, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    forest = replace(
        forest,
        leaves=replace(forest.leaves, v=np.zeros_like(forest.leaves.v)),
        output=replace(forest.output, base_score=np.zeros(1)),
    )
    result = tao_refine(forest, X, np.ones(len(X), int), loss="zero_one", max_iter=1)
    assert np.all(bitvec.compile(forest).predict(X) == 1)
    assert result.start_objective == 0


@pytest.mark.parametrize("size", [1e-14, 1e14])
def test_the_unit_of_weights_does_not_matter(size):
    model, X, y, _ = MODELS["xgboost binary"]
    forest = bitvec.convert(model)
    one, other = (
        tao_refine(forest, X, y, sample_weight=np.full(len(X), unit), max_iter=2, n_jobs=1)
        for unit in (1.0, size)
    )
    assert one.improved
    assert other.objective == pytest.approx(size * one.objective, rel=1e-6)


def test_the_number_of_threads_does_not_matter():
    model, X, y, _ = MODELS["xgboost"]
    forest = bitvec.convert(model)
    one, two = (tao_refine(forest, X, y, max_iter=2, n_jobs=jobs).forest for jobs in (1, 2))
    assert one.tests.b.tobytes() == two.tests.b.tobytes()
    assert one.v.tobytes() == two.v.tobytes()


def test_weights_of_whole_numbers_are_copies_of_rows():
    X, y = IRIS
    forest = bitvec.convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = tao_refine(forest, X, y, sample_weight=weight)
    copies = tao_refine(forest, np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.start_objective == copies.start_objective
    assert weighted.objective == copies.objective


def test_what_cannot_be_refined_is_refused():
    model, X, y, _ = MODELS["regression forest"]
    forest = bitvec.convert(model)
    with pytest.raises(UnsupportedModelError, match="must sum or average"):
        tao_refine(replace(forest, output=replace(forest.output, aggregate=Aggregate.MIN)), X, y)
    poisson = xgboost.XGBRegressor(n_estimators=2, objective="count:poisson").fit(X, y)
    with pytest.raises(UnsupportedModelError, match="post-transform"):
        tao_refine(bitvec.convert(poisson), X, y)
    with pytest.raises(InputError, match="`loss` must be"):
        tao_refine(forest, X, y, loss="zero_one")
    for options, says in (
        ({"tol": -1}, "`tol` must not be negative"),
        ({"tol": "a"}, "`tol` must not be negative .*, got 'a'"),
        ({"max_iter": -1}, "`max_iter` must be a whole number from 0 on, got -1"),
        ({"max_iter": 1.5}, "`max_iter` must be a whole number from 0 on, got 1.5"),
        ({"oblique": "a"}, "`oblique` must be True or False, got 'a'"),
        ({"seed": -1}, "`seed` must be a whole number from 0 on, got -1"),
        ({"C": "a"}, "`C` must be above 0 .*, got 'a'"),
        ({"loss": ["squared"]}, "`loss` must be"),
        ({"sample_weight": ["1"] * len(y)}, "`sample_weight` must be .*, got text"),
    ):
        with pytest.raises(InputError, match=says):
            tao_refine(forest, X, y, **options)
    with pytest.raises(InputError, match="`nodes` must be"):
        tao_refine(forest, X, y, nodes=[-1])
    with pytest.raises(InputError, match="one entry for each"):
        tao_refine(forest, X, y[1:])
    with pytest.raises(InputError, match="`sample_weight` must be"):
        tao_refine(forest, X, y, sample_weight=-np.ones(len(y)))
    tree, X, y, _ = MODELS["tree"]
    with pytest.raises(InputError, match="the forest's classes"):
        tao_refine(bitvec.convert(tree), X, y + 1)

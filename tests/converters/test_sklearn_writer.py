"""Laws of the written estimators: scikit-learn itself answers as the forest does, bit for bit."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from hypothesis import given
from proof_laws import some_in_full
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeRegressor
from strategies import forests, rows

import bitvec
from bitvec.converters.sklearn.read import convert
from bitvec.converters.sklearn.write import to_sklearn
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, Relation
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.errors import UnsupportedModelError
from tests.models.sklearn import MODELS, sample, trained, with_texts

CANCER = data.load_breast_cancer(return_X_y=True)
IRIS = data.load_iris(return_X_y=True)
DIABETES = data.load_diabetes(return_X_y=True)
HOLES = np.where(np.random.default_rng(0).random(CANCER[0].shape) < 0.2, np.nan, CANCER[0])
WRITTEN = [(name,) for name in MODELS if not name.startswith("AdaBoostClassifier")]


@pytest.mark.parametrize("name", some_in_full(WRITTEN, one_in=5))
def test_a_model_written_back_predicts_as_the_model(name: str) -> None:
    model, rows = trained(name), sample(MODELS[name])
    forest = convert(model)
    written = to_sklearn(forest)
    X = with_texts(MODELS[name], rows.X, rows.categorical)
    for method in ("predict", "predict_proba", "decision_function", "score_samples"):
        if hasattr(model, method):
            own, got = getattr(model, method)(X), getattr(written, method)(X)
            assert isinstance(got, list) == isinstance(own, list)
            for one, other in zip(
                *([answer] if not isinstance(answer, list) else answer for answer in (own, got)),
                strict=True,
            ):
                np.testing.assert_array_equal(other, one)
    # The numbering of the nodes is kept, so leaf ids agree with the first forest as well.
    for converted in (forest, convert(written)):
        certificate = bitvec.certify(converted, written, rows.X)
        assert certificate.passed, certificate.summary()


CODES = np.array([0, 3, 40, 7000, np.nan])


def of_categories() -> tuple[HistGradientBoostingClassifier, np.ndarray]:
    """Return a model of two columns of categories and holes, and rows of every sort of code."""
    rng = np.random.default_rng(0)
    X = HOLES[:, :5].copy()
    X[:, 1], X[:, 3] = rng.choice(CODES, len(X)), rng.integers(70, size=len(X))
    y = (CANCER[1] + (X[:, 1] == 40) + (X[:, 3] % 3 == 1)) % 2
    model = HistGradientBoostingClassifier(max_iter=6, categorical_features=[1, 3]).fit(X, y)
    odd = [*CODES, 1.0, 69.0, 70.0, 255.0, 256.0, 1e9, -1.0, 0.5, -0.0]
    X[:, 1], X[:, 3] = rng.choice(odd, len(X)), rng.choice(odd, len(X))
    return model, X


def test_categories_are_written_back() -> None:
    model, X = of_categories()
    forest = convert(model)
    written = to_sklearn(forest)
    np.testing.assert_array_equal(written.decision_function(X), model.decision_function(X))
    for converted in (forest, convert(written)):
        certificate = bitvec.certify(converted, written, X)
        assert certificate.passed, certificate.summary()


@pytest.mark.filterwarnings("error:.*feature names")
def test_named_categories_are_written_back() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(HOLES[:, :3], columns=["a", "b", "c"])
    words = np.array(["", "x", "é", "zz", None], dtype=object)[rng.integers(5, size=len(frame))]
    frame.insert(1, "word", pd.Categorical(words))
    frame["flag"] = rng.integers(2, size=len(frame)).astype(bool)
    frame["code"] = rng.choice([0.0, 3.0, 70.0, np.nan], len(frame))
    y = (CANCER[1] ^ (frame["word"] == "x") ^ frame["flag"] ^ (frame["code"] == 3)).to_numpy()
    columns = ["word", "flag", "code"]
    model = HistGradientBoostingClassifier(max_iter=6, categorical_features=columns)
    written = to_sklearn(convert(model.fit(frame, y)))
    frame["word"] = frame["word"].cat.add_categories("unseen")
    frame.loc[frame.index[::7], "word"] = "unseen"
    np.testing.assert_array_equal(written.predict_proba(frame), model.predict_proba(frame))
    assert bitvec.certify(convert(written), model).passed


def test_a_retrained_forest_of_categories_predicts_there_what_it_predicts() -> None:
    model, X = of_categories()
    forest = convert(model)
    rng = np.random.default_rng(0)
    output = replace(
        forest.output,
        base_score=rng.normal(size=1),
        tree_weight=rng.normal(size=forest.n_trees),
    )
    tests = replace(forest.tests, b=forest.tests.b * (1 + 2**-40))
    leaves = replace(forest.leaves, v=rng.normal(size=forest.leaves.v.shape))
    moved = replace(forest, output=output, tests=tests, leaves=leaves)
    written = to_sklearn(moved)
    np.testing.assert_array_equal(written.decision_function(X), bitvec.compile(moved).raw(X)[:, 0])


def test_names_and_training_weights_are_kept() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(IRIS[0], columns=["a", "b", "c", "d"])
    model = RandomForestClassifier(3, random_state=0).fit(frame, IRIS[1])
    written = to_sklearn(convert(model))
    np.testing.assert_array_equal(written.predict_proba(frame), model.predict_proba(frame))
    for own, got in zip(model.estimators_, written.estimators_, strict=True):
        for name in ("weighted_n_node_samples", "children_left", "feature"):
            np.testing.assert_array_equal(getattr(got.tree_, name), getattr(own.tree_, name))


def single(forest: Forest) -> Forest:
    """The forest's trees and routing, with one float64 value a leaf, summed."""
    v = np.linspace(-1, 1, forest.n_leaves)[:, None] / 3
    return replace(
        forest, leaves=Leaves(v), output=Output(1, np.dtype(np.float64), aggregate=Aggregate.MEAN)
    )


def test_a_node_of_at_least_goes_the_same_way_at_the_threshold() -> None:
    forest = single(convert(DecisionTreeRegressor(max_depth=6, random_state=0).fit(*DIABETES)))
    at_least = np.full(forest.n_nodes, int(Relation.GREATER_EQUAL), np.uint8)
    forest = replace(forest, tests=replace(forest.tests, relation=at_least))
    written = to_sklearn(forest)
    X = np.repeat(DIABETES[0].astype(np.float32), 3, axis=0)
    rng = np.random.default_rng(0)
    for row, node in zip(X, rng.integers(forest.n_nodes, size=len(X)), strict=True):
        b = forest.tests.b[node]
        side = np.float32(rng.choice([-np.inf, np.inf]))
        row[forest.tests.feature[node]] = rng.choice([b, np.nextafter(b, side)])
    np.testing.assert_array_equal(written.predict(X), reference.raw(forest, X)[:, 0])
    assert bitvec.certify(convert(written), written).passed


@given(forests().flatmap(lambda forest: rows(forest).map(lambda X: (forest, X))))
def test_a_drawn_forest_is_written_exactly_or_refused(drawn: tuple[Forest, np.ndarray]) -> None:
    forest, X = drawn
    try:
        written = to_sklearn(forest)
    except UnsupportedModelError:
        return
    if forest.dtype == np.float32:  # CART estimators accept other numbers in some cases only
        X = X[np.isfinite(X).all(axis=1)]
    if not len(X) or forest.n_outputs != 1 or forest.output.classes is not None:
        return
    with np.errstate(over="ignore"):
        got = np.reshape(written.predict(X), (len(X), -1))
        want = transforms.transform(forest.output, reference.raw(forest, X).astype(np.float64))
    np.testing.assert_array_equal(got, want)


def test_tree_weights_base_scores_and_dense_sums_are_folded_in() -> None:
    forest = convert(GradientBoostingClassifier(n_estimators=3, random_state=0).fit(*IRIS))
    rng = np.random.default_rng(0)
    output = replace(
        forest.output,
        tree_weight=rng.normal(size=forest.n_trees),
        base_score=rng.normal(size=3),
    )
    dense = Leaves(rng.normal(size=(forest.n_leaves, 3)))
    for changed in (
        replace(forest, output=output),
        replace(forest, output=output, leaves=dense),
        replace(forest.take([0, 3, 6, 7]), output=replace(forest.take([0, 3, 6, 7]).output)),
    ):
        written = to_sklearn(changed)
        X = IRIS[0].astype(np.float32)
        np.testing.assert_array_equal(written.decision_function(X), reference.raw(changed, X))


def test_a_forest_with_moved_thresholds_predicts_in_the_library_what_it_predicts() -> None:
    X, y = CANCER
    forest = convert(RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y))
    moved = replace(forest, tests=replace(forest.tests, b=forest.tests.b * np.float32(1.01)))
    written = to_sklearn(moved)
    np.testing.assert_array_equal(written.predict_proba(X), bitvec.compile(moved).predict_proba(X))


@functools.cache
def refused() -> dict[str, tuple[Any, str]]:
    tree = convert(DecisionTreeRegressor(max_depth=3, random_state=0).fit(*DIABETES))
    boosted = convert(GradientBoostingRegressor(n_estimators=2).fit(*DIABETES))
    narrow = Output(1, np.dtype(np.float32))
    histogram = convert(HistGradientBoostingRegressor(max_iter=2).fit(*DIABETES))
    isolation = convert(IsolationForest(n_estimators=3, random_state=0).fit(IRIS[0]))
    sets = convert(of_categories()[0])
    first = int(np.flatnonzero(sets.tests.kind == Kind.SET)[0])
    return {
        "float64": (
            replace(histogram, output=Output(1, np.dtype(np.float64), aggregate=Aggregate.MEAN)),
            "sum its trees if it compares in float64",
        ),
        "other unknown": (
            replace(sets, tests=replace(sets.tests, other_right=~sets.tests.missing_right)),
            "where it sends missing values",
        ),
        "rounded codes": (
            replace(sets, tests=replace(sets.tests, code_rule=np.ones(sets.n_nodes, np.uint8))),
            "read whole numbers as categories",
        ),
        "many categories": (
            replace(
                sets,
                tests=replace(
                    sets.tests,
                    # Half of 32 codes in each of 20 words go another way than missing values.
                    set_ptr=np.where(np.arange(sets.n_nodes + 1) > first, 20, 0),
                    set_words=np.full(20, 0x55555555, np.uint32),
                    kind=np.where(np.arange(sets.n_nodes) == first, sets.tests.kind, 0).astype(
                        np.uint8
                    ),
                    column=np.where(np.arange(sets.n_nodes) == first, 1, 0).astype(np.int32),
                ),
            ),
            "at most 255 categories",
        ),
        "read as both": (
            replace(sets, tests=replace(sets.tests, column=np.ones(sets.n_nodes, np.int32))),
            "as numbers or as categories",
        ),
        "labels of probabilities": (
            replace(sets, output=replace(sets.output, labels_from_raw=False)),
            "labels by its raw scores",
        ),
        "ties": (
            replace(sets, output=replace(sets.output, tie_to_second=True)),
            "first class at a raw score of 0",
        ),
        "trees taken away": (isolation.take([0, 1]), "whole number of rows"),
        "moved depths": (
            replace(isolation, leaves=Leaves(isolation.v / 3)),
            "depths that scikit-learn's own sum keeps",
        ),
        "no trees": (tree.take([]), "at least one tree"),
        "float32 sums": (
            replace(
                boosted,
                output=narrow,
                leaves=replace(boosted.leaves, v=boosted.v.astype(np.float32)),
            ),
            "sum its trees in float64",
        ),
        "base score at the end": (
            replace(boosted, output=replace(boosted.output, base_first=False)),
            "begin its sum",
        ),
        "minimum": (
            replace(
                boosted,
                output=Output(1, np.dtype(np.float64), aggregate=Aggregate.MIN),
            ),
            "mean, sum or weighted median",
        ),
        "exponential link": (
            replace(
                boosted, output=replace(boosted.output, post_transform=PostTransform.EXPONENTIAL)
            ),
            "without a post-transform",
        ),
        "missing zeros": (
            replace(
                tree,
                tests=replace(tree.tests, missing_rule=np.ones(tree.n_nodes, np.uint8)),
            ),
            "count only NaN as missing",
        ),
        "oblique": (
            replace(
                tree,
                tests=replace(tree.tests, weight=np.full(tree.n_nodes, 2, np.float32)),
            ),
            "compare one column",
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        "float64",
        "other unknown",
        "rounded codes",
        "many categories",
        "read as both",
        "labels of probabilities",
        "ties",
        "trees taken away",
        "moved depths",
        "no trees",
        "float32 sums",
        "base score at the end",
        "minimum",
        "exponential link",
        "missing zeros",
        "oblique",
    ],
)
def test_what_the_library_cannot_hold_is_refused_with_the_reason(name: str) -> None:
    forest, words = refused()[name]
    with pytest.raises(UnsupportedModelError, match=words):
        to_sklearn(forest)

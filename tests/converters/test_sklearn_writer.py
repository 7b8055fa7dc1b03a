"""Laws of the written estimators: scikit-learn itself answers as the forest does, bit for bit."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from hypothesis import given
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from strategies import forests, rows

import bitvec
from bitvec import reference
from bitvec.converters.sklearn import convert
from bitvec.converters.sklearn.writer import to_sklearn
from bitvec.errors import UnsupportedModelError
from bitvec.forest import Forest
from bitvec.leaves import Leaves
from bitvec.node_tests import Relation
from bitvec.output import Aggregate, Output, PostTransform

CANCER = data.load_breast_cancer(return_X_y=True)
IRIS = data.load_iris(return_X_y=True)
DIABETES = data.load_diabetes(return_X_y=True)
HOLES = np.where(np.random.default_rng(0).random(CANCER[0].shape) < 0.2, np.nan, CANCER[0])

MODELS = {
    "tree": (DecisionTreeClassifier(random_state=0), IRIS[0], np.array(["a", "b", "c"])[IRIS[1]]),
    "tree of values": (DecisionTreeRegressor(random_state=0), *DIABETES),
    "forest": (RandomForestClassifier(4, random_state=0), HOLES, CANCER[1]),
    "several targets": (
        RandomForestClassifier(4, random_state=0),
        IRIS[0],
        np.stack([IRIS[1], IRIS[1] > 1], axis=1),
    ),
    "several values": (
        ExtraTreesRegressor(4, random_state=0),
        DIABETES[0],
        np.stack([DIABETES[1], -DIABETES[1]], axis=1),
    ),
    "bagging": (BaggingRegressor(n_estimators=4, max_features=0.5, random_state=0), *DIABETES),
    "boosting": (GradientBoostingRegressor(n_estimators=6, random_state=0), *DIABETES),
    "two classes": (GradientBoostingClassifier(n_estimators=6, random_state=0), *CANCER),
    "exponential": (GradientBoostingClassifier(loss="exponential", n_estimators=6), *CANCER),
    "three classes": (GradientBoostingClassifier(n_estimators=3, random_state=0), *IRIS),
    "median": (AdaBoostRegressor(n_estimators=6, random_state=0), *DIABETES),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_written_back_predicts_as_the_model(name: str) -> None:
    model, X, y = MODELS[name]
    forest = convert(model.fit(X, y))
    written = to_sklearn(forest)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            own, got = getattr(model, method)(X), getattr(written, method)(X)
            assert isinstance(got, list) == isinstance(own, list)
            for one, other in zip(
                *([answer] if not isinstance(answer, list) else answer for answer in (own, got)),
                strict=True,
            ):
                np.testing.assert_array_equal(other, one)
    # The numbering of the nodes is kept, so leaf ids agree with the first forest as well.
    for lifted in (forest, convert(written)):
        certificate = bitvec.certify(lifted, written, X)
        assert certificate.passed, certificate.summary()


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
        b = forest.b[node]
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
    X = X[np.isfinite(X).all(axis=1)]
    if not len(X) or forest.n_outputs != 1 or forest.output.classes is not None:
        return
    got = np.reshape(written.predict(X), (len(X), -1))
    np.testing.assert_array_equal(got, reference.raw(forest, X).astype(np.float64))


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
    moved = replace(forest, tests=replace(forest.tests, b=forest.b * np.float32(1.01)))
    written = to_sklearn(moved)
    np.testing.assert_array_equal(written.predict_proba(X), bitvec.compile(moved).predict_proba(X))


@functools.cache
def refused() -> dict[str, tuple[Any, str]]:
    tree = convert(DecisionTreeRegressor(max_depth=3, random_state=0).fit(*DIABETES))
    boosted = convert(GradientBoostingRegressor(n_estimators=2).fit(*DIABETES))
    narrow = Output(1, np.dtype(np.float32))
    return {
        "float64": (
            convert(HistGradientBoostingRegressor(max_iter=2).fit(*DIABETES)),
            "compare in float32",
        ),
        "scores of depths": (
            convert(IsolationForest(n_estimators=2).fit(IRIS[0])),
            "without a post-transform",
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
        "scores of depths",
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

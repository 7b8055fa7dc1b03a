"""Laws of writing treelite models: GTIL predicts from them what the forest predicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, ONE_HOT, SET, forests, rows

import bitvec
from bitvec import files
from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, Relation, axis_aligned
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.structure import from_children
from bitvec.errors import UnsupportedModelError

treelite = pytest.importorskip("treelite")

from bitvec.converters.treelite.oracle import oracle_of  # noqa: E402
from bitvec.converters.treelite.read import convert  # noqa: E402
from bitvec.converters.treelite.write import to_treelite  # noqa: E402
from tests.models import samples  # noqa: E402
from tests.models import sklearn as models_of_sklearn  # noqa: E402
from tests.models.treelite import IMPORTED, imported  # noqa: E402


def raw(model: Any, forest: Forest, X: Array) -> Array:
    """GTIL's margins, without the padding of targets of fewer classes."""
    groups = forest.output.groups
    rows_of = np.ascontiguousarray(X, forest.output.dtype)
    answer = treelite.gtil.predict(model, rows_of, nthread=1, pred_margin=True)
    answer = answer.reshape(len(X), len(groups), max(groups))
    return np.asarray(answer[:, np.arange(max(groups)) < np.array(groups)[:, None]])


def assert_predicts(forest: Forest, X: Array) -> Forest:
    """Compare GTIL with the reference bit for bit, and the model converted again with both."""
    model = to_treelite(forest)
    expected = reference.raw(forest, X)
    answer = raw(model, forest, X)
    assert answer.dtype == expected.dtype
    np.testing.assert_array_equal(answer, expected)
    again = convert(model)
    np.testing.assert_array_equal(reference.raw(again, X), expected)
    assert again.source is not None
    assert again.source.leaf_id is not None
    exits = reference.exit_leaf_traversal(again, np.asarray(X).astype(again.dtype))
    own = again.source.leaf_id[exits + again.bitvectors.leaf_ptr[:-1]]
    np.testing.assert_array_equal(own, oracle_of(model).leaf_ids(X.astype(again.dtype)))
    # Constant trees of a base score stand first; the others exit where the forest's do. A set whose
    # unnamed codes go right is converted with its sides changed.
    n_constant = again.n_trees - forest.n_trees
    if not np.any((forest.tests.kind == Kind.SET) & forest.tests.other_right):
        np.testing.assert_array_equal(exits[:, n_constant:], reference.exit_leaves(forest, X))
    assert files.identical(convert(to_treelite(again)), again)
    return again


@st.composite
def holdable(draw: st.DrawFn) -> tuple[Forest, Array]:
    """Forests of every shape that treelite can hold, made so where they are not yet."""
    forest = draw(
        forests(
            kinds=draw(st.sampled_from([ONE_HOT, (AXIS,), (AXIS, SET), (AXIS, EQUAL)])),
            missing_rules=(MissingRule.NAN,),
            aggregates=(Aggregate.SUM, Aggregate.MEAN),
            linear=False,
        )
    )
    tests, output = forest.tests, forest.output
    same = draw(st.booleans()) or np.any(tests.kind != Kind.MARGIN) or forest.dtype == np.float64
    dtype = forest.dtype if same else np.dtype(np.float64)
    narrow = {
        name: None if (value := getattr(output, name)) is None else value.astype(dtype)
        for name in ("tree_weight", "base_score")
    }
    divisor = None
    named = forest.leaves.output
    if output.aggregate is Aggregate.MEAN and named is not None and draw(st.booleans()):
        named = np.repeat(
            np.arange(forest.n_trees) % forest.n_outputs, np.diff(forest.bitvectors.leaf_ptr)
        ).astype(np.int32)
        counts = np.bincount(np.arange(forest.n_trees) % forest.n_outputs)
        if counts.size == forest.n_outputs:
            divisor = counts.astype(dtype)
    groups = output.groups
    if output.classes is None and forest.n_outputs > 1:
        cut = draw(st.integers(1, forest.n_outputs))
        groups = (cut, forest.n_outputs - cut) if cut < forest.n_outputs else (cut,)
    forest = replace(
        forest,
        tests=replace(tests, code_rule=np.full(tests.n_nodes, CodeRule.FLOOR, np.uint8)),
        leaves=Leaves(forest.leaves.v.astype(dtype), named),
        output=replace(
            output, dtype=dtype, divisor=divisor, groups=groups, parameter=1.0, scale=None, **narrow
        ),
    )
    return forest, draw(rows(forest))


@given(holdable())
def test_any_forest_that_can_be_held_predicts_bit_for_bit(case: tuple[Forest, Array]) -> None:
    assert_predicts(*case)


@given(forests(), st.data())
def test_any_forest_is_refused_or_predicts_bit_for_bit(forest: Forest, case: st.DataObject) -> None:
    X = case.draw(rows(forest))
    try:
        assert_predicts(forest, X)
    except UnsupportedModelError as error:
        assert "treelite must have" in str(error)  # noqa: PT017


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=6), st.booleans())
def test_float64_thresholds_route_float64_values_as_float32_does(
    numbers: list[float], reaches: bool
) -> None:
    n = len(numbers)
    forest = Forest(
        axis_aligned(
            np.zeros(n, int),
            np.array(numbers, np.float32),
            relation=Relation.GREATER_EQUAL if reaches else Relation.GREATER,
        ),
        from_children(
            [~(2 * i) for i in range(n)], [~(2 * i + 1) for i in range(n)], list(range(n))
        ),
        Leaves(2.0 ** np.arange(2 * n)[:, None]),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )
    info = np.finfo(np.float32)
    b = np.array([*numbers, 0, -0.0, info.max, info.smallest_subnormal, np.inf], np.float32)
    b = np.concatenate([b, -b])
    with np.errstate(over="ignore"):
        near = np.concatenate([b, np.nextafter(b, np.float32(np.inf))]).astype(np.float64)
    middle = np.clip(near[: b.size], -(2.0**128), 2.0**128) / 2
    middle += np.clip(near[b.size :], -(2.0**128), 2.0**128) / 2
    X = np.concatenate([near, middle])
    X = np.concatenate([X, np.nextafter(X, np.inf), np.nextafter(X, -np.inf), [np.nan]])[:, None]
    assert_predicts(forest, X)


HELD = [name for name in IMPORTED["sklearn"] if "codes" not in name and "Isolation" not in name]


@pytest.mark.parametrize("name", HELD)
def test_scikit_learn_models_predict_bit_for_bit_on_float64_rows(name: str) -> None:
    model, X = models_of_sklearn.trained(name), samples.small().X
    X = np.concatenate([X, X + np.random.default_rng(0).normal(size=X.shape) * 1e-8])
    forest = bitvec.convert(model)
    again = assert_predicts(forest, X)
    if forest.output.post_transform is PostTransform.IDENTITY and hasattr(model, "classes_"):
        assert again.output.is_classifier


def test_categories_of_lightgbm_are_written() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(1, 60, 500), rng.normal(size=500)], axis=1)
    y = np.isin(X[:, 0] % 7, (1, 3)) * 2.0 + X[:, 1]
    options = {"verbose": -1, "num_threads": 1, "min_data_per_group": 5, "cat_smooth": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(X, y, categorical_feature=[0]), 4)
    forest = bitvec.convert(booster)
    assert np.any(forest.tests.kind == Kind.SET)
    codes = np.array([-2, -1, -0.5, 0, 0.5, 2.7, 59, 60, 1e9, np.nan])
    X = np.concatenate([X[:50], np.stack([codes, np.zeros(codes.size)], axis=1)])
    # Code 0 was not trained on, so that a value above -1 is no code to both.
    assert_predicts(forest, X)


@pytest.mark.parametrize("name", IMPORTED["xgboost"])
def test_xgboost_models_predict_bit_for_bit(name: str) -> None:
    models_of_xgboost = pytest.importorskip("tests.models.xgboost")
    forest = bitvec.convert(models_of_xgboost.trained(name))
    assert_predicts(forest, samples.small().X.astype(np.float32))


@pytest.mark.parametrize(
    ("transform", "parameter", "n_outputs"),
    [
        (PostTransform.IDENTITY, 1.0, 3),
        (PostTransform.SIGMOID, 0.75, 1),
        (PostTransform.SIGMOID, 2.0, 3),
        (PostTransform.SOFTMAX, 1.0, 3),
        (PostTransform.EXPONENTIAL, 1.0, 1),
        (PostTransform.EXPONENTIAL_STANDARD_RATIO, 2.5, 1),
        (PostTransform.LOGARITHM_ONE_PLUS_EXP, 1.0, 1),
        (PostTransform.SIGNED_SQUARE, 1.0, 1),
        (PostTransform.HINGE, 1.0, 1),
    ],
)
def test_post_transforms_are_written(
    transform: PostTransform, parameter: float, n_outputs: int
) -> None:
    rng = np.random.default_rng(0)
    forest = Forest(
        axis_aligned([0, 1], np.array([0.25, -0.5])),
        from_children([~0, ~2], [~1, ~3], [0, 1]),
        Leaves(rng.normal(size=(4, n_outputs))),
        Output(n_outputs, np.dtype(float), post_transform=transform, parameter=parameter),
        Inputs(2),
    )
    X = rng.normal(size=(20, 2))
    model = to_treelite(forest)
    assert_predicts(forest, X)
    answer = treelite.gtil.predict(model, X, nthread=1).reshape(len(X), -1)
    # GTIL's softmax computes in float32, and exponentials differ in their last places.
    np.testing.assert_allclose(
        answer, bitvec.compile(forest).predict(X).reshape(answer.shape), 5e-7
    )


def test_statistics_and_ids_survive_writing() -> None:
    name = "RandomForestRegressor"
    forest = bitvec.convert(models_of_sklearn.trained(name))
    again = convert(to_treelite(forest))
    assert forest.source is not None
    assert again.source is not None
    np.testing.assert_array_equal(again.source.leaf_cover, forest.source.leaf_cover)
    np.testing.assert_array_equal(again.source.node_cover, forest.source.node_cover)
    first = convert(imported("sklearn", name))
    assert first.source is not None
    back = convert(to_treelite(first)).source
    assert back is not None
    np.testing.assert_array_equal(back.leaf_id, first.source.leaf_id)
    np.testing.assert_array_equal(back.node_id, first.source.node_id)


def test_a_moved_forest_predicts_what_it_now_predicts() -> None:
    forest = bitvec.convert(models_of_sklearn.trained("GradientBoostingClassifier"))
    rng = np.random.default_rng(0)
    moved = replace(
        forest,
        tests=replace(
            forest.tests, b=forest.tests.b + rng.normal(size=forest.n_nodes).astype("f") / 3
        ),
        leaves=replace(forest.leaves, v=forest.leaves.v * np.pi),
    )
    assert_predicts(moved, samples.small().X)


def refused(name: str) -> Forest:
    forest = bitvec.convert(models_of_sklearn.trained("RandomForestRegressor"))
    tests, output = forest.tests, forest.output
    every = np.ones(tests.n_nodes, np.uint8)
    changes: dict[str, dict[str, Any]] = {
        "missing values that are NaN": {
            "tests": replace(tests, missing_rule=every * np.uint8(MissingRule.NAN_OR_ZERO))
        },
        "read in float32 beside": {"tests": replace(tests, kind=every * np.uint8(Kind.EQUAL))},
        "a sum or a mean": {"output": replace(output, aggregate=Aggregate.MAX, divisor=None)},
        "mean over all trees": {"output": replace(output, divisor=np.array([9.0]))},
        "postprocessor for probit": {
            "output": replace(output, post_transform=PostTransform.PROBIT)
        },
        "parameter of its postprocessor": {
            "output": replace(output, post_transform=PostTransform.SIGMOID, parameter=0.1)
        },
        "one column": {"tests": replace(tests, weight=2 * tests.weight)},
    }
    return replace(forest, **changes[name])


@pytest.mark.parametrize(
    "name",
    [
        "missing values that are NaN",
        "read in float32 beside",
        "a sum or a mean",
        "mean over all trees",
        "postprocessor for probit",
        "parameter of its postprocessor",
        "one column",
    ],
)
def test_what_treelite_cannot_hold_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UnsupportedModelError, match=name):
        to_treelite(refused(name))

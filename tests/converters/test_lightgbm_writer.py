"""Laws of writing LightGBM texts: LightGBM predicts from them what the forest predicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, SET, forests, rows

import bitvec
from bitvec.converters.lightgbm.read import convert
from bitvec.converters.lightgbm.write import to_lightgbm, to_text
from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, CodeRule, Kind, MissingRule, NodeTests
from bitvec.core.output import Aggregate, PostTransform
from bitvec.errors import UnsupportedModelError

lgb = pytest.importorskip("lightgbm")
datasets = pytest.importorskip("sklearn.datasets")

from tests.models.lightgbm import MODELS, probes, trained  # noqa: E402
from tests.models.samples import small  # noqa: E402

QUIET = {"verbose": -1, "num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 5}


def loaded(forest: Forest) -> Any:
    return to_lightgbm(forest)


def raw(model: Any, X: Array, forest: Forest) -> Array:
    answer = model.predict(X, raw_score=True, num_threads=1).reshape(len(X), forest.n_outputs)
    if forest.output.aggregate is Aggregate.MEAN:
        answer = answer / (forest.n_trees // forest.n_outputs)
    return np.asarray(answer)


@pytest.mark.parametrize("name", [name for name, about in MODELS.items() if not about.wrapper])
def test_what_is_converted_and_written_back_predicts_bit_for_bit(name):
    model = trained(name)
    forest = convert(model)
    back = loaded(forest)
    X = probes(100)
    kinds: list[dict[str, bool]] = [{}, {"raw_score": True}, {"pred_leaf": True}]
    kinds += [] if "linear" in name else [{"pred_contrib": True}]
    for kind in kinds:
        expected = model.predict(X, num_threads=1, **kind)
        assert np.array_equal(back.predict(X, num_threads=1, **kind), expected, equal_nan=True)
    again = convert(back)
    assert to_text(again) == to_text(forest)


def test_a_retrained_forest_is_written_back():
    pytest.importorskip("torch")
    X, y = datasets.load_diabetes(return_X_y=True)
    model = lgb.LGBMRegressor(n_estimators=3, **QUIET).fit(X[:300], y[:300])
    forest = convert(model)
    moved = forest
    for name in ("b", "v"):
        moved = bitvec.retrain(
            moved,
            X[:300],
            y[:300],
            validation=(X[300:], y[300:]),
            trainable=(name,),
            budget=None,
            schedule={"steps": 60},
        ).forest
    assert not np.array_equal(moved.leaves.v, forest.leaves.v)
    assert not np.array_equal(moved.tests.b, forest.tests.b)
    back = loaded(moved)
    assert np.array_equal(raw(back, X, moved), reference.raw(moved, X))
    assert np.array_equal(back.predict(X, num_threads=1), bitvec.compile(moved).predict(X))


def test_moved_thresholds_and_leaves_are_written_exactly():
    forest = convert(trained("regression"))
    rng = np.random.default_rng(0)
    margin = forest.tests.kind == Kind.MARGIN
    b = np.where(margin, forest.tests.b + rng.normal(size=forest.n_nodes) / 3, forest.tests.b)
    moved = replace(
        forest,
        tests=_with(forest.tests, b=b),
        leaves=replace(forest.leaves, v=forest.leaves.v * np.pi),
    )
    X = small().X
    assert np.array_equal(raw(loaded(moved), X, moved), reference.raw(moved, X))


def _with(tests: NodeTests, **changes: Any) -> NodeTests:
    return replace(tests, **changes)


@st.composite
def holdable(draw: st.DrawFn) -> tuple[Forest, Array]:
    """Forests of every shape that LightGBM can hold, made so where they are not yet."""
    forest = draw(
        forests(
            kinds=(AXIS, SET),
            dtypes=(np.float64,),
            missing_rules=(MissingRule.NAN, MissingRule.NAN_OR_ZERO),
            aggregates=(Aggregate.SUM,),
        )
    )
    X = draw(rows(forest))
    tests, leaves, output = forest.tests, forest.leaves, forest.output
    is_set = tests.kind == Kind.SET
    b = np.where(np.abs(tests.b) <= ZERO_THRESHOLD, 0.5, tests.b)
    b[np.isneginf(b)] = 0.25
    tests = replace(
        tests,
        b=b,
        code_rule=np.where(is_set, CodeRule.TRUNCATE, tests.code_rule).astype(np.uint8),
        missing_rule=np.where(is_set, MissingRule.NAN, tests.missing_rule).astype(np.uint8),
        missing_right=np.where(is_set, tests.other_right, tests.missing_right),
    )
    weight = None if leaves.linear is not None else output.tree_weight
    output = replace(
        output,
        n_outputs=1,
        dtype=np.dtype(np.float64),
        base_score=output.base_score[:1].astype(np.float64),
        tree_weight=None if weight is None else weight.astype(np.float64),
        scale=None,
        groups=(1,),
        classes=None,
        post_transform=PostTransform.IDENTITY,
    )
    v = leaves.v[:, :1].astype(np.float64)
    linear = leaves.linear
    if linear is not None:
        linear = replace(
            linear,
            weight=linear.weight[:, :1].astype(np.float64),
            constant=linear.constant[:, :1].astype(np.float64),
            zero_threshold=ZERO_THRESHOLD,
        )
    leaves = replace(leaves, v=v, output=None, linear=linear)
    return replace(forest, tests=tests, leaves=leaves, output=output), X


@given(holdable())
def test_any_forest_that_can_be_held_predicts_bit_for_bit(case):
    forest, X = case
    X = X.astype(np.float64)
    expected = reference.raw(forest, X)
    assert np.array_equal(raw(loaded(forest), X, forest), expected, equal_nan=True)


def test_outputs_in_turn_and_base_scores_are_written():
    forest = convert(trained("multiclass"))
    for first in (False, True):
        output = replace(
            forest.output, base_score=np.array([0.1, -0.2, 0.3]), base_first=first, classes=None
        )
        moved = replace(forest, output=output)
        X = small().X
        assert np.array_equal(raw(loaded(moved), X, moved), reference.raw(moved, X))


def test_code_books_survive_writing():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=300), "town": rng.choice([*"abcd"], 300)})
    frame["town"] = frame["town"].astype("category")
    model = lgb.LGBMRegressor(n_estimators=2, **QUIET).fit(frame, frame["size"])
    forest = convert(model)
    assert forest.inputs.categories is not None
    assert convert(loaded(forest)).inputs == forest.inputs
    assert convert(loaded(replace(forest, source=None))).inputs == forest.inputs


def refused(name: str) -> Forest:
    forest = convert(trained("regression"))
    tests, output = forest.tests, forest.output
    is_set = tests.kind == Kind.SET
    margin = np.flatnonzero(~is_set)
    b = tests.b.copy()
    b[margin[0]] = 0.0
    changes: dict[str, dict[str, Any]] = {
        "reads as 0": {"tests": _with(tests, b=b)},
        "sentinel": {
            "tests": _with(tests, missing_rule=np.full(tests.n_nodes, 2, np.uint8)),
            "inputs": replace(forest.inputs, missing_sentinel=-1.0),
        },
        "truncated": {"tests": _with(tests, code_rule=np.zeros(tests.n_nodes, np.uint8))},
        "NaN goes the way": {"tests": _with(tests, missing_right=np.zeros(tests.n_nodes, bool))},
        "sum or a mean": {"output": replace(output, aggregate=Aggregate.MAX)},
        "objective": {"output": replace(output, post_transform=PostTransform.HINGE)},
        "mean without": {
            "output": replace(output, aggregate=Aggregate.MEAN, base_score=np.ones(1))
        },
    }
    return replace(forest, **changes[name])


@pytest.mark.parametrize(
    "name",
    [
        "reads as 0",
        "sentinel",
        "truncated",
        "NaN goes the way",
        "sum or a mean",
        "objective",
        "mean without",
    ],
)
def test_what_lightgbm_cannot_hold_is_refused_with_the_reason(name):
    with pytest.raises(UnsupportedModelError, match=name):
        to_text(refused(name))


def test_forests_of_float32_libraries_are_refused():
    X, y = datasets.load_iris(return_X_y=True)
    from sklearn.ensemble import RandomForestClassifier

    forest = bitvec.convert(RandomForestClassifier(2, random_state=0).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="float64"):
        to_text(forest)

"""Monotone constraints: read from what is given or recorded, and kept by cutting leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monotone_laws import rises
from retraining import grown
from strategies import examples

import bitvec
from bitvec.core.source import Source
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.monotone import Monotone
from bitvec.runtime.train.monotone.monotone_leaves import constrained, node_directions


def random_forest(seed, *, n_trees=3, depth=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    forest = grown(X, rng.normal(size=200), n_trees=n_trees, depth=depth, seed=seed)
    v = rng.normal(size=forest.leaves.v.shape)
    return replace(forest, leaves=replace(forest.leaves, v=v)), X


@given(
    seed=st.integers(0, 2**32 - 1),
    first=st.sampled_from([-1, 1]),
    second=st.sampled_from([-1, 0, 1]),
)
@examples(15)
def test_answers_keep_their_directions(seed, first, second):
    forest, X = random_forest(seed)
    signs = np.array([first, 0, second], np.int8)
    directions = node_directions(forest, signs)
    found = constrained(forest, directions)
    for column, sign in ((0, first), (2, second)):
        # Not within rounding: sums of leaves that are in order round to sums that are.
        assert sign == 0 or np.all(sign * rises(found, X[:40], column) >= 0)
    assert Monotone(signs).holds(found)
    again = constrained(found, directions)
    assert np.array_equal(again.leaves.v, found.leaves.v)


@given(seed=st.integers(0, 2**32 - 1), sign=st.sampled_from([-1, 1]))
@examples(15)
def test_no_leaf_is_cut_by_more_than_what_had_put_it_out_of_order(seed, sign):
    keeps = Monotone(np.array([sign, 0, 1], np.int8))
    start = keeps.kept(random_forest(seed)[0])
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, start.leaves.v.shape)
    moved = replace(start, leaves=replace(start.leaves, v=start.leaves.v + noise))
    kept = keeps.kept(moved)
    assert keeps.holds(kept)
    assert np.abs(kept.leaves.v - moved.leaves.v).max() <= 0.1 + 1e-12


def test_nothing_moves_without_an_overlap():
    stump = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0])
    up, down = (Monotone.of(stump, {0: sign}).kept(stump) for sign in (1, -1))
    assert up is stump
    assert down.leaves.v.tolist() == [[0.5], [0.5]]


def test_a_negative_scale_turns_the_direction():
    stump = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0])
    turned = replace(stump, output=replace(stump.output, scale=-np.ones(1)))
    kept = Monotone.of(turned, {0: 1}).kept(turned)
    assert kept.leaves.v.tolist() == [[0.5], [0.5]]
    assert Monotone.of(turned, {0: -1}).kept(turned) is turned


def with_metadata(forest, **metadata):
    return replace(forest, source=Source("sklearn", "1.0", metadata=metadata))


@pytest.mark.parametrize("recorded", ["1 0 -1", "1,0,-1", [1, 0, -1], {"a": 1, "c": -1}])
def test_what_is_recorded_is_read_and_what_is_given_stands_in_its_place(recorded):
    forest, _ = random_forest(0)
    forest = replace(forest, inputs=replace(forest.inputs, feature_names=("a", "b", "c")))
    forest = with_metadata(forest, monotone_constraints=recorded)
    assert Monotone.of(forest).signs.tolist() == [1, 0, -1]
    assert Monotone.of(forest, {"b": -1}).signs.tolist() == [0, -1, 0]
    assert Monotone.of(forest, {}) is None
    assert Monotone.of(forest).named(forest) == {"a": 1, "c": -1}


@pytest.mark.parametrize(
    "metadata",
    [
        {"monotonic_cst": [1, 0]},
        {"monotonic_cst": {"z": 1}},
        {"monotone_constraints": "up"},
        {"monotonic_cst": [1, 0, 0], "steps": []},
    ],
)
def test_a_record_that_does_not_fit_the_columns_is_refused(metadata):
    forest = with_metadata(random_forest(0)[0], **metadata)
    with pytest.raises(UnsupportedModelError, match="pass `monotone`"):
        Monotone.of(forest)
    assert Monotone.of(forest, {}) is None


def test_columns_are_found_by_name():
    forest, _ = random_forest(0)
    named = replace(forest, inputs=replace(forest.inputs, feature_names=("a", "b", "c")))
    by_name, by_number = Monotone.of(named, {"b": -1}), Monotone.of(forest, {1: -1})
    assert np.array_equal(by_name.signs, by_number.signs)


@pytest.mark.parametrize(
    ("monotone", "message"),
    [
        ({"z": 1}, "must name a column"),
        ({5: 1}, "must name a column"),
        ({0: 2}, "must hold 1 .rising., -1 .falling. or 0"),
        ([1, 0], "a number for each of the 3 columns"),
        ("up", "must map columns"),
    ],
)
def test_what_is_no_constraint_is_refused(monotone, message):
    forest, _ = random_forest(0)
    with pytest.raises(InputError, match=message):
        Monotone.of(forest, monotone)


def test_a_test_of_several_columns_is_refused():
    oblique = bitvec.Forest.from_matrices([[1.0, 2.0]], [0.0], [[0], [1]], [0.0, 1.0])
    with pytest.raises(UnsupportedModelError, match="that column alone"):
        Monotone.of(oblique, {1: 1})


def test_probabilities_of_three_classes_cannot_all_rise():
    from sklearn.datasets import load_iris
    from sklearn.tree import DecisionTreeClassifier

    forest = bitvec.convert(DecisionTreeClassifier().fit(*load_iris(return_X_y=True)))
    with pytest.raises(UnsupportedModelError, match="cannot all rise"):
        Monotone.of(forest, {0: 1})

"""Feature maps: a stacked tree is what one would do by hand, and S reads φ(x)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KERNEL, forests, forests_with_rows

from bitvec.core import reference
from bitvec.core.feature_maps import Concatenate, Identity, Layers, Linear, ReLU, StackedForest
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import box
from bitvec.errors import InputError, InvalidForestError

XOR = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


@given(forests_with_rows(max_leaves=20))
def test_a_stacked_tree_appends_the_one_hot_exit_leaves(drawn):
    forest, X = drawn
    Z = StackedForest(forest)(X)
    leaves = Z[:, forest.n_features :]
    exits = reference.exit_leaves(forest, X)
    assert np.array_equal(Z[:, : forest.n_features], X, equal_nan=True)
    assert Z.dtype == X.dtype
    start = 0
    for tree in range(forest.n_trees):
        size = forest[tree].n_leaves
        by_hand = np.eye(size)[exits[:, tree]]
        assert np.array_equal(leaves[:, start : start + size], by_hand)
        start += size
    assert start == leaves.shape[1] == forest.n_leaves


@given(forests_with_rows(max_leaves=20))
def test_a_stacked_tree_of_values_appends_the_leaf_vectors(drawn):
    forest, X = drawn
    Z = StackedForest(forest, values=True)(X)
    leaf = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    with np.errstate(over="ignore"):
        by_hand = [
            reference.leaf_vectors(forest, X, leaf[:, tree]).astype(X.dtype)
            for tree in range(forest.n_trees)
        ]
    assert np.array_equal(Z, np.concatenate([X, *by_hand], axis=1), equal_nan=True)


@given(forests(max_leaves=8), st.booleans())
def test_the_width_of_a_stacked_tree_is_known_before_it_runs(forest, values):
    phi = StackedForest(forest, values=values)
    X = np.zeros((2, forest.n_features), forest.dtype)
    assert phi(X).shape == (2, phi.n_features)


def test_a_forest_over_a_stacked_tree_routes_on_its_leaves():
    first = Forest.from_matrices([[1, 0], [0, 1]], [0.5, 0.5], [[0, 1], [1, 0], [1, 1]], [5, 6, 7])
    # φ(x) = [x; onehot]: column 2 + l is 1 in leaf l of the first tree.
    X = np.array([[0.0, 9.0], [1.0, 0.0], [1.0, 1.0]])
    exits = reference.exit_leaves(first, X)[:, 0]
    for leaf in range(3):
        S = np.zeros((1, 5))
        S[0, 2 + leaf] = 1
        outer = Forest.from_matrices(S, [0.5], [[0], [1]], [0, 1])
        outer = replace(outer, inputs=Inputs(2), feature_map=StackedForest(first))
        assert np.array_equal(reference.raw(outer, X)[:, 0], exits == leaf)


def test_one_oblique_node_over_a_network_decides_xor():
    hidden = Layers(
        (Linear(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0.0, -1.0])), ReLU()),
    )
    forest = Forest.from_matrices([[1, -2]], [0.5], [[0], [1]], [0, 1])
    forest = replace(forest, inputs=Inputs(2), feature_map=hidden)
    assert reference.raw(forest, XOR)[:, 0].tolist() == [0, 1, 1, 0]


def test_each_node_can_read_its_own_network_or_x_itself():
    networks = tuple(Layers((Linear(np.array([w])),)) for w in ([1.0, 2.0], [3.0, 4.0]))
    phi = Concatenate((Identity(2), *networks))
    assert phi.n_features == 4
    assert np.array_equal(phi(XOR), np.column_stack([XOR, XOR @ [1, 2], XOR @ [3, 4]]))


def test_every_map_follows_the_protocol():
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    parts = (Identity(2), StackedForest(stump), Layers((Linear(np.ones((3, 2))),)))
    for phi in (*parts, Concatenate(parts)):
        assert isinstance(phi, FeatureMap)
        for dtype in (np.float32, np.float64):
            if isinstance(phi, Identity | StackedForest) or dtype is np.float64:
                assert phi(XOR.astype(dtype)).dtype == dtype
        assert phi(XOR[:0]).shape == (0, phi.n_features)


def test_a_network_of_a_stacked_tree_of_a_network_runs():
    inner = Layers((Linear(np.array([[1.0, -1.0]])),))
    stump = Forest.from_matrices([[1]], [0.0], [[0], [1]], [10, 20])
    stump = replace(stump, inputs=Inputs(2), feature_map=inner)
    phi = StackedForest(stump, values=True)
    assert phi(XOR)[:, 2].tolist() == [10, 10, 20, 10]


def test_rows_of_another_width_are_refused():
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    for phi in (Identity(2), StackedForest(stump), Concatenate((Identity(2),))):
        with pytest.raises(InputError, match="must be float32 or float64 with 2 columns"):
            phi(np.zeros((2, 3)))


def test_maps_of_other_widths_cannot_be_joined():
    with pytest.raises(InvalidForestError, match=r"as many columns, got \[2, 3\]"):
        Concatenate((Identity(2), Identity(3)))
    with pytest.raises(InvalidForestError, match="at least one"):
        Concatenate(())


@given(forests(kinds=(KERNEL,), soft=True, max_leaves=6))
def test_a_soft_forest_has_no_exit_leaf_to_stack(forest):
    if forest.kernel is None:
        forest = replace(forest, kernel=(box(0.5),) * forest.n_features)
    with pytest.raises(InvalidForestError, match="must be hard"):
        StackedForest(forest)

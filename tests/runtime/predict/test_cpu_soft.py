"""Soft prediction by the CPU engine: the bits of the reference, whatever the kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitvec
from bitvec.converters.native import from_kddt, from_kddt_forest
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.kernels import FeatureKernel, box
from bitvec.runtime.predict.cpu.soft import soft_trees

KERNELS = (
    box(0.5),
    box(0.0),
    FeatureKernel(np.array([-1.0, 0.0, 2.0]), np.array([0.75, 0.25]), np.array([0.5]), np.zeros(0)),
    FeatureKernel(
        np.array([0.25, 0.5, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 0.7]), np.array([0.25])
    ),
    FeatureKernel(
        np.linspace(-3, 3, 13),
        np.full(12, 1 / 12),
        np.array([0.1, 0.3, 0.0]),
        np.array([-1.0, 1.0]),
    ),
)


def drawn_tree(rng: np.random.Generator, n_leaves: int, kernels: tuple, n_outputs: int):
    """Return a tree of random shape whose thresholds lie on a few points of each feature."""
    n = n_leaves - 1
    left, right = np.zeros(n, np.int64), np.zeros(n, np.int64)
    slots: list[tuple[np.ndarray, int]] = []
    for node in range(n):
        if node:
            side, at = slots.pop(rng.integers(len(slots)))
            side[at] = node
        slots += [(left, node), (right, node)]
    for leaf, (side, at) in enumerate(slots):
        side[at] = ~leaf
    if not n:
        left = right = np.zeros(0, np.int64)
    V = rng.integers(-3, 4, (n_leaves, n_outputs)) / 8 * rng.integers(0, 2, (n_leaves, n_outputs))
    return from_kddt(
        rng.integers(0, len(kernels), n),
        rng.choice(np.round(rng.normal(size=7), 2), n),
        left=left,
        right=right,
        V=V,
        n_features=len(kernels),
        kernel=kernels,
    )


@st.composite
def soft_forests(draw: st.DrawFn) -> tuple[Forest, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernels = tuple(rng.choice(len(KERNELS), draw(st.integers(1, 4))))
    kernels = tuple(KERNELS[at] for at in kernels)
    n_outputs = draw(st.integers(1, 3))
    trees = [
        drawn_tree(rng, int(draw(st.integers(1, 40))), kernels, n_outputs)
        for _ in range(draw(st.integers(1, 3)))
    ]
    forest = bitvec.convert(from_kddt_forest(trees))
    b = np.concatenate([forest.tests.b, [0.0]])
    X = rng.normal(size=(30, len(kernels)))
    # On thresholds, and where an edge of a kernel lies on one, and an ulp to each side.
    on = rng.choice(b, X.shape)
    edge = np.array([kernel.edges[0] * kernel.bandwidth[-1] for kernel in kernels])
    X[:10] = on[:10]
    X[10:20] = on[10:20] - edge
    X[15:20] = np.nextafter(X[15:20], np.inf)
    X[25:27] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e300], X[25:27].shape)
    return forest, X


@given(soft_forests())
def test_the_engine_has_the_bits_of_the_reference(drawn: tuple[Forest, np.ndarray]) -> None:
    forest, X = drawn
    assert soft_trees.unsupported_reason(forest) is None
    trees = soft_trees.SoftTrees(forest)
    expected = np.stack(reference.soft_vectors(forest, X), axis=1)
    np.testing.assert_array_equal(trees.vectors(X), expected)
    predictor = bitvec.compile(forest, engine="numba")
    np.testing.assert_array_equal(predictor.raw(X), reference.raw(forest, X))
    np.testing.assert_array_equal(predictor.raw(X[:1]), reference.raw(forest, X[:1]))
    assert predictor.raw(X[:0]).shape == (0, forest.n_outputs)


def test_threads_and_blocks_change_nothing() -> None:
    rng = np.random.default_rng(0)
    trees = [drawn_tree(rng, 60, KERNELS, 3) for _ in range(4)]
    forest = bitvec.convert(from_kddt_forest(trees))
    X = rng.normal(size=(3000, len(KERNELS)))
    one = bitvec.compile(forest, n_jobs=1)
    two = bitvec.compile(forest, n_jobs=2)
    assert one.info()["soft_kernel"] == "soft"
    expected = reference.raw(forest, X)
    np.testing.assert_array_equal(one.raw(X), expected)
    np.testing.assert_array_equal(two.raw(X), expected)
    np.testing.assert_array_equal(two.raw(X[::-2].copy(order="F")), expected[::-2])


def test_float32_forests_compare_in_float32() -> None:
    rng = np.random.default_rng(1)
    tree = drawn_tree(rng, 30, KERNELS[:3], 2)
    narrow = replace(tree, tau=tree.tau.astype(np.float32), V=tree.V.astype(np.float32))
    forest = bitvec.convert(narrow)
    X = rng.normal(size=(500, 3))
    predictor = bitvec.compile(forest, engine="numba")
    assert predictor.info()["soft_kernel"] == "soft"
    np.testing.assert_array_equal(predictor.raw(X), reference.raw(forest, X))
    assert predictor.raw(X).dtype == np.float32


@pytest.mark.parametrize("n_leaves", [1, 2, 3])
def test_tiny_trees(n_leaves: int) -> None:
    forest = bitvec.convert(drawn_tree(np.random.default_rng(2), n_leaves, KERNELS[:1], 1))
    X = np.linspace(-3, 3, 50)[:, None]
    np.testing.assert_array_equal(bitvec.compile(forest).raw(X), reference.raw(forest, X))


def test_what_the_walk_does_not_hold_is_left_to_the_reference() -> None:
    forest = bitvec.convert(drawn_tree(np.random.default_rng(3), 20, KERNELS[:2], 2))
    v = forest.leaves.v.copy()
    v[0, 0] = np.inf
    forest = replace(forest, leaves=replace(forest.leaves, v=v))
    predictor = bitvec.compile(forest, engine="numba")
    assert predictor.info()["soft_kernel"] == "reference"
    X = np.random.default_rng(4).normal(size=(40, 2))
    np.testing.assert_array_equal(predictor.raw(X), reference.raw(forest, X))

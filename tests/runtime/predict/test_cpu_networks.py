"""Compiled networks have the bits of the layers, and stand in front of the engine's tests."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import bitvec
from bitvec.converters.native.e2edt import from_e2edt
from bitvec.core.feature_maps import (
    Concatenate,
    Conv2d,
    Flatten,
    Identity,
    Layers,
    Linear,
    MaxPool2d,
)
from bitvec.core.feature_maps.layers import ReLU
from bitvec.runtime.predict.cpu.layer_kernels import ROWS, compiled

SHAPE = (2, 9, 8)
N = 2 * 9 * 8


def image_network(rng, dtype, stride, padding, pool, biased=True):
    conv = rng.normal(size=(3, 2, 3, 2)).astype(dtype)
    bias = rng.normal(size=3).astype(dtype) if biased else None
    layers = [Conv2d(conv, bias, stride, padding), ReLU(), pool, Flatten()]
    n_flat = Layers(tuple(layers), SHAPE).n_features
    head = rng.normal(size=(5, n_flat)).astype(dtype)
    return Layers((*layers, Linear(head), ReLU()), SHAPE)


def hostile_rows(rng, n, dtype):
    X = rng.normal(size=(n, N)).astype(dtype)
    X[:, 7] = 0
    if n > 4:
        X[1, :30], X[2, 5], X[3, 9], X[4] = np.nan, np.inf, -np.inf, -0.0
    return X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("stride", "padding"), list(product([(1, 1), (2, 1), (1, 3)], [(0, 0), (1, 2)]))
)
def test_compiled_layers_have_the_bits_of_the_layers(dtype, stride, padding):
    rng = np.random.default_rng(0)
    for pool in (MaxPool2d((2, 2)), MaxPool2d((2, 2), (1, 1), (1, 1)), MaxPool2d((1, 2), (2, 1))):
        for biased in (True, False):
            phi = image_network(rng, dtype, stride, padding, pool, biased)
            for n in (0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS):
                X = hostile_rows(rng, n, dtype)
                found = compiled(phi, np.dtype(dtype))(X)
                assert found.dtype == dtype
                assert np.array_equal(found, phi(X), equal_nan=True)


def test_float32_weights_are_read_exactly_by_rows_of_float64():
    rng = np.random.default_rng(1)
    phi = image_network(rng, np.float32, (1, 1), (0, 0), MaxPool2d((2, 2)))
    X = hostile_rows(rng, 40, np.float64)
    assert np.array_equal(compiled(phi, np.dtype(np.float64))(X), phi(X), equal_nan=True)


def test_joined_networks_and_maps_that_are_none_are_computed_side_by_side():
    rng = np.random.default_rng(2)
    parts = (
        Identity(N),
        image_network(rng, np.float64, (1, 1), (1, 1), MaxPool2d((2, 2))),
        Layers((Linear(rng.normal(size=(4, N)), rng.normal(size=4)),)),
    )
    phi = Concatenate(parts)
    X = hostile_rows(rng, 70, np.float64)
    assert np.array_equal(compiled(phi, np.dtype(np.float64))(X), phi(X), equal_nan=True)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_tree_of_networks_is_the_reference_bit_for_bit(n_jobs):
    rng = np.random.default_rng(3)
    phi = [image_network(rng, np.float64, (1, 1), (0, 0), MaxPool2d((2, 2))) for _ in range(3)]
    tree = from_e2edt(
        rng.normal(size=(3, 5)), rng.normal(size=3), left=[1, -1, -3], right=[2, -2, -4],
        phi=phi, pi=np.eye(4), gamma=1.0,
    )  # fmt: skip
    forest = bitvec.convert(tree)
    X = rng.normal(size=(600, N))
    ours = bitvec.compile(forest, n_jobs=n_jobs)
    reference = bitvec.compile(forest, engine="reference")
    assert ours.engine.name == "numba"
    assert np.array_equal(ours.apply(X), reference.apply(X))
    assert np.array_equal(ours.raw(X), reference.raw(X))
    assert len(np.unique(ours.apply(X))) > 1


@pytest.mark.parametrize("mapped", [True, False])
def test_what_tests_read_is_what_the_reference_says(mapped):
    from bitvec.core import reference
    from bitvec.runtime.predict.cpu.layer_kernels import columns

    rng = np.random.default_rng(4)
    phi = image_network(rng, np.float64, (1, 1), (0, 0), MaxPool2d((2, 2))) if mapped else None
    tree = from_e2edt(
        rng.normal(size=(1, 5 if mapped else N)), rng.normal(size=1), left=[-1], right=[-2],
        pi=np.eye(2), gamma=1.0, **({"phi": phi} if mapped else {}),
    )  # fmt: skip
    forest = bitvec.convert(tree)
    for X in (hostile_rows(rng, 40, np.float32), np.asfortranarray(hostile_rows(rng, 40, float))):
        found = columns(forest, X)
        assert np.array_equal(found, reference.columns(forest, X), equal_nan=True)

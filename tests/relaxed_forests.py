"""Small forests of every kind of node, leaf and map, relaxed, with rows that have holes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bitvec.core.feature_maps import Concatenate, Layers, Linear, ReLU, StackedForest
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import Kind, MissingRule, axis_aligned, set_bits

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS, Relaxation  # noqa: E402
from bitvec.runtime.train.relax.torch_map import TorchMap  # noqa: E402

STEPS = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
RELAXED = [
    *RELAXATIONS.values(),
    Relaxation("smooth_step", "softmax", "ternary_per_depth"),
    Relaxation("relu_squared", "index_sparsemax"),
]


def axis(n_outputs=2):
    """Return two ragged trees over four columns, of four leaves and of one."""
    rng = np.random.default_rng(0)
    S = np.eye(4)[[0, 2, 3]]
    tree = Forest.from_matrices(S, 0.3 * rng.normal(size=3), STEPS, rng.normal(size=(4, n_outputs)))
    return tree.take([0, 0])


def missing():
    forest = axis()
    rules = np.array([MissingRule.NAN, MissingRule.NAN_OR_ZERO, MissingRule.NAN_OR_SENTINEL] * 2)
    tests = replace(forest.tests, missing_rule=rules.astype(forest.tests.missing_rule.dtype))
    return replace(forest, tests=tests, inputs=Inputs(4, missing_sentinel=-9.0))


def categories():
    forest, kinds = axis(), np.array([Kind.SET, Kind.EQUAL, Kind.MARGIN])
    ptr, words = set_bits([np.array([0, 3]), np.array([], int), np.array([], int)])
    tests = axis_aligned(
        [0, 2, 3], [0.0, 1.0, 0.2], kind=kinds, set_ptr=ptr, set_words=words, missing_right=True
    )
    tree = replace(forest.take([0]), tests=tests)
    return tree.take([0, 0])


def oblique():
    rng = np.random.default_rng(1)
    tree = Forest.from_matrices(
        rng.normal(size=(3, 4)), 0.3 * rng.normal(size=3), STEPS, rng.normal(size=(4, 2))
    )
    return tree.take([0, 0])


def linear():
    forest, rng = axis(1), np.random.default_rng(2)
    ptr = np.arange(forest.n_leaves + 1) * 2
    column = np.tile(np.array([1, 3], np.int32), forest.n_leaves)
    terms = LinearTerms(
        ptr, column, rng.normal(size=(ptr[-1], 1)), rng.normal(size=(forest.n_leaves, 1))
    )
    return replace(forest, leaves=Leaves(forest.leaves.v, linear=terms))


def network():
    rng = np.random.default_rng(3)
    layers = Linear(rng.normal(size=(3, 4)).astype(np.float64)), ReLU()
    return Layers((*layers, Linear(rng.normal(size=(2, 3)))))


def mapped():
    torch.manual_seed(0)
    own = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh())
    return replace(axis(), feature_map=Concatenate((network(), TorchMap(own, 4, 2))))


def stacked():
    first = axis()
    wide = Forest.from_matrices(np.eye(12)[[0, 5, 11]], [0.1, 0.5, 0.4], STEPS, np.arange(4.0))
    return replace(wide, inputs=Inputs(4), feature_map=StackedForest(first))


FORESTS = {
    "axis": (axis, ("b", "v")),
    "axis that tilts": (axis, ("S", "b", "v", "base_score")),
    "categories": (categories, ("b", "v")),
    "missing": (missing, ("b", "v")),
    "missing that tilts": (missing, ("S", "b", "v")),
    "oblique": (oblique, {"S": {"nodes": [0]}, "v": {"leaves": [1]}, "b": "all"}),
    "linear leaves": (linear, ("S", "b", "v")),
    "fixed map": (mapped, ("b", "v")),
    "learned map": (mapped, ("phi", "S", "b", "v")),
    "stacked": (stacked, ("phi", "b", "v")),
}


def some_rows(n_rows=12, holes=True):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, 4))
    if holes:
        X[rng.random(X.shape) < 0.1] = np.nan
        X[0, 0], X[1, 2], X[2, 0], X[3, 2], X[4, 2] = 0.0, -9.0, np.inf, 0.0, 1.0
        X[5:, 0] = np.arange(len(X) - 5) % 5
    return X


def soft(kind, relaxation, *, dtype=torch.float64, **options):
    make, trainable = FORESTS[kind]
    module = SoftForest.from_forest(
        make(), relaxation, trainable=trainable, gamma=0.7, dtype=dtype, **options
    )
    return module.calibrate(some_rows(200))


def close(got, expected, dtype=torch.float64):
    tolerance = 1e-11 if dtype == torch.float64 else 1e-6
    finite = torch.where(expected.isfinite(), expected, 0.0)
    size = max(1.0, float(finite.detach().abs().max()))
    return torch.allclose(got, expected, rtol=tolerance, atol=tolerance * size, equal_nan=True)


CASES = [
    pytest.param(kind, relaxation, marks=() if place == number % len(FORESTS) else pytest.mark.full)
    for number, relaxation in enumerate(RELAXED)
    for place, kind in enumerate(FORESTS)
]
"""Every relaxation of one kind of forest, kinds in turn; all pairs in the long run."""

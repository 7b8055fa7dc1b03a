"""Rows on a threshold: soft tests tend to the hard ones for them, too, and hard exits are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Relation

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import Relaxation, SoftForest  # noqa: E402
from bitvec.runtime.train.relax.harden import harden  # noqa: E402
from bitvec.runtime.train.relax.relaxations import LEGAL  # noqa: E402

EVERY = [
    Relaxation(gate, leaf_map, score)
    for (leaf_map, score), gates in LEGAL.items()
    for gate in gates
]
STEEP = 1e12
"""Steepness at which no tie, and no gap of float32's rounding, is soft any more."""


def integer_tree(rng, dtype, *, wide=False):
    """A tree of three tests of whole numbers, "<" and "<=", and rows of which most sit on one."""
    S = np.eye(3)[rng.integers(0, 3, 3)]
    if wide:
        S[0] = [1, -2, 1]
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    made = Forest.from_matrices(
        S.astype(dtype), rng.integers(-2, 3, 3).astype(dtype), B, rng.normal(size=(4, 2))
    )
    relation = rng.choice([Relation.GREATER, Relation.GREATER_EQUAL], 3).astype(np.uint8)
    tests = replace(made.tests, relation=relation)
    return replace(made, tests=tests), rng.integers(-3, 4, (60, 3)).astype(dtype)


def exits(forest, X):
    """Return the hard memberships of the reference, (batch, n_leaves)."""
    leaf = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    u = np.zeros((len(X), forest.n_leaves))
    np.put_along_axis(u, leaf, 1.0, axis=1)
    return u


@pytest.mark.parametrize(
    "kind", EVERY, ids=lambda kind: f"{kind.gate}-{kind.leaf_map}-{kind.score}"
)
@settings(max_examples=4)
@given(
    st.integers(0, 2**16),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([(), ("b", "v"), ("S", "b", "v")]),
    st.booleans(),
    st.booleans(),
)
def test_soft_answers_tend_to_the_hard_ones_on_tied_rows(kind, seed, dtype, trainable, own, wide):
    forest, X = integer_tree(np.random.default_rng(seed), dtype, wide=wide)
    module = SoftForest.from_forest(forest, kind, trainable=trainable, gamma=STEEP)
    if own or wide:  # of several columns only rows tell how near a value comes to b
        module.calibrate(X)
    # Maps end in a division or a subtraction of scores.
    assert np.allclose(module.memberships(X).detach().numpy(), exits(forest, X), atol=1e-5)


@settings(max_examples=20)
@given(
    st.integers(0, 2**16),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([("b", "v"), ("S", "b", "v"), {"S": {"nodes": [0]}, "b": {"nodes": [0, 1]}}]),
    st.booleans(),
)
def test_straight_through_is_the_hard_tree_on_tied_rows(seed, dtype, trainable, calibrated):
    forest, X = integer_tree(np.random.default_rng(seed), dtype, wide=True)
    module = SoftForest.from_forest(forest, "straight_through", trainable=trainable)
    torch.manual_seed(seed)
    if calibrated:
        module.calibrate(X)
    # Directions in units of a measured margin are rounded in float32: rows that tie with a moved
    # threshold there may lie a rounding beside the hardened one.
    rounded = calibrated and "S" in trainable
    for _ in range(1 if rounded else 3):
        hard = harden(module)
        expected = exits(hard, X)
        assert np.array_equal(module.memberships(X).detach().numpy(), expected)
        leaf = reference.exit_leaves(hard, X) + hard.bitvectors.leaf_ptr[:-1]
        assert np.array_equal(module.exit_leaves(X).numpy().T, leaf)
        with torch.no_grad():  # a whole margin's way for thresholds, which then tie elsewhere
            unit = torch.tensor(module.scaling.margin, dtype=module.dtype)
            module.b += torch.round(torch.randn(3)) / unit


def test_a_soft_threshold_is_halfway_between_tied_rows_and_the_nearest_on_the_other_side():
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    stump = Forest.from_matrices([[1.0]], [3.0], [[0], [1]], [0.0, 1.0])
    for relation, halfway in ((Relation.GREATER, 3.5), (Relation.GREATER_EQUAL, 2.0)):
        tests = replace(stump.tests, relation=np.array([relation], np.uint8))
        module = SoftForest.from_forest(replace(stump, tests=tests), trainable=("b",))
        module.calibrate(X)
        assert module([[halfway]]).item() == pytest.approx(0.5)
        assert harden(module).tests.b[0] == 3.0
        with torch.no_grad():
            module.b += 0.25 / module.scaling.margin[0]
        assert harden(module).tests.b[0] == pytest.approx(halfway + 0.25)

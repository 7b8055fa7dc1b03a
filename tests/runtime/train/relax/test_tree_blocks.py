"""Trees in runs, rows in pieces, backward passes that compute again: the same numbers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import forests, rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, block_scores  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)
RELAXATIONS = ["sigmoid", "smooth_step", "kernel", "straight_through", "softmax", "entmax15"]


def gradients(module, X):
    """Return scores and gradients of one loss."""
    scores = module(X)
    weight = torch.tensor(np.random.default_rng(0).normal(size=scores.shape))
    moving = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad((scores * weight).sum(), moving, allow_unused=True)
    return [scores, *(g if g is not None else torch.zeros(()) for g in found)]


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        size = max(1.0, float(a.detach().abs().max())) if a.numel() else 1.0
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-9 * size)  # sums in another order


@given(st.data(), st.sampled_from(RELAXATIONS), st.sampled_from([1, 2]))
def test_chunks_of_trees_and_of_rows_change_nothing(data, relaxation, chunk):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=16, max_trees=5))
    # Of moderate size: at 1e300 the last bits of a product decide a share.
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = rng.normal(size=(data.draw(st.integers(1, 12)), forest.n_features))
    X[rng.random(X.shape) < 0.1] = np.nan
    found = []
    for tree_chunk in (None, chunk):
        module = SoftForest.from_forest(
            forest,
            relaxation,
            trainable=("S", "b", "v", "r", "base_score"),
            gamma=1.5,
            dtype=torch.float64,
            tree_chunk=tree_chunk,
        ).calibrate(X)
        with pytest.MonkeyPatch.context() as patch:
            if tree_chunk is not None:
                patch.setattr(block_scores, "FEWEST_ROWS", 3)
                patch.setattr(block_scores, "CACHED_PAIRS", 1)
            found.append(gradients(module, X))
        u = module.memberships(X).detach()
        exits = module.exit_leaves(X).numpy().T
        assert u.shape == (len(X), forest.n_leaves)
        assert np.all((exits >= forest.bitvectors.leaf_ptr[:-1]) & (exits < forest.n_leaves))
    assert_same(*found)


def test_blocks_cover_the_forest():
    B = [[0, 1], [1, 0], [1, 1]]
    tree = Forest.from_matrices(np.eye(2), [0.1, 0.2], B, [1.0, 2.0, 3.0])
    forest = tree.take([0] * 7)
    for tree_chunk, n_blocks in ((3, 3), (7, 1), (100, 1), (None, 1)):
        blocks = SoftForest.from_forest(forest, tree_chunk=tree_chunk).blocks()
        assert len(blocks) == n_blocks
        assert [b.trees.start for b in blocks[1:]] == [b.trees.stop for b in blocks[:-1]]
        assert (blocks[0].nodes.start, blocks[-1].nodes.stop) == (0, 14)
        assert (blocks[0].leaves.start, blocks[-1].leaves.stop) == (0, 21)


def test_an_infinite_leaf_that_is_not_reached_adds_nothing():
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [[np.inf, 1.0], [2.0, 3.0]])
    module = SoftForest.from_forest(forest, "smooth_step", gamma=100.0, trainable=("b",))
    X = np.array([[9.0, 0.0], [-9.0, 0.0], [0.5, 0.0]])
    # A row on the threshold is a little nearer to the side that it comes to.
    expected = [[2.0, 3.0], [np.inf, 1.0], [np.inf, pytest.approx(2.0, abs=1e-4)]]
    for routing in ("dense", "sparse"):
        module.routing = routing
        assert module(X).tolist() == expected
    assert module.hard(X[:2]).tolist() == expected[:2]


def test_no_rows_give_no_scores():
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [1.0, 2.0])
    for relaxation in [*RELAXATIONS, "sparsemax", "index_sparsemax"]:
        for routing in ("auto", "sparse") if relaxation == "smooth_step" else ("auto",):
            module = SoftForest.from_forest(forest, relaxation, routing=routing)
            assert module(np.zeros((0, 2))).shape == (0, 1)
            assert module.memberships(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("relaxation", [*RELAXATIONS, "index_sparsemax"])
def test_trees_of_one_leaf_and_forests_without_nodes_are_their_leaves(relaxation):
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [1.0, 2.0])
    leaf = Forest.from_matrices(np.zeros((0, 2)), [], np.zeros((1, 0)), [5.0])
    assert SoftForest.from_forest(leaf, relaxation)(np.ones((3, 2))).tolist() == [[5.0]] * 3
    module = SoftForest.from_forest(stump, relaxation, gamma=1e6)
    assert np.allclose(module([[0.9, 0.0]]).detach(), 2.0)


def test_a_chunk_of_no_trees_is_refused():
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [1.0, 2.0])
    with pytest.raises(InputError, match="`tree_chunk` must be a whole number from 1"):
        SoftForest.from_forest(stump, tree_chunk=0)


@given(st.data())
def test_hard_scores_are_the_forests_own(data):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=16, max_trees=5))
    X = data.draw(rows(forest))
    module = SoftForest.from_forest(forest, trainable=(), dtype=torch.float64, tree_chunk=1)
    # The leaves in float64, where the reference adds in the forest's output dtype.
    assert np.allclose(module.hard(X).detach(), reference.raw(forest, X), rtol=1e-5, atol=1e-5)


PEAK = """
import resource
import numpy as np, torch
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output
from bitvec.runtime.train.relax import SoftForest
from bitvec.core.structure import from_children

T, n = 16, 2**11 - 1
at, tree = np.arange(n), np.arange(T)[:, None]
def child(k):
    return np.where(k < n, tree * n + k, ~(tree * (n + 1) + k - n)).ravel()
B = from_children(child(2 * at + 1), child(2 * at + 2), np.arange(T) * n)
rng = np.random.default_rng(0)
forest = Forest(
    axis_aligned(rng.integers(0, 8, B.n_nodes), rng.normal(size=B.n_nodes).astype(np.float32)), B,
    Leaves(rng.normal(size=(B.n_leaves, 1)).astype(np.float32)), Output(1, np.dtype(np.float32)),
    Inputs(8),
)
module = SoftForest.from_forest(forest)
rows = module.prepare(rng.normal(size=(2048, 8)).astype(np.float32))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
module(rows).square().mean().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_forest():
    if not sys.platform.startswith("linux"):
        pytest.skip("ru_maxrss is in KiB on Linux only")
    command = [sys.executable, "-c", PEAK]
    peak = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    # One float32 for each of 16 trees, 2047 nodes and 2048 rows is 268 MB, of which the dense form
    # and a graph of the recursion hold several.
    assert peak < 128 * 1024

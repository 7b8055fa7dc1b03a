"""Laws of leaf vectors as shares: exact again from a byte, and labels that no sum hides."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Aggregate, Output
from bitvec.runtime.export.c import compiled as compiling
from bitvec.runtime.export.c import to_c
from bitvec.runtime.export.c.compiled import CompiledHeader
from bitvec.runtime.export.c.leaf_shares import leaf_shares

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in compiling.COMPILERS), reason="no C compiler"
)


@pytest.mark.parametrize("largest", [31, 128, 254, 255])
def test_every_share_is_exact_again(largest):
    n = np.arange(1, largest + 1)[:, None]
    c = np.minimum(np.arange(largest + 1), n)
    share = np.rint(largest * (c / n)).astype(int)
    assert share.max() == largest
    assert np.array_equal((share * n + largest // 2) // largest, c)


def shares_of(random: np.random.Generator, n: int, n_classes: int, largest: int) -> np.ndarray:
    """Draw vectors of one row, of few, of as many as a byte holds, and some of more."""
    vectors = []
    for _ in range(n):
        likely = [1, 2, 3, 7, largest - 1, largest]
        rows = int(random.choice(likely)) if random.random() < 0.97 else 257
        counts = random.multinomial(rows, random.dirichlet(np.full(n_classes, 2.0)))
        vectors.append(counts / rows)
    return np.array(vectors)


def stumps(vectors: np.ndarray, n_trees: int) -> Forest:
    """Return trees of one node, each of a column of its own, which add shares of classes."""
    one = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], vectors[:2])
    many = one.take([0] * n_trees)
    tests = axis_aligned(np.arange(n_trees), np.full(n_trees, 0.5, np.float32))
    output = Output(
        vectors.shape[1],
        np.dtype(np.float64),
        aggregate=Aggregate.MEAN,
        classes=(np.arange(vectors.shape[1]),),
    )
    return replace(many, tests=tests, leaves=Leaves(vectors), output=output, inputs=Inputs(n_trees))


@needs_compiler
@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize(
    ("n_trees", "n_classes"),
    [(1, 2), (2, 3), (5, 4), (8, 5), (20, 10), (31, 7), (257, 6), (300, 6), (40, 32)],
)
def test_labels_and_raw_scores_are_the_references(n_trees, n_classes, finite):
    random = np.random.default_rng(n_trees)
    vectors = shares_of(random, 2 * n_trees, n_classes, (1 << 16) // max(n_trees, 256) - 1)
    if n_trees > 2:  # pairs of trees whose classes are exchanged: many rows are tied, or nearly
        pairs = 4 * (n_trees // 4)
        vectors[pairs // 2 : pairs] = np.roll(vectors[: pairs // 2], 1, axis=1)
    forest = stumps(vectors, n_trees)
    X = (random.random((200, n_trees)) < random.random((200, 1))).astype(float)
    half = n_trees // 4
    X[:100, half : 2 * half] = X[:100, :half]
    source = to_c(forest, form="levels", finite=finite)
    assert "_leaf_share[" in source.text
    compare(forest, source, X)


@needs_compiler
@pytest.mark.parametrize(
    ("n_trees", "largest", "n_classes"),
    [*((256, 255, k) for k in (2, 3, 4, 5, 6)), (257, 254, 4)],
)
def test_sums_of_one_class_fill_the_lanes_and_no_more(n_trees, largest, n_classes):
    vectors = np.tile(np.eye(n_classes)[0], (2 * n_trees, 1))
    vectors[1::2] = np.eye(n_classes)[n_classes - 1]
    shares = leaf_shares(vectors, n_trees)
    assert shares is not None
    assert shares.total == n_trees * largest < 1 << 16
    X = np.arange(n_trees) < np.array([0, 1, n_trees // 2, n_trees // 2 + 1, n_trees])[:, None]
    forest = stumps(vectors, n_trees)
    compare(forest, to_c(forest, form="levels", finite=True), X.astype(float))


def compare(forest: Forest, source: object, X: np.ndarray) -> None:
    engine = CompiledHeader(source)
    raw = reference.raw(forest, X)
    assert np.array_equal(engine.raw(X), raw)
    assert np.array_equal(engine.predict(X)[:, 0], transforms.predictions(forest.output, raw))


def test_numbers_that_are_no_shares_are_kept_otherwise():
    random = np.random.default_rng(0)
    assert leaf_shares(random.random((40, 3)), 4) is None
    assert leaf_shares(np.full((40, 3), 2.0), 4) is None
    assert leaf_shares(np.full((40, 3), -0.0), 4) is None
    assert leaf_shares(np.ones((40, 1)), 4) is None

"""The worked example of the bitvector paper's Fig. 1: five tests, six leaves, five rows by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.core import matrices, reference
from bitvec.core.forest import Forest

S = np.zeros((5, 4))
S[range(5), [0, 1, 2, 3, 0]] = 1
B = np.array(
    [
        [0, 0, 1, 0, 1],
        [0, 0, 1, 1, 0],
        [0, 0, 1, 1, 1],
        [0, 1, 1, 1, 1],
        [1, 1, 0, 1, 1],
        [1, 1, 1, 1, 1],
    ]
)
D = np.array(
    [
        [-1, -1, 0, -1, 0],
        [-1, -1, 0, +1, -1],
        [-1, -1, 0, +1, +1],
        [-1, +1, 0, 0, 0],
        [+1, 0, -1, 0, 0],
        [+1, 0, +1, 0, 0],
    ]
)
ROWS = [
    ([0.7, -1, 5, 0], [0, 0, 1, 1, 1], [2, 2, 3, 3, 2, 3], 3),
    ([2, 0, 2, 0], [1, 0, 0, 1, 1], [1, 1, 2, 2, 3, 3], 5),
    ([0.7, 1, 0, 0], [0, 1, 0, 1, 1], [1, 1, 2, 3, 3, 3], 4),
    ([-9, -9, -9, -9], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], 1),
    ([9, 9, 9, 9], [1, 1, 1, 1, 1], [2, 2, 3, 4, 4, 5], 6),
]


@pytest.fixture
def tree():
    return Forest.from_matrices(S, [1, 0, 2, -1, 0.5], B, [10, 20, 30, 40, 50, 60])


def test_the_matrices_are_those_of_the_paper(tree):
    assert np.array_equal(tree.S, S)
    assert np.array_equal(tree.B, B)
    assert np.array_equal(matrices.ternary(tree.bitvectors), D)


@pytest.mark.parametrize(("x", "h", "scores", "leaf"), ROWS)
def test_a_row_exits_where_the_paper_says(tree, x, h, scores, leaf):
    X = np.array([x], float)
    assert reference.hard_tests(tree, X)[0].tolist() == [bool(bit) for bit in h]
    assert matrices.scores(tree.bitvectors, np.array([h], bool))[0].tolist() == scores
    assert reference.exit_leaves(tree, X)[0, 0] == leaf - 1
    assert reference.raw(tree, X)[0, 0] == 10 * leaf

"""Laws of B built from child links or a dense matrix, and what is refused."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bitvectors

from bitvec.core import matrices, structure
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.matrices import from_dense
from bitvec.core.node_tests import from_rows
from bitvec.core.structure import Bitvectors, Reordering, arrange, from_children
from bitvec.errors import InvalidForestError


def complete(depth: int) -> Bitvectors:
    """A complete tree of 2**depth leaves, in positions of a heap."""
    n = 2 ** (depth + 1) - 1
    position = np.arange(n)
    inner = position < n // 2
    return from_children(
        np.where(inner, 2 * position + 1, -1), np.where(inner, 2 * position + 2, -1), [0]
    )


def intervals(B: Bitvectors) -> list[tuple[int, int, int]]:
    return list(zip(B.lo.tolist(), B.mid.tolist(), B.hi.tolist(), strict=True))


def test_nodes_come_breadth_first_and_leaves_from_left_to_right() -> None:
    #        3
    #     1     4         positions 0 and 5 are leaves of 1, 2 and 6 those of 4
    B, order = arrange([-1, 0, -1, 1, 2, -1, -1], [-1, 5, -1, 4, 6, -1, -1], [3])
    assert intervals(B) == [(0, 2, 4), (0, 1, 2), (2, 3, 4)]
    assert order.node.tolist() == [3, 1, 4]
    assert order.leaf.tolist() == [0, 5, 2, 6]


def test_a_negative_root_is_a_tree_of_the_leaf_that_it_names() -> None:
    B, order = arrange([-2], [-3], [~0, 0, ~7])
    assert B.leaf_ptr.tolist() == [0, 1, 3, 4]
    assert intervals(B) == [(0, 1, 2)]
    assert (~order.leaf).tolist() == [0, 1, 2, 7]


def test_positions_that_no_root_leads_to_are_left_out() -> None:
    B, order = arrange([1, -1, -1, 3], [2, -1, -1, 3], [0])
    assert B.n_leaves == 2
    assert order.leaf.tolist() == [1, 2]


def test_no_trees_and_no_nodes_are_legal() -> None:
    for left, roots, n_trees in (([], [], 0), ([-1, -1], [], 0), ([-1, -1], [1, 0], 2)):
        B, order = arrange(left, left, roots)
        assert (B.n_trees, B.n_nodes, B.n_leaves) == (n_trees, 0, n_trees)
        assert isinstance(order, Reordering)
        assert order.leaf.tolist() == roots


SHARED = {
    "both children of a stump": ([1, -1], [1, -1], [0]),
    "two levels apart": ([1, 2, -1, -1], [2, 3, -1, -1], [0]),
    "two nodes of one level": ([1, 3, 3, -1, -1], [2, 4, 4, -1, -1], [0]),
    "two trees": ([2, 2, -1, -1], [3, 3, -1, -1], [0, 1]),
    "one root twice": ([-1], [-1], [0, 0]),
    "a root inside a tree": ([1, -1, -1], [2, -1, -1], [0, 2]),
    "a node that is its own child": ([0, -1], [1, -1], [0]),
    "a cycle": ([1, 0, -1], [2, 2, -1], [0]),
    "levels that double": (
        [*range(1, 64), -1],
        [*range(1, 64), -1],
        [0],
    ),
}


@pytest.mark.parametrize(("left", "right", "roots"), SHARED.values(), ids=SHARED)
def test_a_position_with_two_parents_is_refused(
    left: list[int], right: list[int], roots: list[int]
) -> None:
    tracemalloc.start()
    with pytest.raises(InvalidForestError, match="one parent"):
        arrange(left, right, roots)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@given(bitvectors(), st.data())
def test_any_child_link_bent_to_another_node_is_refused(B: Bitvectors, data: st.DataObject) -> None:
    left, right = structure.children(B)
    nodes = [node for node in range(B.n_nodes) if max(left[node], right[node]) >= 0]
    if not nodes:
        return
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    side = data.draw(st.sampled_from([left, right]))
    node = data.draw(st.sampled_from(nodes))
    target = data.draw(st.integers(0, B.n_nodes - 1))
    if side[node] == target:
        return
    # The target keeps its own parent, unless it stood below the link that is bent.
    below = set()
    stack = [int(side[node])]
    while stack:
        at = stack.pop()
        if at >= 0:
            below.add(at)
            stack += [int(left[at]), int(right[at])]
    side[node] = target
    if target in below:
        assert arrange(left, right, roots)[0].n_leaves < B.n_leaves
    else:
        with pytest.raises(InvalidForestError, match="one parent"):
            arrange(left, right, roots)


@pytest.mark.parametrize(
    ("left", "right", "roots", "name"),
    [
        ([3, -1, -1], [2, -1, -1], [0], "left"),
        ([1, -1, -1], [10**12, -1, -1], [0], "right"),
        ([1, -1, -1], [2, -1, -1], [3], "roots"),
        ([], [], [0], "roots"),
    ],
)
def test_links_beyond_the_arrays_are_refused(
    left: list[int], right: list[int], roots: list[int], name: str
) -> None:
    with pytest.raises(InvalidForestError, match=f"`{name}` must point below {len(left)}"):
        arrange(left, right, roots)


def test_sides_of_different_shapes_are_refused() -> None:
    for left, right in (([1, -1, -1], [2, -1]), ([[-1]], [[-1]])):
        with pytest.raises(InvalidForestError, match="one shape"):
            arrange(left, right, [0])


DENSE = {
    "one axis": ([1, 0], "two axes"),
    "as many leaves as nodes": ([[0, 1], [1, 0]], "one leaf more than nodes"),
    "zeros apart": ([[0, 0], [1, 0], [0, 1]], "one run of leaves"),
    "no zeros": ([[1], [1]], "breadth first"),
    "no right side": ([[0], [0]], "breadth first"),
    "a root that misses the first leaf": ([[1, 0], [0, 1], [1, 1]], "breadth first"),
    "one interval twice": ([[0, 0], [1, 1], [1, 1]], "breadth first"),
    "an element of -1": ([[0], [-1]], "must be 0 or 1"),
    "an element that is missing": ([[0], [np.nan]], "must be 0 or 1"),
    "children before their parent": ([[0, 0], [1, 0], [1, 1]], "breadth first"),
    "more nodes than open intervals": (
        [[0, 1, 0], [1, 0, 1], [1, 1, 1], [1, 1, 1]],
        "breadth first",
    ),
}


@pytest.mark.parametrize(("matrix", "message"), DENSE.values(), ids=DENSE)
def test_a_matrix_that_is_no_tree_is_refused(matrix: list, message: str) -> None:
    with pytest.raises(InvalidForestError, match=message):
        from_dense(matrix)


def test_the_matrix_of_a_single_leaf_has_no_columns() -> None:
    B = from_dense(np.zeros((1, 0)))
    assert (B.n_trees, B.n_leaves, B.n_nodes) == (1, 1, 0)
    assert matrices.dense(B).shape == (1, 0)


INTERVALS = {
    "empty left side": ([(0, 0, 2)], [0, 2], "0 <= lo < mid < hi"),
    "negative leaf": ([(-1, 1, 2)], [0, 2], "0 <= lo < mid < hi"),
    "more leaves than the tree": ([(0, 1, 3)], [0, 2], "must not exceed"),
    "root of some leaves": ([(0, 1, 2), (1, 2, 3)], [0, 3], "first node"),
    "overlap": ([(0, 1, 3), (0, 1, 3)], [0, 3], "breadth-first order"),
    "another order": ([(0, 2, 4), (2, 3, 4), (0, 1, 2)], [0, 4], "breadth-first order"),
    "too few nodes": ([(0, 1, 2)], [0, 3], r"shape \(2\)"),
    "a tree without leaves": ([], [0, 0], "at least one leaf"),
    "falling offsets": ([(0, 1, 2)], [0, 3, 2], "rise from 0"),
    "no offsets": ([], [], "first 0"),
}


@pytest.mark.parametrize(("rows", "leaf_ptr", "message"), INTERVALS.values(), ids=INTERVALS)
def test_intervals_that_are_no_trees_are_refused(
    rows: list[tuple[int, int, int]], leaf_ptr: list[int], message: str
) -> None:
    lo, mid, hi = np.array(rows, np.int32).reshape(-1, 3).T
    with pytest.raises(InvalidForestError, match=message):
        Bitvectors(lo, mid, hi, np.array(leaf_ptr, np.int64))


def test_views_that_would_be_huge_are_refused_before_memory_is_asked_for() -> None:
    B = complete(16)
    tracemalloc.start()
    for view in (matrices.dense, matrices.ternary):
        with pytest.raises(InvalidForestError, match=r"65536 leaves x 65535 nodes: use lo, mid"):
            view(B)
    with pytest.raises(InvalidForestError, match=r"65535 nodes x 1024 words: use lo, mid"):
        matrices.packed(B)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
    # The same calls answer where the result is small.
    small = complete(7)
    assert matrices.dense(small).shape == (128, 127)
    assert matrices.packed(small).shape == (127, 2)


def test_trees_are_taken_by_numbers_or_by_truth_values() -> None:
    stump = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1.0, 2.0])
    lo, mid, hi = (np.full(4, n, np.int32) for n in (0, 1, 2))
    forest = replace(
        stump,
        tests=from_rows(np.arange(5), np.zeros(4, np.int32), np.ones(4), np.full(4, 0.5)),
        bitvectors=Bitvectors(lo, mid, hi, np.arange(0, 9, 2)),
        leaves=Leaves(np.repeat(np.arange(4.0), 2)[:, None]),
    )
    for wanted, which in (
        ([1, 3], [1, 3]),
        ([3, 0], [-1, -4]),
        ([1, 3], [False, True, False, True]),
        ([], []),
        ([2], np.array([2], np.uint8)),
    ):
        assert forest.take(which).leaves.v[::2, 0].tolist() == wanted
    assert forest[-1].leaves.v[0, 0] == 3
    for wrong in (
        [4],
        [-5],
        np.array([2**64 - 1], np.uint64),
        [1.0],
        [True, False],
        ["1"],
        [[1]],
        [None],
    ):
        with pytest.raises(IndexError, match="whole numbers below 4, or 4 truth values"):
            forest.take(wrong)

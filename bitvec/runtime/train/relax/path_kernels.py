"""Soft answers of trees, and their gradients, a run of rows through one tree at a time.

How far rows reach the nodes of a tree stays in the nearest cache, and is found again in the
backward pass. The shares at nodes are kept for it where they are few, else found again, too.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, var-annotated, unreachable"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.train.relax.path_vectors import (
    LANES,
    add_leaf,
    carry_up,
    flow_of_leaf,
    take_turns,
    turn_by_column,
    turn_by_margin,
)

RUN, CACHED = 256, 1 << 16
"""Rows that pass through a tree together, at most and times its nodes."""
SIZE = 4
ONE = np.float32(1)


class Trees(NamedTuple):
    """Trees of a forest.

    Parameters
    ----------
    node_ptr, leaf_ptr : int64, (n_trees + 1,)
    left, right : int64, (n_nodes,)
        Children, each behind its parent; leaves as `~leaf`.
    feature : int64, (n_nodes,)
        The column that a node compares, or as `~place` where its margins are given.
    b, cut, inverse : F, (n_nodes,)
        Thresholds, how far soft ones lie below, and 1 over the margin scales.
    at_equal, missing : float32, (n_nodes,)
        What margins of 0 count as, and of missing values.
    output : int64, (n_leaves,)
        The output that each leaf adds to; empty where leaves are vectors.
    """

    node_ptr: Any
    leaf_ptr: Any
    left: Any
    right: Any
    feature: Any
    b: Any
    cut: Any
    inverse: Any
    at_equal: Any
    missing: Any
    output: Any


class Soft(NamedTuple):
    """Something soft to be answered: rows, and the numbers that move.

    Parameters
    ----------
    columns : F, (n_columns, batch)
        The batch is a whole number of vectors, here and below.
    margins : float32, (n_given, batch)
        Of nodes that compare no column; ± infinity is a turn that is taken.
    moved : float32, (n_nodes,)
        How far thresholds have moved, in margin scales.
    v : float32, (n_leaves, width)
    gamma : float32
    """

    columns: Any
    margins: Any
    moved: Any
    v: Any
    gamma: Any


class Room(NamedTuple):
    """Addresses of scratch for one tree: runs of float32, of its nodes and then of its leaves.

    Parameters
    ----------
    left, right : int
        Shares at each node, and
    reached, flow : int
        how far rows reach each node and leaf, and sums over the leaves there.
    step : int
        Bytes of a run.
    """

    left: Any
    right: Any
    reached: Any
    flow: Any
    step: Any


def scratch(size: int) -> Any:
    """Return what `Room` is made of, for trees of up to so many nodes; of fewer rows for more."""
    run = min(RUN, max(LANES, CACHED // (size + 1) // LANES * LANES))
    return np.empty((6 * size + 2, run), np.float32)


@inner
def _room(space):
    base, step = np.int64(space.ctypes.data), space.shape[1] * SIZE
    size = _size(space)
    return Room(
        base, base + size * step, base + 2 * size * step, base + (4 * size + 1) * step, step
    )


@inner
def _size(space):
    return (space.shape[0] - 2) // 6


@inner
def _below(trees, tree, child):
    """Return the place of a node or a leaf of a tree."""
    first, last = trees.node_ptr[tree], trees.node_ptr[tree + 1]
    return child - first if child >= 0 else last - first + ~child - trees.leaf_ptr[tree]


@inner
def _shares(room, kept, node, first, start):
    """Return where the shares at a node are: kept for all rows, or in the scratch."""
    if kept.shape[1] == 0:
        at = (node - first) * room.step
        return room.left + at, room.right + at
    base, batch = np.int64(kept.ctypes.data), kept.shape[2]
    left = base + (node * batch + start) * SIZE
    return left, left + kept.shape[1] * batch * SIZE


@inner
def _reach(trees, soft, tree, start, n, room, kept, is_kept):
    """Fill the shares at all nodes of a tree, and how far rows reach what is below them."""
    step, batch, first = room.step, soft.columns.shape[1], trees.node_ptr[tree]
    for node in range(first, trees.node_ptr[tree + 1]):
        here = room.reached + (node - first) * step
        left, right = _shares(room, kept, node, first, start)
        low = room.reached + _below(trees, tree, trees.left[node]) * step
        high = room.reached + _below(trees, tree, trees.right[node]) * step
        feature = trees.feature[node]
        if is_kept:
            take_turns(here, left, right, n, low, high)
            continue
        if feature < 0:
            margin = np.int64(soft.margins.ctypes.data) + (~feature * batch + start) * SIZE
            turn_by_margin(
                margin, trees.at_equal[node], soft.gamma, n, left, right, here, low, high
            )
            continue
        x = np.int64(soft.columns.ctypes.data) + (feature * batch + start) * soft.columns.itemsize
        turn_by_column(
            x,
            trees.b[node], trees.cut[node], trees.inverse[node],
            soft.moved[node], trees.at_equal[node], trees.missing[node], soft.gamma,
            n, left, right, here, low, high,
        )  # fmt: skip


@kernel
def fill_scores(trees, soft, first_row, last_row, space, kept, out):
    """Add what all trees answer to rows [first_row, last_row) to `out`.

    Parameters
    ----------
    space : float32
        Of `scratch`.
    kept : float32, (2, n_nodes, batch)
        Filled with the shares at nodes; without a node where they are not kept.
    out : float32, (n_outputs, batch)
    """
    room, root = _room(space), 2 * _size(space)
    base, batch, v = np.int64(out.ctypes.data), out.shape[1], soft.v
    for start in range(first_row, last_row, space.shape[1]):
        n = min(space.shape[1], last_row - start)
        for tree in range(trees.node_ptr.size - 1):
            space[root, :n] = ONE
            _reach(trees, soft, tree, start, n, room, kept, False)
            for leaf in range(trees.leaf_ptr[tree], trees.leaf_ptr[tree + 1]):
                share = room.reached + _below(trees, tree, ~leaf) * room.step
                for k in range(v.shape[1]):
                    o = trees.output[leaf] if trees.output.size else k
                    add_leaf(share, v[leaf, k], n, base + (o * batch + start) * SIZE)


@kernel
def fill_slopes(trees, soft, wanted, first_tree, last_tree, space, kept, b_slope, v_slope, m_slope):
    """Add to the gradients to what moves in trees [first_tree, last_tree).

    Parameters
    ----------
    wanted : float32, (n_outputs, batch)
        The gradient to what the trees answer.
    space, kept : float32
        See `fill_scores`, which filled what is kept.
    b_slope : float32, (n_nodes,)
    v_slope : float32, (n_leaves, width)
    m_slope : float32, (n_given, batch)
        The gradient to given margins, filled.
    """
    room, root = _room(space), 2 * _size(space)
    base, batch, v, step = np.int64(wanted.ctypes.data), wanted.shape[1], soft.v, room.step
    for tree in range(first_tree, last_tree):
        first, last = trees.node_ptr[tree], trees.node_ptr[tree + 1]
        for start in range(0, batch, space.shape[1]):
            n = min(space.shape[1], batch - start)
            space[root, :n] = ONE
            _reach(trees, soft, tree, start, n, room, kept, kept.shape[1] > 0)
            for leaf in range(trees.leaf_ptr[tree], trees.leaf_ptr[tree + 1]):
                at = _below(trees, tree, ~leaf) * step
                share, flow = room.reached + at, room.flow + at
                for k in range(v.shape[1]):
                    o = trees.output[leaf] if trees.output.size else k
                    own = base + (o * batch + start) * SIZE
                    v_slope[leaf, k] += flow_of_leaf(share, v[leaf, k], own, n, k == 0, flow)
            for node in range(last - 1, first - 1, -1):
                at, feature = (node - first) * step, trees.feature[node]
                low = room.flow + _below(trees, tree, trees.left[node]) * step
                high = room.flow + _below(trees, tree, trees.right[node]) * step
                slope = room.reached + at  # which is read no more
                if feature < 0:
                    slope = np.int64(m_slope.ctypes.data) + (~feature * batch + start) * SIZE
                left, right = _shares(room, kept, node, first, start)
                total = carry_up(low, high, left, right, soft.gamma, n, room.flow + at, slope)
                if feature >= 0:
                    b_slope[node] -= total

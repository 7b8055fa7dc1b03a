"""Child arrays of one tree: their checks, and the walk down from the root.

`left[i]` and `right[i]` are the children of node i: a node by its index, a leaf by `~leaf`, which
is negative. n nodes name the leaves 0 ... n, each once. The root is the node that is no child, at
any place; a tree of no nodes is leaf 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitvec.core.arrays import Array, ArrayLike, read_only, require
from bitvec.core.shape_annotations import Bool, Int64

Decision = Callable[[int, Int64[Array, " n"]], Bool[Array, " n"]]
"""A node and some rows, by number, to which of the rows go right."""


def checked_children(left: ArrayLike, right: ArrayLike) -> tuple[Array, Array]:
    """Return the children as read-only int64 arrays.

    Raises
    ------
    InvalidForestError
        If they do not span one tree.
    """
    left = read_only("left", left, np.int64, (None,))
    right = read_only("right", right, np.int64, (None,))
    n = left.size
    require(
        right.size == n,
        f"`left` and `right` must have one entry per node, got {n} and {right.size}.",
    )
    child = np.concatenate([left, right])
    require(
        child.size == 0 or (int(child.max()) < n and int(child.min()) >= ~n),
        f"`left` and `right` must name nodes 0 ... {n - 1} or leaves as ~leaf, of 0 ... {n}: "
        f"got {int(child.min()) if n else 0} ... {int(child.max()) if n else 0}.",
    )
    parents = np.bincount(child[child >= 0], minlength=n)
    require(
        np.all(parents <= 1),
        f"each node must have one parent, got node {int(parents.argmax()) if n else 0} with "
        f"{int(parents.max(initial=0))}.",
    )
    named = np.bincount(~child[child < 0], minlength=n + 1)
    require(
        n == 0 or np.all(named == 1),
        f"each of the {n + 1} leaves must be named once, as ~leaf, got leaf "
        f"{int(np.argmax(named != 1))} named {int(named[np.argmax(named != 1)])} times.",
    )
    _require_one_tree(left, right)
    return left, right


def _require_one_tree(left: Array, right: Array) -> None:
    """Check that every node hangs below the root; nodes have at most one parent here."""
    n = left.size
    above = np.arange(n)
    node = np.arange(n)
    for side in (left, right):
        inner = side >= 0
        above[side[inner]] = node[inner]
    top = root(left, right) if n else 0
    for _ in range(n.bit_length()):  # after k steps `above` is the ancestor 2**k levels up
        above = above[above]
    require(
        np.all(above == top),
        f"every node must hang below the root, got node "
        f"{int(np.argmax(above != top)) if n else 0} on or below a cycle.",
    )


def root(left: Int64[Array, " n"], right: Int64[Array, " n"]) -> int:
    """Return the node that is no child, or ~0 if there is no node."""
    if not left.size:
        return ~0
    is_child = np.zeros(left.size, bool)
    for side in (left, right):
        is_child[side[side >= 0]] = True
    return int(np.argmin(is_child))


def walk(
    left: Int64[Array, " n"], right: Int64[Array, " n"], n_rows: int, decide: Decision
) -> Int64[Array, " n_rows"]:
    """Return the leaf that each row reaches: the papers' recursion, on a stack of our own."""
    exits = np.zeros(n_rows, np.int64)
    todo = [(root(left, right), np.arange(n_rows))]
    while todo:
        at, rows = todo.pop()
        if at < 0:
            exits[rows] = ~at
        elif rows.size:
            goes_right = decide(at, rows)
            todo.append((int(left[at]), rows[~goes_right]))
            todo.append((int(right[at]), rows[goes_right]))
    return exits

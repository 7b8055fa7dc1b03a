"""B as three integers per node, and everything that follows from them.

Column j of B is all ones except zeros on the leaves of node j's left subtree, which is one
contiguous interval when leaves are numbered left to right. So a node is `lo < mid < hi`: its left
subtree holds the leaves [lo, mid) of its tree, its right subtree the leaves [mid, hi). B determines
the tree, so child arrays, leaf depths, decision vectors and packed words are all derived from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, ArrayLike, ranges, read_only, require, require_offsets
from bitvec.core.shape_annotations import Int32, Int64
from bitvec.errors import InvalidForestError


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Bitvectors:
    """The bitvectors of a forest, one interval triple per node; trees lie one after the other.

    Nodes are in breadth-first order within a tree (left child before right child, root first) and
    leaves are numbered from left to right. A tree of k leaves has k - 1 nodes.

    Parameters
    ----------
    lo, mid, hi : int32, (n_nodes,)
        Leaf intervals, counted within the node's own tree.
    leaf_ptr : int64, (n_trees + 1,)
        Where each tree's leaves begin in the forest's leaf arrays.

    Raises
    ------
    InvalidForestError
        If the intervals are not those of binary trees in this order.

    Notes
    -----
    Eq. (5) and the "bitvector" definition of Zhang, "Yet Another Representation of Binary Decision
    Trees" (2021); the interval form is QuickScorer's observation that each column is one run.
    """

    lo: Int32[Array, " n_nodes"]
    mid: Int32[Array, " n_nodes"]
    hi: Int32[Array, " n_nodes"]
    leaf_ptr: Int64[Array, " n_trees_plus_1"]

    def __post_init__(self) -> None:
        leaf_ptr = read_only("leaf_ptr", self.leaf_ptr, np.int64, (None,))
        require(leaf_ptr.size >= 1, "`leaf_ptr` must hold at least its first 0, got no elements.")
        require_offsets("leaf_ptr", leaf_ptr, int(leaf_ptr[-1]))
        leaves = np.diff(leaf_ptr)
        require(np.all(leaves >= 1), "each tree must have at least one leaf: see `leaf_ptr`.")
        require(np.all(leaves < 2**31), "a tree must have fewer than 2**31 leaves.")
        n_nodes = int(leaf_ptr[-1]) - (leaf_ptr.size - 1)
        object.__setattr__(self, "leaf_ptr", leaf_ptr)
        for name in ("lo", "mid", "hi"):
            array = read_only(name, getattr(self, name), np.int32, (n_nodes,))
            object.__setattr__(self, name, array)
        _check_intervals(self)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.leaf_ptr.size - 1

    @property
    def n_nodes(self) -> int:
        """Number of internal nodes of all trees."""
        return self.lo.size

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(self.leaf_ptr[-1])

    @property
    def node_ptr(self) -> Int64[Array, " n_trees_plus_1"]:
        """Offsets of each tree's nodes in the forest's node arrays."""
        return self.leaf_ptr - np.arange(self.leaf_ptr.size)

    @property
    def tree_of_node(self) -> Int64[Array, " n_nodes"]:
        """The tree that each node belongs to."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.node_ptr))

    def tree(self, index: int) -> Bitvectors:
        """Return the bitvectors of one tree."""
        first, last = self.node_ptr[index], self.node_ptr[index + 1]
        n_leaves = self.leaf_ptr[index + 1] - self.leaf_ptr[index]
        part = slice(int(first), int(last))
        return Bitvectors(
            self.lo[part], self.mid[part], self.hi[part], np.array([0, n_leaves], np.int64)
        )


def children(B: Bitvectors) -> tuple[Int64[Array, " n_nodes"], Int64[Array, " n_nodes"]]:
    """Return the left and the right child of each node.

    A child that is a node is its index in the forest's node arrays, a child that is a leaf is
    `~leaf` with `leaf` its index in the forest's leaf arrays (so negative).

    >>> B = from_children([1, -1], [-2, -3], [0])
    >>> [side.tolist() for side in children(B)]
    [[1, -1], [-3, -2]]
    """
    node_ptr, leaf_ptr = B.node_ptr, B.leaf_ptr
    tree = B.tree_of_node
    is_node = np.stack([B.mid - B.lo > 1, B.hi - B.mid > 1], axis=1)
    # Breadth-first order numbers the children of a tree's nodes 1, 2, 3 ... as they are met.
    met = np.cumsum(is_node.ravel()).reshape(is_node.shape)
    met_before = np.concatenate([[0], met[:, 1]])[node_ptr[:-1]]
    node = met - met_before[tree][:, None] + node_ptr[:-1][tree][:, None]
    leaf = np.stack([B.lo, B.mid], axis=1) + leaf_ptr[:-1][tree][:, None]
    child = np.where(is_node, node, ~leaf)
    return np.ascontiguousarray(child[:, 0]), np.ascontiguousarray(child[:, 1])


def _check_intervals(B: Bitvectors) -> None:
    lo, mid, hi = B.lo, B.mid, B.hi
    if not (np.all(lo < mid) and np.all(mid < hi) and np.all(lo >= 0)):
        raise InvalidForestError("each node must have 0 <= lo < mid < hi.")
    node_ptr = B.node_ptr
    n_leaves = np.diff(B.leaf_ptr)
    if not np.all(hi <= n_leaves[B.tree_of_node]):
        raise InvalidForestError("`hi` must not exceed the number of leaves of its tree.")
    roots = node_ptr[:-1][n_leaves > 1]
    if not (np.all(lo[roots] == 0) and np.all(hi[roots] == n_leaves[n_leaves > 1])):
        raise InvalidForestError("the first node of a tree must span all of its leaves.")
    # Each child that is a node must stand where breadth-first order puts it, with the interval
    # that its parent leaves it. With the counts this excludes overlaps, gaps and cycles.
    for child, first, last in zip(children(B), (lo, mid), (mid, hi), strict=True):
        parent = np.flatnonzero(child >= 0)
        child = child[parent]
        ends = node_ptr[1:][B.tree_of_node[parent]]
        if not (
            np.all(child < ends)
            and np.all(lo[child] == first[parent])
            and np.all(hi[child] == last[parent])
        ):
            raise InvalidForestError(
                "the intervals must be those of binary trees in breadth-first order, "
                "got nodes whose intervals overlap, leave gaps or stand in another order."
            )


@dataclass(frozen=True, slots=True, eq=False)
class Reordering:
    """Former positions of nodes and leaves, in the arrays that a forest was built from.

    `node[k]` is the position of the forest's node k, `leaf[k]` that of its leaf k.
    """

    node: Int64[Array, " n_nodes"]
    leaf: Int64[Array, " n_leaves"]


def from_children(left: ArrayLike, right: ArrayLike, roots: ArrayLike) -> Bitvectors:
    """Build the bitvectors from child arrays; see `arrange`, which also returns the new order."""
    return arrange(left, right, roots)[0]


def arrange(left: ArrayLike, right: ArrayLike, roots: ArrayLike) -> tuple[Bitvectors, Reordering]:
    """Number the nodes of trees breadth first and their leaves left to right.

    Parameters
    ----------
    left, right : integers, (n,)
        Children of each position, as positions in these same arrays; a position whose two children
        are negative is a leaf. A negative child of a position with one other child is the leaf
        that the value `~leaf` names: such a leaf stands in no position of its own.
    roots : integers, (n_trees,)
        The root of each tree; a negative root `~leaf` is a tree of that one leaf.

    Returns
    -------
    bitvectors, reordering
        `reordering.node` gives the position of each node; `reordering.leaf` the position of each
        leaf, or the negative value `~leaf` that named it.

    Raises
    ------
    InvalidForestError
        If a position is shared, out of range, or on a cycle.

    Notes
    -----
    Two sweeps over the levels of all trees at once: O(n), with one array operation per level.
    """
    left, right, roots = (np.asarray(a, dtype=np.int64) for a in (left, right, roots))
    n = left.size
    require(left.shape == right.shape == (n,), "`left` and `right` must have one shape (n,).")
    for name, side in (("left", left), ("right", right), ("roots", roots)):
        require(
            side.size == 0 or int(side.max()) < n,
            f"`{name}` must point below {n}, got {int(side.max()) if side.size else 0}: "
            "the model's child links are damaged.",
        )
    is_leaf_position = (left < 0) & (right < 0) & _stands_alone(left, right)
    levels: list[tuple[Array, Array, Array]] = []  # position or ~leaf, tree, is_node
    position, tree = roots, np.arange(roots.size)
    met = np.full(n, -1)
    while position.size:
        is_node = position >= 0
        _meet(met, position[is_node])
        is_node[is_node] = ~is_leaf_position[position[is_node]]
        levels.append((position, tree, is_node))
        parent = position[is_node]
        position = np.stack([left[parent], right[parent]], axis=1).ravel()
        tree = np.repeat(tree[is_node], 2)
    if not levels:
        empty = np.zeros(0, np.int32)
        none = np.zeros(0, np.int64)
        return Bitvectors(empty, empty, empty, np.zeros(1, np.int64)), Reordering(none, none)
    del met, is_leaf_position  # of a large forest, much of what this takes at its peak
    return _number(levels, roots.size)


def _meet(met: Int64[Array, " n"], position: Int64[Array, " members"]) -> None:
    """Note the positions of one level in `met`, none of which may have been met before."""
    member = np.arange(position.size)
    seen = bool(np.any(met[position] >= 0))
    met[position] = member
    # A position that stands twice in this level keeps the number of one member only.
    if seen or bool(np.any(met[position] != member)):
        raise InvalidForestError(
            "each node must have one parent, got a shared node or a cycle: "
            "the model's child links are damaged."
        )


def _stands_alone(left: Array, right: Array) -> Array:
    """Tell the positions that are leaves themselves from nodes whose two children are leaves.

    Both have two negative children; libraries mark a leaf by equal children (-1, -1), and two
    leaves of one node never bear the same name.
    """
    return left == right


def _number(
    levels: list[tuple[Array, Array, Array]], n_trees: int
) -> tuple[Bitvectors, Reordering]:
    # Bottom up: the number of leaves below each member of a level.
    counts: list[Array] = [np.empty(0, np.int64)] * len(levels)
    below = np.empty(0, np.int64)
    for depth in range(len(levels) - 1, -1, -1):
        _, _, is_node = levels[depth]
        count = np.ones(is_node.size, np.int64)
        count[is_node] = below.reshape(-1, 2).sum(axis=1)
        counts[depth] = below = count
    leaf_ptr = np.concatenate([[0], np.cumsum(counts[0])]).astype(np.int64)
    # Top down: the first leaf of each member; its left child has the same one.
    first = np.zeros(n_trees, np.int64)
    parts: list[tuple[Array, ...]] = []
    leaf = np.empty(int(leaf_ptr[-1]), np.int64)
    for depth, (position, tree, is_node) in enumerate(levels):
        at_leaf = ~is_node
        leaf[leaf_ptr[tree[at_leaf]] + first[at_leaf]] = position[at_leaf]
        if not is_node.any():
            break
        lo = first[is_node]
        left_count = counts[depth + 1][0::2]
        mid = lo + left_count
        parts.append((position[is_node], tree[is_node], lo, mid, lo + counts[depth][is_node]))
        first = np.stack([lo, mid], axis=1).ravel()
    if not parts:
        empty = np.zeros(0, np.int32)
        return Bitvectors(empty, empty, empty, leaf_ptr), Reordering(np.zeros(0, np.int64), leaf)
    node, tree, lo, mid, hi = (np.concatenate(part) for part in zip(*parts, strict=True))
    del parts, counts, first
    order = np.argsort(tree, kind="stable")  # levels are breadth first; keep them so in each tree
    first_leaf, middle, end = (a[order].astype(np.int32) for a in (lo, mid, hi))
    return Bitvectors(first_leaf, middle, end, leaf_ptr), Reordering(node[order], leaf)


def select(B: Bitvectors, trees: Array) -> tuple[Bitvectors, Reordering]:
    """Return the bitvectors of some trees, in this order, and where their parts stood."""
    trees = np.asarray(trees, np.int64)
    n_nodes, n_leaves = np.diff(B.node_ptr)[trees], np.diff(B.leaf_ptr)[trees]
    node = ranges(B.node_ptr[trees], n_nodes)
    leaf = ranges(B.leaf_ptr[trees], n_leaves)
    leaf_ptr = np.concatenate([[0], np.cumsum(n_leaves)]).astype(np.int64)
    part = Bitvectors(B.lo[node], B.mid[node], B.hi[node], leaf_ptr)
    return part, Reordering(node, leaf)

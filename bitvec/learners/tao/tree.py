"""The tree that is optimised: flat arrays, nodes breadth first, leaves named by their complement.

`left[i]` and `right[i]` are the children of node i: a node by its index, a leaf as `~leaf`. Node 0
is the root; a tree of no nodes is leaf 0. Which child a row comes to is the node's test, of one of
three kinds; a missing value goes to the side `missing_right` says, whichever way the test points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from bitvec.converters.native.children import checked_children
from bitvec.core.arrays import FLOATS, Array, read_only, require, require_codes
from bitvec.core.shape_annotations import Bool, Float, Int64, UInt8
from bitvec.runtime.predict.cpu.kernel_arrays import constant


class NodeKind(IntEnum):
    """Kinds of a node's test."""

    AXIS = 0
    """x_feature above its threshold; right there if `above`, else left there."""
    OBLIQUE = 1
    """w · x above the threshold."""
    FIXED = 2
    """Outcomes that are given for each row, of a test that cannot move."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree being optimised. F is float32 or float64, the dtype in which rows are compared.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
    kind : uint8, (n_nodes,)
        A `NodeKind`.
    feature : int64, (n_nodes,)
        Of axis-aligned nodes; 0 elsewhere.
    threshold : F, (n_nodes,)
    above : bool, (n_nodes,)
        Whether an axis-aligned node sends what lies above the threshold right; true elsewhere.
    at_least : bool, (n_nodes,)
        Whether a value equal to the threshold lies above it.
    missing_right : bool, (n_nodes,)
    missing_rule : uint8, (n_nodes,)
        A `bitvec.core.node_tests.MissingRule`.
    W : F, (n_nodes, n_features), or (0, n_features) where no node is oblique
        A weight of 0 reads nothing.
    V : float32 or float64, (n_leaves, n_outputs)
    U : dtype of V, (n_leaves, n_outputs, n_columns), optional
        Of linear leaves, V + U x; a leaf whose weights are all 0 is constant.
    sentinel : float
        What `MissingRule.NAN_OR_SENTINEL` counts as missing besides NaN; NaN for nothing.

    Raises
    ------
    InvalidForestError
        If a shape, dtype or child is out of place.
    """

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    kind: UInt8[Array, " n_nodes"]
    feature: Int64[Array, " n_nodes"]
    threshold: Float[Array, " n_nodes"]
    above: Bool[Array, " n_nodes"]
    at_least: Bool[Array, " n_nodes"]
    missing_right: Bool[Array, " n_nodes"]
    missing_rule: UInt8[Array, " n_nodes"]
    W: Float[Array, "n_rows n_features"]
    V: Float[Array, "n_leaves n_outputs"]
    U: Float[Array, "n_leaves n_outputs n_columns"] | None = None
    sentinel: float = float("nan")

    def __post_init__(self) -> None:
        put = object.__setattr__
        left, right = checked_children(self.left, self.right)
        require(
            not left.size or np.all(np.concatenate([left, right]) != 0),
            "node 0 must be the root of a tree.",
        )
        put(self, "left", left)
        put(self, "right", right)
        n, dtype = left.size, np.asarray(self.threshold).dtype
        require(dtype in FLOATS, f"`threshold` must be float32 or float64, got {dtype}.")
        for name, want in (
            ("kind", np.uint8),
            ("feature", np.int64),
            ("threshold", dtype),
            ("above", np.bool_),
            ("at_least", np.bool_),
            ("missing_right", np.bool_),
            ("missing_rule", np.uint8),
        ):
            put(self, name, read_only(name, getattr(self, name), want, (n,)))
        W = read_only("W", self.W, dtype, (None, None))
        require(len(W) in (0, n), f"`W` must have no row or one for each of {n} nodes.")
        put(self, "W", W)
        require_codes("kind", self.kind, len(NodeKind))
        require_codes("feature", self.feature, max(W.shape[1], 1))
        require(
            len(W) == n or not np.any(self.kind == NodeKind.OBLIQUE),
            "`W` must have a row for each node where one is oblique, got none.",
        )
        width = np.asarray(self.V).dtype
        put(self, "V", read_only("V", self.V, width, (n + 1, None)))
        if self.U is not None:
            shape = (n + 1, self.V.shape[1], None)
            put(self, "U", read_only("U", self.U, width, shape))

    @property
    def n_nodes(self) -> int:
        """Number of internal nodes."""
        return self.left.size

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.left.size + 1

    @property
    def n_features(self) -> int:
        """Columns that the tests read."""
        return self.W.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """The dtype in which rows are compared."""
        return self.threshold.dtype

    @property
    def depth(self) -> Int64[Array, " n_nodes"]:
        """The number of nodes above each node."""
        depth = np.zeros(self.n_nodes, np.int64)
        level, below = np.zeros(min(1, self.n_nodes), np.int64), 0
        while level.size:
            depth[level] = below
            children = np.concatenate([self.left[level], self.right[level]])
            level, below = children[children >= 0], below + 1
        return depth

    @property
    def n_levels(self) -> int:
        """Length of the longest path, its leaf counted: 1 for a single leaf."""
        return int(self.depth.max(initial=-1)) + 2


class Walk(NamedTuple):
    """The arrays that kernels walk, contiguous and read-only."""

    left: Array
    right: Array
    kind: Array
    feature: Array
    threshold: Array
    above: Array
    at_least: Array
    missing_right: Array
    missing_rule: Array
    W: Array
    outcomes: Array
    outcome_row: Array
    sentinel: Any


def walk_of(tree: Tree, outcomes: Array | None = None, outcome_row: Array | None = None) -> Walk:
    """Return what kernels walk.

    Parameters
    ----------
    outcomes : bool, (n_fixed, n_rows), optional
        Outcomes of the nodes that are fixed, row `outcome_row[i]` those of node i.
    outcome_row : int64, (n_nodes,), optional
    """
    if outcomes is None or outcome_row is None:
        outcomes, outcome_row = np.zeros((0, 0), bool), np.zeros(tree.n_nodes, np.int64)
    return Walk(
        constant(tree.left),
        constant(tree.right),
        constant(tree.kind),
        constant(tree.feature),
        constant(tree.threshold),
        constant(tree.above),
        constant(tree.at_least),
        constant(tree.missing_right),
        constant(tree.missing_rule),
        constant(tree.W),
        constant(outcomes),
        constant(outcome_row),
        tree.dtype.type(tree.sentinel),
    )


def axis_tree(
    left: Array, right: Array, feature: Array, threshold: Array, n_features: int, V: Array
) -> Tree:
    """Return a tree of tests x_feature > threshold, NaN going left."""
    n = left.size
    return Tree(
        left=left,
        right=right,
        kind=np.zeros(n, np.uint8),
        feature=feature,
        threshold=threshold,
        above=np.ones(n, bool),
        at_least=np.zeros(n, bool),
        missing_right=np.zeros(n, bool),
        missing_rule=np.zeros(n, np.uint8),
        W=np.zeros((0, n_features), threshold.dtype),
        V=V,
    )


def oblique_tree(left: Array, right: Array, W: Array, threshold: Array, V: Array) -> Tree:
    """Return a tree of tests W x > threshold, NaN going left."""
    tree = axis_tree(left, right, np.zeros(left.size, np.int64), threshold, W.shape[1], V)
    return replace(tree, kind=np.full(left.size, NodeKind.OBLIQUE, np.uint8), W=W)


def as_oblique(tree: Tree, nodes: Bool[Array, " n_nodes"]) -> Tree:
    """Return the same tree with some axis-aligned nodes written with a weight of ±1.

    No row takes another way: x <= t is −x >= −t.
    """
    W = np.zeros((tree.n_nodes, tree.n_features), tree.dtype)
    if len(tree.W):
        W[:] = tree.W
    at = np.flatnonzero(nodes & (tree.kind == NodeKind.AXIS))
    is_negative = ~tree.above[at]
    sign = np.where(is_negative, -1, 1).astype(tree.dtype)
    W[at, tree.feature[at]] = sign
    kind, above, threshold = tree.kind.copy(), tree.above.copy(), tree.threshold.copy()
    kind[at], above[at] = NodeKind.OBLIQUE, True
    threshold[at] *= sign
    at_least = tree.at_least.copy()
    at_least[at] ^= is_negative
    return replace(tree, kind=kind, above=above, threshold=threshold, W=W, at_least=at_least)

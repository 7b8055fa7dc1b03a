"""Trees of a model as its own library states them, node by node, for proofs.

A converter's `walker.py` reads them from the library's own dump or attributes and shares no code
with the rest of the converter, so that one mistake cannot be made on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bitvec.core.arrays import Array, put, put_array, require
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.node_tests import NodeTests
from bitvec.core.shape_annotations import Float, Int32, Int64
from bitvec.core.structure import children


@dataclass(frozen=True, slots=True, eq=False)
class SourceTrees:
    """Trees of nodes and leaves, in the source's own terms.

    A child k >= 0 is node k, a child ~k is leaf k; subtrees may be shared.

    Parameters
    ----------
    tests : NodeTests
        Of the inner nodes, in any order. A row goes right where the test's h is 1, so a library's
        `x <= t goes left` is `x > t`, `x < t goes left` is `x >= t`. Thresholds are as the library
        holds them, in a dtype that holds them exactly: float64 against rows of float32, say.
    left, right : int64, (n_nodes,)
        Children.
    root : int64, (n_trees,)
        One for each tree of the forest, in the library's order of trees.
    leaf_id : int64, (n_leaves,)
        As `Oracle.leaf_ids` answers.
    v : F, (n_leaves, width)
        What each leaf holds, as `Leaves.v` should: before tree weights.
    output : int32, (n_leaves,), optional
        The one output that each leaf adds to.
    linear : LinearTerms, optional
    row_dtype : numpy dtype
        To which the library rounds a row before it compares.
    missing_sentinel : float, optional
        What `MissingRule.NAN_OR_SENTINEL` counts as missing.
    n_features : int
        Columns of X.
    feature_map : FeatureMap, optional
        Of key tables beside X, where tests read its columns instead of those of X.
    stated : mapping from field names of `Output` to their values
        What else the library states: "aggregate", "base_score", "tree_weight", "scale", "divisor",
        "classes" and the like. A field that is not among them is known by answers to rows only.
    """

    tests: NodeTests
    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    root: Int64[Array, " n_trees"]
    leaf_id: Int64[Array, " n_leaves"]
    v: Float[Array, "n_leaves width"]
    row_dtype: np.dtype
    n_features: int
    output: Int32[Array, " n_leaves"] | None = None
    linear: LinearTerms | None = None
    missing_sentinel: float | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)
    feature_map: FeatureMap | None = None

    def __post_init__(self) -> None:
        n_nodes, n_leaves = self.tests.n_nodes, len(self.v)
        put(self, row_dtype=np.dtype(self.row_dtype))
        if "dtype" in self.stated:
            put(self, stated={**self.stated, "dtype": np.dtype(self.stated["dtype"])})
        for name, size in (("left", n_nodes), ("right", n_nodes), ("root", None)):
            put_array(self, name, np.int64, (size,))
            child = getattr(self, name)
            require(
                child.size == 0 or (-n_leaves <= child.min() and child.max() < n_nodes),
                f"`{name}` must name nodes below {n_nodes} or leaves below {n_leaves}.",
            )
        put_array(self, "leaf_id", np.int64, (n_leaves,))
        put_array(self, "output", np.int32, (n_leaves,))

    @property
    def tree_of_leaf(self) -> Int64[Array, " n_leaves"]:
        """The tree that each leaf is reached in, -1 if in none."""
        tree = np.full(len(self.v), -1)
        met = np.zeros(self.left.size, np.bool_)
        at, of = self.root, np.arange(self.root.size)
        while at.size:
            tree[~at[at < 0]] = of[at < 0]
            node, first = np.unique(at, return_index=True)
            new = node >= 0
            new[new] = ~met[node[new]]  # shared subtrees are entered once
            node, of = node[new], np.tile(of[first[new]], 2)
            met[node] = True
            at = np.concatenate([self.left[node], self.right[node]])
        return tree


def of_forest(forest: Forest) -> SourceTrees:
    """Return a forest's own trees in the same terms; a leaf's id is its number in the forest.

    >>> from bitvec.core.forest import Forest
    >>> trees = of_forest(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
    >>> trees.root.tolist(), trees.left.tolist(), trees.right.tolist()
    ([0], [-1], [-2])
    """
    B, leaves = forest.bitvectors, forest.leaves
    left, right = children(B)
    root = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    return SourceTrees(
        tests=forest.tests,
        left=left,
        right=right,
        root=root,
        leaf_id=np.arange(B.n_leaves),
        v=leaves.v,
        row_dtype=forest.dtype,
        n_features=forest.n_features,
        output=leaves.output,
        linear=leaves.linear,
        missing_sentinel=forest.inputs.missing_sentinel,
    )

"""The trees of a LightGBM model text, as arrays over the nodes and leaves of all trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from bitvec.converters.lightgbm.categories import left_sets
from bitvec.converters.lightgbm.model_text import floats, integers, one_each, per_tree
from bitvec.core.arrays import Array
from bitvec.core.leaves import LinearTerms
from bitvec.core.node_tests import ZERO_THRESHOLD
from bitvec.core.shape_annotations import Bool, Float64, Int32, Int64, UInt32
from bitvec.errors import FileFormatError, UnsupportedModelError

Tree = dict[str, bytes]

PER_NODE: Final = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
STATISTICS: Final = (
    "split_gain",
    "leaf_parent",
    "leaf_weight",
    "leaf_count",
    "internal_value",
    "internal_weight",
    "internal_count",
    "shrinkage",  # folded into the leaf values already
)
LINEAR: Final = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")
KEYS: Final = frozenset(
    {
        "num_leaves",
        "num_cat",
        "leaf_value",
        "is_linear",
        "cat_boundaries",
        "cat_threshold",
        *PER_NODE,
        *STATISTICS,
        *LINEAR,
        # Copies of the tree in other layouts, by a fork for small devices; LightGBM skips them.
        "full_tree_array_lgbids",
        "tiny_tree_ids_features",
        "tiny_tree_ids_thresholds",
        "tiny_tree_features",
        "tiny_tree_thresholds",
    }
)

CATEGORICAL: Final = 1
DEFAULT_LEFT: Final = 2
MISSING_SHIFT: Final = 2
MISSING_NONE: Final = 0
MISSING_ZERO: Final = 1
MISSING_NAN: Final = 2
"""The bits of `decision_type`: a flag, a flag, and a missing type."""

BELOW_ZERO: Final = float(np.nextafter(-ZERO_THRESHOLD, -np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Nodes and leaves of all trees, each tree's in LightGBM's numbering, one tree after the other.

    Parameters
    ----------
    n_leaves : int64, (n_trees,)
    left, right : int64, (n_nodes,)
        Children as positions in these arrays, `~leaf` where they are leaves.
    feature : int64, (n_nodes,)
    threshold : float64, (n_nodes,)
        0 at a split on categories.
    is_set, missing_is_zero, missing_right : bool, (n_nodes,)
    set_count : int64, (n_nodes,)
        Words of each node's set.
    set_words : uint32, (n_words,)
        Bit c % 32 of word c // 32 says whether code c goes RIGHT.
    v : float64, (n_leaves,)
    linear : LinearTerms, optional
    gain, node_count, leaf_count : float64, optional
    """

    n_leaves: Int64[Array, " n_trees"]
    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    feature: Int64[Array, " n_nodes"]
    threshold: Float64[Array, " n_nodes"]
    is_set: Bool[Array, " n_nodes"]
    missing_is_zero: Bool[Array, " n_nodes"]
    missing_right: Bool[Array, " n_nodes"]
    set_count: Int64[Array, " n_nodes"]
    set_words: UInt32[Array, " n_words"]
    v: Float64[Array, " n_leaves"]
    linear: LinearTerms | None
    gain: Float64[Array, " n_nodes"] | None
    node_count: Float64[Array, " n_nodes"] | None
    leaf_count: Float64[Array, " n_leaves"] | None

    @property
    def leaf_ptr(self) -> Int64[Array, " n_trees_plus_1"]:
        """Place at which each tree's leaves begin."""
        return np.concatenate([[0], np.cumsum(self.n_leaves)]).astype(np.int64)

    @property
    def node_ptr(self) -> Int64[Array, " n_trees_plus_1"]:
        """Place at which each tree's nodes begin."""
        return self.leaf_ptr - np.arange(self.n_leaves.size + 1)

    @property
    def roots(self) -> Int64[Array, " n_trees"]:
        """Node 0 of each tree, or `~leaf` of a tree that is one leaf."""
        return np.where(self.n_leaves > 1, self.node_ptr[:-1], ~self.leaf_ptr[:-1])


def read_trees(trees: list[Tree], n_features: int) -> Trees:
    """Read and check the trees of a model text.

    Raises
    ------
    UnsupportedModelError
        If a tree has a key that is not known, or its sets are huge.
    FileFormatError
        If a line is missing, of the wrong length or kind, or points out of range.
    """
    _check_keys(trees)
    n_leaves = one_each(trees, "num_leaves")
    if n_leaves.size and int(n_leaves.min()) < 1:
        raise FileFormatError("`num_leaves` must be at least 1.")
    n_nodes = n_leaves - 1
    left, right = _children(trees, n_leaves)
    feature = integers(per_tree(trees, "split_feature", n_nodes), "split_feature")
    if feature.size and not (int(feature.min()) >= 0 and int(feature.max()) < n_features):
        raise FileFormatError(f"a node must split on one of {n_features} features, got another.")
    threshold = floats(per_tree(trees, "threshold", n_nodes), "threshold")
    decision = integers(per_tree(trees, "decision_type", n_nodes), "decision_type")
    missing = decision >> MISSING_SHIFT
    if not np.all((missing >= MISSING_NONE) & (missing <= MISSING_NAN)):
        raise FileFormatError("`decision_type` must lie in 0 ... 11, got other values.")
    if np.any(np.isnan(threshold)):
        raise FileFormatError("a threshold must be a number, got NaN.")
    is_set = decision & CATEGORICAL > 0
    set_count, set_words = left_sets(trees, n_nodes, is_set, threshold)
    default_right = decision & DEFAULT_LEFT == 0
    # Where nothing counts as missing, LightGBM reads NaN as 0.
    missing_right = np.where(missing == MISSING_NONE, threshold < 0, default_right)
    v, linear = _leaves(trees, n_leaves, n_features)
    return Trees(
        n_leaves=n_leaves,
        left=left,
        right=right,
        feature=feature,
        threshold=np.where(is_set, 0.0, as_compared(threshold)),
        is_set=is_set,
        missing_is_zero=~is_set & (missing == MISSING_ZERO),
        missing_right=is_set | missing_right,
        set_count=set_count,
        set_words=set_words,
        v=v,
        linear=linear,
        gain=_statistic(trees, "split_gain", n_nodes),
        node_count=_statistic(trees, "internal_count", n_nodes),
        leaf_count=_statistic(trees, "leaf_count", n_leaves),
    )


def as_compared(threshold: Float64[Array, " n"]) -> Float64[Array, " n"]:
    """Return thresholds that need no reader which turns |x| <= 1e-35 into 0, as LightGBM's does.

    With k = ZERO_THRESHOLD and that reader, x goes left of t in [-k, 0) where x < -k, and left of
    t in [0, k] where x <= k.
    """
    tiny = np.abs(threshold) <= ZERO_THRESHOLD
    return np.where(tiny, np.where(threshold < 0, BELOW_ZERO, ZERO_THRESHOLD), threshold)


def _check_keys(trees: list[Tree]) -> None:
    for index, tree in enumerate(trees):
        unknown = tree.keys() - KEYS
        if unknown:
            raise UnsupportedModelError(
                f"tree {index}: a line must begin with one of {', '.join(sorted(KEYS))}, got "
                f"{min(unknown)[:80]!r}, whose meaning is not known."
            )
        if "leaf_coeff" in tree and "is_linear" not in tree:
            raise FileFormatError(f"tree {index}: linear leaves must come with `is_linear`.")


def _statistic(trees: list[Tree], key: str, count: Array) -> Float64[Array, " n"] | None:
    if not any(tree.get(key) for tree in trees):
        return None
    return floats(per_tree(trees, key, count, optional=True), key)


def _children(
    trees: list[Tree], n_leaves: Int64[Array, " n_trees"]
) -> tuple[Int64[Array, " n_nodes"], Int64[Array, " n_nodes"]]:
    n_nodes = n_leaves - 1
    sides = [integers(per_tree(trees, k, n_nodes), k) for k in ("left_child", "right_child")]
    tree = np.repeat(np.arange(n_leaves.size), n_nodes)
    first_leaf = (np.cumsum(n_leaves) - n_leaves)[tree]
    first_node = (np.cumsum(n_nodes) - n_nodes)[tree]
    met_node, met_leaf = np.zeros(tree.size, np.int64), np.zeros(int(n_leaves.sum()), np.int64)
    moved = []
    for side in sides:
        if np.any((side >= n_nodes[tree]) | (side < -n_leaves[tree])):
            raise FileFormatError("a child must be a node or leaf of its tree, got another.")
        is_leaf = side < 0
        side = np.where(is_leaf, side - first_leaf, side + first_node)
        met_leaf += np.bincount(~side[is_leaf], minlength=met_leaf.size)
        met_node += np.bincount(side[~is_leaf], minlength=met_node.size)
        moved.append(side)
    parents = np.ones(tree.size, np.int64)
    parents[(np.cumsum(n_nodes) - n_nodes)[n_nodes > 0]] = 0
    one_leaf = np.zeros(met_leaf.size, np.int64)
    one_leaf[(np.cumsum(n_leaves) - n_leaves)[n_nodes == 0]] = 1
    if np.any(met_node != parents) or np.any(met_leaf + one_leaf != 1):
        raise FileFormatError("each node but the first, and each leaf, must have one parent.")
    return moved[0], moved[1]


def _leaves(
    trees: list[Tree], n_leaves: Int64[Array, " n_trees"], n_features: int
) -> tuple[Float64[Array, " n_leaves"], LinearTerms | None]:
    v = floats(per_tree(trees, "leaf_value", n_leaves), "leaf_value")
    is_linear = one_each(trees, "is_linear", b"0")
    if not np.any(is_linear):
        return v, None
    linear = np.repeat(is_linear != 0, n_leaves)
    size = np.where(is_linear != 0, n_leaves, 0)
    trees = [t if n else {} for t, n in zip(trees, is_linear.tolist(), strict=True)]
    constant = v.copy()
    constant[linear] = floats(per_tree(trees, "leaf_const", size), "leaf_const")
    count = np.zeros(v.size, np.int64)
    count[linear] = integers(per_tree(trees, "num_features", size), "num_features")
    if count.size and (int(count.min()) < 0 or int(count.max()) > 2**31):
        raise FileFormatError("`num_features` must not be negative.")
    owner = np.repeat(np.arange(n_leaves.size), n_leaves)
    terms = np.zeros(n_leaves.size, np.int64)
    np.add.at(terms, owner, count)
    # LightGBM separates the leaves by further blanks.
    trees = [{k: b" ".join(t.get(k, b"").split()) for k in LINEAR} for t in trees]
    column = integers(per_tree(trees, "leaf_features", terms), "leaf_features")
    weight = floats(per_tree(trees, "leaf_coeff", terms), "leaf_coeff")
    if column.size and not (int(column.min()) >= 0 and int(column.max()) < n_features):
        raise FileFormatError(f"a leaf must be linear in the {n_features} features, got others.")
    leaf_ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    v = np.where(count == 0, constant, v)  # a linear leaf without terms is its constant
    columns: Int32[Array, " n_terms"] = column.astype(np.int32)
    return v, LinearTerms(leaf_ptr, columns, weight[:, None], constant[:, None], ZERO_THRESHOLD)

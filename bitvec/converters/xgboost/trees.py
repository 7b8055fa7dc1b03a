"""The trees of an xgboost model document, as arrays over the nodes of all trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.converters.category_sets import pack
from bitvec.converters.xgboost.document import (
    Document,
    float32s,
    integer,
    integers,
    member,
    require_known,
)
from bitvec.core.arrays import Array, ranges
from bitvec.core.shape_annotations import Bool, Float, Float32, Int64, UInt32
from bitvec.errors import FileFormatError

MEMBERS = frozenset(
    {
        "base_weights",
        "categories",
        "categories_nodes",
        "categories_segments",
        "categories_sizes",
        "default_left",
        "id",
        "leaf_child_counts",
        "leaf_weights",
        "left_children",
        "loss_changes",
        "parents",
        "right_children",
        "split_conditions",
        "split_indices",
        "split_type",
        "sum_hessian",
        "tree_param",
    }
)
CATEGORICAL = 1
"""xgboost's FeatureType of a split on categories."""
OUT_OF_RANGE_CODE = 1 << 24
"""xgboost's OutOfRangeCat: a value from here on is in no set, as float32 then skips numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Trees one after the other, each node at the position that its id gives it.

    Parameters
    ----------
    roots : int64, (n_trees,)
        Where each tree begins, which is where its root stands.
    left, right : int64, (n_positions,)
        Positions of the children, -1 at a leaf.
    feature : int64, (n_positions,)
    threshold : float32, (n_positions,)
        0 at a split on categories.
    is_set : bool, (n_positions,)
        Whether a node splits on categories.
    code, code_owner : int64, (n_codes,)
        Category codes that go right, and the position where they do.
    default_left : bool, (n_positions,)
    v : float32, (n_positions, width)
        Leaf vectors; anything at a node.
    cover, gain : float64, (n_positions,), or None
    """

    roots: Int64[Array, " n_trees"]
    left: Int64[Array, " n_positions"]
    right: Int64[Array, " n_positions"]
    feature: Int64[Array, " n_positions"]
    threshold: Float32[Array, " n_positions"]
    is_set: Bool[Array, " n_positions"]
    code: Int64[Array, " n_codes"]
    code_owner: Int64[Array, " n_codes"]
    default_left: Bool[Array, " n_positions"]
    v: Float32[Array, "n_positions width"]
    cover: Float[Array, " n_positions"] | None
    gain: Float[Array, " n_positions"] | None

    def node_id(self, position: Int64[Array, " n"]) -> Int64[Array, " n"]:
        """Return xgboost's id, which counts within the tree."""
        return position - self.roots[np.searchsorted(self.roots, position, side="right") - 1]

    def sets(
        self, position: Int64[Array, " n"]
    ) -> tuple[Int64[Array, " n_plus_1"], UInt32[Array, " n_words"]]:
        """Return the set words of the nodes at these positions."""
        node = np.full(self.left.size, -1)
        node[position] = np.arange(position.size)
        owner = node[self.code_owner]
        return pack(self.code[owner >= 0], owner[owner >= 0], position.size)


def read_trees(trees: list[Any], n_features: int, n_outputs: int) -> Trees:
    """Read and check the `trees` of a model document.

    Parameters
    ----------
    trees : list of JSON objects
    n_features : int
        Split indices must be below it.
    n_outputs : int
        The width of vector leaves, where the trees have them.

    Raises
    ------
    FileFormatError
        If the trees are out of order, if an array is missing, of the wrong length or kind, if a
        child or feature index is out of range, if a node has two parents, if its children do not
        stand side by side, if a threshold is NaN, or if a split on categories has none.
    """
    parts = []
    for index, tree in enumerate(trees):
        try:
            parts.append(_read_tree(tree, n_features, n_outputs, index))
        except FileFormatError as error:
            raise FileFormatError(f"tree {index}: {error}") from error
    if len({part.v.shape[1] for part in parts}) > 1:
        raise FileFormatError("all trees must have leaves of one width, got several.")
    return _join(parts)


def _read_tree(tree: Any, n_features: int, n_outputs: int, index: int) -> Trees:
    if not isinstance(tree, dict):
        raise FileFormatError(f"a tree must be an object, got {type(tree).__name__}.")
    require_known(tree, MEMBERS, "a tree")
    # xgboost puts a tree where its id says.
    if tree.get("id", index) != index:
        raise FileFormatError(f"the trees must stand in the order of their ids, got {tree['id']}.")
    size = integer(member(tree, "tree_param", dict), "num_nodes")
    if size < 1:
        raise FileFormatError("a tree must have at least its root, got 0 nodes.")
    left = integers(tree.get("left_children"), "left_children", -1, size, size)
    right = integers(tree.get("right_children"), "right_children", -1, size, size)
    is_leaf = left < 0
    v = _leaf_vectors(tree, is_leaf, right, n_outputs)
    right[is_leaf] = -1
    child = np.concatenate([left, right])[np.tile(~is_leaf, 2)]
    parents = np.bincount(child[child >= 0], minlength=size)
    if np.any(child < 0) or parents[0] > 0 or np.any(parents > 1):
        raise FileFormatError(
            "a node must have two children, and each node but the root one parent, got a node "
            "with one child, a shared node or a cycle."
        )
    if np.any(right[~is_leaf] != left[~is_leaf] + 1):  # where xgboost looks for it
        raise FileFormatError("a node's right child must follow its left one, got another place.")
    # Deleted nodes keep their place but have no parent; nothing of them is read.
    tested = ~is_leaf & (parents > 0)
    tested[0] = not is_leaf[0]
    is_set = tested & (_split_types(tree, size) == CATEGORICAL)
    code, code_owner = _categories(tree, is_set)
    feature = integers(tree.get("split_indices"), "split_indices", 0, 2**32, size)
    if np.any(feature[tested] >= n_features):
        raise FileFormatError(f"a node must split on one of {n_features} features, got another.")
    threshold = float32s(tree.get("split_conditions"), "split_conditions", size)
    if np.any(np.isnan(threshold[tested & ~is_set])):
        raise FileFormatError("the threshold of a node must be a number, got NaN.")
    return Trees(
        roots=np.zeros(1, np.int64),
        left=left,
        right=right,
        feature=feature,
        threshold=np.where(is_set, np.float32(0), threshold),
        is_set=is_set,
        code=code,
        code_owner=code_owner,
        default_left=integers(tree.get("default_left"), "default_left", 0, 2, size).astype(
            np.bool_
        ),
        v=threshold[:, None] if v is None else v,
        cover=_statistic(tree, "sum_hessian", size),
        gain=_statistic(tree, "loss_changes", size),
    )


def _split_types(tree: Document, size: int) -> Int64[Array, " n"]:
    if "split_type" not in tree:  # before 1.3 or so
        return np.zeros(size, np.int64)
    return integers(tree["split_type"], "split_type", 0, 2, size)


def _categories(
    tree: Document, is_set: Bool[Array, " n"]
) -> tuple[Int64[Array, " n_codes"], Int64[Array, " n_codes"]]:
    """Return the codes that go right at the nodes in `is_set`, and the node of each."""
    if not np.any(is_set):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    node = integers(tree.get("categories_nodes"), "categories_nodes", 0, is_set.size)
    code = integers(tree.get("categories"), "categories", 0, 2**31)
    start, count = (
        integers(tree.get(name), name, 0, code.size + 1, node.size)
        for name in ("categories_segments", "categories_sizes")
    )
    if np.any(start + count > code.size) or np.any(count < 1) or np.any(np.diff(node) < 1):
        raise FileFormatError(
            "`categories_segments` and `categories_sizes` must cut at least one of `categories` "
            "for each of `categories_nodes`, whose ids must rise."
        )
    if not np.all(np.isin(np.flatnonzero(is_set), node)):
        raise FileFormatError("a split on categories must have some, got one without.")
    owner = np.repeat(node, count)
    code = code[ranges(start, count)]
    used = is_set[owner] & (code < OUT_OF_RANGE_CODE)
    return code[used], owner[used]


def _leaf_vectors(
    tree: Document, is_leaf: Bool[Array, " n"], right: Int64[Array, " n"], n_outputs: int
) -> Float32[Array, "n width"] | None:
    """Return the vectors of a tree that has vector leaves, else None."""
    width = integer(member(tree, "tree_param", dict), "size_leaf_vector", default=1)
    if width <= 1:
        return None
    if width != n_outputs:
        raise FileFormatError(f"a leaf must hold {n_outputs} values, got {width}.")
    size = is_leaf.size
    if "leaf_weights" not in tree:  # before 3.2
        return float32s(tree.get("base_weights"), "base_weights", size * width).reshape(-1, width)
    n_leaves = int(np.count_nonzero(is_leaf))
    weights = float32s(tree["leaf_weights"], "leaf_weights")
    which = right[is_leaf]  # since 3.2 a leaf's right child is its place in `leaf_weights`
    if weights.size % width or np.any(which < 0) or np.any(which >= weights.size // width):
        raise FileFormatError(
            f"`leaf_weights` must hold {width} values for each of {n_leaves} leaves, got "
            f"{weights.size} values or leaves that name none."
        )
    v = np.zeros((size, width), np.float32)
    v[is_leaf] = weights.reshape(-1, width)[which]
    return v


def _statistic(tree: Document, name: str, size: int) -> Float[Array, " n"] | None:
    if name not in tree:
        return None
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return float32s(tree[name], name, size).astype(np.float64)


def _join(parts: list[Trees]) -> Trees:
    sizes = [part.left.size for part in parts]
    roots = np.cumsum([0, *sizes])[:-1].astype(np.int64)

    def positions(sides: list[Array]) -> Array:
        moved = [
            np.where(side < 0, -1, side + start) for side, start in zip(sides, roots, strict=True)
        ]
        return np.concatenate([np.zeros(0, np.int64), *moved])

    def statistic(values: list[Array | None]) -> Array | None:
        known = [value for value in values if value is not None]
        return np.concatenate(known) if known and len(known) == len(values) else None

    empty, no_codes = np.zeros(0, np.float32), np.zeros(0, np.int64)
    width = parts[0].v.shape[1] if parts else 1
    owners = [part.code_owner + start for part, start in zip(parts, roots, strict=True)]
    return Trees(
        roots=roots,
        left=positions([part.left for part in parts]),
        right=positions([part.right for part in parts]),
        feature=np.concatenate([np.zeros(0, np.int64), *(part.feature for part in parts)]),
        threshold=np.concatenate([empty, *(part.threshold for part in parts)]),
        is_set=np.concatenate([np.zeros(0, np.bool_), *(part.is_set for part in parts)]),
        code=np.concatenate([no_codes, *(part.code for part in parts)]),
        code_owner=np.concatenate([no_codes, *owners]),
        default_left=np.concatenate([np.zeros(0, np.bool_), *(p.default_left for p in parts)]),
        v=np.concatenate([empty.reshape(0, width), *(part.v for part in parts)]),
        cover=statistic([part.cover for part in parts]),
        gain=statistic([part.gain for part in parts]),
    )

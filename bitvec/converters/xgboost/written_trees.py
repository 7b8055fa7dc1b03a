"""The trees of a forest as xgboost's model document holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from bitvec.converters.category_sets import right_codes
from bitvec.converters.numbering import Places, Sides, places
from bitvec.converters.xgboost.trees import CATEGORICAL
from bitvec.converters.xgboost.unsupported import thresholds, turned_sets
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.shape_annotations import Float32, Int64
from bitvec.core.structure import children

NO_PARENT: Final = 2**31 - 1
"""The parent of a root; trees of vector leaves have -1."""
DELETED: Final = 2**31 - 1
"""The split index of a node that pruning left behind, with default_left."""
STATISTICS: Final = ("gain", "node_cover", "leaf_cover")
UNUSED: Final = np.finfo(np.float32).smallest_subnormal
"""Entry of `split_conditions` where no number is compared."""


def written_trees(forest: Forest, v: Float32[Array, "n_leaves width"]) -> Iterator[dict[str, Any]]:
    """Yield the document of each tree.

    Nodes and leaves keep xgboost's own ids where the forest came from there; an id that none bears
    is that of a deleted node. Cover and gain are the source's, else 0.

    Parameters
    ----------
    forest : Forest
        One that `require_writable` accepts.
    v : float32, (n_leaves, width)
        The leaf vectors to write.
    """
    width = v.shape[1]
    left, right = children(forest.bitvectors)
    turned = turned_sets(forest)
    sides = np.where(turned, right, left), np.where(turned, left, right)
    # xgboost finds a right child behind the left one, whatever `right_children` says.
    at = places(forest, "xgboost", sides, siblings=True, gaps=width == 1)
    arrays = _arrays(forest, at, sides, is_vector=width > 1)
    base_weights = np.zeros((int(at.start[-1]), width), np.float32)
    base_weights[at.leaf] = v
    if width == 1:
        arrays["split_conditions"][at.leaf] = v[:, 0]
    code, owner = right_codes(forest.tests, turned)
    order = np.argsort(at.node[owner], kind="stable")
    code, place = code[order], at.node[owner][order]
    present = np.bincount(
        np.searchsorted(at.start, np.concatenate([at.node, at.leaf]), side="right") - 1,
        minlength=forest.n_trees,
    )
    for tree, here in enumerate(map(slice, at.start[:-1].tolist(), at.start[1:].tolist())):
        size = here.stop - here.start
        first, last = np.searchsorted(place, [here.start, here.stop])
        document = {name: values[here] for name, values in arrays.items()}
        document["base_weights"] = base_weights[here].ravel()
        if width > 1:
            is_leaf = document["left_children"] < 0
            # Since 3.2 a leaf's right child is its place in `leaf_weights`; before, 2.0 and later
            # read `base_weights`.
            document["right_children"][is_leaf] = np.arange(np.count_nonzero(is_leaf))
            document["leaf_weights"] = base_weights[here][is_leaf].ravel()
        yield {
            **document,
            **_categories(code[first:last], place[first:last] - here.start),
            "id": tree,
            "tree_param": {
                "num_deleted": str(size - int(present[tree])),
                "num_feature": str(forest.n_features),
                "num_nodes": str(size),
                "size_leaf_vector": str(width),
            },
        }


def _arrays(forest: Forest, at: Places, sides: Sides, *, is_vector: bool) -> dict[str, Array]:
    """Return the members that hold one value for each node, leaf or deleted node of all trees."""
    tests, source = forest.tests, forest.source
    turned, is_set = turned_sets(forest), tests.kind == Kind.SET
    left, right = sides

    def spread(at_node: Any, at_leaf: Any, elsewhere: int, dtype: type) -> Array:
        values: Array = np.full(int(at.start[-1]), elsewhere, dtype)
        values[at.node], values[at.leaf] = at_node, at_leaf
        return values

    # xgboost looks up the parent of a deleted node too, so that must be a node: the root.
    parents = np.zeros(int(at.start[-1]), np.int32)
    parents[at.start[:-1]] = -1 if is_vector else NO_PARENT
    for child in sides:
        parents[at.leaf[~child[child < 0]]] = at.node_id[child < 0]
        parents[at.node[child[child >= 0]]] = at.node_id[child >= 0]
    statistics: list[Any] = [0 if source is None else getattr(source, name) for name in STATISTICS]
    gain, node_cover, leaf_cover = (0 if values is None else values for values in statistics)
    with np.errstate(over="ignore"):  # beyond float32, statistics are infinite
        return {
            "default_left": spread(tests.missing_right == turned, 0, 1, np.uint8),
            "left_children": spread(at.child(left), -1, -1, np.int32),
            "loss_changes": spread(gain, 0, 0, np.float32),
            "parents": parents,
            "right_children": spread(at.child(right), -1, -1, np.int32),
            "split_conditions": spread(
                np.where(is_set, UNUSED, thresholds(forest)), UNUSED, 0, np.float32
            ),
            "split_indices": spread(tests.feature, 0, DELETED, np.int32),
            "split_type": spread(np.where(is_set, CATEGORICAL, 0), 0, 0, np.uint8),
            "sum_hessian": spread(node_cover, leaf_cover, 0, np.float32),
        }


def _categories(code: Int64[Array, " n_codes"], node: Int64[Array, " n_codes"]) -> dict[str, Array]:
    """Return the members of a tree that hold its sets, from codes and the node of each."""
    nodes, first, count = np.unique(node, return_index=True, return_counts=True)
    return {
        "categories": code.astype(np.int32),
        "categories_nodes": nodes.astype(np.int32),
        "categories_segments": first.astype(np.int64),
        "categories_sizes": count.astype(np.int64),
    }

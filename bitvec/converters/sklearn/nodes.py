"""scikit-learn's node arrays, checked and arranged: the part that all its CART trees share.

scikit-learn casts X to float32 and goes left where float32(x) <= t with t in float64, so t is
rounded down to float32 once: no float32 lies between the two, and every x takes the same side.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.converters.attribute_records import Record, class_name
from bitvec.converters.sklearn.unsupported import library_version, parameters
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.node_tests import NodeTests, axis_aligned
from bitvec.core.shape_annotations import Bool, Float32, Float64, Int64
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors
from bitvec.errors import InvalidForestError

FIELDS = {
    "left_child": "i",
    "right_child": "i",
    "feature": "i",
    "threshold": "f",
    "impurity": "f",
    "weighted_n_node_samples": "f",
    "n_node_samples": "i",
    "missing_go_to_left": "iu",
}
"""Fields that are read of a node record, and the kinds of numbers that they may be."""


@dataclass(frozen=True, slots=True)
class Trees:
    """The trees of a model in the forest's order, their leaves not yet given a meaning.

    `value` is what the source holds at each leaf of the forest. `leaf` and `tree` are the leaf's
    position among all positions of the source and its tree; `start` says where each tree begins
    among these.
    """

    tests: NodeTests
    bitvectors: Bitvectors
    leaf: Int64[Array, " n_leaves"]
    tree: Int64[Array, " n_leaves"]
    value: Float64[Array, "n_leaves n_targets max_n_classes"]
    start: Int64[Array, " n_trees_plus_1"]
    source: Source


def arrange_trees(
    model: Any,
    trees: list[Any],
    n_features: int,
    n_classes: list[tuple[int, ...]],
    *,
    columns: list[Int64[Array, " n_columns"]] | None = None,
    missing_right: bool = False,
) -> Trees:
    """Check the trees of a model and arrange them as a forest.

    Parameters
    ----------
    model : estimator or Record
        Names the source.
    trees : list of tree estimators or Records
    n_features : int
        Columns of X.
    n_classes : list of tuple
        Per tree, how many classes each of its targets must have (1 each for a regressor).
    columns : list of int64, optional
        Per tree, the columns of X that it reads; all of them if not given.
    missing_right : bool
        Whether a missing value goes right at every node, whatever the nodes say.

    Raises
    ------
    InvalidForestError
        If the arrays do not describe trees, as those of a damaged or hostile file may not.
    """
    widths = [n_features] * len(trees) if columns is None else [part.size for part in columns]
    parts = [
        _arrays(index, estimator.tree_, width, classes)
        for index, (estimator, width, classes) in enumerate(
            zip(trees, widths, n_classes, strict=True)
        )
    ]
    start = np.cumsum([0, *(len(nodes) for nodes, _ in parts)])

    def every(name: str) -> Array:
        # One field at a time: the records of all trees side by side would be the largest array.
        return np.concatenate([nodes[name] for nodes, _ in parts])

    left, right = _links(every, start, np.array(widths))
    bitvectors, order = structure.arrange(left, right, start[:-1])
    of_node, of_leaf = (
        bitvectors.tree_of_node,
        np.repeat(np.arange(len(trees)), np.diff(bitvectors.leaf_ptr)),
    )
    feature = every("feature")[order.node]
    if columns is not None:
        first = np.cumsum([0, *widths])[of_node]
        feature = np.concatenate(columns)[first + feature]
    goes_right: bool | Bool[Array, " n_nodes"] = missing_right or (
        every("missing_go_to_left")[order.node] == 0
    )
    tests = axis_aligned(
        feature, round_down(every("threshold")[order.node]), missing_right=goes_right
    )
    cover = every("weighted_n_node_samples")
    with np.errstate(all="ignore"):  # statistics of a damaged file may overflow
        mass = cover * every("impurity")
        gain = mass[order.node] - mass[left[order.node]] - mass[right[order.node]]
    source = Source(
        "sklearn",
        library_version(model),
        class_name(model),
        leaf_id=order.leaf - start[of_leaf],
        node_id=order.node - start[of_node],
        leaf_cover=cover[order.leaf],
        node_cover=cover[order.node],
        gain=gain,
        metadata=parameters(model),
    )
    value = _at_leaves([value for _, value in parts], order.leaf, bitvectors.leaf_ptr, start)
    return Trees(tests, bitvectors, order.leaf, of_leaf, value, start, source)


def _arrays(
    index: int, tree: Any, n_features: int, n_classes: tuple[int, ...]
) -> tuple[Array, Array]:
    """Return the node records and the values of one tree, sound but for their links."""
    if isinstance(tree, Record):
        held = tree.kind == "Tree"
        nodes: Any = getattr(tree, "nodes", None)
        value: Any = getattr(tree, "values", None)
    else:
        # `nodes` points into memory that belongs to the tree: its bounds come first.
        held = type(tree).__module__ == "sklearn.tree._tree" and type(tree).__name__ == "Tree"
        held = held and 1 <= tree.node_count <= tree.capacity
        nodes, value = (tree.__getstate__()["nodes"], tree.value) if held else (None, None)
    if not held or not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or nodes.size == 0:
        raise InvalidForestError(
            f"tree {index} must hold its nodes, got {class_name(tree)} with "
            f"{getattr(tree, 'node_count', 0)} of them: the model is damaged."
        )
    got = (tree.n_features, *np.asarray(tree.n_classes).ravel().tolist())
    if got != (n_features, *n_classes) or tree.n_outputs != len(n_classes):
        raise InvalidForestError(
            f"tree {index} must read {n_features} features and have {n_classes} classes per "
            f"target, got {got[0]} and {reprlib.repr(got[1:])}: the model is damaged."
        )
    _require_fields(index, nodes)
    shape = (len(nodes), len(n_classes), max(n_classes))
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype != np.float64:
        raise InvalidForestError(
            f"the values of tree {index} must be float64 of shape {shape}, got "
            f"{getattr(value, 'dtype', None)} of shape {np.shape(value)}: the model is damaged."
        )
    return nodes, value


def _require_fields(index: int, nodes: Array) -> None:
    names = nodes.dtype.names or ()
    for name, kinds in FIELDS.items():
        dtype = nodes.dtype[name] if name in names else None
        if dtype is None or dtype.kind not in kinds or dtype.shape:
            raise InvalidForestError(
                f"the nodes of tree {index} must have a field `{name}` of numbers, got "
                f"{dtype}: the model is damaged, or older than scikit-learn 1.3."
            )
    if nodes.dtype["threshold"] != np.float64:
        raise InvalidForestError(
            f"the thresholds of tree {index} must be float64, got {nodes.dtype['threshold']}."
        )


def _links(
    every: Callable[[str], Array],
    start: Int64[Array, " n_trees_plus_1"],
    widths: Int64[Array, " n_trees"],
) -> tuple[Int64[Array, " n_positions"], Int64[Array, " n_positions"]]:
    """Return the children of each position among those of all trees, every index checked.

    Cycles and shared children are left to `structure.arrange`.
    """
    size = np.diff(start)
    left, right = (every(side).astype(np.int64) for side in ("left_child", "right_child"))
    inner = left != -1
    end = np.repeat(size, size)
    sound = (left >= 0) & (left < end) & (right >= 0) & (right < end)
    if not np.all(np.where(inner, sound, right == -1)):
        raise InvalidForestError(
            "the children of a node must be two positions of its own tree, or -1 twice: the "
            "model's child links are damaged."
        )
    feature = every("feature")
    if not np.all(~inner | ((feature >= 0) & (feature < np.repeat(widths, size)))):
        raise InvalidForestError(
            "each node must read a feature that its tree has: the model is damaged."
        )
    # Children count from their own tree's first position; a leaf keeps -1 twice.
    shift = np.where(inner, np.repeat(start[:-1], size), 0)
    left += shift
    right += shift
    return left, right


def _at_leaves(
    values: list[Array],
    leaf: Int64[Array, " n_leaves"],
    leaf_ptr: Int64[Array, " n_trees_plus_1"],
    start: Int64[Array, " n_trees_plus_1"],
) -> Float64[Array, "n_leaves n_targets max_n_classes"]:
    """Return the values at the leaves, padded to the largest number of classes."""
    width = max(value.shape[2] for value in values)
    result = np.zeros((leaf.size, values[0].shape[1], width))
    for tree, value in enumerate(values):
        part = slice(int(leaf_ptr[tree]), int(leaf_ptr[tree + 1]))
        result[part, :, : value.shape[2]] = value[leaf[part] - start[tree]]
    return result


def round_down(threshold: Float64[Array, " n"]) -> Float32[Array, " n"]:
    """Return the largest float32 that is not above each float64.

    For every float32 x, x <= t if and only if x <= round_down(t), infinities and signed zeros
    included.

    >>> [float(t) for t in round_down(np.array([0.1, 1e300, -1e-300, 0.5]))]
    [0.09999999403953552, 3.4028234663852886e+38, -1.401298464324817e-45, 0.5]
    """
    with np.errstate(over="ignore"):
        nearest = threshold.astype(np.float32)
        below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest.astype(np.float64) > threshold, below, nearest)


def tree_columns(model: Any, n_trees: int, n_features: int) -> list[Int64[Array, " n_columns"]]:
    """Return the columns that each tree of a bagging model reads, `estimators_features_`."""
    found = getattr(model, "estimators_features_", None)
    if not isinstance(found, list) or len(found) != n_trees:
        raise InvalidForestError(
            f"`estimators_features_` must hold the columns of each of {n_trees} trees, got "
            f"{type(found).__name__}: the model is damaged or not fitted."
        )
    result = []
    for index, part in enumerate(found):
        columns = np.asarray(part)
        sound = columns.ndim == 1 and columns.size > 0 and columns.dtype.kind in "iu"
        if not sound or columns.min() < 0 or columns.max() >= n_features:
            raise InvalidForestError(
                f"the columns of tree {index} must be numbers below {n_features}: the model is "
                "damaged."
            )
        result.append(columns.astype(np.int64))
    return result

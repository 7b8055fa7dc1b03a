"""The trees of a treelite model as its own accessors state them, node by node.

treelite's JSON dump leaves infinite thresholds empty, so fields are read one by one. A test that
holds leads to `cleft`, and h = 1 leads right, so the children change sides under all tests but `<`,
`<=` and category lists of the right child.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import CodeRule, Kind, Relation, axis_aligned, set_bits
from bitvec.core.output import PostTransform, SoftmaxSum
from bitvec.verify.source_trees import SourceTrees

_DTYPES: dict[int, np.dtype[Any]] = {2: np.dtype(np.float32), 3: np.dtype(np.float64)}
_LARGEST_CODE = {2: 1 << 24, 3: (1 << 32) - 1}
"""GTIL matches no code beyond, by the type of thresholds."""
_LEAF, _CATEGORICAL = 0, 2
_EQ, _LT, _GT, _GE = 1, 2, 4, 5
_BINARY, _MULTICLASS = 0, 2
_LINKS = {
    "identity": PostTransform.IDENTITY,
    "identity_multiclass": PostTransform.IDENTITY,
    "sigmoid": PostTransform.SIGMOID,
    "multiclass_ova": PostTransform.SIGMOID,
    "softmax": PostTransform.SOFTMAX,
    "exponential": PostTransform.EXPONENTIAL,
    "exponential_standard_ratio": PostTransform.EXPONENTIAL_STANDARD_RATIO,
    "logarithm_one_plus_exp": PostTransform.LOGARITHM_ONE_PLUS_EXP,
    "signed_square": PostTransform.SIGNED_SQUARE,
    "hinge": PostTransform.HINGE,
}
_PARAMETERS = {
    "sigmoid": "sigmoid_alpha",
    "multiclass_ova": "sigmoid_alpha",
    "exponential_standard_ratio": "ratio_c",
}
_NODES = ("split_index", "threshold", "cmp", "default_left", "node_type")


def source_trees(model: Any) -> SourceTrees:
    """Return the trees of a treelite.Model; a leaf's id is its place among the nodes of a tree."""
    head = model.get_header_accessor().get_field
    kind = int(head("threshold_type")[0])
    n_class = np.array(head("num_class"), np.int64)
    is_output = np.arange(n_class.max()) < n_class[:, None]
    place = np.where(is_output, np.cumsum(is_output).reshape(is_output.shape) - 1, -1)
    slots = []
    for target, class_id in zip(head("target_id").tolist(), head("class_id").tolist(), strict=True):
        rows = place if target < 0 else place[target : target + 1]
        slots.append((rows if class_id < 0 else rows[:, class_id : class_id + 1]).ravel())
    one_each = all(slot.size == 1 for slot in slots)
    width = 1 if one_each else int(is_output.sum())

    nodes: dict[str, list[Array]] = {name: [] for name in (*_NODES, "turned", "left", "right")}
    root, leaf_id, v, output, codes = [], [], [], [], []
    n_nodes = n_leaves = 0
    for tree, slot in enumerate(slots):
        field = _fields(model.get_tree_accessor(tree))
        is_leaf, is_set = field["node_type"] == _LEAF, field["node_type"] == _CATEGORICAL
        number = np.where(
            is_leaf, ~(n_leaves + np.cumsum(is_leaf) - 1), n_nodes + np.cumsum(~is_leaf) - 1
        )
        turned = np.isin(field["cmp"], (_EQ, _GT, _GE))
        turned = np.where(is_set, field["category_list_right_child"] == 0, turned)[~is_leaf]
        of_node = {name: field[name][~is_leaf] for name in _NODES}
        true, false = (number[field[name][~is_leaf]] for name in ("cleft", "cright"))
        of_node |= {
            "turned": turned,
            "left": np.where(turned, false, true),
            "right": np.where(turned, true, false),
        }
        for name, values in of_node.items():
            nodes[name].append(values)
        for node in np.flatnonzero(~is_leaf):
            begin, end = (field[f"category_list_{side}"][node] for side in ("begin", "end"))
            listed = field["category_list"][begin:end].astype(np.int64) if is_set[node] else []
            codes.append(np.array([c for c in listed if c <= _LARGEST_CODE[kind]], np.int64))
        at = np.flatnonzero(is_leaf)
        held = np.repeat(field["leaf_value"][at, None], slot.size, axis=1)
        begin, end = (
            field[f"leaf_vector_{side}"][at].astype(np.int64) for side in ("begin", "end")
        )
        is_vector = end > begin
        held[is_vector] = field["leaf_vector"][begin[is_vector, None] + np.arange(slot.size)]
        vectors = np.zeros((at.size, width), _DTYPES[kind])
        vectors[:, [0] if one_each else slot[slot >= 0]] = held[:, slot >= 0]
        root.append(number[0])
        leaf_id.append(at)
        v.append(vectors)
        output.append(np.full(at.size, slot[0]))
        n_nodes, n_leaves = n_nodes + int((~is_leaf).sum()), n_leaves + at.size

    joined = {name: np.concatenate([[], *values]) for name, values in nodes.items()}
    is_set = joined["node_type"] == _CATEGORICAL
    set_ptr, set_words = set_bits(codes)
    return SourceTrees(
        tests=axis_aligned(
            joined["split_index"],
            np.where(is_set, 0, joined["threshold"]).astype(_DTYPES[kind]),
            relation=np.where(
                np.isin(joined["cmp"], (_LT, _GE)) & ~is_set,
                Relation.GREATER_EQUAL,
                Relation.GREATER,
            ),
            missing_right=joined["default_left"] == joined["turned"],
            kind=np.where(
                is_set, Kind.SET, np.where(joined["cmp"] == _EQ, Kind.EQUAL, Kind.MARGIN)
            ),
            code_rule=CodeRule.FLOOR,
            set_ptr=set_ptr,
            set_words=set_words,
        ),
        left=joined["left"].astype(np.int64),
        right=joined["right"].astype(np.int64),
        root=np.array(root, np.int64),
        leaf_id=np.concatenate([[], *leaf_id]).astype(np.int64),
        v=np.concatenate([np.zeros((0, width), _DTYPES[kind]), *v]),
        row_dtype=_DTYPES[kind],
        n_features=int(head("num_feature")[0]),
        output=np.concatenate([[], *output]).astype(np.int32)
        if one_each and is_output.sum() > 1
        else None,
        stated=_stated(head, is_output, slots, _DTYPES[kind]),
    )


def _fields(accessor: Any) -> Any:
    """Return a mapping that reads each field of a tree once, as an array."""

    class Read(dict[str, Array]):
        def __missing__(self, name: str) -> Array:
            self[name] = np.array(accessor.get_field(name))
            return self[name]

    return Read()


def _stated(head: Any, is_output: Array, slots: list[Array], dtype: np.dtype) -> dict[str, Any]:
    """Return how GTIL adds leaves; its labels are 0, 1, ..., and none where it gives margins."""
    average, n_class = bool(head("average_tree_output")[0]), is_output.sum(axis=1)
    name = head("postprocessor")
    name = name if isinstance(name, str) else ""
    base = np.array(head("base_scores"), np.float64).reshape(is_output.shape)
    stated: dict[str, Any] = {
        "dtype": dtype,
        "aggregate": "mean" if average else "sum",
        "base_score": base[is_output],
        "divisor": None,
        "tree_weight": None,
        "scale": None,
        "classes": None,
    }
    if average:
        answering = np.concatenate(slots)
        stated["divisor"] = np.bincount(answering[answering >= 0]).astype(dtype)
    task = int(head("task_type")[0])
    margins = name == "identity" and not average
    if task in (_BINARY, _MULTICLASS) and not (margins and np.any(n_class == 1)):
        least = 2 if task == _BINARY else 1
        stated["classes"] = tuple(np.arange(max(n, least)) for n in n_class.tolist())
    if name in _LINKS:
        stated |= {"post_transform": _LINKS[name], "softmax_sum": SoftmaxSum.WIDE}
    if name in _PARAMETERS:
        stated["parameter"] = float(head(_PARAMETERS[name])[0])
    return stated

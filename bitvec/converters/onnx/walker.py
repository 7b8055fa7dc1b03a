"""The trees of an ONNX operator as its attributes state them, compared as onnxruntime does.

A test that holds takes the true branch. `<=` and `<` are true on the left here, all others on the
right; NaN takes the branch that its flag names, but always the true one of `!=`. onnxruntime
compares x with each member of a set of at most 30 members, all in 0 ... 30, and truncates x first
for any other set. Subtrees stay shared where the file shares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from bitvec.core.arrays import Array
from bitvec.core.node_tests import CodeRule, Kind, NodeTests, Relation, axis_aligned, set_bits
from bitvec.core.output import PostTransform, SoftmaxSum
from bitvec.verify.source_trees import SourceTrees

_DOMAIN = "ai.onnx.ml"
_MODES = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
)
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_LINKS = {
    "NONE": PostTransform.IDENTITY,
    "LOGISTIC": PostTransform.LOGISTIC,
    "SOFTMAX": PostTransform.SOFTMAX,
    "SOFTMAX_ZERO": PostTransform.SOFTMAX_ZERO,
    "PROBIT": PostTransform.PROBIT,
}
"""Post-transforms by name; onnxruntime's TreeEnsemble numbers them in this order."""
_AGGREGATES = {"AVERAGE": "mean", "SUM": "sum", "MIN": "min", "MAX": "max"}
_FEW = 30
_LARGEST_CODE = 1 << 24


@dataclass(frozen=True, slots=True)
class Branches:
    """The nodes and leaves of an operator; a child is a node or `~leaf`."""

    mode: Array
    column: Array
    value: Array
    members: list[Array]
    missing_true: Array
    true: Array
    false: Array
    root: Array
    leaf_id: Array
    weight_leaf: Array
    weight_target: Array
    weight: Array


def attributes(node: Any) -> dict[str, Any]:
    """Return the attributes of an operator by name: numbers, lists, texts and arrays."""
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    for name, value in given.items():
        if isinstance(value, onnx.TensorProto):
            given[name] = onnx.numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            given[name] = value.decode()
        elif isinstance(value, list) and value and isinstance(value[0], bytes):
            given[name] = [text.decode() for text in value]
    return given


def by_ids(given: dict[str, Any], dtype: np.dtype) -> Branches:
    """Read the operators of versions before 5, whose leaves are nodes and have weights apart."""
    tree, node = given["nodes_treeids"], given["nodes_nodeids"]
    is_leaf = np.array(given["nodes_modes"]) == "LEAF"
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    place = dict(zip(zip(tree, node, strict=True), number.tolist(), strict=True))
    inner = np.flatnonzero(~is_leaf)

    def child(name: str) -> Array:
        names = given[f"nodes_{name}nodeids"]
        return np.array([place[tree[i], names[i]] for i in inner], np.int64)

    prefix = "class" if "class_ids" in given else "target"
    owner = [
        place[pair]
        for pair in zip(given[f"{prefix}_treeids"], given[f"{prefix}_nodeids"], strict=True)
    ]
    on_leaf = np.array(owner, np.int64) < 0  # onnxruntime uses no weights of inner nodes
    first = [i for i in range(len(tree)) if i == 0 or tree[i] != tree[i - 1]]
    n = len(tree)
    return Branches(
        mode=np.array([_MODES.index(given["nodes_modes"][i]) for i in inner], np.int64),
        column=np.array(given["nodes_featureids"], np.int64)[inner],
        value=_reals(given, "nodes_values", dtype)[inner],
        members=[np.zeros(0, dtype)] * inner.size,
        missing_true=_flags(given, n)[inner],
        true=child("true"),
        false=child("false"),
        root=number[first],
        leaf_id=np.array(node, np.int64)[is_leaf],
        weight_leaf=~np.array(owner, np.int64)[on_leaf],
        weight_target=np.array(given[f"{prefix}_ids"], np.int64)[on_leaf],
        weight=_reals(given, f"{prefix}_weights", dtype)[on_leaf],
    )


def by_positions(given: dict[str, Any], dtype: np.dtype) -> Branches:
    """Read the operator of version 5, whose leaves are numbered apart and hold one weight each."""
    mode = given["nodes_modes"].astype(np.int64)
    true, false = (
        np.where(
            np.array(given[f"nodes_{side}leafs"]) != 0,
            ~np.array(given[f"nodes_{side}nodeids"], np.int64),
            given[f"nodes_{side}nodeids"],
        )
        for side in ("true", "false")
    )
    root = np.array(given["tree_roots"], np.int64)
    weight = given["leaf_weights"].astype(dtype)
    members = [np.zeros(0, dtype)] * mode.size
    listed = given.get("membership_values", np.zeros(0, dtype))
    parts = np.split(listed, np.flatnonzero(np.isnan(listed)))
    for node, part in zip(np.flatnonzero(mode == _MEMBER), parts, strict=False):
        members[node] = part[~np.isnan(part)]
    return Branches(
        mode=mode,
        column=np.array(given["nodes_featureids"], np.int64),
        value=given["nodes_splits"].astype(dtype),
        members=members,
        missing_true=_flags(given, mode.size),
        true=true,
        false=false,
        root=np.where((true == false)[root] & (true[root] < 0), true[root], root),
        leaf_id=np.arange(weight.size),
        weight_leaf=np.arange(weight.size),
        weight_target=np.array(given["leaf_targetids"], np.int64),
        weight=weight,
    )


def _reals(given: dict[str, Any], name: str, dtype: np.dtype) -> Array:
    tensor = given.get(f"{name}_as_tensor")
    return np.array(given.get(name, []) if tensor is None else tensor, dtype)


def _flags(given: dict[str, Any], n: int) -> Array:
    flags = given.get("nodes_missing_value_tracks_true") or np.zeros(n)
    return np.array(flags) != 0


def tests_of(nodes: Branches) -> tuple[NodeTests, Array, Array]:
    """Return what the nodes test, and their left and right children."""
    mode, value, codes = nodes.mode.copy(), nodes.value.copy(), []
    code_rule = np.full(mode.size, CodeRule.EXACT)
    for node, members in enumerate(nodes.members):
        is_set = mode[node] == _MEMBER
        few = members.size <= _FEW and np.all((members >= 0) & (members <= _FEW))
        whole = np.all((members >= 0) & (members < _LARGEST_CODE) & (members == np.trunc(members)))
        if is_set and members.size == 1 and few and not whole:
            mode[node], value[node] = _EQ, members[0]
            is_set = False
        codes.append(members.astype(np.int64) if is_set else np.zeros(0, np.int64))
        if is_set:
            value[node], code_rule[node] = 0, CodeRule.EXACT if few else CodeRule.TRUNCATE
    true_right = np.isin(mode, (_GTE, _GT, _EQ, _MEMBER))
    kinds = {_EQ: Kind.EQUAL, _NEQ: Kind.EQUAL, _MEMBER: Kind.SET}
    set_ptr, set_words = set_bits(codes)
    tests = axis_aligned(
        nodes.column,
        value,
        relation=np.where(np.isin(mode, (_LT, _GTE)), Relation.GREATER_EQUAL, Relation.GREATER),
        missing_right=np.where(mode == _NEQ, False, nodes.missing_true == true_right),
        kind=np.array([kinds.get(m, Kind.MARGIN) for m in mode.tolist()], np.uint8),
        code_rule=code_rule,
        set_ptr=set_ptr,
        set_words=set_words,
    )
    left = np.where(true_right, nodes.false, nodes.true)
    return tests, left, np.where(true_right, nodes.true, nodes.false)


def source_trees(model: Any) -> SourceTrees:
    """Return the trees of an onnx.ModelProto around one tree operator.

    A leaf's id is the file's: a node id before version 5, there a leaf's number.
    """
    graph = model.graph
    node = next(n for n in graph.node if n.domain == _DOMAIN and n.op_type.startswith("TreeEns"))
    given = attributes(node)
    read, row_dtype = dtypes_of(graph, node)
    is_5 = node.op_type == "TreeEnsemble"
    nodes = by_positions(given, read) if is_5 else by_ids(given, read)
    tests, left, right = tests_of(nodes)
    dims = [dim.dim_value for dim in _input(graph, node)[0].type.tensor_type.shape.dim]
    n_features = dims[1] if len(dims) == 2 else 0
    v, output, stated = _answers(graph, node, given, nodes)
    return SourceTrees(
        tests=tests,
        left=left,
        right=right,
        root=nodes.root,
        leaf_id=nodes.leaf_id,
        v=v,
        row_dtype=row_dtype,
        n_features=n_features or 1 + int(nodes.column.max(initial=0)),
        output=output,
        stated=stated,
    )


def _input(graph: Any, node: Any) -> tuple[Any, list[int]]:
    """Return the input of the graph that an operator reads, and the types it is cast to."""
    origin = {name: other for other in graph.node for name in other.output}
    name, casts = node.input[0], []
    while name in origin:
        casts += [a.i for a in origin[name].attribute if a.name == "to"]
        name = origin[name].input[0]
    return next(value for value in graph.input if value.name == name), casts[::-1]


def dtypes_of(graph: Any, node: Any) -> tuple[np.dtype, np.dtype]:
    """Return the dtype in which the operator compares, and the narrowest that x goes through."""
    source, casts = _input(graph, node)
    types = [
        np.dtype(onnx.helper.tensor_dtype_to_np_dtype(t))
        for t in (source.type.tensor_type.elem_type, *casts)
    ]
    read = types[-1] if types[-1].kind == "f" else np.dtype(np.float32)
    floats = [read, *(t for t in types if t.kind == "f")]
    return read, min(floats, key=lambda t: t.itemsize)


def _answers(
    graph: Any, node: Any, given: dict[str, Any], nodes: Branches
) -> tuple[Array, Array | None, dict[str, Any]]:
    """Return what leaves hold, which output each adds to, and what else the file states."""
    labels = given.get("classlabels_strings") or given.get("classlabels_int64s")
    aggregate = given.get("aggregate_function", "SUM")
    if not isinstance(aggregate, str):
        aggregate = tuple(_AGGREGATES)[aggregate]
    n_targets = len(labels) if labels else given["n_targets"]
    leaf, target, weight = nodes.weight_leaf, nodes.weight_target, nodes.weight
    n_leaves = nodes.leaf_id.size
    weighed = np.unique(target)
    base = _reals(given, "base_values", weight.dtype)
    name = given.get("post_transform", "NONE")
    link = _LINKS[name if isinstance(name, str) else tuple(_LINKS)[name]]
    stated: dict[str, Any] = {
        "dtype": weight.dtype,
        "parameter": 1.0,
        "aggregate": _AGGREGATES[aggregate],
        "divisor": None,
        "tree_weight": None,
        "scale": None,
        "classes": None,
    }
    wanted = {value.name for value in graph.output}
    constants = {c.name: c for c in graph.initializer}
    for step in reversed(graph.node):
        wanted |= set(step.input) if wanted & set(step.output) else set()
        if step.op_type == "Div":
            divisor = onnx.numpy_helper.to_array(constants[step.input[1]]).ravel()
            stated |= {"aggregate": "mean", "divisor": np.repeat(divisor, n_targets)}
        if step.op_type == "Exp" and wanted & set(step.output):
            link = PostTransform.EXPONENTIAL
    label_used = bool(labels) and node.output[0] in wanted
    if label_used:
        stated["classes"] = (np.array(labels),)
    if labels and n_targets == 2 and (weighed.size == 1 or label_used):
        score = np.zeros((n_leaves, 1), weight.dtype)
        score[leaf, 0] = weight
        second = weighed[0] == 1
        base = base if base.size else np.zeros(1, weight.dtype)
        negative = _reals(given, "class_weights", weight.dtype) < 0
        plain = link not in (PostTransform.LOGISTIC, PostTransform.PROBIT)
        if not second and not np.any(negative):
            stated["post_transform"] = PostTransform.IDENTITY if plain else PostTransform.LOGISTIC
            return score, None, stated | {"base_score": base}
        stated["post_transform"] = PostTransform.IDENTITY if plain and not second else link
        both = np.concatenate([np.zeros_like(score) if second else -score, score], axis=1)
        return both, None, stated | {"base_score": np.concatenate([-base, base])}
    if n_targets == 1 and link not in (PostTransform.PROBIT, PostTransform.EXPONENTIAL):
        link = PostTransform.IDENTITY  # onnxruntime leaves it out
    stated |= {"post_transform": link, "softmax_sum": SoftmaxSum.IN_ORDER_C}
    stated["base_score"] = base if base.size else np.zeros(n_targets, weight.dtype)
    if not labels:  # onnxruntime answers 0 for a target without weights, whatever its base
        stated["base_score"] = np.where(
            np.isin(np.arange(n_targets), weighed), stated["base_score"], weight.dtype.type(0)
        )
    count = np.bincount(leaf, minlength=n_leaves)
    if n_targets > 1 and aggregate in ("SUM", "AVERAGE") and np.all(count == 1):
        order = np.argsort(leaf)
        return weight[order, None], target[order].astype(np.int32), stated
    v = np.zeros((n_leaves, n_targets), weight.dtype)
    if n_targets > 1:  # what a leaf does not weigh does not enter a minimum or maximum
        v[:, weighed] = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0)
    v[leaf, target] = weight
    return v, None, stated

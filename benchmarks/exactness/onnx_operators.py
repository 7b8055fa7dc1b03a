"""scikit-learn's forests as ONNX tree operators of any version, their tests said by any modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import onnx

from benchmarks.frames import Table

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = "BRANCH_MEMBER"
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
CLASSIFIER, REGRESSOR, ENSEMBLE = "TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes and leaves of all trees, in order; children are numbers within a tree."""

    tree: np.ndarray
    number: np.ndarray
    feature: np.ndarray
    mode: np.ndarray
    value: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing_true: np.ndarray
    weight: np.ndarray
    members: list[float]

    @property
    def is_leaf(self) -> np.ndarray:
        """Mark those that are leaves."""
        return self.mode == "LEAF"


def nodes_of(trees: Sequence[Any], part: Table, modes: Sequence[str], dtype: type) -> Nodes:
    """Say each test `x <= threshold` by the next mode.

    An equality asks for the threshold's whole part instead, and a set names all codes below.
    """
    said = cycle(modes)
    mode: list[str] = []
    members: list[float] = []
    for tree in trees:
        for left, column, threshold in zip(
            tree.children_left, tree.feature, tree.threshold, strict=True
        ):
            how = "LEAF" if left < 0 else next(said)
            is_set = column in part.categorical and 0 <= threshold < np.inf
            while how == MEMBER and not is_set:
                how = next(said)
            if how == MEMBER:
                members += [*np.arange(np.floor(threshold) + 1), np.nan]
            mode.append(how)
    size = [tree.node_count for tree in trees]
    left, right, feature, value, missing_left = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in (
            "children_left",
            "children_right",
            "feature",
            "threshold",
            "missing_go_to_left",
        )
    )
    by = np.array(mode)
    value = np.where(by == "LEAF", 0, value).astype(dtype)
    above = np.nextafter(value, dtype(np.inf))
    swapped = np.isin(by, ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ"))
    value = np.where(np.isin(by, ("BRANCH_LT", "BRANCH_GTE")), above, value)
    value = np.where(np.isin(by, ("BRANCH_EQ", "BRANCH_NEQ")), np.floor(value), value)
    weight = np.concatenate([tree.value.reshape(tree.node_count, -1) for tree in trees])
    return Nodes(
        tree=np.repeat(np.arange(len(trees)), size),
        number=np.concatenate([np.arange(n) for n in size]),
        feature=np.maximum(feature, 0),
        mode=by,
        value=value,
        true=np.maximum(np.where(swapped, right, left), 0),
        false=np.maximum(np.where(swapped, left, right), 0),
        missing_true=(missing_left != 0) != swapped,
        weight=(weight / len(trees)).astype(dtype),
        members=members,
    )


def by_ids(nodes: Nodes, prefix: str) -> dict[str, Any]:
    """Return the attributes of versions before 5; each leaf weighs all targets or classes."""
    leaf = np.flatnonzero(nodes.is_leaf)
    width = nodes.weight.shape[1]
    weight = nodes.weight[leaf].ravel()
    given = {
        "nodes_treeids": nodes.tree.tolist(),
        "nodes_nodeids": nodes.number.tolist(),
        "nodes_featureids": nodes.feature.tolist(),
        "nodes_modes": nodes.mode.tolist(),
        "nodes_truenodeids": nodes.true.tolist(),
        "nodes_falsenodeids": nodes.false.tolist(),
        "nodes_missing_value_tracks_true": nodes.missing_true.astype(int).tolist(),
        f"{prefix}_treeids": np.repeat(nodes.tree[leaf], width).tolist(),
        f"{prefix}_nodeids": np.repeat(nodes.number[leaf], width).tolist(),
        f"{prefix}_ids": np.tile(np.arange(width), leaf.size).tolist(),
    }
    if weight.dtype == np.float32:
        return given | {"nodes_values": nodes.value.tolist(), f"{prefix}_weights": weight.tolist()}
    return given | {"nodes_values_as_tensor": nodes.value, f"{prefix}_weights_as_tensor": weight}


def by_positions(nodes: Nodes) -> dict[str, Any]:
    """Return the attributes of version 5; a tree's leaves weigh one target, the next in turn."""
    is_leaf, width = nodes.is_leaf, nodes.weight.shape[1]
    first = np.searchsorted(nodes.tree, np.arange(nodes.tree[-1] + 1))
    place = np.where(is_leaf, np.cumsum(is_leaf), np.cumsum(~is_leaf)) - 1
    true, false = ((first[nodes.tree] + side)[~is_leaf] for side in (nodes.true, nodes.false))
    target = nodes.tree[is_leaf] % width
    given = {
        "tree_roots": place[first].tolist(),
        "nodes_featureids": nodes.feature[~is_leaf].tolist(),
        "nodes_modes": np.array(
            [(*MODES, MEMBER).index(m) for m in nodes.mode[~is_leaf]], np.uint8
        ),
        "nodes_splits": nodes.value[~is_leaf],
        "nodes_truenodeids": place[true].tolist(),
        "nodes_trueleafs": is_leaf[true].astype(int).tolist(),
        "nodes_falsenodeids": place[false].tolist(),
        "nodes_falseleafs": is_leaf[false].astype(int).tolist(),
        "nodes_missing_value_tracks_true": nodes.missing_true[~is_leaf].astype(int).tolist(),
        "leaf_targetids": target.tolist(),
        "leaf_weights": nodes.weight[is_leaf][np.arange(target.size), target],
    }
    if nodes.members:
        given["membership_values"] = np.array(nodes.members, nodes.value.dtype)
    return given


def model(kind: str, version: int, given: dict[str, Any], n_features: int, dtype: type) -> Any:
    """Return a model of one operator; arrays become tensors."""
    helper = onnx.helper
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    outputs = {"scores": element if kind == ENSEMBLE else onnx.TensorProto.FLOAT}
    if kind == CLASSIFIER:
        outputs = {"label": onnx.TensorProto.STRING, **outputs}
    given = {
        name: onnx.numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value
        for name, value in given.items()
    }
    domain = "ai.onnx.ml"
    graph = helper.make_graph(
        [helper.make_node(kind, ["X"], list(outputs), name="trees", domain=domain, **given)],
        "forest",
        [helper.make_tensor_value_info("X", element, [None, n_features])],
        [helper.make_tensor_value_info(name, type_, None) for name, type_ in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)

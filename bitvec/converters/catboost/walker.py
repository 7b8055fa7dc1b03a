"""The trees of a CatBoost model as its own JSON export states them, for proofs.

A row passes a split, and goes right, where float32(x) > border, where the hash of its category is
the split's, or where a statistic of categories exceeds the border. An oblivious tree asks the same
split at all nodes of a level; bit i of a leaf's number says whether split i was passed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bitvec.converters.catboost.ctr_walker import exceeds, feature_of, stated_map
from bitvec.core.arrays import Array
from bitvec.core.city_hash import category_hash
from bitvec.core.node_tests import Kind, NodeTests, axis_aligned, set_bits
from bitvec.core.output import PostTransform, SoftmaxSum
from bitvec.verify.source_trees import SourceTrees

Texts = Mapping[int, Mapping[float, str]]
Grown = tuple[list[Any], Array, Array, Array, Array]
"""Splits, children (`~leaf`, within the tree; the first node is the root), leaf ids and values."""


def source_trees(fitted: Any, texts: Texts) -> SourceTrees:
    """Return the trees of a fitted model.

    Parameters
    ----------
    fitted : CatBoost
    texts : mapping
        By column, the category that a number of X stands for.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        fitted.save_model(str(path), format="json")
        document = json.loads(path.read_bytes())
    if "oblivious_trees" in document:
        grown = [_oblivious(tree) for tree in document["oblivious_trees"]]
    else:
        grown = [_nested(fitted, at, tree) for at, tree in enumerate(document["trees"])]
    splits, lefts, rights, ids, values = zip(*grown, strict=True)
    n_nodes, n_leaves = [np.array(list(map(len, part))) for part in (splits, ids)]
    first_node, first_leaf = np.cumsum(n_nodes) - n_nodes, np.cumsum(n_leaves) - n_leaves
    node_start, leaf_start = np.repeat(first_node, n_nodes), np.repeat(first_leaf, n_nodes)
    left, right = (
        np.where(side < 0, side - leaf_start, side + node_start)
        for side in (np.concatenate(lefts), np.concatenate(rights))
    )
    place, n_outputs = _places(document["model_info"], values[0].shape[1])
    v = np.zeros((int(n_leaves.sum()), n_outputs))
    v[:, place] = np.concatenate(values)
    return SourceTrees(
        tests=_tests([split for own in splits for split in own], document, texts),
        left=left,
        right=right,
        root=np.where(n_nodes > 0, first_node, ~first_leaf),
        leaf_id=np.concatenate(ids),
        v=v,
        row_dtype=_row_dtype(document),
        n_features=len(fitted.feature_names_),
        stated=_stated(fitted, document, place, n_outputs),
        feature_map=stated_map(document, _n_features(document)),
    )


def _oblivious(tree: dict[str, Any]) -> Grown:
    splits = (tree.get("splits") or [])[::-1]  # the last split stands at the root
    n_leaves = 2 ** len(splits)
    passed = 2 * np.arange(n_leaves - 1) + 2  # node k of a level has the nodes 2k, 2k + 1 below it
    is_leaf = passed > n_leaves - 2
    right = np.where(is_leaf, ~(passed - (n_leaves - 1)), passed)
    left = np.where(is_leaf, right + 1, right - 1)
    levels = [split for level, split in enumerate(splits) for _ in range(2**level)]
    values = np.array(tree["leaf_values"], np.float64).reshape(n_leaves, -1)
    return levels, left, right, np.arange(n_leaves), values


def _nested(fitted: Any, at: int, tree: dict[str, Any]) -> Grown:
    """Walk a tree beside the library's steps to children, 0 to a leaf that the node names."""
    steps, names = fitted._get_tree_step_nodes(at), fitted._get_tree_node_to_leaf(at)
    splits: list[Any] = []
    children: list[list[int]] = []
    ids: list[int] = []
    values: list[Any] = []
    stack = [(tree, 0, -1, 0)]
    while stack:
        node, step, parent, side = stack.pop()
        if "value" in node:
            number = ~len(ids)
            ids.append(names[step])
            values.append(node["value"])
        else:
            number = len(splits)
            splits.append(node["split"])
            children.append([0, 0])
            stack.append((node["right"], step + steps[step][1], number, 1))
            stack.append((node["left"], step + steps[step][0], number, 0))
        if parent >= 0:
            children[parent][side] = number
    sides = np.array(children, np.int64).reshape(-1, 2)
    v = np.array(values, np.float64).reshape(len(ids), -1)
    return splits, sides[:, 0], sides[:, 1], np.array(ids, np.int64), v


def _tests(splits: list[Any], document: dict[str, Any], texts: Texts) -> NodeTests:
    info = document["features_info"]
    numeric, categorical = (
        {feature["feature_index"]: feature for feature in info.get(name) or ()}
        for name in ("float_features", "categorical_features")
    )
    hashed = bool(info.get("ctrs"))
    number: dict[Any, int] = {}
    asked = np.array([number.setdefault(tuple(s.values()), len(number)) for s in splits], np.int64)
    column, b, nan_right, kind, right = [], [], [], [], []
    for at in np.unique(asked, return_index=True)[1].tolist():
        split, codes = splits[at], []
        if split["split_type"] == "OnlineCtr":
            read = _n_features(document) + feature_of(document, split)
            b.append(split["border"])
            kind.append(Kind.MARGIN)
            nan_right.append(False)
        elif split["split_type"] == "FloatFeature":
            feature = numeric[split["float_feature_index"]]
            read = feature["flat_feature_index"]
            b.append(exceeds(split["border"]) if hashed else split["border"])
            kind.append(Kind.MARGIN)
            nan_right.append(feature["has_nans"] and feature["nan_value_treatment"] == "AsTrue")
        else:
            feature = categorical[split["cat_feature_index"]]
            read = feature["flat_feature_index"]
            known = texts.get(feature["flat_feature_index"], {})
            codes = [x for x, text in known.items() if category_hash(text) == split["value"]]
            codes = [split["value"]] if hashed else codes
            b.append(codes[0] if len(codes) == 1 else 0.0)
            kind.append(Kind.EQUAL if len(codes) == 1 else Kind.SET)
            nan_right.append(False)
        column.append(read)
        right.append(codes if kind[-1] == Kind.SET else [])
    set_ptr, set_words = set_bits([np.array(codes, np.int64) for codes in right])
    return axis_aligned(
        column,
        np.array(b, _row_dtype(document)),
        missing_right=np.array(nan_right, bool),
        kind=np.array(kind, np.uint8),
        set_ptr=set_ptr,
        set_words=set_words,
    ).take(asked)


def _row_dtype(document: dict[str, Any]) -> np.dtype:
    """Return float32; float64 where X holds hashes, for which borders are stated in float64."""
    return np.dtype(np.float64 if document["features_info"].get("ctrs") else np.float32)


def _n_features(document: dict[str, Any]) -> int:
    info = document["features_info"]
    features = [*(info.get("float_features") or ()), *(info.get("categorical_features") or ())]
    return 1 + max(feature["flat_feature_index"] for feature in features)


def _places(info: dict[str, Any], dimension: int) -> tuple[Array, int]:
    """Return the output of each value of a leaf: absent classes have a name but no value."""
    classes = info.get("class_params") or info.get("multiclass_params") or {}
    place = classes.get("class_to_label") or []
    if dimension == 1 or len(place) != dimension or _is_multilabel(info):
        return np.arange(dimension), dimension
    count = len(classes.get("class_names") or ()) or classes.get("classes_count") or dimension
    return np.array(place, np.int64), count


def _stated(fitted: Any, document: dict[str, Any], place: Array, n: int) -> dict[str, Any]:
    scale, bias = document.get("scale_and_bias") or (1.0, None)
    base = np.full(n, -np.inf)
    base[place] = 0.0 if bias in (None, []) else bias
    stated: dict[str, Any] = {
        "dtype": np.float64,
        "base_first": False,
        "parameter": 1.0,
        "aggregate": "sum",
        "tree_weight": None,
        "softmax_sum": SoftmaxSum.IN_ORDER_TABLE,
        "scale": None if scale == 1 else np.full(n, float(scale)),
        "base_score": base,
    }
    info = document["model_info"]
    if _is_multilabel(info):
        stated["post_transform"] = PostTransform.SIGMOID
    elif (labels := np.asarray(fitted.classes_)).size:
        alone = n == 1 or "MultiClassOneVsAll" in _loss(info)
        link = PostTransform.SIGMOID if alone else PostTransform.SOFTMAX
        stated |= {"classes": (labels,), "post_transform": link}
    else:
        is_log = any(name in _loss(info) for name in ("Poisson", "Tweedie"))
        link = PostTransform.EXPONENTIAL if is_log else PostTransform.IDENTITY
        stated |= {"classes": None, "post_transform": link}
    return stated


def _loss(info: dict[str, Any]) -> str:
    return f"{(info.get('params') or {}).get('loss_function')} {info.get('loss_function')}"


def _is_multilabel(info: dict[str, Any]) -> bool:
    return "MultiLogloss" in _loss(info) or "MultiCrossEntropy" in _loss(info)

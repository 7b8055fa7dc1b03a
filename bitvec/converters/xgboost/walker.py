"""The trees of an xgboost Booster as its own JSON dump states them, for proofs.

A row goes left where x < split_condition in float32, a missing value by `default_left`; at a split
on categories the code floor(x) goes right if it is listed, and is listed by no node from 2**24 on.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, Relation, axis_aligned, set_bits
from bitvec.core.output import PostTransform, SoftmaxSum
from bitvec.verify.source_trees import SourceTrees

OUT_OF_RANGE: Final = 2**24
LEAF_NUMBERS: Final = ("split_conditions", "base_weights", "leaf_weights")


def source_trees(booster: Any, wrapper: Any = None, *, saved: bool = False) -> SourceTrees:
    """Return the trees that answer.

    Parameters
    ----------
    booster : Booster
    wrapper : scikit-learn wrapper, optional
        Its own: `missing`, `classes_` and the best iteration then hold.
    saved : bool
        Whether the Booster was read from a file, where what a wrapper left holds.
    """
    document = json.loads(booster.save_raw("json"))
    learner = document["learner"]
    booster_document = learner["gradient_booster"]
    model = booster_document.get("gbtree", booster_document)["model"]
    weights = booster_document.get("weight_drop", model.get("weight_drop"))
    missing, labels, stops = _use(booster, wrapper, saved=saved)
    ends = model["iteration_indptr"]
    n_iterations = len(ends) - 1
    if stops and booster.attr("best_iteration") is not None:
        n_iterations = int(booster.attr("best_iteration")) + 1
    n_trees = ends[n_iterations]
    trees = model["trees"][:n_trees]

    def joined(name: str, dtype: type) -> Array:
        parts: list[Array] = [np.array(tree[name], dtype) for tree in trees]
        return np.concatenate([np.zeros(0, dtype), *parts])

    size = np.array([len(tree["left_children"]) for tree in trees], np.int64)
    start = np.cumsum(size) - size
    first = np.repeat(start, size)
    left, right = joined("left_children", np.int64), joined("right_children", np.int64)
    inner = left >= 0
    hangs = np.zeros(left.size, bool)  # nodes that were pruned keep their place
    hangs[start] = True
    for side in (left, right):
        hangs[(side + first)[inner]] = True
    node, leaf = np.flatnonzero(inner & hangs), np.flatnonzero(~inner & hangs)
    number = np.zeros(left.size, np.int64)
    number[node], number[leaf] = np.arange(node.size), ~np.arange(leaf.size)

    split = joined("split_conditions", np.float32)
    is_set = joined("split_type", np.int64)[node] == 1
    set_ptr, set_words = set_bits(_right_codes(trees, start, node[is_set]))
    words = np.zeros(node.size, np.int64)
    words[is_set] = np.diff(set_ptr)
    parameters = learner["learner_model_param"]
    n_features = int(parameters["num_feature"])
    n_outputs = max(1, int(parameters["num_class"]), int(parameters.get("num_target", "1")))
    v = _leaf_vectors(trees, split, leaf, right, start)
    group = np.array(model["tree_info"][:n_trees], np.int32)
    stated: dict[str, Any] = {
        "dtype": np.float32,
        "parameter": 1.0,
        "aggregate": "sum",
        "base_first": True,
        "boundary": None,
        "scale": None,
        "tree_weight": None if weights is None else np.array(weights[:n_trees], np.float32),
    }
    for names, transform in _LINKS.items():
        if learner["objective"]["name"].startswith(names):
            stated |= {"post_transform": transform, "softmax_sum": SoftmaxSum.WIDE}
    if n_trees:
        stated["base_score"] = _base_margin(document, n_features)
    if wrapper is not None and int(parameters.get("num_target", "1")) <= 1:
        stated["classes"] = None if labels is None else (np.asarray(labels),)
    elif wrapper is None and not saved:  # a Booster numbers its classes
        n_targets = int(parameters.get("num_target", "1"))
        classifies = learner["objective"]["name"].startswith(("binary:", "multi:"))
        numbers = np.arange(max(2, n_outputs if n_targets <= 1 else 1))
        stated["classes"] = (numbers,) * max(1, n_targets) if classifies else None
    return SourceTrees(
        tests=axis_aligned(
            joined("split_indices", np.int64)[node],
            np.where(is_set, np.float32(0), split[node]),
            relation=Relation.GREATER_EQUAL,
            missing_right=joined("default_left", np.int64)[node] == 0,
            missing_rule=MissingRule.NAN if np.isnan(missing) else MissingRule.NAN_OR_SENTINEL,
            kind=np.where(is_set, Kind.SET, Kind.MARGIN),
            code_rule=CodeRule.FLOOR,
            set_ptr=np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
            set_words=set_words,
        ),
        left=number[(left + first)[node]],
        right=number[(right + first)[node]],
        root=number[start],
        leaf_id=(np.arange(left.size) - first)[leaf],
        v=v,
        output=None
        if n_outputs == 1 or v.shape[1] > 1
        else np.repeat(group, size)[leaf].astype(np.int32),
        row_dtype=np.dtype(np.float32),
        missing_sentinel=None if np.isnan(missing) else missing,
        n_features=n_features,
        stated=stated,
    )


_LINKS = {
    (
        "reg:squarederror",
        "reg:squaredlogerror",
        "reg:linear",
        "reg:absoluteerror",
        "reg:pseudohubererror",
        "reg:quantileerror",
        "reg:expectileerror",
        "rank:",
        "binary:logitraw",
    ): PostTransform.IDENTITY,
    ("reg:logistic", "binary:logistic"): PostTransform.SIGMOID,
    ("multi:softprob", "multi:softmax"): PostTransform.SOFTMAX,
    ("count:poisson", "reg:gamma", "reg:tweedie", "survival:"): PostTransform.EXPONENTIAL,
    ("binary:hinge",): PostTransform.HINGE,
}
"""Functions of raw scores, by how the names of objectives begin."""


def _use(booster: Any, wrapper: Any, *, saved: bool) -> tuple[float, Any, bool]:
    """Return what counts as missing, the labels, and whether the best iteration is the last."""
    left = booster.attr("scikit_learn") if saved else None
    if wrapper is None and left is None:
        return np.nan, None, False
    said = vars(wrapper) if left is None else json.loads(left)
    missing, labels = said.get("missing"), said.get("classes_")
    if labels is None and wrapper is not None:
        labels = getattr(wrapper, "classes_", None)
    if labels is not None and len(labels) < 2:  # there are probabilities of the classes 0 and 1
        labels = [0, 1]
    return np.nan if missing is None else float(missing), labels, True


def _right_codes(trees: list[Any], start: Array, nodes: Array) -> list[Array]:
    """Return the codes that go right at each of these splits on categories."""
    codes = {}
    for tree, first in zip(trees, start.tolist(), strict=True):
        listed = np.array(tree["categories"], np.int64)
        for node, begin, count in zip(
            tree["categories_nodes"],
            tree["categories_segments"],
            tree["categories_sizes"],
            strict=True,
        ):
            right = listed[begin : begin + count]
            codes[first + node] = right[right < OUT_OF_RANGE]
    return [codes[node] for node in nodes.tolist()]


def _leaf_vectors(trees: list[Any], split: Array, leaf: Array, right: Array, start: Array) -> Array:
    """Return what leaves hold: one number in place of a threshold, or a vector apart."""
    width = int(trees[0]["tree_param"].get("size_leaf_vector", "1")) if trees else 1
    if width <= 1:
        return split[leaf][:, None]
    if "leaf_weights" not in trees[0]:  # before 3.2
        vectors = [np.array(tree["base_weights"], np.float32) for tree in trees]
        return np.concatenate(vectors).reshape(-1, width)[leaf]
    vectors = [np.array(tree["leaf_weights"], np.float32).reshape(-1, width) for tree in trees]
    count = np.array([len(part) for part in vectors])
    tree = np.searchsorted(start, leaf, side="right") - 1
    # The right child of a leaf is the place of its vector.
    return np.concatenate(vectors)[right[leaf] + (np.cumsum(count) - count)[tree]]


def _base_margin(document: Any, n_features: int) -> Array:
    """Return what the library adds leaves to: its answer where each leaf is -0.0.

    Only the first iteration of the document is kept, without the weights of a dart, whose sum
    turns -0.0, the margin of a probability of .5, into 0.0.
    """
    import xgboost
    from scipy import sparse

    booster = document["learner"]["gradient_booster"]
    booster = booster.get("gbtree", booster) | {"name": "gbtree"}
    document["learner"]["gradient_booster"] = booster
    model = booster["model"]
    n_trees = model["iteration_indptr"][1]
    trees = [
        tree | {name: [-0.0] * len(tree[name]) for name in LEAF_NUMBERS if name in tree}
        for tree in model["trees"][:n_trees]
    ]
    model["trees"], model["tree_info"] = trees, model["tree_info"][:n_trees]
    model["iteration_indptr"] = [0, n_trees]
    model["gbtree_model_param"]["num_trees"] = str(n_trees)
    blank = xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))
    row = xgboost.DMatrix(sparse.csr_matrix((1, n_features), dtype=np.float32))
    margin = blank.predict(row, output_margin=True, validate_features=False)
    return np.asarray(margin, np.float32).reshape(-1)

"""HistGradientBoosting: float64 thresholds, missing values, category sets.

x goes left where x <= t in float64, or where a category is in the node's set. A missing value, an
unknown category and a negative code go where the node sends missing values. A split of missing from
present values has t = +inf, so +inf itself goes left. The raw score starts at the baseline and adds
the leaf values in tree order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.attribute_records import class_name
from bitvec.converters.sklearn.boosting_losses import link
from bitvec.converters.sklearn.categories import Categories, categories_of, set_words
from bitvec.converters.sklearn.unsupported import (
    classes_of,
    inputs_of,
    is_classifier,
    library_version,
    parameters,
    require_trees_per_stage,
)
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, NodeTests, axis_aligned
from bitvec.core.output import Output, SoftmaxSum
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.core.source import Source
from bitvec.errors import InvalidForestError, UnsupportedModelError

FIELDS = {
    "value": "f",
    "count": "iu",
    "feature_idx": "iu",
    "num_threshold": "f",
    "missing_go_to_left": "iu",
    "left": "iu",
    "right": "iu",
    "gain": "f",
    "is_leaf": "iu",
    "is_categorical": "iu",
    "bitset_idx": "iu",
}
"""Fields that are read of a node record, and the kinds of numbers that they may be."""


def convert_histogram(model: Any, kind: str) -> Forest:
    """Convert a HistGradientBoosting model."""
    stages = _stages(model)
    baseline: Any = getattr(model, "_baseline_prediction", None)
    n_outputs = len(stages[0])
    require_trees_per_stage(model, n_outputs)
    if (
        not isinstance(baseline, np.ndarray)
        or baseline.shape != (1, n_outputs)
        or baseline.dtype != np.float64
    ):
        raise InvalidForestError(
            f"`_baseline_prediction` must be float64 of shape (1, {n_outputs}), got "
            f"{getattr(baseline, 'dtype', None)} of shape {np.shape(baseline)}: the model is "
            "damaged."
        )
    classes = classes_of(model) if is_classifier(kind) else None
    if classes is not None and (
        classes.size < 2 or n_outputs != (1 if classes.size == 2 else classes.size)
    ):
        raise InvalidForestError(
            "a classifier must have at least 2 classes and one tree per class and iteration (one "
            f"for 2 classes), got {classes.size} classes and {n_outputs} trees."
        )
    predictors = [predictor for stage in stages for predictor in stage]
    inputs = inputs_of(model)
    nodes, start = _gather(predictors, inputs.n_features)
    shift = np.repeat(start[:-1], np.diff(start))
    inner = nodes["is_leaf"] == 0
    left, right = (
        np.where(inner, nodes[side].astype(np.int64) + shift, -1) for side in ("left", "right")
    )
    bitvectors, order = structure.arrange(left, right, start[:-1])
    tree_of = np.repeat(np.arange(len(predictors)), np.diff(start))
    found = categories_of(model, inputs.n_features)
    tests = _tests(nodes[order.node], tree_of[order.node], predictors, found)
    transform, parameter = link(model)
    output = Output(
        n_outputs,
        np.dtype(np.float64),
        base_score=baseline[0] + 0.0,  # it is added to zeros, which loses the sign of -0.0
        base_first=True,
        post_transform=transform,
        parameter=parameter,
        classes=None if classes is None else (classes,),
        iteration=np.repeat(np.arange(len(stages), dtype=np.int32), n_outputs),
        labels_from_raw=classes is not None,
        softmax_sum=SoftmaxSum.IN_ORDER,
    )
    source = Source(
        "sklearn",
        library_version(model),
        class_name(model),
        leaf_id=order.leaf - shift[order.leaf],
        node_id=order.node - shift[order.node],
        leaf_cover=nodes["count"][order.leaf].astype(np.float64),
        node_cover=nodes["count"][order.node].astype(np.float64),
        gain=nodes["gain"][order.node].astype(np.float64),
        metadata=parameters(model),
    )
    leaves = Leaves(
        nodes["value"][order.leaf][:, None],
        output=(tree_of[order.leaf] % n_outputs).astype(np.int32),
    )
    categorical = found.column[found.is_categorical].tolist()
    named = Inputs(
        inputs.n_features,
        inputs.feature_names,
        found.books,
        whole_numbers=tuple(at for at in categorical if not (found.books and found.books[at])),
    )
    return Forest(tests, bitvectors, leaves, output, named, source)


def _stages(model: Any) -> list[list[Any]]:
    """Return the predictors of each iteration, of which there is one per class."""
    stages = getattr(model, "_predictors", None)
    if not isinstance(stages, list):
        raise UnsupportedModelError(
            f"the {class_name(model)} must be fitted, got one without trees: call fit first."
        )
    sound = all(isinstance(stage, list) and stage for stage in stages)
    if not stages or not sound or len({len(stage) for stage in stages}) != 1:
        raise InvalidForestError(
            "each iteration must have as many trees as the first, and there must be one: the "
            "model is damaged or not fitted."
        )
    return stages


def _gather(
    predictors: list[Any], n_features: int
) -> tuple[Array, Int64[Array, " n_trees_plus_1"]]:
    """Concatenate the node records, every index that is followed checked.

    Cycles and shared children are left to `structure.arrange`.
    """
    parts: list[Array] = []
    for index, predictor in enumerate(predictors):
        nodes: Any = getattr(predictor, "nodes", None)
        names = nodes.dtype.names or () if isinstance(nodes, np.ndarray) else ()
        sound = all(name in names and nodes.dtype[name].kind in FIELDS[name] for name in FIELDS)
        if (
            not sound
            or nodes.ndim != 1
            or nodes.size == 0
            or any(nodes.dtype[name] != np.float64 for name in ("value", "num_threshold"))
        ):
            raise InvalidForestError(
                f"tree {index} must hold its nodes with the fields {', '.join(FIELDS)}, got "
                f"{class_name(predictor)}: the model is damaged."
            )
        parts.append(nodes)
    record: Array = np.concatenate(parts)
    start = np.cumsum([0, *map(len, parts)])
    size = np.repeat(np.diff(start), np.diff(start))
    leaf = record["is_leaf"] != 0
    sound = leaf | (
        (record["left"] < size)
        & (record["right"] < size)
        & (record["feature_idx"] >= 0)
        & (record["feature_idx"] < n_features)
    )
    if not sound.all():
        raise InvalidForestError(
            f"each node must read a feature below {n_features} and have children in its own tree: "
            "the model is damaged."
        )
    return record, start


def _tests(
    nodes: Array, tree: Int64[Array, " n_nodes"], predictors: list[Any], found: Categories
) -> NodeTests:
    missing_right: Bool[Array, " n_nodes"] = nodes["missing_go_to_left"] == 0
    is_set = nodes["is_categorical"] != 0
    place = nodes["feature_idx"].astype(np.int64)
    if np.any(is_set & ~found.is_categorical[place]):
        raise InvalidForestError(
            "a category set must stand on a categorical feature: the model is damaged."
        )
    threshold = np.where(is_set, 0.0, nodes["num_threshold"])
    left = _left_bits(nodes["bitset_idx"].astype(np.int64), is_set, tree, predictors)
    set_ptr, words = set_words(place, is_set, left, missing_right, found)
    return axis_aligned(
        found.column[place],
        threshold,
        missing_right=missing_right,
        kind=np.where(is_set, int(Kind.SET), int(Kind.MARGIN)),
        other_right=missing_right & is_set,
        set_ptr=set_ptr,
        set_words=words,
    )


def _left_bits(
    index: Array, is_set: Array, tree: Array, predictors: list[Any]
) -> Bool[Array, "n_set_nodes 256"]:
    """Return which of the 256 encoded categories go left at each set node."""
    parts: list[Array] = []
    for number, predictor in enumerate(predictors):
        bits: Any = getattr(predictor, "raw_left_cat_bitsets", None)
        sound = isinstance(bits, np.ndarray) and bits.ndim == 2 and bits.shape[1] == 8
        if not sound or bits.dtype != np.uint32:
            raise InvalidForestError(
                f"the category sets of tree {number} must be uint32 of 8 words each: the model is "
                "damaged."
            )
        parts.append(bits)
    count = np.array([len(part) for part in parts])
    if np.any(index[is_set] >= count[tree[is_set]]):
        raise InvalidForestError(
            "each category set must be one that its tree holds: the model is damaged."
        )
    first = np.cumsum([0, *count])[tree[is_set]]
    words = np.concatenate(parts)[first + index[is_set]]
    little = np.ascontiguousarray(words.astype("<u4")).view(np.uint8)
    return np.unpackbits(little, axis=1, bitorder="little").astype(bool)

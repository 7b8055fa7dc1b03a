"""Sums of trees that compare in float64, written back as HistGradientBoosting models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn._loss.loss import (
    HalfBinomialLoss,
    HalfGammaLoss,
    HalfMultinomialLoss,
    HalfPoissonLoss,
    HalfSquaredError,
)
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

from bitvec.converters.sklearn.categories import encoder_of
from bitvec.converters.sklearn.histogram_columns import Columns, fit_columns
from bitvec.converters.sklearn.new_estimators import (
    columns_of_outputs,
    named,
    require_raw_labels,
    set_classes,
    unsupported,
)
from bitvec.converters.sklearn.tree_arrays import covers, greater, numbering
from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Bool, Int64

_CLASSIFIES: dict[PostTransform, Callable[[int], Any]] = {
    PostTransform.SIGMOID: lambda n: HalfBinomialLoss(),
    PostTransform.SOFTMAX: lambda n: HalfMultinomialLoss(n_classes=n),
}
_REGRESSES: dict[PostTransform, dict[str, Callable[[], Any]]] = {
    PostTransform.IDENTITY: {"squared_error": HalfSquaredError},
    PostTransform.EXPONENTIAL: {"poisson": HalfPoissonLoss, "gamma": HalfGammaLoss},
}
"""The losses whose link is a post-transform; the first, unless the forest came from another."""


def summed(forest: Forest) -> Any:
    """Return the HistGradientBoosting model of a forest that sums its trees."""
    output = forest.output
    if output.dtype != np.float64:
        raise unsupported(f"sum its trees in float64, got {output.dtype}")
    if not output.base_first and np.any(output.base_score != 0):
        raise unsupported("begin its sum with the base score, got one that is added at the end")
    if output.scale is not None:
        raise unsupported("answer with the sum itself, got one that is scaled")
    if output.parameter != 1.0:
        raise unsupported(f"pass its scores on as they are, got them times {output.parameter}")
    model, loss = _regressor(forest) if output.classes is None else _classifier(forest)
    n_classes = 0 if output.classes is None else output.classes[0].size
    columns = fit_columns(model, forest, n_classes)
    model._predictors = _stages(forest, columns)
    model._baseline_prediction = np.array(output.base_score, np.float64)[None, :]
    model._loss = loss
    model.max_iter = len(model._predictors)
    model.n_trees_per_iteration_ = forest.n_outputs
    set_classes(model, None if output.classes is None else [np.array(output.classes[0])])
    return _named(model, forest)


def _named(model: Any, forest: Forest) -> Any:
    model = named(model, forest)
    steps = model._preprocessor
    if forest.inputs.feature_names is not None and steps is not None:
        names = model.feature_names_in_
        steps.feature_names_in_ = names
        encoder_of(model).feature_names_in_ = names[model.is_categorical_]
    return model


def _regressor(forest: Forest) -> tuple[Any, Any]:
    output = forest.output
    losses = _REGRESSES.get(output.post_transform)
    if forest.n_outputs != 1 or losses is None:
        raise unsupported(
            "sum to one value, with no post-transform or an exponential, or to class scores, got "
            f"{forest.n_outputs} outputs with {output.post_transform}"
        )
    metadata = {} if forest.source is None else forest.source.metadata
    name = metadata.get("loss") if metadata.get("loss") in losses else next(iter(losses))
    assert isinstance(name, str)
    return HistGradientBoostingRegressor(loss=name), losses[name]()


def _classifier(forest: Forest) -> tuple[Any, Any]:
    output = forest.output
    assert output.classes is not None
    labels = output.classes[0]
    one = output.post_transform is PostTransform.SIGMOID
    if (
        output.post_transform not in _CLASSIFIES
        or len(output.groups) != 1
        or forest.n_outputs != (1 if one else labels.size)
        or (labels.size == 2) != one
    ):
        raise unsupported(
            "give one score and a sigmoid for 2 classes, or a score for each of more classes and "
            f"a softmax, got {forest.n_outputs} scores with {output.post_transform}"
        )
    require_raw_labels(output, tie_to_second=False)
    return HistGradientBoostingClassifier(), _CLASSIFIES[output.post_transform](labels.size)


def _stages(forest: Forest, columns: Columns) -> list[list[Any]]:
    """Return, per iteration, a predictor for each output; short columns are filled with zeros."""
    B = forest.bitvectors
    records = _records(forest, columns)
    sets = _sets(forest, columns)
    zero = _predictor(_single_leaf(), np.zeros((0, 8), np.uint32))
    scores = columns_of_outputs(forest)
    longest = max(len(column) for column in scores)
    stages = [[zero] * len(scores) for _ in range(longest)]
    _, of_leaf = numbering(forest)
    for k, column in enumerate(scores):
        for stage, (tree, value) in enumerate(column):
            record = records[tree].copy()
            leaves = slice(int(B.leaf_ptr[tree]), int(B.leaf_ptr[tree + 1]))
            record["value"][of_leaf[leaves]] = value
            stages[stage][k] = _predictor(record, sets[tree])
    return stages


def _predictor(nodes: Array, left: Array) -> Any:
    # Rows are never binned again, so the sets of bins stay empty.
    return TreePredictor(nodes, np.zeros_like(left), left)


def _single_leaf() -> Array:
    record = np.zeros(1, PREDICTOR_RECORD_DTYPE)
    record["is_leaf"] = 1
    return record


def _records(forest: Forest, columns: Columns) -> list[Array]:
    """Return the node records of each tree, without values."""
    B, tests = forest.bitvectors, forest.tests
    left, right = structure.children(B)
    place_of_node, place_of_leaf = numbering(forest)
    node_cover, leaf_cover = covers(forest)
    threshold = greater(tests)
    is_set = tests.kind == Kind.SET
    node_depth, leaf_depth = tree_paths.node_depth(B), tree_paths.leaf_depth(B)
    gain = None if forest.source is None else forest.source.gain
    result = []
    for tree in range(forest.n_trees):
        nodes = slice(int(B.node_ptr[tree]), int(B.node_ptr[tree + 1]))
        leaves = slice(int(B.leaf_ptr[tree]), int(B.leaf_ptr[tree + 1]))
        of_node, of_leaf = place_of_node[nodes], place_of_leaf[leaves]
        record = np.zeros(of_node.size + of_leaf.size, PREDICTOR_RECORD_DTYPE)
        record["is_leaf"][of_leaf] = 1
        for name, child in (("left", left[nodes]), ("right", right[nodes])):
            at_node, at_leaf = child >= 0, child < 0
            record[name][of_node[at_node]] = place_of_node[child[at_node]]
            record[name][of_node[at_leaf]] = place_of_leaf[~child[at_leaf]]
        record["depth"][of_node], record["depth"][of_leaf] = node_depth[nodes], leaf_depth[leaves]
        record["feature_idx"][of_node] = columns.place[tests.feature[nodes]]
        record["num_threshold"][of_node] = np.where(is_set[nodes], 0.0, threshold[nodes])
        record["missing_go_to_left"][of_node] = ~tests.missing_right[nodes]
        record["is_categorical"][of_node] = is_set[nodes]
        record["bitset_idx"][of_node] = np.maximum(np.cumsum(is_set[nodes]) - 1, 0)
        for position, cover in ((of_node, node_cover[nodes]), (of_leaf, leaf_cover[leaves])):
            record["count"][position] = np.clip(cover, 0, np.iinfo(np.uint32).max)
        if gain is not None:
            record["gain"][of_node] = gain[nodes]
        result.append(record)
    return result


def _sets(forest: Forest, columns: Columns) -> list[Array]:
    """Return, per tree, which of the 256 encoded categories go left at each of its set nodes."""
    ptr = forest.bitvectors.node_ptr
    is_set = forest.tests.kind == Kind.SET
    result = []
    for tree in range(forest.n_trees):
        nodes = np.arange(int(ptr[tree]), int(ptr[tree + 1]))
        chosen: Int64[Array, " n_sets"] = nodes[is_set[nodes]]
        left: Bool[Array, "n_sets 256"] = columns.goes_left(forest, chosen)
        packed = np.packbits(left, axis=1, bitorder="little").view("<u4")
        result.append(packed.astype(np.uint32).reshape(-1, 8))
    return result

"""A hard forest behind a feature map: φ(x) as operators, and the exit leaves of what it gives."""

from __future__ import annotations

import numpy as np
import torch

from bitvec.errors import UnsupportedModelError
from bitvec.feature_maps import Concatenate, StackedForest
from bitvec.features import FeatureMap
from bitvec.forest import Forest
from bitvec.graph.answers import add_answers
from bitvec.graph.operators import Graph, cast
from bitvec.graph.scores import raw_score
from bitvec.output import Aggregate
from bitvec.runtime.onnx.soft import columns as soft_columns
from bitvec.runtime.onnx.soft import traced
from bitvec.runtime.onnx.tensor import exit_leaves


def append(graph: Graph, forest: Forest) -> None:
    """Append the answers of a forest with a feature map and no prediction kernel.

    Raises
    ------
    UnsupportedModelError
        If the forest or its feature map has no form in ONNX.
    """
    _require_tensor_form(forest)
    assert forest.feature_map is not None
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    Z = columns(graph, forest.feature_map, X, forest.dtype)
    leaf = _exits(graph, forest, Z)
    add_answers(graph, forest, raw_score(graph, forest, X, leaf))


def columns(graph: Graph, feature_map: FeatureMap, X: str, dtype: np.dtype) -> str:
    """Append φ(X), (batch, n_features), in the dtype of X."""
    if isinstance(feature_map, Concatenate):
        parts = [columns(graph, part, X, dtype) for part in feature_map.maps]
        return graph.add("Concat", *parts, axis=1, name="phi")
    if isinstance(feature_map, StackedForest):
        return _stacked(graph, feature_map, X, dtype)
    torch_dtype = torch.tensor(np.zeros(0, dtype)).dtype
    network = soft_columns.Joined([soft_columns.fixed(feature_map, torch_dtype)], torch_dtype)
    return traced.append(graph, network, X, dtype, feature_map.n_inputs)


def _stacked(graph: Graph, phi: StackedForest, X: str, dtype: np.dtype) -> str:
    forest = phi.forest
    _require_tensor_form(forest)
    own = X if forest.dtype == dtype else cast(graph, X, forest.dtype, "stacked_X")
    Z = own
    if forest.feature_map is not None:
        Z = columns(graph, forest.feature_map, own, forest.dtype)
    leaf = _exits(graph, forest, Z)
    if phi.values:
        if forest.leaves.linear is not None:
            raise UnsupportedModelError(
                "a stacked forest whose values are exported must have constant leaves, got "
                "linear ones: stack its exit leaves with values=False."
            )
        with np.errstate(over="ignore"):
            vectors = graph.add("Gather", forest.leaves.v.astype(dtype), leaf, name="stacked_v")
        width = forest.n_trees * forest.leaves.v.shape[1]
        added = graph.add("Reshape", vectors, np.array([-1, width]), name="stacked_values")
    else:
        B = forest.bitvectors
        tree = np.repeat(np.arange(B.n_trees, dtype=np.int32), np.diff(B.leaf_ptr))
        exit_leaf = graph.add("Gather", leaf, tree, axis=1, name="stacked_exit_leaf")
        number = np.arange(forest.n_leaves)
        is_exit = graph.add("Equal", exit_leaf, number, name="stacked_is_exit_leaf")
        added = cast(graph, is_exit, dtype, "stacked_one_hot")
    return graph.add("Concat", X, added, axis=1, name="stacked_phi")


def _exits(graph: Graph, forest: Forest, Z: str) -> str:
    local = exit_leaves(graph, forest, Z)
    return graph.add("Add", local, forest.bitvectors.leaf_ptr[:-1], name="leaf")


def _require_tensor_form(forest: Forest) -> None:
    if forest.n_trees == 0:
        raise UnsupportedModelError("a forest that is exported must have a tree, got none.")
    if forest.output.aggregate is Aggregate.WEIGHTED_MEDIAN:
        raise UnsupportedModelError(
            "a forest that is exported must sum, average, or take the least or largest of its "
            "trees, got a weighted median: predict with bitvec."
        )

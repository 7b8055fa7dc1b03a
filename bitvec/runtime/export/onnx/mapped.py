"""The ONNX form `mapped`: a hard forest behind a feature map, φ(x) as operators and then `tensor`.

Networks of layers are written as products of matrices, other forests as their exit leaves; a torch
module of the user's is traced by torch's own exporter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.onnx.model_proto import model_proto
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate, Identity, Layers, StackedForest
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph, cast, table
from bitvec.core.graph.output_operators import add_answers
from bitvec.core.graph.score_operators import raw_score
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx import layer_operators
from bitvec.runtime.export.onnx.tensor import exit_leaves

FORM = "mapped"


def to_onnx(
    forest: Forest,
    *,
    name: str = "bitvec",
    leaves: bool = False,
    interface: Interface | None = None,
) -> Any:
    """Return a forest that reads a feature map and predicts hard as an ONNX model.

    Parameters
    ----------
    forest : Forest
        Behind Layers, Identity, StackedForest or TorchMap, or a Concatenate of them.
    name, leaves, interface
        As of `bitvec.converters.onnx.write.to_onnx`.

    Returns
    -------
    onnx.ModelProto
        Input `X`, (batch, n_features), in the forest's dtype; outputs as in
        `bitvec.core.graph.output_operators`. Exit leaves are those of the forest wherever φ, whose
        sums run in another order, is not within its rounding of a threshold: see
        `bitvec.verify.certificates.near_ties`. Where leaves are the same, so are raw scores, bit
        for bit.

    Raises
    ------
    UnsupportedModelError
        If the forest or its feature map has no form in ONNX.
    """
    _require_tensor_form(forest)
    assert forest.feature_map is not None
    graph = Graph(interface or Interface())
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    Z = _columns(graph, forest.feature_map, X, forest.dtype)
    local = exit_leaves(graph, forest, Z)
    leaf = graph.add("Add", local, forest.bitvectors.leaf_ptr[:-1], name="leaf")
    add_answers(graph, forest, raw_score(graph, forest, X, leaf))
    if leaves:
        graph.output("leaves", local, np.dtype(np.int64), ("batch", forest.n_trees))
    return model_proto(graph, forest, name=name, form=FORM)


def _columns(graph: Graph, feature_map: FeatureMap, X: str, dtype: np.dtype) -> str:
    """Append φ(X), (batch, n_features), in the dtype of X."""
    if isinstance(feature_map, Concatenate):
        return _joined(graph, feature_map, X, dtype)
    if isinstance(feature_map, Identity):
        return X
    if isinstance(feature_map, Layers):
        return layer_operators.append(graph, [feature_map], X, dtype)
    if isinstance(feature_map, StackedForest):
        return _stacked(graph, feature_map, X, dtype)
    if hasattr(feature_map, "module"):
        return _traced(graph, feature_map, X, dtype)
    raise UnsupportedModelError(
        "a feature map that is exported must be Layers, Identity, StackedForest, TorchMap or a "
        f"Concatenate of them, got {type(feature_map).__name__}: build it of them, or predict with "
        "bitvec."
    )


def _joined(graph: Graph, joined: Concatenate, X: str, dtype: np.dtype) -> str:
    """Append maps side by side; networks of the same shapes are computed together."""
    groups: dict[Any, list[int]] = {}
    for number, part in enumerate(joined.maps):
        key = layer_operators.shapes_of(part) if isinstance(part, Layers) else number
        groups.setdefault(key, []).append(number)
    parts = []
    for numbers in groups.values():
        alike = [joined.maps[number] for number in numbers]
        nets = [one for one in alike if isinstance(one, Layers)]
        parts.append(
            layer_operators.append(graph, nets, X, dtype)
            if nets
            else _columns(graph, alike[0], X, dtype)
        )
    phi = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1, name="phi")
    order = [number for numbers in groups.values() for number in numbers]
    place = _places([part.n_features for part in joined.maps], order)
    if np.array_equal(place, np.arange(place.size)):
        return phi
    index = table(graph, place, np.dtype(np.int32))
    return graph.add("Gather", phi, index, axis=1, name="phi_in_order")


def _places(widths: list[int], order: list[int]) -> Array:
    """Return where each column stands when parts of such widths stand in another order.

    >>> _places([2, 1, 1], [0, 2, 1]).tolist()
    [0, 1, 3, 2]
    """
    starts = np.cumsum([0, *(widths[part] for part in order)]).tolist()
    start = dict(zip(order, starts, strict=False))
    return np.concatenate([start[part] + np.arange(width) for part, width in enumerate(widths)])


def _traced(graph: Graph, feature_map: FeatureMap, X: str, dtype: np.dtype) -> str:
    import torch

    from bitvec.runtime.export.onnx.soft import traced
    from bitvec.runtime.train.relax.feature_layers import FixedMap

    own = torch.tensor(np.zeros(0, dtype)).dtype
    return traced.append(graph, FixedMap(feature_map, own), X, dtype, feature_map.n_inputs)


def _stacked(graph: Graph, phi: StackedForest, X: str, dtype: np.dtype) -> str:
    forest = phi.forest
    _require_tensor_form(forest)
    own = X if forest.dtype == dtype else cast(graph, X, forest.dtype, "stacked_X")
    Z = own
    if forest.feature_map is not None:
        Z = _columns(graph, forest.feature_map, own, forest.dtype)
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

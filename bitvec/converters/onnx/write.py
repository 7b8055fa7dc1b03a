"""The ONNX form `tree_ensemble`: one operator of ai.onnx.ml walks the trees.

Version 5 is exact: it compares and sums in float64 where the source does, and knows set membership.
Version 3 compares and adds in float32, in fewer operators: faster where leaves hold vectors, and
known to older runtimes.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from bitvec.converters.onnx import ensemble3, ensemble5
from bitvec.converters.onnx.branches import branches
from bitvec.converters.onnx.model_proto import model_proto
from bitvec.converters.onnx.treated_columns import treated_columns
from bitvec.core import tree_paths
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.graph.output_operators import add_answers
from bitvec.core.graph.score_operators import raw_score, require_hard
from bitvec.core.to_float32 import fold_weights, narrow_scores, narrow_tests
from bitvec.errors import UnsupportedModelError

FORM = "tree_ensemble"
Version = Literal[3, 5]
LARGEST_DEPTH = 1024
"""onnxruntime 1.31 loads trees by recursion: 5,000 levels pass, 50,000 end the process."""
LARGEST_TREE = 1 << 24
"""Leaf numbers up to this are exact in float32."""


def to_onnx(
    forest: Forest,
    *,
    name: str = "bitvec",
    leaves: bool = False,
    interface: Interface | None = None,
    version: Version = 5,
) -> Any:
    """Return a forest as an ONNX model around an operator that walks its trees.

    Parameters
    ----------
    forest : Forest
        Axis-aligned, set and equality nodes; any leaves, constant or linear.
    name : str
        Name of the graph.
    leaves : bool
        Whether the model also has an output `leaves`, int64, (batch, n_trees): the exit leaves.
    interface : Interface, optional
        The dtype of X, which outputs, how many rows, and the versions of the file.
    version : 5 or 3
        Of the operator. Version 3 adds in float32: raw scores are within rounding of the forest's,
        its routes are the same for every row of float32. If only `label` and `probabilities` are
        asked for, it is one TreeEnsembleClassifier where that gives them.

    Returns
    -------
    onnx.ModelProto
        Input `X`, (batch, n_features), in the forest's dtype (float32 for version 3); outputs as in
        `bitvec.core.graph.output_operators`.

    Raises
    ------
    UnsupportedModelError
        If the form cannot hold the forest.
    """
    require_hard(forest, f"the ONNX form `{FORM}`")
    _require_one_column_tests(forest)
    graph = Graph(interface or Interface())
    if version == 3:
        _add_version_3(graph, forest, leaves=leaves)
    else:
        _add_version_5(graph, forest, leaves=leaves)
    return model_proto(graph, forest, name=name, form=FORM)


def _add_version_5(graph: Graph, forest: Forest, *, leaves: bool) -> None:
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    columns, nodes = treated_columns(graph, forest, X, branches(forest))
    sums = ensemble5.sums_in_operator(forest)
    local = ""
    if leaves or not sums:
        local = ensemble5.leaf_numbers(graph, forest, columns, nodes)
    if sums:
        raw = ensemble5.summed_in_operator(graph, forest, columns, nodes)
    else:
        leaf = graph.add("Add", local, forest.bitvectors.leaf_ptr[:-1], name="leaf")
        raw = raw_score(graph, forest, X, leaf)
    add_answers(graph, forest, raw)
    if leaves:
        graph.output("leaves", local, np.dtype(np.int64), ("batch", forest.n_trees))


def _add_version_3(graph: Graph, forest: Forest, *, leaves: bool) -> None:
    ensemble3.require_version_3(forest)
    wanted = graph.interface.outputs
    if wanted is not None and leaves:
        wanted = tuple(name for name in wanted if name != "leaves") or None
    forest = narrow_tests(forest, rows=graph.interface.input_dtype)
    at_once = ensemble3.classifies(forest, wanted)
    forest = narrow_scores(fold_weights(forest))
    graph.ml_opset = ensemble3.VERSION
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    columns, nodes = treated_columns(graph, forest, X, branches(forest))
    if at_once:
        ensemble3.add_classifier(graph, forest, columns, nodes)
    else:
        add_answers(graph, forest, ensemble3.raw_score(graph, forest, columns, nodes))
    if leaves:
        number = ensemble3.leaf_numbers(graph, forest, columns, nodes)
        local = cast(graph, number, np.dtype(np.int64), "exit_leaf")
        graph.output("leaves", local, np.dtype(np.int64), ("batch", forest.n_trees))


def _require_one_column_tests(forest: Forest) -> None:
    wide = np.flatnonzero(~forest.tests.is_one_hot)
    if wide.size:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs nodes that test one column, got {wide.size} nodes that "
            "combine columns (oblique or polytope): use the form `tensor`."
        )
    if forest.n_features == 0:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs at least one column, got none: use the form `tensor`."
        )
    deepest = int(tree_paths.leaf_depth(forest.bitvectors).max())
    if deepest > LARGEST_DEPTH:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs trees of depth {LARGEST_DEPTH} at most, got {deepest}: "
            "onnxruntime descends by recursion when it loads; use the form `tensor` for small "
            "trees, or predict with bitvec."
        )
    largest = int(np.diff(forest.bitvectors.leaf_ptr).max())
    if largest > LARGEST_TREE:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs trees of at most {LARGEST_TREE} leaves, got {largest}: "
            "predict with bitvec."
        )

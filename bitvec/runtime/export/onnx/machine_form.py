"""The ONNX form `tensor` of a decision machine: v[argmax(B · σ(Sx − b) − c)], B as it stands.

All sums of the numbers of one tree are exact in the dtype of B, so that the matrix products are
exact whatever their order, and ties stay ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.onnx.model_proto import model_proto
from bitvec.core.arrays import Array
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.graph.output_operators import add_answers
from bitvec.core.graph.score_operators import raw_score, require_hard
from bitvec.core.machine import DecisionMachine
from bitvec.runtime.export.onnx.node_operators import outcomes
from bitvec.runtime.export.onnx.tensor import FORM, size_classes


def to_onnx(
    machine: DecisionMachine,
    *,
    name: str = "bitvec",
    leaves: bool = False,
    interface: Interface | None = None,
) -> Any:
    """Return a machine as an ONNX model of standard operators.

    Parameters
    ----------
    machine : DecisionMachine
        Any kinds of nodes; no feature map.
    name, leaves, interface
        As of `bitvec.converters.onnx.write.to_onnx`.

    Returns
    -------
    onnx.ModelProto
        Inputs and outputs are those of a forest in this form. Exit leaves and `raw` equal
        `bitvec.core.machine`'s bit for bit in onnxruntime.

    Raises
    ------
    UnsupportedModelError
        If the form cannot hold the machine.

    Notes
    -----
    Eq. (7), Zhang, "Yet Another Representation of Binary Decision Trees" (2021).
    """
    frame = machine.frame
    require_hard(frame, f"the ONNX form `{FORM}`")
    graph = Graph(interface or Interface())
    X = graph.input("X", frame.dtype, ("batch", frame.n_features))
    local = _exit_leaves(graph, machine, X)
    leaf = graph.add("Add", local, machine.leaf_ptr[:-1], name="leaf")
    add_answers(graph, frame, raw_score(graph, frame, X, leaf))
    if leaves:
        graph.output("leaves", local, np.dtype(np.int64), ("batch", machine.n_trees))
    return model_proto(graph, frame, name=name, form=FORM)


def _exit_leaves(graph: Graph, machine: DecisionMachine, X: str) -> str:
    """Append the first argmax of B · h − c: leaf numbers within each tree, (batch, n_trees)."""
    sizes = np.diff(machine.leaf_ptr)
    classes = size_classes(sizes)
    parts = []
    alone = np.flatnonzero(sizes == 1)
    if alone.size:
        batch = graph.add("Shape", X, start=0, end=1, name="batch")
        shape = graph.add("Concat", np.array([alone.size]), batch, axis=0, name="alone_shape")
        parts.append(graph.add("Expand", np.zeros((1, 1), np.int64), shape, name="alone_leaf"))
    if machine.n_nodes:
        h, order = outcomes(graph, machine.frame, X)
        place = np.empty(machine.n_nodes, np.int64)
        place[order] = np.arange(machine.n_nodes)
        parts += [_class_leaves(graph, machine, h, place, trees) for trees in classes]
    leaf = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=0, name="leaf_parts")
    trees = np.concatenate([alone, *classes])
    if not np.array_equal(trees, np.arange(len(trees))):
        leaf = graph.add("Gather", leaf, np.argsort(trees), axis=0, name="leaf_by_tree")
    return graph.add("Transpose", leaf, perm=[1, 0], name="exit_leaf")


def _class_leaves(
    graph: Graph, machine: DecisionMachine, h: str, place: Array, trees: Array
) -> str:
    """Append the exit leaves of some trees, (n_trees, batch); `place` is each node's row in h.

    A padding node counts 0 for all leaves; a padding leaf scores −infinity.
    """
    dtype = machine.B.dtype
    node_ptr = machine.frame.bitvectors.node_ptr
    most = int(np.diff(machine.leaf_ptr)[trees].max())
    B = np.zeros((len(trees), most, most - 1), dtype)
    c = np.full((len(trees), most, 1), np.inf, dtype)
    row = np.zeros((len(trees), most - 1), np.int64)
    for i, tree in enumerate(trees):
        block, offset = machine.block(int(tree))
        n_leaves, n_nodes = block.shape
        B[i, :n_leaves, :n_nodes], c[i, :n_leaves, 0] = block, offset
        row[i, :n_nodes] = place[int(node_ptr[tree]) : int(node_ptr[tree + 1])]
    flat = row.ravel()
    if not np.array_equal(flat, np.arange(machine.n_nodes)):
        h = graph.add("Gather", h, flat, axis=0, name="class_tests")
    h = graph.add("Reshape", h, np.array([*row.shape, -1]), name="class_tests_by_tree")
    score = graph.add("MatMul", B, cast(graph, h, dtype, "h"), name="B_h")
    score = graph.add("Sub", score, c, name="score")
    return graph.add(
        "ArgMax", score, axis=1, keepdims=0, select_last_index=0, name="class_exit_leaf"
    )

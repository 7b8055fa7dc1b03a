"""The ONNX form `tensor`: T(x) = v[argmax(B · σ(Sx − b))] in standard operators only.

B is one matrix product per class of tree sizes. The file holds B as two integers per node, where
its left leaves begin and end; the 0/1 matrix is computed from them, once, when a runtime folds
constants at load. Counts of tests are whole numbers below 2**24, so float32 products are exact
whatever their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.onnx.model_proto import model_proto
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph, greater, table
from bitvec.core.graph.output_operators import add_answers
from bitvec.core.graph.score_operators import raw_score, require_hard
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.node_operators import outcomes

FORM = "tensor"
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
LARGEST_B = 1 << 28
"""Elements of B, all trees together, that a runtime may have to expand at load."""


def to_onnx(
    forest: Forest,
    *,
    name: str = "bitvec",
    leaves: bool = False,
    interface: Interface | None = None,
) -> Any:
    """Return a forest as an ONNX model of standard operators.

    Parameters
    ----------
    forest : Forest
        Any kinds of nodes; no prediction kernel, no feature map, no weighted median.
    name, leaves, interface
        As of `bitvec.converters.onnx.write.to_onnx`.

    Returns
    -------
    onnx.ModelProto
        Input and outputs are those of `tree_ensemble`. `raw` equals the reference bit for bit in
        onnxruntime.

    Raises
    ------
    UnsupportedModelError
        If the form cannot hold the forest.

    Notes
    -----
    Eq. (5) of Zhang, "Yet Another Representation of Binary Decision Trees" (2021). Cost per row and
    tree is n_leaves x n_nodes; `tree_ensemble` walks instead.
    """
    require_hard(forest, f"the ONNX form `{FORM}`")
    graph = Graph(interface or Interface())
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    local = exit_leaves(graph, forest, X)
    leaf = graph.add("Add", local, forest.bitvectors.leaf_ptr[:-1], name="leaf")
    add_answers(graph, forest, raw_score(graph, forest, X, leaf))
    if leaves:
        graph.output("leaves", local, np.dtype(np.int64), ("batch", forest.n_trees))
    return model_proto(graph, forest, name=name, form=FORM)


def exit_leaves(graph: Graph, forest: Forest, X: str) -> str:
    """Append the first argmax of B · h of each tree: leaf numbers within it, (batch, n_trees)."""
    sizes = np.diff(forest.bitvectors.leaf_ptr)
    classes = size_classes(sizes)
    expanded = sum(len(t) * int(sizes[t].max()) * int(sizes[t].max() - 1) for t in classes)
    if expanded > LARGEST_B:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` must expand at most {LARGEST_B} elements of B, got "
            f"{expanded}: use the form `tree_ensemble`, which walks trees of up to 1,024 levels, "
            "or predict with bitvec."
        )
    parts = []
    alone = np.flatnonzero(sizes == 1)
    if alone.size:
        batch = graph.add("Shape", X, start=0, end=1, name="batch")
        shape = graph.add("Concat", np.array([alone.size]), batch, axis=0, name="alone_shape")
        parts.append(graph.add("Expand", np.zeros((1, 1), np.int64), shape, name="alone_leaf"))
    if forest.n_nodes:
        h, order = outcomes(graph, forest, X)
        place = np.empty(forest.n_nodes, np.int64)
        place[order] = np.arange(forest.n_nodes)
        parts += [_class_leaves(graph, forest, h, place, trees) for trees in classes]
    leaf = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=0, name="leaf_parts")
    trees = np.concatenate([alone, *classes])
    if not np.array_equal(trees, np.arange(len(trees))):
        leaf = graph.add("Gather", leaf, np.argsort(trees), axis=0, name="leaf_by_tree")
    return graph.add("Transpose", leaf, perm=[1, 0], name="exit_leaf")


def size_classes(n_leaves: Array) -> list[Array]:
    """Group the trees of at least two leaves so that none is padded beyond 1.42 times its leaves.

    >>> [trees.tolist() for trees in size_classes(np.array([64, 1, 2, 50, 64]))]
    [[2], [0, 3, 4]]
    """
    key = np.ceil(2 * np.log2(n_leaves)).astype(np.int64)
    return [np.flatnonzero(key == k) for k in np.unique(key) if k > 0]


def _class_leaves(graph: Graph, forest: Forest, h: str, place: Array, trees: Array) -> str:
    """Append the exit leaves of some trees, (n_trees, batch); `place` is each node's row in h.

    A padding node has no left leaves: it counts alike for all leaves. A padding leaf stands right
    of all others and has the count of the last one: it is never the first maximum.
    """
    B = forest.bitvectors
    most = int(np.diff(B.leaf_ptr)[trees].max())
    shape = (len(trees), most - 1)
    first, last, row = (np.zeros(shape, np.int64) for _ in range(3))
    for i, tree in enumerate(trees):
        nodes = slice(int(B.node_ptr[tree]), int(B.node_ptr[tree + 1]))
        n = nodes.stop - nodes.start
        first[i, :n], last[i, :n], row[i, :n] = B.lo[nodes], B.mid[nodes], place[nodes]
    # int32 has comparisons in every runtime, and they are exact.
    leaf = np.arange(most, dtype=np.int32)[:, None]
    begins = greater(graph, leaf, table(graph, first[:, None], INT32), "from_left", equal=True)
    ends = graph.add("Less", leaf, table(graph, last[:, None], INT32), name="before_right")
    in_left = graph.add("And", begins, ends, name="in_left_subtree")
    stays = graph.add("Not", in_left, name="B_bool")
    matrix = graph.add("Cast", stays, to=1, name="B")
    flat = row.ravel()
    if not np.array_equal(flat, np.arange(forest.n_nodes)):
        h = graph.add("Gather", h, table(graph, flat, INT64), axis=0, name="class_tests")
    h = graph.add("Reshape", h, np.array([*shape, -1]), name="class_tests_by_tree")
    h = graph.add("Cast", h, to=1, name="h")
    score = graph.add("MatMul", matrix, h, name="B_h")
    return graph.add(
        "ArgMax", score, axis=1, keepdims=0, select_last_index=0, name="class_exit_leaf"
    )

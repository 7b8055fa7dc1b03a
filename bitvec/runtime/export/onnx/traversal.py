"""The ONNX form `traversal`: trees walked down in standard operators, one step for each level.

A step fetches, for every tree and row of X, what its node reads and its threshold, and moves on
by the outcome of their comparison. Everything is (n_trees, batch), so that the first levels, where
trees have few nodes, compare whole rows instead: the outcomes of all nodes of the level, of which
each tree picks its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.onnx.model_proto import model_proto
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph, cast, greater, table
from bitvec.core.graph.output_operators import add_answers
from bitvec.core.graph.score_operators import SUMS, raw_score, require_hard
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.portable import sees_missing
from bitvec.runtime.export.onnx.traversal_columns import Reads, read_rows
from bitvec.runtime.export.onnx.traversal_layout import Layout, arrange

FORM = "traversal"
WHOLE_LEVELS = 4
"""Levels whose nodes are all compared: 8 nodes of a tree take about as long as one step does."""
LARGEST_DEPTH = 512
"""Levels, each of six or seven operators, which a runtime plans at load."""
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
"""Places and rows are int32, which halves what a step moves; leaves are int64."""


def to_onnx(
    forest: Forest,
    *,
    name: str = "bitvec",
    leaves: bool = False,
    interface: Interface | None = None,
    finite: bool = False,
) -> Any:
    """Return a forest as an ONNX model of standard operators that walk its trees.

    Parameters
    ----------
    forest : Forest
        Any kinds of nodes; no prediction kernel, no feature map, no weighted median.
    name, leaves, interface
        As of `bitvec.converters.onnx.write.to_onnx`.
    finite : bool
        Whether no value is ever missing, so that a graph without NaN has no input `present`.

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
    Cost per row and tree is its depth, plus all nodes of the forest that are not comparisons of
    one column (sets, equality, oblique and polytope nodes): their outcomes are computed first.
    """
    require_hard(forest, f"the ONNX form `{FORM}`")
    layout = arrange(forest.bitvectors)
    depth = len(layout.levels) + layout.n_further
    if depth > LARGEST_DEPTH:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs trees of depth {LARGEST_DEPTH} at most, got {depth}: "
            "use the form `tree_ensemble`, which walks trees of up to 1,024 levels, or predict "
            "with bitvec."
        )
    graph = Graph(interface or Interface())
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    present = ""
    if graph.interface.plain:
        _require_plain(forest, layout)
        if not finite and sees_missing(forest):
            present = graph.input("present", forest.dtype, ("batch", forest.n_features))
    by_tree = _exit_leaves(graph, forest, X, layout, present)
    leaf = graph.add("Transpose", by_tree, perm=[1, 0], name="leaf")
    add_answers(graph, forest, raw_score(graph, forest, X, leaf))
    if leaves:
        local = graph.add("Sub", leaf, forest.bitvectors.leaf_ptr[:-1], name="exit_leaf")
        graph.output("leaves", local, np.dtype(np.int64), ("batch", forest.n_trees))
    return model_proto(graph, forest, name=name, form=FORM)


def _require_plain(forest: Forest, layout: Layout) -> None:
    reasons = (
        (not layout.levels, "a tree with a node, got single leaves"),
        (forest.leaves.linear is not None, "constant leaves, got leaves that are linear in x"),
        (forest.output.aggregate not in SUMS, f"a sum or a mean, got {forest.output.aggregate}"),
    )
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(f"the ONNX form `{FORM}` without NaN needs {sentence}.")


def _exit_leaves(graph: Graph, forest: Forest, X: str, layout: Layout, present: str) -> str:
    """Append the exit leaves as numbers within the forest, int64, (n_trees, batch)."""
    if not layout.levels:  # single leaves
        batch = graph.add("Shape", X, start=0, end=1, name="batch")
        shape = graph.add("Concat", np.array([forest.n_trees]), batch, axis=0, name="leaf_shape")
        return graph.add("Expand", ~layout.last[:, None], shape, name="leaf_by_tree")
    reads = read_rows(graph, forest, X, present)
    position = _walk_levels(graph, forest, reads, layout)
    if not layout.n_further:
        return graph.add("Gather", table(graph, ~layout.last, INT64), position, name="leaf_by_tree")
    entry = graph.add("Gather", table(graph, layout.start, INT32), position, name="entry")
    entry = _walk_entries(graph, reads, layout, entry)
    leaf = np.where(layout.entries < 0, ~layout.entries, 0)
    return graph.add("Gather", table(graph, leaf, INT64), entry, name="leaf_by_tree")


def _walk_levels(graph: Graph, forest: Forest, reads: Reads, layout: Layout) -> str:
    """Append the way through the perfect levels: positions in `layout.last`, (n_trees, batch)."""
    left: str | Array = 2 * np.arange(forest.n_trees, dtype=np.int32)[:, None]
    position = ""
    for depth, level in enumerate(layout.levels):
        if depth:
            left = graph.add("Add", position, position, name="left")
        if depth < WHOLE_LEVELS:
            h = _compare_all(graph, reads, level)
            if depth:
                h = graph.add("GatherElements", h, position, axis=0, name="test")
        else:
            h = _compare_at(graph, reads, _node_tables(graph, reads, level), position)
        position = graph.add("Add", left, cast(graph, h, INT32, "right"), name="position")
    return position


def _walk_entries(graph: Graph, reads: Reads, layout: Layout, entry: str) -> str:
    """Append the way from entries to the entries of the exit leaves, (n_trees, batch)."""
    tables = _node_tables(graph, reads, layout.entries)
    left_table = table(graph, layout.left, INT32)
    for _ in range(layout.n_further):
        h = _compare_at(graph, reads, tables, entry)
        left = graph.add("Gather", left_table, entry, name="left")
        entry = graph.add("Add", left, cast(graph, h, INT32, "right"), name="entry")
    return entry


def _compare_all(graph: Graph, reads: Reads, level: Array) -> str:
    """Append h at all positions of a level, (n_positions, batch)."""
    row, threshold = _nodes(graph, reads, level)
    z = graph.add("Gather", reads.rows, table(graph, row, INT64), axis=0, name="level_z")
    return greater(graph, z, threshold[:, None], "level_test", equal=reads.inclusive)


def _compare_at(graph: Graph, reads: Reads, tables: tuple[str, str], place: str) -> str:
    """Append h of the nodes that the tables hold at some places, (n_trees, batch)."""
    row = graph.add("Gather", tables[0], place, name="row")
    threshold = graph.add("Gather", tables[1], place, name="threshold")
    z = graph.add("GatherElements", reads.rows, row, axis=0, name="z")
    return greater(graph, z, threshold, "test", equal=reads.inclusive)


def _node_tables(graph: Graph, reads: Reads, nodes: Array) -> tuple[str, str]:
    """Store the rows that nodes read, int32, and their thresholds."""
    row, threshold = _nodes(graph, reads, nodes)
    return table(graph, row, INT32), graph.constant("threshold_table", threshold)


def _nodes(graph: Graph, reads: Reads, nodes: Array) -> tuple[Array, Array]:
    """Return the rows and thresholds of nodes; a leaf goes left, whatever it reads."""
    never = np.inf if graph.interface.plain else np.nan
    is_node = nodes >= 0
    row, threshold = np.zeros(nodes.size, np.int64), np.full(nodes.size, never, reads.dtype)
    row[is_node], threshold[is_node] = reads.row[nodes[is_node]], reads.threshold[nodes[is_node]]
    return row, threshold

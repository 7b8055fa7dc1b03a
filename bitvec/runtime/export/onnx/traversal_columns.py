"""Rows of numbers that the nodes of a traversal compare, with one threshold each.

A missing value that goes left needs nothing: it is NaN, and a comparison with NaN is false. One
that goes right is read from a copy of its column with +infinity in its place. A node that this
does not hold for, or that is no comparison of one column, has its outcome computed beforehand:
a row of 0 and 1 that it compares with 0.5.

Where the graph does without NaN, X is finite and `present` says what is missing: a copy has
-infinity where a missing value goes left, and the largest number where it goes right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Float, Int64
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.node_operators import outcomes_of, values


@dataclass(frozen=True, slots=True)
class Reads:
    """The rows that nodes read, and how they compare.

    Parameters
    ----------
    rows : str
        Name of a tensor in the forest's dtype, (n_rows, batch).
    row : int64, (n_nodes,)
    threshold : F, (n_nodes,)
    inclusive : bool
        Whether h is [z >= threshold] instead of [z > threshold].
    """

    rows: str
    row: Int64[Array, " n_nodes"]
    threshold: Float[Array, " n_nodes"]
    inclusive: bool

    @property
    def dtype(self) -> np.dtype:
        """F, the dtype of comparison."""
        return self.threshold.dtype


def read_rows(graph: Graph, forest: Forest, X: str, present: str = "") -> Reads:
    """Append the rows that the nodes of a forest read; `present` is 1 or 0 for each of X, if any.

    Raises
    ------
    UnsupportedModelError
        If the graph does without NaN, and a node cannot.
    """
    if graph.interface.plain:
        return _plain_rows(graph, forest, X, present)
    tests = forest.tests
    by_column = graph.add("Transpose", X, perm=[1, 0], name="X_by_column")
    compares = tests.is_one_hot & ((tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL))
    inclusive, threshold, exact = _thresholds(forest, compares)
    row = tests.feature.astype(np.int64)
    parts, n_rows = [by_column], forest.n_features
    copies, which = _copies(forest, exact)
    if len(copies):
        parts.append(_treated(graph, forest, by_column, copies))
        row[which >= 0] = n_rows + which[which >= 0]
        n_rows += len(copies)
    if not exact.all():
        h, order = outcomes_of(graph, forest, by_column, ~exact)
        parts.append(cast(graph, h, forest.dtype, "outcome_row"))
        row[order] = n_rows + np.arange(order.size)
        threshold[order] = 0.5
    rows = graph.add("Concat", *parts, axis=0, name="rows") if len(parts) > 1 else by_column
    return Reads(rows, row, threshold, inclusive)


def _plain_rows(graph: Graph, forest: Forest, X: str, present: str) -> Reads:
    """Append rows without NaN."""
    tests, dtype = forest.tests, forest.dtype
    compares = tests.is_one_hot & ((tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL))
    inclusive, threshold, exact = _thresholds(forest, compares)
    sets = tests.kind == Kind.SET
    one_way = tests.missing_right == tests.other_right
    rule = tests.missing_rules(forest.inputs.missing_sentinel)
    tiny, largest = np.finfo(dtype).tiny, np.finfo(dtype).max
    within = np.where(exact, np.abs(threshold), tiny)
    reasons = (
        (~exact & ~sets, "nodes that compare one column with a number, or look up a category"),
        (rule != MissingRule.NAN, "nodes for which NaN alone is missing"),
        (bool(present) & sets & ~one_way, "sets that send missing values where other codes go"),
        (exact & ((within < tiny) & (threshold != 0) | (within >= largest)), "normal thresholds"),
    )
    for refused, sentence in reasons:
        if n := int(np.count_nonzero(refused)):
            raise UnsupportedModelError(
                f"the ONNX form `traversal` without NaN needs {sentence}, got {n} nodes that are "
                "not: use the form `portable`."
            )
    by_column = graph.add("Transpose", X, perm=[1, 0], name="X_by_column")
    row, parts, n_rows = tests.feature.astype(np.int64), [by_column], forest.n_features
    absent = ""
    if present:
        shown = graph.add("Transpose", present, perm=[1, 0], name="present_by_column")
        absent = graph.add("Less", shown, np.array(0.5, dtype), name="is_absent")
        parts, n_rows = [], 0
        for right in (False, True):
            read = exact & (tests.missing_right == right)
            if read.any():
                fill = np.array(largest if right else -np.inf, dtype)
                parts.append(graph.add("Where", absent, fill, by_column, name="copy"))
                row[read] += n_rows
                n_rows += forest.n_features
    if sets.any():
        minus_one = np.array(-1, dtype)  # a code of no category
        codes = (
            graph.add("Where", absent, minus_one, by_column, name="codes") if absent else by_column
        )
        h, order = outcomes_of(graph, forest, codes, sets)
        parts.append(cast(graph, h, dtype, "outcome_row"))
        row[order], threshold[order] = n_rows + np.arange(order.size), 0.5
    rows = graph.add("Concat", *parts, axis=0, name="rows") if len(parts) > 1 else parts[0]
    return Reads(rows, row, threshold, inclusive)


def _thresholds(forest: Forest, compares: Array) -> tuple[bool, Array, Array]:
    """Return one comparison for all nodes, their thresholds, and which nodes these hold for.

    Where both relations occur, z >= b is z > the number below b; not in float64, of which a runtime
    that rounds to float32 would make b again.
    """
    tests = forest.tests
    inclusive = tests.relation == Relation.GREATER_EQUAL
    threshold, exact = tests.b.copy(), compares.copy()
    if exact.any() and inclusive[compares].all():
        return True, threshold, exact
    if tests.dtype == np.float64:
        return (
            False,
            threshold,
            exact & ~inclusive & ~(tests.missing_right & np.isposinf(threshold)),
        )
    below = compares & inclusive
    with np.errstate(over="ignore"):  # the number below the largest negative one is -infinity
        threshold[below] = np.nextafter(threshold[below], tests.dtype.type(-np.inf))
    exact &= ~(inclusive & np.isneginf(tests.b))  # nothing is below
    # The copy's +infinity would stay left.
    exact &= ~(tests.missing_right & np.isposinf(threshold))
    return False, threshold, exact


def _copies(forest: Forest, exact: Array) -> tuple[Array, Array]:
    """Return the copies that nodes need, (n, 3), and each node's, or -1.

    A copy is a column, its missing rule, and whether missing goes right.
    """
    tests = forest.tests
    rule = tests.missing_rules(forest.inputs.missing_sentinel)
    needed = exact & ((rule != MissingRule.NAN) | tests.missing_right)
    wanted = np.stack([tests.feature, rule, tests.missing_right], axis=1)
    copies, inverse = np.unique(wanted[needed], axis=0, return_inverse=True)
    which = np.full(tests.n_nodes, -1)
    which[needed] = inverse.ravel()
    return copies, which


def _treated(graph: Graph, forest: Forest, by_column: str, copies: Array) -> str:
    """Append the copies, (n, batch): NaN or +infinity where a value is missing."""
    x = values(graph, forest, by_column, copies[:, 0], copies[:, 1])
    right = copies[:, 2].astype(bool)
    if not right.any():
        return x
    missing = graph.add("IsNaN", x, name="copy_missing")
    if not right.all():
        missing = graph.add("And", missing, right[:, None], name="copy_missing_right")
    return graph.add("Where", missing, np.array(np.inf, forest.dtype), x, name="copy")

"""σ(Sx − b) as standard operators: the outcomes of all nodes, node-major.

Everything is (n_nodes, batch), so that choosing and reordering nodes moves whole rows. Missing
values are turned into NaN first, which every sum keeps; a node's outcome is then its comparison,
or its direction where z is NaN. One-hot rows are gathered; rows of several entries are summed
entry by entry in the order of storage, because MatMul would fix neither the order nor keep one
missing value from other nodes.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.graph.operators import Graph, cast, greater, softplus, table
from bitvec.core.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    Activation,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
)


def outcomes(graph: Graph, forest: Forest, X: str) -> tuple[str, Array]:
    """Append h of all nodes.

    Returns
    -------
    h, order
        Name of a bool tensor, (n_nodes, batch), and the node that each of its rows stands for.
    """
    by_column = graph.add("Transpose", X, perm=[1, 0], name="X_by_column")
    return outcomes_of(graph, forest, by_column, np.ones(forest.n_nodes, bool))


def outcomes_of(graph: Graph, forest: Forest, by_column: str, wanted: Array) -> tuple[str, Array]:
    """Append h of some nodes, at least one.

    Parameters
    ----------
    by_column : name of a tensor, (n_features, batch)
    wanted : bool, (n_nodes,)

    Returns
    -------
    h, order
        As of `outcomes`.
    """
    tests = forest.tests
    one_hot = tests.is_one_hot
    comparison = np.where(tests.kind == Kind.EQUAL, _EQUAL, tests.relation)
    parts, order = [], []
    for gathered in (True, False):
        chosen = np.flatnonzero(wanted & (one_hot == gathered) & (tests.kind != Kind.SET))
        nodes = chosen[np.argsort(comparison[chosen], kind="stable")]
        if nodes.size:
            # onnxruntime 1.31 drops a product with a single float64 number that is 1 in float32,
            # and a difference with one that is 0 there: so a single node is computed twice.
            alone = nodes.size == 1 and not gathered
            read = np.repeat(nodes, 2) if alone else nodes
            z = _margins(graph, forest, by_column, read)
            if alone:
                first = (np.array([0]), np.array([1]), np.array([0]))
                z = graph.add("Slice", z, *first, name="margin_once")
            parts.append(_compare(graph, tests, z, nodes, comparison[nodes]))
            order.append(nodes)
    nodes = np.flatnonzero(wanted & (tests.kind == Kind.SET))
    if nodes.size:
        parts.append(_sets(graph, forest, by_column, nodes))
        order.append(nodes)
    h = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=0, name="outcome")
    return h, np.concatenate(order)


_EQUAL = 2


def _compare(graph: Graph, tests: NodeTests, z: str, nodes: Array, comparison: Array) -> str:
    """Append [z > b], [z >= b] or [z == b]; one block of rows for each."""
    b = tests.b[nodes][:, None]
    parts = []
    # `comparison` is sorted.
    values, starts = np.unique(comparison, return_index=True)
    ends = [*starts[1:].tolist(), len(nodes)]
    for value, start, end in zip(values.tolist(), starts.tolist(), ends, strict=True):
        part = z
        if len(values) > 1:
            bounds = (np.array([start]), np.array([end]), np.array([0]))
            part = graph.add("Slice", z, *bounds, name="margin_block")
        if value == _EQUAL:
            parts.append(graph.add("Equal", part, b[start:end], name="test"))
        else:
            equal = value == Relation.GREATER_EQUAL
            parts.append(greater(graph, part, b[start:end], "test", equal=equal))
    h = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=0, name="tests")
    missing_right = tests.missing_right[nodes][:, None]
    if not missing_right.any():
        return h  # a comparison with NaN is false: left
    missing = graph.add("IsNaN", z, name="is_missing")
    right = graph.add("And", missing, missing_right, name="missing_goes_right")
    return graph.add("Or", h, right, name="test_or_missing")


def values(graph: Graph, forest: Forest, by_column: str, column: Array, rule: Array) -> str:
    """Append the columns' values, NaN where the rule calls them missing, (n, batch)."""
    dtype = forest.dtype
    index = table(graph, column, np.dtype(np.int64))
    x = graph.add("Gather", by_column, index, axis=0, name="x")
    sentinel = forest.inputs.missing_sentinel
    absent = []
    if np.any(rule == MissingRule.NAN_OR_ZERO):
        # The reference compares in the dtype of x, so the bound is rounded to it as well.
        bound = np.array(ZERO_THRESHOLD, dtype)
        small = graph.add("LessOrEqual", graph.add("Abs", x, name="magnitude"), bound, name="small")
        zero = (rule == MissingRule.NAN_OR_ZERO)[:, None]
        absent.append(graph.add("And", small, zero, name="is_zero"))
    if sentinel is not None and np.any(rule == MissingRule.NAN_OR_SENTINEL):
        equal = graph.add("Equal", x, np.array(sentinel, dtype), name="equals_sentinel")
        marked = (rule == MissingRule.NAN_OR_SENTINEL)[:, None]
        absent.append(graph.add("And", equal, marked, name="is_sentinel"))
    nan = np.array(np.nan, dtype)
    for mask in absent:
        x = graph.add("Where", mask, nan, x, name="x_or_missing")
    return x


def _margins(graph: Graph, forest: Forest, by_column: str, nodes: Array) -> str:
    """Append z of margin nodes, (n_nodes, batch): sum of r · activation(row of S · x − offset)."""
    tests = forest.tests
    first = tests.node_ptr[nodes]
    if tests.is_one_hot[nodes].all():
        column = tests.column[tests.row_ptr[first]]
        return values(graph, forest, by_column, column, tests.missing_rule[nodes])
    n_rows = tests.node_ptr[nodes + 1] - first
    rows, rule = ranges(first, n_rows), np.repeat(tests.missing_rule[nodes], n_rows)
    value = _row_values(graph, forest, by_column, rows, rule)
    value = graph.add("Sub", value, tests.offset[rows][:, None], name="row_value")
    soft = tests.activation[rows] == Activation.SOFTPLUS
    if soft.any():
        activated = softplus(graph, value, forest.dtype)
        chosen = soft[:, None]
        value = (
            activated
            if soft.all()
            else graph.add("Where", chosen, activated, value, name="row_activation")
        )
    terms = graph.add("Mul", value, tests.r[rows][:, None], name="row_term")
    if np.all(n_rows == 1):
        return terms
    total, start = "", np.cumsum(n_rows) - n_rows
    for k in range(int(n_rows.max())):
        has = k < n_rows
        at = table(graph, start + np.where(has, k, 0), np.dtype(np.int64))
        term = graph.add("Gather", terms, at, axis=0, name="node_term")
        # Each node has a first row, which starts the sum.
        total = _add_where(graph, total, term, has, "margin") if k else term
    return total


def _row_values(graph: Graph, forest: Forest, by_column: str, rows: Array, rule: Array) -> str:
    """Append rows of S · x, entry by entry, (n_rows, batch)."""
    tests, dtype = forest.tests, forest.dtype
    first = tests.row_ptr[rows]
    n_entries = tests.row_ptr[rows + 1] - first
    if not n_entries.any():
        return graph.constant("empty_rows", np.zeros((len(rows), 1), dtype))
    total = ""
    for k in range(int(n_entries.max(initial=0))):
        has = k < n_entries
        entry = first + np.where(has, k, 0)
        entry[n_entries == 0] = 0
        x = values(graph, forest, by_column, tests.column[entry], rule)
        if tests.substitute is not None:
            missing = graph.add("IsNaN", x, name="entry_missing")
            substitute = tests.substitute[entry][:, None]
            x = graph.add("Where", missing, substitute, x, name="entry_substituted")
        if tests.indicator is not None and np.any(tests.indicator[entry] >= 0):
            missing = graph.add("IsNaN", x, name="entry_still_missing")
            code = tests.indicator[entry][:, None]
            equal = graph.add("Equal", x, code.astype(dtype), name="entry_has_code")
            unit = cast(graph, equal, dtype, "entry_indicator")
            reads_code = graph.add(
                "And", graph.add("Not", missing, name="entry_present"), code >= 0, name="reads_code"
            )
            x = graph.add("Where", reads_code, unit, x, name="entry_value")
        term = graph.add("Mul", x, tests.weight[entry][:, None], name="entry_term")
        if k:
            total = _add_where(graph, total, term, has, "row_sum")
        else:  # the first entry starts the sum; a row without entries is 0
            zero = np.zeros((), dtype)
            total = (
                term if has.all() else graph.add("Where", has[:, None], term, zero, name="row_sum")
            )
    return total


def _add_where(graph: Graph, total: str, term: str, has: Array, name: str) -> str:
    """Append total + term for the rows that have this term."""
    added = graph.add("Add", total, term, name=name)
    return added if has.all() else graph.add("Where", has[:, None], added, total, name=name)


def _sets(graph: Graph, forest: Forest, by_column: str, nodes: Array) -> str:
    """Append [code of x is in the node's set], (n_nodes, batch): one lookup in a table of bits.

    The last two bits of the table are 0 and 1: where codes out of range and missing values look.
    """
    tests, dtype = forest.tests, forest.dtype
    column = tests.column[tests.row_ptr[tests.node_ptr[nodes]]]
    x = values(graph, forest, by_column, column, tests.missing_rule[nodes])
    truncates = (tests.code_rule[nodes] == CodeRule.TRUNCATE)[:, None]
    zero = np.zeros((), dtype)
    negative = graph.add("Less", x, zero, name="is_negative")
    floor = graph.add("Floor", x, name="floor")
    whole = graph.add("Where", negative, zero, floor, name="code_value")
    # Truncation reads a value above -1 as code 0, rounding down any from 0 on; by the exact rule
    # the value must be its own code.
    same = graph.add("Equal", x, whole, name="is_whole")
    above = greater(graph, x, np.array(-1, dtype), "above_minus_one")
    truncated = graph.add("And", above, truncates, name="is_truncated")
    readable = graph.add("Or", same, truncated, name="is_code_or_truncated")
    floors = (tests.code_rule[nodes] == CodeRule.FLOOR)[:, None]
    above = graph.add("Not", negative, name="not_negative")
    floored = graph.add("And", above, floors, name="is_floored")
    readable = graph.add("Or", readable, floored, name="is_code")
    n_codes = (tests.set_ptr[nodes + 1] - tests.set_ptr[nodes]) * WORD_BITS
    inside = graph.add("Less", whole, n_codes[:, None].astype(dtype), name="below_range")
    readable = graph.add("And", readable, inside, name="is_readable")
    code = graph.add("Where", readable, whole, zero, name="code_or_zero")
    code = cast(graph, code, np.dtype(np.int64), "code")
    start = (tests.set_ptr[nodes] * WORD_BITS)[:, None]
    place = graph.add("Add", code, start, name="bit_in_range")
    n_bits = tests.set_words.size * WORD_BITS
    other = n_bits + tests.other_right[nodes][:, None].astype(np.int64)
    place = graph.add("Where", readable, place, other, name="bit_or_other")
    if graph.interface.plain:
        held = np.unpackbits(tests.set_words.astype("<u4").view(np.uint8), bitorder="little")
        numbers = np.append(held, [0, 1]).astype(np.float32)
        found = graph.add("Gather", numbers, place, axis=0, name="set_number")
        return graph.add("Less", np.array(0.5, np.float32), found, name="set_test")
    missing = graph.add("IsNaN", x, name="is_missing")
    absent = n_bits + tests.missing_right[nodes][:, None].astype(np.int64)
    place = graph.add("Where", missing, absent, place, name="bit")
    # Bytes, not bits: BitwiseAnd is implemented for few types and the tables are small.
    octets = np.append(tests.set_words.astype("<u4").view(np.uint8), np.uint8(0b10))
    powers = np.left_shift(np.uint8(1), np.arange(8, dtype=np.uint8))
    masked = graph.add("BitwiseAnd", octets[:, None], powers, name="set_bits_masked")
    bits = graph.add("Cast", masked, to=9, name="set_bits_wide")
    bits = graph.add("Reshape", bits, np.array([-1]), name="set_bits")
    return graph.add("Gather", bits, place, axis=0, name="set_test")

"""Drawing of a tree as text: its tests, line by line, and its four arrays if they are small."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bitvec.cli.answer import number, plain
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.expansion import ColumnKind, ExpandedColumn
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind, Relation, set_codes
from bitvec.errors import InvalidForestError

MAX_LINES = 400
"""Lines of a drawing; what lies beyond is counted, not drawn."""
MAX_ARRAY = 16
"""Rows and columns of S, B and v that are still pleasant to read."""
MAX_TERMS = 6
"""Terms of an oblique test, and codes of a set, that are written out."""


def draw(tree: Forest) -> Iterator[str]:
    """Yield the lines of a drawing of one tree; the answer `no` is left, `yes` is right (h = 1).

    Each question is asked of a value that is there; the arrow behind it says where a missing one
    goes.
    """
    left, right = structure.children(tree.bitvectors)
    asks = questions(tree)
    root = 0 if tree.n_nodes else ~0
    todo = [(root, "", "", "")]  # child, indent of its line, connector, indent below it
    lines = 0
    while todo:
        child, indent, answer, below = todo.pop()
        if lines == MAX_LINES:
            yield f"... {len(todo) + 1} subtrees more"
            return
        lines += 1
        if child < 0:
            yield f"{indent}{answer}leaf {~child}: {leaf_text(tree, ~child)}"
            continue
        yield f"{indent}{answer}{asks(child)}"
        todo.append((int(right[child]), below, "└─ yes: ", below + "   "))
        todo.append((int(left[child]), below, "├─ no:  ", below + "│  "))


def questions(tree: Forest) -> Callable[[int], str]:
    """Return the function that puts a node's test into words."""
    feature = tree.tests.feature
    tests = tree.tests

    def ask(node: int) -> str:
        kind = Kind(tests.kind[node])
        missing = "yes" if tests.missing_right[node] else "no"
        if kind is Kind.SET:
            text = f"{column_name(tree, int(feature[node]))} in {_set_text(tree, node)}"
        elif kind is Kind.EQUAL:
            text = f"{column_name(tree, int(feature[node]))} = {number(tests.b[node])}"
        else:
            sign = ">" if tests.relation[node] == Relation.GREATER else ">="
            text = f"{_sum_text(tree, node)} {sign} {_threshold(tests.b[node])}"
        soft = " (softly)" if kind is Kind.KERNEL and tree.kernel is not None else ""
        return f"{text} ?{soft}  [missing: {missing}]"

    return ask


def column_name(tree: Forest, column: int) -> str:
    """Return the name of a column that S reads."""
    if tree.feature_map is not None:
        return f"φ{column}"
    names = tree.inputs.feature_names
    return plain(names[column]) if names is not None else f"x{column}"


def _threshold(b: np.floating) -> str:
    return str(b)  # the shortest text that names this float32 or float64 and no other


def _sum_text(tree: Forest, node: int) -> str:
    tests = tree.tests
    rows = range(int(tests.node_ptr[node]), int(tests.node_ptr[node + 1]))
    parts = []
    for row in rows:
        entries = range(int(tests.row_ptr[row]), int(tests.row_ptr[row + 1]))
        text = _terms(tree, entries)
        if tests.offset[row] != 0:
            text = f"{text} − {number(tests.offset[row])}"
        if tests.activation[row] == Activation.SOFTPLUS:
            text = f"softplus({text})"
        if tests.r[row] != 1:
            text = f"{number(tests.r[row])}·({text})"
        parts.append(text)
    return " + ".join(_first(parts))


def _terms(tree: Forest, entries: range) -> str:
    tests = tree.tests
    parts = []
    for entry in entries:
        name = column_name(tree, int(tests.column[entry]))
        if tests.indicator is not None and tests.indicator[entry] >= 0:
            name = f"[{name} = {tests.indicator[entry]}]"
        weight = tests.weight[entry]
        parts.append(name if weight == 1 else f"{number(weight)}·{name}")
    return " + ".join(_first(parts))


def _first(parts: list[str]) -> list[str]:
    return parts if len(parts) <= MAX_TERMS else [*parts[: MAX_TERMS - 1], "..."]


def _set_text(tree: Forest, node: int) -> str:
    column = int(tree.tests.feature[node])
    categories = tree.inputs.categories
    book = None if categories is None or tree.feature_map is not None else categories[column]
    codes = set_codes(tree.tests, node).tolist()
    known = [plain(str(book[c])) if book is not None and c < len(book) else str(c) for c in codes]
    return "{" + ", ".join(_first(known)) + "}"


def leaf_text(tree: Forest, leaf: int) -> str:
    """Return what a leaf holds, with the names of the classes where there are few."""
    v, names = tree.leaves.v[leaf], output_names(tree)
    if tree.leaves.output is not None:
        at = int(tree.leaves.output[leaf])
        text = number(v[0]) if tree.n_outputs == 1 else f"{names[at]} {number(v[0])}"
    elif len(v) == 1:
        text = number(v[0])
    else:
        shown = [f"{n} {number(x)}" for n, x in zip(names, v, strict=True)]
        text = ", ".join(_first(shown))
    linear = tree.leaves.linear
    if linear is not None and linear.leaf_ptr[leaf + 1] > linear.leaf_ptr[leaf]:
        return f"linear in x, {text} if a value is missing"
    return text


def output_names(forest: Forest) -> list[str]:
    """Return a name per output: the class where an output has one, else its number."""
    output = forest.output
    if output.classes is None:
        return [str(i) for i in range(forest.n_outputs)]
    names = []
    for group, (labels, size) in enumerate(zip(output.classes, output.groups, strict=True)):
        target = f"{group}:" if len(output.groups) > 1 else ""
        shown = labels[-1:] if size == 1 else labels
        names += [f"{target}{plain(str(label))}" for label in shown]
    return names


def arrays(tree: Forest) -> Iterator[str]:
    """Yield the lines of S, b, B and v, or one that says how large they are.

    S and b are those of the equation, with the columns that S reads besides those of X named below.
    """
    n_columns, more = tree.n_columns, []
    try:
        S, b = tree.S, tree.b
        sizes = {"S": S.shape, "b": b.shape}
        more = [_column_text(tree, column) for column in tree.expanded_columns[n_columns:]]
    except InvalidForestError as error:
        yield f"S, b: {error}"
        sizes = {}
    sizes |= {"B": (tree.n_leaves, tree.n_nodes), "v": tree.leaves.v.shape}
    for name, shape in sizes.items():
        title = f"{name} ({' x '.join(map(str, shape))})"
        if max(shape) > MAX_ARRAY:
            yield f"{title}: too large to print"
        elif 0 in shape:
            yield f"{title}: empty"
        else:
            yield f"{title}:"
            array = tree.leaves.v if name == "v" else getattr(tree, name)
            yield from _matrix(np.asarray(array))
            if name == "S" and more:
                yield f"  columns from {n_columns} on: {'; '.join(more)}"


def _column_text(tree: Forest, column: ExpandedColumn) -> str:
    if column.kind == ColumnKind.DECIDED:
        return f"node {column.reads} decided by a value left out"
    name = column_name(tree, column.reads)
    bounded = name if column.code < 0 else f"{name} is {column.code}"
    return {
        ColumnKind.MISSING_LOW: f"{name}, -max where missing",
        ColumnKind.MISSING_HIGH: f"{name}, max where missing",
        ColumnKind.BOUNDED: f"{bounded}, bounded",
        ColumnKind.MISSING: f"{name} is missing",
        ColumnKind.EQUAL: f"{name} = {number(column.value)}",
        ColumnKind.CODE: f"{name} is {column.code}",
    }[column.kind]


def _matrix(array: Array) -> Iterator[str]:
    cells = [[number(x) for x in row] for row in (array if array.ndim == 2 else array[None, :])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))

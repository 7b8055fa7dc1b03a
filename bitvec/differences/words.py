"""Nodes and numbers in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind, Relation, set_codes

TERMS = 3
"""Terms of a sum, and codes of a set, that are written out."""


def column_name(forest: Forest, column: int) -> str:
    """Return the name of a column that S reads."""
    if forest.feature_map is not None:
        return f"φ{column}"
    names = forest.inputs.feature_names
    return f"x{column}" if names is None else names[column]


def place(forest: Forest, node: int) -> str:
    """Return where a node stands: its tree, and its number within it."""
    tree = int(forest.bitvectors.tree_of_node[node])
    return f"tree {tree} node {node - int(forest.bitvectors.node_ptr[tree])}"


def question(forest: Forest, node: int) -> str:
    """Return what a node asks; yes goes right.

    >>> from bitvec.core.forest import Forest
    >>> question(Forest.from_matrices([[2, -1]], [0.5], [[0], [1]], [10, 20]), 0)
    '2·x0 − x1 > 0.5'
    """
    tests = forest.tests
    kind = Kind(tests.kind[node])
    rows = range(int(tests.node_ptr[node]), int(tests.node_ptr[node + 1]))
    if kind is Kind.SET:
        codes = set_codes(tests, node).tolist()
        book = _book(forest, int(tests.feature[node]))
        known = [str(book[code]) if code < len(book) else str(code) for code in codes[:TERMS]]
        listed = ", ".join([*known, *(["..."] if len(codes) > TERMS else [])])
        return f"{_sum(forest, rows[0])} in {{{listed}}}"
    parts = []
    for row in rows[:TERMS]:
        text = _sum(forest, row)
        if tests.offset[row] != 0:
            text += f" − {number(float(tests.offset[row]))}"
        if tests.activation[row] == Activation.SOFTPLUS:
            text = f"softplus({text})"
        parts.append(text if tests.r[row] == 1 else f"{number(float(tests.r[row]))}·({text})")
    if len(rows) > TERMS:
        parts.append(f"{len(rows) - TERMS} more")
    greater = ">" if tests.relation[node] == Relation.GREATER else ">="
    sign = "=" if kind is Kind.EQUAL else greater
    return f"{' + '.join(parts)} {sign} {number(float(tests.b[node]))}"


def _book(forest: Forest, column: int) -> Sequence[object]:
    books = forest.inputs.categories
    return () if books is None or forest.feature_map is not None else books[column] or ()


def _sum(forest: Forest, row: int) -> str:
    tests = forest.tests
    entry = np.arange(tests.row_ptr[row], tests.row_ptr[row + 1])
    weight = tests.weight[entry].astype(np.float64)
    order = np.argsort(-np.abs(weight), kind="stable")
    text = ""
    for k in order[:TERMS]:
        name = column_name(forest, int(tests.column[entry[k]]))
        if tests.indicator is not None and tests.indicator[entry[k]] >= 0:
            name = f"[{name} = {tests.indicator[entry[k]]}]"
        size = "" if abs(weight[k]) == 1 else f"{number(abs(weight[k]))}·"
        joint = (" − " if weight[k] < 0 else " + ") if text else ("−" if weight[k] < 0 else "")
        text += f"{joint}{size}{name}"
    return text + (f" + {len(order) - TERMS} more" if len(order) > TERMS else "")


def number(value: float) -> str:
    """Return a number as people read it, "-" for NaN."""
    return "-" if np.isnan(value) else f"{value:.4g}"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines of columns; the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()

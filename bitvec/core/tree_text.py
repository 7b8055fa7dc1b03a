"""Trees as text, line by line, with the names of columns, categories and classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bitvec.core import structure
from bitvec.core.features import FeatureMap
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Activation, Kind, NodeTests, Relation, set_codes
from bitvec.core.output import Output
from bitvec.core.plain_text import number, plain
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors

MAX_LINES = 400
"""Lines of a drawing; what lies beyond is counted, not drawn."""
MAX_TERMS = 6
"""Terms of an oblique test, and codes of a set, that are written out."""


@runtime_checkable
class Trees(Protocol):
    """The parts of a `bitvec.core.forest.Forest`, which has the methods that call this module."""

    @property
    def tests(self) -> NodeTests: ...
    @property
    def bitvectors(self) -> Bitvectors: ...
    @property
    def leaves(self) -> Leaves: ...
    @property
    def output(self) -> Output: ...
    @property
    def inputs(self) -> Inputs: ...
    @property
    def source(self) -> Source | None: ...
    @property
    def feature_map(self) -> FeatureMap | None: ...
    @property
    def kernel(self) -> Any: ...
    def __getitem__(self, tree: int) -> Trees: ...


def text(forest: Trees, max_lines: int) -> str:
    """Return all trees as text, each under a line with its number."""
    parts = []
    for tree in range(forest.bitvectors.n_trees):
        parts += [f"tree {tree}", *draw(forest[tree], max_lines), ""]
    return "\n".join(parts)


def draw(tree: Trees, max_lines: int = MAX_LINES) -> Iterator[str]:
    """Yield the lines of a drawing of one tree; the answer `no` is left, `yes` is right (h = 1).

    Each question is asked of a value that is there; the arrow behind it says where a missing one
    goes.
    """
    left, right = structure.children(tree.bitvectors)
    asks = questions(tree)
    root = 0 if tree.tests.n_nodes else ~0
    todo = [(root, "", "", "")]  # child, indent of its line, connector, indent below it
    lines = 0
    while todo:
        child, indent, answer, below = todo.pop()
        if lines == max_lines:
            yield f"... {len(todo) + 1} subtrees more"
            return
        lines += 1
        if child < 0:
            yield f"{indent}{answer}leaf {~child}: {leaf_text(tree, ~child)}"
            continue
        yield f"{indent}{answer}{asks(child)}"
        todo.append((int(right[child]), below, "└─ yes: ", below + "   "))
        todo.append((int(left[child]), below, "├─ no:  ", below + "│  "))


def questions(tree: Trees) -> Callable[[int], str]:
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
            text = f"{sum_text(tree, node)} {sign} {_threshold(tests.b[node])}"
        soft = " (softly)" if kind is Kind.KERNEL and tree.kernel is not None else ""
        return f"{text} ?{soft}  [missing: {missing}]"

    return ask


def column_name(tree: Trees, column: int) -> str:
    """Return the name of a column that S reads."""
    if tree.feature_map is not None:
        return f"φ{column}"
    names = tree.inputs.feature_names
    return plain(names[column]) if names is not None else f"x{column}"


def _threshold(b: np.floating) -> str:
    return str(b)  # the shortest text that names this float32 or float64 and no other


def sum_text(tree: Trees, node: int) -> str:
    """Return what a node compares with its threshold."""
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


def _terms(tree: Trees, entries: range) -> str:
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


def _set_text(tree: Trees, node: int) -> str:
    column = int(tree.tests.feature[node])
    book = book_of(tree, column)
    codes = set_codes(tree.tests, node).tolist()
    known = [plain(str(book[c])) if book is not None and c < len(book) else str(c) for c in codes]
    return "{" + ", ".join(_first(known)) + "}"


def book_of(tree: Trees, column: int) -> tuple[Any, ...] | None:
    """Return the categories of a column that S reads, by code."""
    return None if tree.feature_map is not None else tree.inputs.book(column)


def leaf_text(tree: Trees, leaf: int) -> str:
    """Return what a leaf holds, with the names of the classes where there are few."""
    v, names = tree.leaves.v[leaf], output_names(tree)
    if tree.leaves.output is not None:
        at = int(tree.leaves.output[leaf])
        text = number(v[0]) if tree.output.n_outputs == 1 else f"{names[at]} {number(v[0])}"
    elif len(v) == 1:
        text = number(v[0])
    else:
        shown = [f"{n} {number(x)}" for n, x in zip(names, v, strict=True)]
        text = ", ".join(_first(shown))
    linear = tree.leaves.linear
    if linear is not None and linear.leaf_ptr[leaf + 1] > linear.leaf_ptr[leaf]:
        return f"linear in x, {text} if a value is missing"
    return text


def output_names(forest: Trees) -> list[str]:
    """Return a name per output: the class where an output has one, else its number."""
    output = forest.output
    if output.classes is None:
        return [str(i) for i in range(forest.output.n_outputs)]
    names = []
    for group, (labels, size) in enumerate(zip(output.classes, output.groups, strict=True)):
        target = f"{group}:" if len(output.groups) > 1 else ""
        shown = labels[-1:] if size == 1 else labels
        names += [f"{target}{plain(str(label))}" for label in shown]
    return names

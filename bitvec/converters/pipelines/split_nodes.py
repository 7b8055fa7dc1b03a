"""Trees of folded nodes: each keeps its place, but one that no single test holds becomes several.

Such a node asks for an interval with two ends, as one bin of several does. It is split into
thresholds, and the subtrees behind it are copied, without the nodes that are decided there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bitvec.converters.pipelines.derived_columns import Place
from bitvec.converters.pipelines.node_forms import Form, pieces
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.float_keys import key_of
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.key_intervals import Values, intersection
from bitvec.core.node_tests import Kind, Relation, axis_aligned, set_bits

MOST_COPIES = 16
"""Nodes of the folded forest for each of the given one, at most, where it has over `FEW_NODES`."""
FEW_NODES = 1 << 14


class Node(NamedTuple):
    """A folded node: its raw column and its form, or no single form.

    `values` are the numbers that go right, of all in `domain`; None for texts.
    """

    column: int
    form: Form | None
    values: Values | None = None
    domain: Values | None = None


def with_nodes(
    forest: Forest, nodes: list[Node], inputs: Inputs, dtype: np.dtype, step: Place
) -> Forest:
    """Return the forest with its nodes replaced, over other columns and in another dtype.

    Raises
    ------
    UnsupportedModelError
        If too many copies would be needed.
    """
    left, right = structure.children(forest.bitvectors)
    n_leaves, roots = np.diff(forest.bitvectors.leaf_ptr), forest.bitvectors.node_ptr[:-1]
    root = np.where(n_leaves > 1, roots, ~forest.bitvectors.leaf_ptr[:-1])
    columns, forms = [node.column for node in nodes], [node.form for node in nodes]
    origin = np.arange(len(nodes))
    if any(form is None for form in forms):
        trees = _Trees(nodes, left, right, dtype, step)
        root = np.array([trees.grow(int(at)) for at in root], np.int64)
        columns, forms, origin = trees.columns, list(trees.forms), np.array(trees.origin, np.int64)
        left, right = np.array(trees.left, np.int64), np.array(trees.right, np.int64)
    stated = [form for form in forms if form is not None]
    swapped = np.array([form.swapped for form in stated], np.bool_)
    left, right = np.where(swapped, right, left), np.where(swapped, left, right)
    bitvectors, order = structure.arrange(left, right, root)
    is_set = np.array([bool(form.codes) for form in stated], np.bool_)
    own_ptr, set_words = set_bits([np.array(f.codes, np.int64) for f in stated if f.codes])
    n_words = np.zeros(len(stated), np.int64)
    n_words[is_set] = np.diff(own_ptr)
    tests = axis_aligned(
        np.array(columns, np.int64),
        np.array([form.b for form in stated], dtype),
        kind=np.array([form.kind for form in stated], np.uint8),
        relation=np.array([form.relation for form in stated], np.uint8),
        missing_right=np.array([form.missing_right for form in stated], np.bool_),
        other_right=np.array([form.other_right for form in stated], np.bool_),
        set_ptr=np.concatenate([[0], np.cumsum(n_words)]).astype(np.int64),
        set_words=set_words,
    ).take(order.node)
    leaf = ~order.leaf
    source = forest.source
    if source is not None:
        source = source.take(origin[order.node], leaf)
        if leaf.size > forest.leaves.n_leaves:  # a copy has no cover of its own
            source = replace(source, node_cover=None, leaf_cover=None, gain=None)
    return replace(
        forest,
        tests=tests,
        bitvectors=bitvectors,
        leaves=forest.leaves.take(leaf),
        inputs=inputs,
        source=source,
    )


class _Trees:
    """Grows trees position by position; see `with_nodes`."""

    def __init__(
        self, nodes: list[Node], left: Array, right: Array, dtype: np.dtype, step: Place
    ) -> None:
        self.nodes, self.dtype, self.step = nodes, dtype, step
        self.children = left.tolist(), right.tolist()
        self.left: list[int] = []
        self.right: list[int] = []
        self.columns: list[int] = []
        self.forms: list[Form] = []
        self.origin: list[int] = []
        self.most = max(FEW_NODES, MOST_COPIES * len(nodes))
        self.cut = {node.column for node in nodes if node.form is None}

    def grow(self, root: int) -> int:
        """Return the position of a root and all below it."""
        tops = [root]
        # What to grow, with what is known of the columns that are cut, and where it is hung.
        waiting: list[tuple[int, dict[int, Values], list[int], int]] = [(root, {}, tops, 0)]
        while waiting:
            at, known, where, place = waiting.pop()
            at = self._decided(at, known)
            if at < 0:
                where[place] = at
                continue
            node = self.nodes[at]
            sides = [self.children[0][at], self.children[1][at]]
            if node.values is None or node.column not in self.cut:
                where[place] = position = self._add(at, node.form)
                waiting.append((sides[0], known, self.left, position))
                waiting.append((sides[1], known, self.right, position))
                continue
            assert node.domain is not None
            within = known.get(node.column, node.domain)
            turns = pieces(node.values, within, self.dtype)
            nan_side = node.values.nan if within.nan else None
            waiting += self._split(at, turns, nan_side, within, known, (where, place))
        return tops[0]

    def _decided(self, at: int, known: dict[int, Values]) -> int:
        """Return the node below which rows part first, past those that are decided."""
        while at >= 0 and self.nodes[at].column in known:
            node = self.nodes[at]
            assert node.values is not None
            within = known[node.column]
            goes = intersection(node.values, within)
            if goes == within:
                at = self.children[1][at]
            elif not goes:
                at = self.children[0][at]
            else:
                break
        return at

    def _split(
        self,
        at: int,
        turns: list[tuple[float, bool]],
        nan_side: bool | None,
        within: Values,
        known: dict[int, Values],
        hung: tuple[list[int], int],
    ) -> list[tuple[int, dict[int, Values], list[int], int]]:
        """Add the thresholds of a node, halved and halved again, and return what hangs there."""
        sides = [side for _, side in turns]
        missing_at = 0
        if nan_side is not None:
            missing_at = sides.index(nan_side) if nan_side in sides else -1
        if missing_at < 0:  # missing values alone go there: a threshold beyond all numbers
            where, place = hung
            form = Form(Kind.MARGIN, np.inf, missing_right=True, swapped=not nan_side)
            where[place] = position = self._add(at, form)
            numbers, gap = Values(within.intervals, False), Values((), True)
            column = self.nodes[at].column
            low, high = (self.left, self.right) if nan_side else (self.right, self.left)
            return [
                (self.children[int(not nan_side)][at], {**known, column: numbers}, low, position),
                (self.children[int(bool(nan_side))][at], {**known, column: gap}, high, position),
            ]
        result = []
        stack = [(0, len(turns), hung)]
        while stack:
            first, stop, (where, place) = stack.pop()
            if stop - first == 1:
                inside = self._between(turns, first, within, nan=missing_at == first)
                own = {**known, self.nodes[at].column: inside}
                result.append((self.children[int(sides[first])][at], own, where, place))
                continue
            middle = (first + stop) // 2
            form = Form(
                Kind.MARGIN,
                turns[middle][0],
                Relation.GREATER_EQUAL,
                missing_right=missing_at >= middle,
            )
            where[place] = position = self._add(at, form)
            stack += [
                (first, middle, (self.left, position)),
                (middle, stop, (self.right, position)),
            ]
        return result

    def _between(
        self, turns: list[tuple[float, bool]], first: int, within: Values, *, nan: bool
    ) -> Values:
        top = key_of(np.inf, self.dtype)
        low = key_of(turns[first][0], self.dtype)
        high = key_of(turns[first + 1][0], self.dtype) - 1 if first + 1 < len(turns) else top
        return intersection(within, Values(((low, high),), nan))

    def _add(self, at: int, form: Form | None) -> int:
        assert form is not None
        if len(self.forms) >= self.most:
            raise self.step.refuse(
                f"its bins ask for more than {self.most} nodes as single thresholds; encode "
                "bins as places (encode='ordinal'), or categories as numbers from 0"
            )
        self.left.append(-1)
        self.right.append(-1)
        self.columns.append(self.nodes[at].column)
        self.forms.append(form)
        self.origin.append(at)
        return len(self.forms) - 1

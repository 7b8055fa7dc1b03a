"""The linear map from leaf vectors to raw scores, for rows whose exit leaves are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.predict.threads import effective_jobs, for_each_block
from bitvec.runtime.train.relax.aggregation import divisor

BLOCK = 2048
"""Rows whose sums are held in a cache at a time."""
SMALL = 1 << 19
"""(row, tree) pairs below which a second thread costs more than it brings."""


@kernel
def _add_vectors(leaf: Any, v: Any, out: Any, first: int, last: int) -> None:
    """Add to rows [first, last) of out, (n_rows, width), the vectors of their leaves.

    leaf is int32 (n_trees, n_rows): one tree after the other, so that its leaves stay in a cache.
    """
    if v.shape[1] == 1:
        value, total = v[:, 0], out[:, 0]
        for tree in range(leaf.shape[0]):
            for row in range(first, last):
                total[row] += value[leaf[tree, row]]
        return
    for tree in range(leaf.shape[0]):
        for row in range(first, last):
            at = leaf[tree, row]
            for k in range(v.shape[1]):
                out[row, k] += v[at, k]


@kernel
def _add_numbers(leaf: Any, v: Any, output: Any, out: Any, first: int, last: int) -> None:
    """Add to rows [first, last) of out the number of each leaf, (n_leaves,), at its output."""
    for tree in range(leaf.shape[0]):
        for row in range(first, last):
            at = leaf[tree, row]
            out[row, output[at]] += v[at]


@kernel
def _sort_rows(leaf: Any, order: Any, start: Any, end: Any) -> None:
    """Fill the rows of each tree, (n_trees, n_rows), in the order of their leaves, and where each
    leaf's begin and end."""
    for tree in range(leaf.shape[0]):
        for row in range(leaf.shape[1]):
            end[leaf[tree, row]] += 1
        first = tree * leaf.shape[1]
        low = leaf[tree].min() if leaf.shape[1] else 0
        high = leaf[tree].max() if leaf.shape[1] else -1
        for at in range(low, high + 1):
            start[at], first = first, first + end[at]
            end[at] = start[at]
        for row in range(leaf.shape[1]):
            at = leaf[tree, row]
            order[end[at]] = row
            end[at] += 1


@kernel
def _gather(order: Any, start: Any, end: Any, raw: Any, output: Any, out: Any) -> None:
    """Fill the sum of the rows that reach each leaf, in four parts: a sum waits for the one before.

    Parameters
    ----------
    raw : float64, (n_outputs, n_rows)
    output : int64, (n_leaves,)
        The output that each leaf adds to; empty where out is (n_leaves, n_outputs).
    """
    for leaf in range(out.shape[0]):
        first, last = start[leaf], end[leaf]
        for k in range(out.shape[1]):
            own = raw[output[leaf] if output.size else k]
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            at = first
            while at + 4 <= last:
                a += own[order[at]]
                b += own[order[at + 1]]
                c += own[order[at + 2]]
                d += own[order[at + 3]]
                at += 4
            while at < last:
                a += own[order[at]]
                at += 1
            out[leaf, k] = (a + b) + (c + d)


@dataclass(frozen=True, slots=True, eq=False)
class LeafDesign:
    """The sparse matrix P of raw = P v + base score, and its transpose, in float64.

    Sums are taken in one order, on any number of threads.

    Parameters
    ----------
    leaf : int32, (n_trees, batch)
        Exit leaves, as forest leaves.
    rows : int32, (n_trees · batch,)
        The rows of each tree in the order of their leaves.
    start, end : int64, (n_leaves,)
        Where those of each leaf begin and end.
    weight : float64, (n_leaves,)
        What the vectors of each leaf's tree are multiplied by.
    divisor : float64, (n_outputs,)
        What their sum is divided by.
    output : int64, (n_leaves,), optional
        The output that each leaf adds to.
    """

    leaf: Array
    rows: Array
    start: Array
    end: Array
    weight: Array
    divisor: Array
    output: Array | None

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.weight)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.divisor)

    @property
    def width(self) -> int:
        """Numbers of a leaf."""
        return self.n_outputs if self.output is None else 1

    def raw(self, v: Array) -> Array:
        """Return P v, (batch, n_outputs), from leaf vectors (n_leaves, width)."""
        n_rows = self.leaf.shape[1]
        weighted, out = v * self.weight[:, None], np.zeros((n_rows, self.n_outputs))

        def add(part: slice) -> None:
            if self.output is None:
                _add_vectors(self.leaf, weighted, out, part.start, part.stop)
            else:
                _add_numbers(self.leaf, weighted[:, 0], self.output, out, part.start, part.stop)

        for_each_block(add, n_rows, block=BLOCK, n_threads=self._n_threads())
        return out / self.divisor

    def transposed(self, raw: Array) -> Array:
        """Return Pᵀ raw, (n_leaves, width), from (batch, n_outputs)."""
        found = self._gathered(raw / self.divisor, self.output)
        found *= self.weight[:, None]
        return found

    def squared_columns(self, sample_weight: Array) -> Array:
        """Return the diagonal of Pᵀ diag(sample_weight) P, (n_leaves, width)."""
        count = self._gathered(np.asarray(sample_weight, np.float64)[:, None], None)
        by_output = (self.weight[:, None] / self.divisor) ** 2
        if self.output is not None:
            by_output = np.take_along_axis(by_output, self.output[:, None], axis=1)
        return count * by_output

    def _gathered(self, raw: Array, output: Array | None) -> Array:
        """Return the sum of the rows that reach each leaf, of its output alone if that is named."""
        columns = np.ascontiguousarray(raw.T)
        out = np.empty((self.n_leaves, len(columns) if output is None else 1))
        output = np.zeros(0, np.int64) if output is None else output

        def gather(part: slice) -> None:
            own = output[part] if output.size else output
            _gather(self.rows, self.start[part], self.end[part], columns, own, out[part])

        threads = self._n_threads()
        block = self.n_leaves if threads == 1 else -(-self.n_leaves // (4 * threads))
        for_each_block(gather, self.n_leaves, block=block, n_threads=threads)
        return out

    def entry(self) -> float:
        """Return the mean square of what a leaf's number is multiplied by."""
        return float((self.weight**2).mean() / (self.divisor**2).mean())

    def _n_threads(self) -> int:
        return 1 if self.leaf.size < SMALL else effective_jobs(None)


def design(forest: Forest, exits: Array) -> LeafDesign:
    """Return the design of rows with these exit leaves, (batch, n_trees), within their trees."""
    B = forest.bitvectors
    leaf = exits.T.astype(np.int32) + B.leaf_ptr[:-1, None].astype(np.int32)
    weight = np.ones(forest.n_trees)
    if forest.output.tree_weight is not None:
        weight = forest.output.tree_weight.astype(np.float64)
    output = forest.leaves.output
    leaf = np.ascontiguousarray(leaf)
    rows = np.empty(leaf.size, np.int32)
    start, end = np.zeros((2, forest.n_leaves), np.int64)
    _sort_rows(leaf, rows, start, end)
    return LeafDesign(
        leaf,
        rows,
        start,
        end,
        np.repeat(weight, np.diff(B.leaf_ptr)),
        divisor(forest),
        None if output is None else output.astype(np.int64),
    )

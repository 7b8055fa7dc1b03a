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
def _gather_vectors(leaf: Any, raw: Any, out: Any, first: int, last: int) -> None:
    """Add to out, (n_leaves, width), for trees [first, last), the rows that reach each leaf."""
    for tree in range(first, last):
        for row in range(leaf.shape[1]):
            at = leaf[tree, row]
            for k in range(raw.shape[1]):
                out[at, k] += raw[row, k]


@kernel
def _gather_numbers(leaf: Any, raw: Any, output: Any, out: Any, first: int, last: int) -> None:
    """Add to out, (n_leaves,), the numbers at each leaf's output of the rows that reach it."""
    for tree in range(first, last):
        for row in range(leaf.shape[1]):
            at = leaf[tree, row]
            out[at] += raw[row, output[at]]


@dataclass(frozen=True, slots=True, eq=False)
class LeafDesign:
    """The sparse matrix P of raw = P v + base score, and its transpose, in float64.

    Sums are taken in the order of trees and of rows, on any number of threads.

    Parameters
    ----------
    leaf : int32, (n_trees, batch)
        Exit leaves, as forest leaves.
    weight : float64, (n_leaves,)
        What the vectors of each leaf's tree are multiplied by.
    divisor : float64, (n_outputs,)
        What their sum is divided by.
    output : int64, (n_leaves,), optional
        The output that each leaf adds to.
    """

    leaf: Array
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
        divided = np.ascontiguousarray(raw / self.divisor)
        out = np.zeros((self.n_leaves, self.width))

        def gather(part: slice) -> None:
            if self.output is None:
                _gather_vectors(self.leaf, divided, out, part.start, part.stop)
            else:
                _gather_numbers(self.leaf, divided, self.output, out[:, 0], part.start, part.stop)

        for_each_block(gather, len(self.leaf), block=1, n_threads=self._n_threads())
        return out * self.weight[:, None]

    def squared_columns(self, sample_weight: Array) -> Array:
        """Return the diagonal of Pᵀ diag(sample_weight) P, (n_leaves, width)."""
        count = np.zeros((self.n_leaves, 1))
        rows = np.ascontiguousarray(sample_weight, np.float64)[:, None]

        def gather(part: slice) -> None:
            _gather_vectors(self.leaf, rows, count, part.start, part.stop)

        for_each_block(gather, len(self.leaf), block=1, n_threads=self._n_threads())
        by_output = (self.weight[:, None] / self.divisor) ** 2
        if self.output is not None:
            by_output = np.take_along_axis(by_output, self.output[:, None], axis=1)
        return count * by_output

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
    return LeafDesign(
        np.ascontiguousarray(leaf),
        np.repeat(weight, np.diff(B.leaf_ptr)),
        divisor(forest),
        None if output is None else output.astype(np.int64),
    )

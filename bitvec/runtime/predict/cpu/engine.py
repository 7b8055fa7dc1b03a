"""The CPU engine: a forest packed for the kernel that suits it, run block by block on threads.

Raw scores have the bits of `bitvec.core.reference`: the same comparisons, sums in the same order
and dtype.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from bitvec.core import reference
from bitvec.core.arrays import Array, copied
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float, Int32
from bitvec.runtime.predict import subnormals
from bitvec.runtime.predict.cpu import choice, layer_kernels
from bitvec.runtime.predict.cpu.few_rows import forest_rows
from bitvec.runtime.predict.cpu.leaves.linear_terms import LinearLeaves
from bitvec.runtime.predict.cpu.protocol import (
    BLOCK_BYTES,
    MOST_ROWS,
    TreeKernel,
    rows_of_block,
)
from bitvec.runtime.predict.cpu.soft import soft_trees
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.engine import FewRows
from bitvec.runtime.predict.reference_engine import ReferenceEngine
from bitvec.runtime.predict.threads import effective_jobs, for_each_block

POOL = 1.7e6
"""Cycles of work below which Python's threads cost more than they bring."""
SOFT_ROWS = 32
"""Least rows of a block of soft prediction: each row meets many leaves of each tree."""


Work = Callable[[TreeKernel, Array, Array], None]
"""Fills the answers to a block of rows by a kernel."""


class NumbaEngine:
    """Runs a forest by compiled kernels.

    Parameters
    ----------
    forest : Forest
    kernel : str, optional
        One of `choice.KERNELS`, or "onerow"; the cheapest by `choice.choose` if not given.
    n_jobs : int, optional
        Threads: None or -1 for all cores, -2 for all but one.

    Raises
    ------
    InputError
        If there is no such kernel, or it cannot hold the forest.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> NumbaEngine(stump).raw(np.array([[0.0, 9.0], [1.0, 9.0]])).tolist()
    [[10.0], [20.0]]
    """

    name = "numba"

    def __init__(
        self, forest: Forest, *, kernel: str | None = None, n_jobs: int | None = None
    ) -> None:
        self.forest = forest
        self.n_threads = effective_jobs(n_jobs)
        self._asked = kernel
        if kernel is None:
            self._choice = choice.choose(forest)
            self._small_choice = choice.choose(forest, small=True)
        else:
            self._choice = self._small_choice = choice.require_kernel(kernel, forest)
        self._packed: dict[str, TreeKernel] = {}
        self._packing = threading.RLock()
        self._rows = self._few_rows() if kernel in (None, choice.ONE_ROW) else None
        self._raw = None if self._rows is None else self._rows.call("raw")
        self._few_raw = None if self._raw is None else self._raw.function()
        self._few_leaves = self.few_rows("exit_leaves", finite=False)
        self._linear = None if forest.leaves.linear is None else LinearLeaves(forest)
        self._adds = forest.output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        self._soft: soft_trees.SoftTrees | None = None
        if forest.feature_map is not None:
            self._mapped = layer_kernels.compiled(forest.feature_map, forest.dtype)

    def __reduce__(self) -> tuple[Callable[..., NumbaEngine], tuple[Forest, str | None, int]]:
        # A copy packs its arrays anew: kernels hold addresses, and locks cannot be copied.
        return _copy, (self.forest, self._asked, self.n_threads)

    def of(self, forest: Forest) -> NumbaEngine:
        """Return one with the same options that runs another forest."""
        return NumbaEngine(forest, kernel=self._asked, n_jobs=self.n_threads)

    def info(self) -> dict[str, Any]:
        """Return which kernel runs the forest and why, and what it takes."""
        small = self._small_choice
        soft = {}
        if self.forest.kernel is not None:
            why = soft_trees.unsupported_reason(self.forest)
            soft = {"soft_kernel": "reference" if why else "soft", "soft_kernel_why": why or ""}
        return soft | {
            "n_threads": self.n_threads,
            "kernel": self._choice.name,
            "kernel_why": self._choice.why,
            "kernel_of_small_batches": small.name,
            "kernel_of_small_batches_why": small.why,
            "few_rows": None if self._rows is None else self._rows.info(),
            "vectors": vectors(),
            "packed_bytes": self._trees_of(self._choice.name).packed_bytes,
        }

    @cached_property
    def _few_choice(self) -> choice.Choice:
        """The kernel for fewer rows than make a step, where no call of few rows answers them."""
        if self._asked is not None:
            return self._small_choice
        return choice.choose(self.forest, few=True)

    def _trees_of(self, kernel: str) -> TreeKernel:
        if kernel not in self._packed:
            with self._packing:
                if kernel not in self._packed:
                    self._packed[kernel] = choice.pack(kernel, self.forest)
        return self._packed[kernel]

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return leaf numbers within each tree."""
        if self._few_leaves is not None and (few := self._few_leaves(X)) is not None:
            return copied(few, out)
        if out is None:
            out = np.empty((len(X), self.forest.n_trees), np.int32)
        self._fill(X, out, self._exit_leaves_block)
        return out

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores."""
        if out is None:
            if self._few_raw is not None and (few := self._few_raw(X)) is not None:
                return few
            out = np.empty((len(X), self.forest.n_outputs), self.forest.output.dtype)
        elif self._raw is not None and self._raw.fill(X, out):
            return out
        if self.forest.kernel is not None:
            return self._fill_softly(X, out)
        self._fill(X, out, self._raw_block)
        return out

    def few_rows(self, verb: str, *, finite: bool) -> FewRows | None:
        """Return what answers few rows in place of a method of `Predictor`, or None.

        See `bitvec.runtime.predict.engine.FewRowsEngine`.
        """
        call = None if self._rows is None else self._rows.call(verb, finite=finite)
        return None if call is None else call.function()

    def _few_rows(self) -> forest_rows.FewRows | None:
        if forest_rows.unsupported_reason(self.forest) is not None:
            return None
        always = self._asked == choice.ONE_ROW
        batch = self._small_choice, self._choice
        return forest_rows.FewRows(
            self.forest, batch, self._trees_of, always=always, n_threads=self.n_threads
        )

    def _fill(self, X: Array, out: Array, work: Work) -> None:
        subnormals.check()
        n_rows = len(X)
        suited = self._small_choice if n_rows <= forest_rows.SMALL_BATCH else self._choice
        if n_rows <= choice.FEW:
            suited = self._few_choice
        trees = self._trees_of(suited.name)

        def fill(part: slice) -> None:
            work(trees, X[part], out[part])

        block = rows_of_block(trees)
        n_threads = 1 if n_rows * self._choice.cycles < POOL else self.n_threads
        if n_threads > 1:
            block = min(block, max(128, -(-n_rows // (2 * n_threads))))
        for_each_block(fill, n_rows, block=block, n_threads=n_threads)

    def _fill_softly(self, X: Array, out: Array) -> Array:
        """Fill the raw scores of a forest with a prediction kernel."""
        if soft_trees.unsupported_reason(self.forest) is not None:
            return ReferenceEngine(self.forest).raw(X, out)
        with self._packing:
            if self._soft is None:
                self._soft = soft_trees.SoftTrees(self.forest)
        trees = self._soft

        def fill(part: slice) -> None:
            vectors = trees.vectors(self._cast(X[part]))
            with np.errstate(over="ignore", invalid="ignore"):  # as the reference
                out[part] = reference.combine(self.forest, list(vectors.swapaxes(0, 1)))

        block = min(max(SOFT_ROWS, BLOCK_BYTES // trees.row_bytes), MOST_ROWS)
        for_each_block(fill, len(X), block=block, n_threads=self.n_threads)
        return out

    def _exit_leaves_block(self, trees: TreeKernel, X: Array, out: Array) -> None:
        exits = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        trees.exit_leaves(self._columns(X), exits)
        if exits is not out:
            out[:] = exits

    def _raw_block(self, trees: TreeKernel, X: Array, out: Array) -> None:
        forest, output = self.forest, self.forest.output
        if not self._adds:
            out[:] = reference.accumulate(forest, self._cast(X), self._exits_of(trees, X))
            return
        total = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        total[:] = output.base_score if output.base_first else 0
        if self._linear is not None:
            self._linear.add(self._cast(X), self._exits_of(trees, X), total)
        else:
            trees.add_leaves(self._columns(X), total)
        finished = output.finish(total, forest.n_trees)
        if finished is not out:
            out[:] = finished

    def _exits_of(self, trees: TreeKernel, X: Array) -> Array:
        exits = np.empty((len(X), self.forest.n_trees), np.int32)
        self._exit_leaves_block(trees, X, exits)
        return exits

    def _columns(self, X: Array) -> Array:
        """Return what the tests read: X as it is, or φ(X)."""
        if self.forest.feature_map is None:
            return X
        # A value beyond the dtype's range is infinite, as in the map itself.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.ascontiguousarray(self._mapped(self._cast(X)))

    def _cast(self, X: Array) -> Array:
        # A value beyond the dtype's range is infinite; each thread has its own state of errors.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.ascontiguousarray(X, self.forest.dtype)


def _copy(forest: Forest, kernel: str | None, n_jobs: int) -> NumbaEngine:
    return NumbaEngine(forest, kernel=kernel, n_jobs=n_jobs)

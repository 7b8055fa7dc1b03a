"""The CPU engine: trees walked by compiled kernels, on threads of our own.

Raw scores have the bits of `bitvec.reference`: the same comparisons, sums in the same order and
dtype. One thing comes from elsewhere: exp and log1p of the polytope tests are the C library's here,
as in NumPy's builds for Linux and macOS; where NumPy brings its own, the margin of a polytope node
may differ in its last place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int32

from bitvec import reference
from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.output import Aggregate
from bitvec.runtime import numba_kernels as kernels
from bitvec.runtime.numba_layout import (
    AxisLayout,
    MixedLayout,
    axis_layout,
    bits_of,
    constant,
    is_axis_aligned,
    leaf_values,
    mixed_layout,
)
from bitvec.runtime.reference_engine import ReferenceEngine
from bitvec.runtime.threads import effective_jobs, for_each_block

BLOCK_BYTES = 1 << 18
"""Rows are walked in blocks of about this size, which stay in the second-level cache."""
BLOCK_ROWS = 8192
"""And of at most so many rows, so that an interrupt is answered soon."""
SMALL = 1 << 15
"""Below this many pairs of a row and a tree a second thread costs more than it brings."""


class NumbaEngine:
    """Runs a forest by compiled traversal.

    Parameters
    ----------
    forest : Forest
    n_jobs : int, optional
        Threads: None or -1 for all cores, -2 for all but one.

    Examples
    --------
    >>> from bitvec.forest import from_matrices
    >>> stump = from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> NumbaEngine(stump).raw(np.array([[0.0, 9.0], [1.0, 9.0]])).tolist()
    [[10.0], [20.0]]
    """

    name = "numba"

    def __init__(self, forest: Forest, *, n_jobs: int | None = None) -> None:
        self.forest = forest
        self.n_threads = effective_jobs(n_jobs)
        self._layout: AxisLayout | MixedLayout = (
            axis_layout(forest) if is_axis_aligned(forest) else mixed_layout(forest)
        )
        self._leaf_ptr = constant(forest.bitvectors.leaf_ptr)
        self._adds = forest.output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        self._values = leaf_values(forest) if self._adds and forest.leaves.linear is None else None

    def __reduce__(self) -> tuple[Callable[..., NumbaEngine], tuple[Forest, int]]:
        # A copy packs its arrays anew: copied arrays are writeable, for which numba would compile
        # every kernel a second time.
        return _copy, (self.forest, self.n_threads)

    @property
    def traversal(self) -> str:
        """ "axis" where every node is a one-hot margin test with NaN as missing, else "mixed"."""
        return "axis" if isinstance(self._layout, AxisLayout) else "mixed"

    def warm(self) -> None:
        """Compile, or load from numba's cache, what this forest needs."""
        X = np.zeros((0, self.forest.n_features), self.forest.dtype)
        self._exit_leaves_block(X)
        self._raw_block(X)

    def exit_leaves(self, X: Float[Array, "batch n_features"]) -> Int32[Array, "batch n_trees"]:
        """Return leaf numbers within each tree."""
        result = np.empty((len(X), self.forest.n_trees), np.int32)
        self._fill(X, result, self._exit_leaves_block)
        return result

    def raw(self, X: Float[Array, "batch n_features"]) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores; a forest with a prediction kernel is left to the reference."""
        if self.forest.kernel is not None:
            return ReferenceEngine(self.forest).raw(X)
        result = np.empty((len(X), self.forest.n_outputs), self.forest.output.dtype)
        self._fill(X, result, self._raw_block)
        return result

    def _fill(self, X: Array, result: Array, work: Callable[[Array], Array]) -> None:
        def fill(part: slice) -> None:
            result[part] = work(constant(X[part]))

        n_rows = len(X)
        block = BLOCK_BYTES // (max(self.forest.n_features, 1) * X.itemsize)
        block = min(max(64, block), BLOCK_ROWS)
        n_threads = 1 if n_rows * self.forest.n_trees < SMALL else self.n_threads
        if n_threads > 1:
            block = min(block, max(64, -(-n_rows // (2 * n_threads))))
        for_each_block(fill, n_rows, block=block, n_threads=n_threads)

    def _exit_leaves_block(self, X: Array) -> Array:
        exits = np.empty((len(X), self.forest.n_trees), np.int32)
        Z = self._columns(X)
        if isinstance(self._layout, AxisLayout):
            _call(kernels.exits_axis, bits_of(Z), self._layout.arrays, exits)
        else:
            _call(kernels.exits_mixed, Z, self._layout.arrays, exits)
        return exits

    def _raw_block(self, X: Array) -> Array:
        forest, output = self.forest, self.forest.output
        if not self._adds:
            exits = self._exit_leaves_block(X)
            return reference.accumulate(forest, X, exits)
        total = np.zeros((len(X), output.n_outputs), output.dtype)
        if output.base_first:
            total[:] = output.base_score
        if forest.leaves.linear is not None:
            self._add_linear(X, total)
        elif isinstance(self._layout, AxisLayout):
            bits = bits_of(self._columns(X))
            _call(kernels.sum_axis, bits, self._layout.arrays, self._leaf_ptr, self._values, total)
        else:
            Z = self._columns(X)
            _call(kernels.sum_mixed, Z, self._layout.arrays, self._leaf_ptr, self._values, total)
        return output.finish(total, forest.n_trees)

    def _add_linear(self, X: Array, total: Array) -> None:
        leaves, output = self.forest.leaves, self.forest.output
        assert leaves.linear is not None
        linear = leaves.linear
        weight = output.tree_weight
        _call(
            kernels.sum_linear,
            X,
            self._exit_leaves_block(X),
            self._leaf_ptr,
            constant(leaves.v),
            tuple(map(constant, (linear.leaf_ptr, linear.column, linear.weight, linear.constant))),
            leaves.v.dtype.type(linear.zero_threshold),
            constant(np.zeros(0, output.dtype) if weight is None else weight),
            constant(np.zeros(0, np.int32) if leaves.output is None else leaves.output),
            total,
        )

    def _columns(self, X: Array) -> Array:
        return X if self.forest.feature_map is None else constant(self.forest.feature_map(X))


def _copy(forest: Forest, n_jobs: int) -> NumbaEngine:
    return NumbaEngine(forest, n_jobs=n_jobs)


def _call(kernel: Callable[..., None], *arguments: object) -> None:
    try:
        kernel(*arguments)
    except OSError:
        # A full disk: numba has compiled the kernel, failed to store it, and not run it.
        kernel(*arguments)

"""v: the leaf vectors of a forest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import FLOATS, Array, ranges, read_only, require, require_offsets
from bitvec.core.shape_annotations import Float, Int32, Int64


@dataclass(frozen=True, slots=True, eq=False)
class LinearTerms:
    """Leaves that are linear in x: `constant + sum of weight · x[column]`.

    A leaf without terms keeps its constant vector from `Leaves.v`; a leaf with terms falls back on
    that vector for a row in which any of its columns is NaN.

    Parameters
    ----------
    leaf_ptr : int64, (n_leaves + 1,)
    column : int32, (n_terms,)
    weight : F, (n_terms, width)
    constant : F, (n_leaves, width)
    zero_threshold : float
        |x| at most this counts as 0.
    """

    leaf_ptr: Int64[Array, " n_leaves_plus_1"]
    column: Int32[Array, " n_terms"]
    weight: Float[Array, "n_terms width"]
    constant: Float[Array, "n_leaves width"]
    zero_threshold: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The leaf vectors v of all trees, one tree after the other, left to right.

    Parameters
    ----------
    v : F, (n_leaves, width)
        Without `output`, width is the forest's number of outputs; with it, width is 1.
    output : int32, (n_leaves,), optional
        The one output that each leaf adds to (boosters: all leaves of a tree name its class).
    linear : LinearTerms, optional

    Raises
    ------
    InvalidForestError
        If a shape or dtype is out of place.
    """

    v: Float[Array, "n_leaves width"]
    output: Int32[Array, " n_leaves"] | None = None
    linear: LinearTerms | None = None

    def __post_init__(self) -> None:
        dtype = np.asarray(self.v).dtype
        require(dtype in FLOATS, f"`v` must have dtype float32 or float64, got {dtype}.")
        v = read_only("v", self.v, dtype, (None, None))
        object.__setattr__(self, "v", v)
        if self.output is not None:
            output = read_only("output", self.output, np.int32, (v.shape[0],))
            require(
                v.shape[1] == 1, f"leaves that name their output must be 1 wide, got {v.shape}."
            )
            require(output.size == 0 or int(output.min()) >= 0, "`output` must not be negative.")
            object.__setattr__(self, "output", output)
        if self.linear is not None:
            object.__setattr__(self, "linear", _checked(self.linear, v))

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.v.shape[0]

    def take(self, leaves: Array) -> Leaves:
        """Return some leaves, in this order."""
        leaves = np.asarray(leaves, np.int64)
        output = None if self.output is None else self.output[leaves]
        linear = None
        if self.linear is not None:
            count = np.diff(self.linear.leaf_ptr)[leaves]
            term = ranges(self.linear.leaf_ptr[leaves], count)
            linear = LinearTerms(
                np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
                self.linear.column[term],
                self.linear.weight[term],
                self.linear.constant[leaves],
                self.linear.zero_threshold,
            )
        return Leaves(self.v[leaves], output, linear)


def _checked(linear: LinearTerms, v: Array) -> LinearTerms:
    n_leaves, width = v.shape
    column = read_only("linear.column", linear.column, np.int32, (None,))
    require(column.size == 0 or int(column.min()) >= 0, "`linear.column` must not be negative.")
    leaf_ptr = read_only("linear.leaf_ptr", linear.leaf_ptr, np.int64, (n_leaves + 1,))
    require_offsets("linear.leaf_ptr", leaf_ptr, column.size)
    weight = read_only("linear.weight", linear.weight, v.dtype, (column.size, width))
    constant = read_only("linear.constant", linear.constant, v.dtype, (n_leaves, width))
    zero_threshold = float(linear.zero_threshold)
    require(
        0 <= zero_threshold < np.inf,
        f"`linear.zero_threshold` must be finite and not negative, got {zero_threshold}.",
    )
    return LinearTerms(leaf_ptr, column, weight, constant, zero_threshold)

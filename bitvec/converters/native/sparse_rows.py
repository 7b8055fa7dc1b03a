"""Rows of weights, of which only those that are not 0 are kept, and their products with x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.converters.native.plain_arrays import finite, float_dtype, floats
from bitvec.core.arrays import Array, put, put_array, require, require_codes, require_offsets
from bitvec.core.shape_annotations import Float, Int32, Int64


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """A matrix W by rows. A weight of 0 reads nothing: 0 · NaN and 0 · inf do not occur.

    Parameters
    ----------
    ptr : int64, (n_rows + 1,)
        Row i has the entries ptr[i] ... ptr[i + 1].
    column : int32, (n_entries,)
        Rising within a row.
    weight : F, (n_entries,)
        Finite and not 0; F is float32 or float64.
    n_columns : int
        Columns of W, at least 1.
    """

    ptr: Int64[Array, " n_rows_plus_1"]
    column: Int32[Array, " n_entries"]
    weight: Float[Array, " n_entries"]
    n_columns: int

    def __post_init__(self) -> None:
        put_array(self, "column", np.int32, (None,))
        dtype = float_dtype("weight", self.weight)
        put(self, weight=finite("weight", self.weight, dtype, (self.column.size,)))
        put_array(self, "ptr", np.int64, (None,))
        require(self.n_columns >= 1, f"W must have a column at least, got {self.n_columns}.")
        require_offsets("ptr", self.ptr, self.column.size)
        require_codes("column", self.column, self.n_columns)
        require(np.all(self.weight != 0), "`weight` must not be 0: leave such entries out.")
        rises = np.diff(self.column) > 0
        starts = self.ptr[1:-1]
        rises[starts[(starts > 0) & (starts < self.column.size)] - 1] = True
        require(np.all(rises), "`column` must rise within each row.")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.ptr.size - 1

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the weights."""
        return self.weight.dtype

    def times(self, row: int, X: Float[Array, "batch n_columns"]) -> Float[Array, " batch"]:
        """Return W[row] · x for each x: products added from left to right, each sum rounded."""
        entries = slice(int(self.ptr[row]), int(self.ptr[row + 1]))
        with np.errstate(over="ignore", invalid="ignore"):
            return sum_in_order(X[:, self.column[entries]] * self.weight[entries])


def sum_in_order(terms: Float[Array, "batch n"]) -> Float[Array, " batch"]:
    """Return the sums of rows from left to right; np.sum would add in pairs."""
    if terms.shape[1] == 0:
        return np.zeros(len(terms), terms.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add.accumulate(terms, axis=1)[:, -1]


def sparse_rows(name: str, W: Any, dtype: np.dtype | None = None) -> SparseRows:
    """Return the rows of a dense matrix, or of a SciPy sparse one, as `SparseRows`.

    Raises
    ------
    InvalidForestError
        If it is no matrix of finite floats.
    """
    if isinstance(W, SparseRows):
        return W
    if hasattr(W, "tocsr"):
        csr = W.tocsr(copy=True)
        csr.sum_duplicates()
        ptr, column = np.asarray(csr.indptr), np.asarray(csr.indices)
        row = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
        weight, shape = floats(name, np.asarray(csr.data), dtype), tuple(csr.shape)
    else:
        dense = floats(name, W, dtype)
        require(dense.ndim == 2, f"`{name}` must have two axes, got shape {dense.shape}.")
        row, column = np.nonzero(dense)
        weight, shape = dense[row, column], dense.shape
    finite(name, weight, weight.dtype, (None,))
    kept = weight != 0
    ptr = np.searchsorted(row[kept], np.arange(shape[0] + 1)).astype(np.int64)
    return SparseRows(ptr, column[kept].astype(np.int32), weight[kept], int(shape[1]))

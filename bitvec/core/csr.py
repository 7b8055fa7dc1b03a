"""Sparse matrices by rows, whose products are sums in the order of storage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bitvec.core.arrays import Array, require
from bitvec.core.matrices import DENSE_LIMIT
from bitvec.core.shape_annotations import Float, Int32, Int64


@dataclass(frozen=True, slots=True, eq=False)
class CSR:
    """Matrix in compressed sparse rows: row i holds the entries `indptr[i] ... indptr[i + 1]`.

    The three arrays are those of `scipy.sparse.csr_matrix((data, indices, indptr), shape)`. The
    entries of a row stand in the order in which its products are summed; a column may occur twice.

    Parameters
    ----------
    indptr : int64, (n_rows + 1,)
    indices : int32, (n_entries,)
    data : float32 or float64, (n_entries,)
    n_columns : int

    Examples
    --------
    >>> S = CSR(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.array([1.0, 2, -1]), 3)
    >>> S.toarray().tolist()
    [[0.0, 0.0, 1.0], [2.0, -1.0, 0.0]]
    >>> (S @ np.array([5.0, 6, 7])).tolist()
    [7.0, 4.0]
    """

    indptr: Int64[Array, " n_rows_plus_1"]
    indices: Int32[Array, " n_entries"]
    data: Float[Array, " n_entries"]
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.indptr.size - 1, self.n_columns

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the entries."""
        return self.data.dtype

    def __matmul__(self, other: Array) -> Array:
        """Return the product with a vector or matrix; each sum in the order of storage."""
        other = np.asarray(other)
        require(
            other.ndim in (1, 2) and other.shape[0] == self.n_columns,
            f"S must be multiplied with {self.n_columns} rows, one per column of S, got shape "
            f"{other.shape}: multiply S with forest.expand(X).T.",
        )
        count = np.diff(self.indptr)
        product = np.zeros(
            (count.size, *other.shape[1:]), np.result_type(self.data.dtype, other.dtype)
        )
        for k in range(int(count.max(initial=0))):
            at = np.flatnonzero(k < count)
            entry = self.indptr[at] + k
            weight = self.data[entry].reshape(-1, *(1,) * (other.ndim - 1))
            term = weight * other[self.indices[entry]]
            product[at] = term if k == 0 else product[at] + term
        return product

    def part(self, first: int, last: int) -> CSR:
        """Return the rows `first ... last - 1`."""
        begin, end = self.indptr[first], self.indptr[last]
        indptr = self.indptr[first : last + 1] - begin
        return CSR(indptr, self.indices[begin:end], self.data[begin:end], self.n_columns)

    def toarray(self) -> Float[Array, "n_rows n_columns"]:
        """Return the matrix with its zeros.

        Raises
        ------
        InvalidForestError
            If it would have more than 2**28 elements.
        """
        n_rows, n_columns = self.shape
        require(
            n_rows * n_columns <= DENSE_LIMIT,
            f"a dense matrix must have at most {DENSE_LIMIT} elements, got {n_rows} rows x "
            f"{n_columns} columns: use its indptr, indices and data, or one tree with forest[i].",
        )
        dense = np.zeros(self.shape, self.data.dtype)
        np.add.at(
            dense, (np.repeat(np.arange(n_rows), np.diff(self.indptr)), self.indices), self.data
        )
        return dense

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.toarray().astype(dtype or self.data.dtype, copy=False)

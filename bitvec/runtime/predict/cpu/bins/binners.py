"""Binned columns, and the protocol of what fills them.

A binned column holds one byte for each row of a block, and a node goes right where its binned
column's byte reaches the node's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int32, UInt8
from bitvec.runtime.predict.cpu.compiling import Kernel
from bitvec.runtime.predict.cpu.kernel_arrays import address_of

MOST_BINNED = 1 << 16
"""A node holds the number of its binned column in two bytes."""


class Binner(Protocol):
    """Fills some of the binned columns of blocks of rows."""

    @property
    def packed_bytes(self) -> int:
        """Bytes of the arrays that it reads, X apart."""
        ...

    def fill(self, X: Array, binned: int, n_binned: int, room: int) -> None:
        """Fill its binned columns for all rows of X.

        `binned` is an address: the byte of row `i` in binned column p stands
        `((i // room) * n_binned + p) * room + i % room` behind it. `room` is a multiple of 128.
        """
        ...


Bound = tuple[Kernel, int, Array]
"""A kernel, the address that it is handed first, and the array that stands there."""


class BoundBinner(ABC):
    """A `Binner` whose kernel takes an address of its own, and then int64 alone.

    They are the address of X, its strides, and its rows, `room`, `n_binned` and `binned` of `fill`.
    """

    def __init__(self) -> None:
        self._bound: dict[int, Bound] = {}

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """The columns of X that it reads."""

    @property
    @abstractmethod
    def packed_bytes(self) -> int:
        """Bytes of the arrays that it reads, X apart."""

    @abstractmethod
    def _bind(self, dtype: np.dtype) -> Bound:
        """Return the kernel for X of a dtype."""

    def bound(self, dtype: np.dtype) -> Bound:
        """Return the kernel for X of a dtype; what stands at its address lives as long as this."""
        found = self._bound.get(dtype.itemsize)
        # Of two threads that come here at once, one wins: nothing whose address is in use may go.
        return found or self._bound.setdefault(dtype.itemsize, self._bind(dtype))

    def fill(self, X: Array, binned: int, n_binned: int, room: int) -> None:
        """Fill the binned columns: see `Binner.fill`."""
        if self.n_columns:
            run, fields, _ = self.bound(X.dtype)
            run(fields, address_of(X), *X.strides, len(X), room, n_binned, binned)


@dataclass(frozen=True, slots=True, eq=False)
class BinnedColumns:
    """The binned columns of a forest.

    Parameters
    ----------
    bin_column : int32, (n_nodes,)
    least : uint8, (n_nodes,)
        A node goes right where the byte of its binned column is at least this.
    n_binned : int
    binners : tuple of Binner
    """

    bin_column: Int32[Array, " n_nodes"]
    least: UInt8[Array, " n_nodes"]
    n_binned: int
    binners: tuple[Binner, ...]

    @property
    def packed_bytes(self) -> int:
        """Bytes of the arrays that make the binned columns."""
        return sum(binner.packed_bytes for binner in self.binners)

    def fill(self, X: Array, binned: int, room: int) -> None:
        """Fill all binned columns: see `Binner.fill`."""
        for binner in self.binners:
            binner.fill(X, binned, self.n_binned, room)

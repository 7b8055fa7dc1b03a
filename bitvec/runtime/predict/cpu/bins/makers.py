"""What planes are, and what fills them.

A plane holds one byte for each row of a block, and a node goes right where its plane's byte reaches
the node's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Int32, UInt8

from bitvec.core.arrays import Array

MOST_PLANES = 1 << 16
"""A node holds the number of its plane in two bytes."""


class PlaneMaker(Protocol):
    """Fills some of the planes of blocks of rows."""

    @property
    def packed_bytes(self) -> int:
        """Bytes of the arrays that it reads, X apart."""
        ...

    def fill(self, X: Array, planes: int, n_planes: int, room: int) -> None:
        """Fill its planes for all rows of X.

        `planes` is an address: the byte of row `i` in plane p stands
        `((i // room) * n_planes + p) * room + i % room` behind it. `room` is a multiple of 128.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Planes:
    """The planes of a forest.

    Parameters
    ----------
    plane : int32, (n_nodes,)
    least : uint8, (n_nodes,)
        A node goes right where the byte of its plane is at least this.
    n_planes : int
    makers : tuple of PlaneMaker
    """

    plane: Int32[Array, " n_nodes"]
    least: UInt8[Array, " n_nodes"]
    n_planes: int
    makers: tuple[PlaneMaker, ...]

    @property
    def packed_bytes(self) -> int:
        """Bytes of the arrays that make the planes."""
        return sum(maker.packed_bytes for maker in self.makers)

    def fill(self, X: Array, planes: int, room: int) -> None:
        """Fill all planes: see `PlaneMaker.fill`."""
        for maker in self.makers:
            maker.fill(X, planes, self.n_planes, room)

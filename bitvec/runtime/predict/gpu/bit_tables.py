"""Small trees as tables for 32 rows at a time: planes of bits, and the three that a node reads.

A code c of a plane is split into a high digit c >> shift and a low one. A node that asks c >= k,
with the digits h and l of k, is

    [high >= h + 1] or ([high >= h] and [low >= l])

so that 2 sqrt(n) planes of bits stand for the n outcomes of n thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int32
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.gpu.code_layout import BYTE_THRESHOLDS, CodeLayout

MOST_LEAVES = 256
"""Leaves of a tree, at most: their numbers have 8 digits."""
MOST_BITS = 1 << 16
"""Planes of bits, at most, that a node's words can name."""


@dataclass(frozen=True, slots=True, eq=False)
class BitTables:
    """Planes of bits and nodes.

    Parameters
    ----------
    code_width : int
        Binary digits of codes.
    shift : int
        Those of the low digit.
    leaf_width : int
        Binary digits of leaf numbers.
    first_bit : int32, (n_planes + 1,)
        Where the planes of bits of each plane of codes begin.
    nodes : int32, (2 * n_nodes,)
        Of each node, parents before children: the plane of bits of its high digit << 16, and that
        of its low digit; then its `lo` and, << 8, `lo ^ mid`.
    """

    code_width: int
    shift: int
    leaf_width: int
    first_bit: Int32[Array, " n_planes_plus_1"]
    nodes: Int32[Array, " two_n_nodes"]

    @property
    def n_bits(self) -> int:
        """Number of planes of bits."""
        return int(self.first_bit[-1])


def bit_tables(B: Bitvectors, layout: CodeLayout, node: Array) -> BitTables | None:
    """Return the tables of trees, None where some tree or column is too large for them.

    Parameters
    ----------
    B : Bitvectors
    layout : CodeLayout
        Of the forest that the trees are from.
    node : integers, (n_nodes,)
        Where each node of B stands in that forest.
    """
    n_leaves = int(np.diff(B.leaf_ptr).max(initial=1))
    if n_leaves > MOST_LEAVES or layout.most_thresholds > BYTE_THRESHOLDS or not layout.n_planes:
        return None
    # The code of a missing value is one more than there are thresholds, or 0.
    most = np.diff(layout.first) + 1
    code_width = int(most.max()).bit_length()
    of_shift = [_planes_of_bits(most, shift) for shift in range(code_width + 1)]
    shift = int(np.argmin([one.sum() for one in of_shift]))
    first_bit = np.concatenate([[0], np.cumsum(of_shift[shift])])
    if first_bit[-1] > MOST_BITS:
        return None
    k, plane = layout.least[node].astype(np.int64), layout.plane[node]
    low = k & ((1 << shift) - 1)
    low_bit = np.where(low > 0, (most[plane] >> shift) + 1 + low, 0)
    nodes = np.empty((B.n_nodes, 2), np.int64)
    nodes[:, 0] = (first_bit[plane] + (k >> shift)) << 16 | (first_bit[plane] + low_bit)
    nodes[:, 1] = (B.lo ^ B.mid) << 8 | B.lo
    return BitTables(
        code_width,
        shift,
        max(1, (n_leaves - 1).bit_length()),
        first_bit.astype(np.int32),
        nodes.ravel().astype(np.uint32).view(np.int32),
    )


def _planes_of_bits(most: Array, shift: int) -> Array:
    """Return how many planes of bits stand for each: of high digits, 0 to one more, and low."""
    return (most >> shift) + 2 + (1 << shift) - 1

"""Forests of small trees on a device, 32 rows at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.gpu import bit_kernels as kernels
from bitvec.runtime.predict.gpu.bit_tables import BitTables
from bitvec.runtime.predict.gpu.tree_groups import EvenGroups
from bitvec.runtime.predict.gpu.triton_kernels import EXACT

BLOCK_ROWS = 32 * 128
"""Rows of a block, a bit each of 128 words."""
PROGRAMS = 256
"""Programs of `follow` for each multiprocessor, at least, if there are as many trees."""


class BitForest:
    """Adds constants of leaves over trees that `bit_tables` takes.

    Parameters
    ----------
    tables : BitTables
    B : Bitvectors
        The trees, those of one output after the other.
    v : F, (n_leaves,)
        On the device.
    n_multiprocessors : int
    """

    def __init__(self, tables: BitTables, B: Bitvectors, v: Tensor, n_multiprocessors: int) -> None:
        self._tables, self._device, self._v = tables, v.device, v
        self._n_trees, self._n_multiprocessors = B.n_trees, n_multiprocessors
        self._first_bit, self._nodes = self._put(tables.first_bit), self._put(tables.nodes)
        self._node_ptr, self._first_leaf = self._put(B.node_ptr), self._put(B.leaf_ptr[:-1])
        self._even_groups = EvenGroups(B.n_trees, v.device)

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while it is answered."""
        return -(-self._tables.n_bits // 8) + self._n_trees

    @property
    def tensors(self) -> list[Tensor]:
        """The tables on the device."""
        return [self._first_bit, self._nodes, self._node_ptr, self._first_leaf]

    def add(self, codes: Tensor, by_output: Tensor, start: Tensor, out: Tensor) -> None:
        """Fill out[g, row] with the sums over the trees of output g, in order, from start[g] on."""
        tables, (n_outputs, n_rows) = self._tables, out.shape
        n_planes = tables.first_bit.size - 1
        n_blocks = -(-n_rows // BLOCK_ROWS)
        bits = self._empty(n_blocks * tables.n_bits * 128)
        exits = self._empty(self._n_trees * n_blocks * BLOCK_ROWS // 4)
        kernels.split_codes[(n_blocks, n_planes)](
            codes.view(torch.int32), n_planes, codes.numel() // n_planes, self._first_bit, bits,
            tables.n_bits, SHIFT=tables.shift, WIDTH=tables.code_width, num_warps=1,
        )  # fmt: skip
        wanted = -(-PROGRAMS * self._n_multiprocessors // n_blocks)
        groups = self._even_groups(min(self._n_trees, wanted))
        kernels.follow[(n_blocks * groups.n,)](
            bits, tables.n_bits, self._nodes, self._node_ptr, groups.ptr, groups.n,
            exits, n_blocks, WIDTH=tables.leaf_width, num_warps=1,
        )  # fmt: skip
        kernels.add_exits[(8 * n_blocks, n_outputs)](
            exits, n_blocks, self._v, self._first_leaf, by_output, start, out, out.stride(0),
            n_rows, num_warps=4, **EXACT,
        )  # fmt: skip

    def _put(self, array: Array) -> Tensor:
        return torch.tensor(array, device=self._device, dtype=torch.int32)

    def _empty(self, n: int) -> Tensor:
        return torch.empty(n, dtype=torch.int32, device=self._device)

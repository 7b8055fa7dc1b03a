"""A forest on a device: its tables, and the launches that take rows through its trees.

Where rows are many, a lane adds the values of all trees to the sum of its row, or, where trees are
small, takes 32 rows at once (`bit_forest`). Where rows are few, programs take trees side by side
and leave values, which are added in order after that. Vectors of leaves are added from exits. What
no sum of constants gives (linear leaves, minima, medians) is computed from exits by
`torch.hard_sums`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.runtime.predict.gpu import triton_kernels as kernels
from bitvec.runtime.predict.gpu.bit_forest import BitForest
from bitvec.runtime.predict.gpu.bit_tables import bit_tables
from bitvec.runtime.predict.gpu.code_layout import lay_out_codes
from bitvec.runtime.predict.gpu.node_tables import tabulate
from bitvec.runtime.predict.gpu.row_codes import ROWS, TILE, RowCodes
from bitvec.runtime.predict.gpu.tree_groups import EvenGroups, Groups
from bitvec.runtime.predict.torch.hard_sums import HardSums

WARPS = ROWS // 64
"""Warps of a program of `traverse`: two rows a lane."""
RESIDENT, CACHE = 16, 192 << 10
"""Programs of a multiprocessor at a time, at most, and bytes of codes that its cache holds."""
MANY_ROWS, MOST_FULL_LEAVES = 1 << 14, 64
"""Rows at and above which small trees take 32 at once, and leaves of full ones, at most: following
all nodes costs more than finding one by its place in larger ones."""
FEW_PROGRAMS = 4
"""Programs for each multiprocessor below which trees are taken side by side."""
BUDGET = 1 << 30
"""Bytes of codes, exits and derived columns that are held at a time, about."""
MOST_GROUPS = (1 << 16) - 1
"""Programs along the second axis of a launch, at most."""
ADDED_ROWS, ADDED = 128, 512
"""Rows, and elements of leaf vectors, that a program adds."""


class DeviceForest:
    """A forest without a prediction kernel or a feature map on a device.

    Parameters
    ----------
    forest : Forest
    device : torch.device
        The CPU only in Triton's interpreter.
    """

    def __init__(self, forest: Forest, device: torch.device) -> None:
        self.forest, self.device = forest, device
        B = forest.bitvectors
        depth = tree_paths.tree_depth(B)
        self._sums = sums = HardSums(forest).to(device)
        adds = forest.output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        constant = adds and forest.leaves.linear is None
        self.adds_scalars = constant and (
            sums.output_of_tree is not None
            or (forest.leaves.output is None and forest.n_outputs == 1)
        )
        self.adds_vectors = constant and not self.adds_scalars and forest.leaves.output is None
        # Trees of one output stand one after the other.
        tree_output = np.array(sums.output_of_tree or [0] * B.n_trees, np.int64)
        order = np.argsort(tree_output, kind="stable")
        moved, stood = structure.select(B, order)
        self.layout = lay_out_codes(forest)
        self.codes = RowCodes(forest, self.layout, device)
        self.nodes = nodes = tabulate(moved, depth[order], self.layout, stood.node)
        word = nodes.word
        if nodes.link is not None:
            word = nodes.link.astype(np.int64) << 32 | nodes.word
        tree_of_slot = np.repeat(
            np.arange(B.n_trees), np.diff(np.append(nodes.base, nodes.slot_leaf.size))
        )
        slot_exit = nodes.slot_leaf - moved.leaf_ptr[tree_of_slot]
        plane = np.zeros(1, np.int32) if nodes.plane is None else nodes.plane
        self._tests = [self._put(one) for one in (word, plane, nodes.base, nodes.steps)]
        self._slot_exit = self._put(slot_exit.astype(np.int32))
        self._trees = self._put(order.astype(np.int32))
        self._first_leaf = self._put(B.leaf_ptr[:-1])
        ends = np.searchsorted(tree_output[order], np.arange(forest.n_outputs + 1))
        self._by_output = Groups(self._put(ends.astype(np.int32)), forest.n_outputs)
        self._even_groups = EvenGroups(B.n_trees, device)
        # What stands at a slot where trees add constants, else nothing that is read.
        v = sums.v[self._put(stood.leaf), 0].contiguous()
        self._slot_value = v[self._put(nodes.slot_leaf)]
        self._n_multiprocessors = 1
        if device.type == "cuda":
            self._n_multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        self._bits: BitForest | None = None
        small = self.adds_scalars and not nodes.shared and 1 << nodes.depth <= MOST_FULL_LEAVES
        tables = bit_tables(moved, self.layout, stood.node) if small else None
        if tables is not None:
            self._bits = BitForest(tables, moved, v, self._n_multiprocessors)

    @property
    def n_bytes(self) -> int:
        """Bytes of all tables on the device."""
        own = [*self._tests, self._slot_exit, self._slot_value, self._trees, self._first_leaf]
        modules = [*self._sums.buffers(), *self.codes.columns.buffers()]
        if self._bits is not None:
            own += self._bits.tensors
        return sum(t.numel() * t.element_size() for t in [*own, *modules, *self.codes.tables])

    def exits(self, X: Tensor) -> Tensor:
        """Return leaf numbers within each tree, int32 (n_trees, batch), of rows on the device."""
        out = torch.empty((self.forest.n_trees, len(X)), dtype=torch.int32, device=self.device)
        with self._current():
            for part in self._parts(len(X)):
                self._traverse(self.codes(X[part]), self._slot_exit, out[:, part])
        return out

    def raw(self, X: Tensor, leaf_rows: Tensor | None = None) -> Tensor:
        """Return the raw scores, F (batch, n_outputs), of rows on the device.

        `leaf_rows` are what linear leaves read, where that is not X.
        """
        output = self.forest.output
        dtype: torch.dtype = getattr(torch, str(output.dtype))
        shape = (output.n_outputs, len(X)) if self.adds_scalars else (len(X), output.n_outputs)
        out = torch.empty(shape, dtype=dtype, device=self.device)
        with self._current():
            for part in self._parts(len(X)):
                if self.adds_scalars:
                    self._add_scalars(X[part], out[:, part])
                elif self.adds_vectors:
                    self._add_vectors(X[part], out[part])
                else:
                    leaf = self.exits(X[part]).to(torch.int64) + self._first_leaf[:, None]
                    read = X if leaf_rows is None else leaf_rows
                    out[part] = self._sums(leaf, read[part].to(self.codes.dtype))
        total = out.T if self.adds_scalars else out
        return self._sums.finish(total) if self.adds_scalars or self.adds_vectors else total

    def _put(self, array: Array) -> Tensor:
        return torch.tensor(array, device=self.device)

    def _current(self) -> AbstractContextManager[Any]:
        """Return what makes the device the current one, on which Triton launches."""
        on_gpu = self.device.type == "cuda"
        return torch.cuda.device(self.device) if on_gpu else nullcontext()

    def _parts(self, n_rows: int) -> Iterator[slice]:
        """Yield rows that are held at a time."""
        held = self.codes.held_bytes + (0 if self.adds_scalars else 16 * self.forest.n_trees)
        if self._bits is not None and n_rows >= MANY_ROWS:
            held += self._bits.row_bytes
        room = max(1, BUDGET // max(1, held) // ROWS) * ROWS
        return (slice(at, min(at + room, n_rows)) for at in range(0, n_rows, room))

    def _traverse(
        self, codes: Tensor, slot_value: Tensor, out: Tensor, groups: Groups | None = None
    ) -> None:
        """Fill out[tree, row], or with `groups` the sums of out[group, row]."""
        n_rows, nodes, adds = out.shape[1], self.nodes, groups is not None
        groups = groups or self._enough_groups(n_rows)
        if not out.numel():
            return
        resident = max(1, min(RESIDENT, CACHE // max(1, ROWS * self.codes.row_bytes)))
        n_programs = -(-n_rows // ROWS)
        if resident < RESIDENT:
            n_programs = min(n_programs, max(1, resident * self._n_multiprocessors // groups.n))
        kernels.traverse[(n_programs, groups.n)](
            codes, self.layout.n_planes, *self._tests, slot_value, self._trees, groups.ptr,
            self._sums.start, out, out.stride(0), n_rows,
            DEPTH=nodes.depth, SHARED=nodes.shared, WIDE=nodes.is_wide, ADDS=adds,
            TILE=TILE, ROWS=ROWS, num_warps=WARPS, **kernels.EXACT,
        )  # fmt: skip

    def _enough_groups(self, n_rows: int) -> Groups:
        """Return the trees in so many groups that all multiprocessors have work."""
        n_trees, wanted = self.forest.n_trees, FEW_PROGRAMS * self._n_multiprocessors
        n = max(1, min(n_trees, MOST_GROUPS, -(-wanted * ROWS // max(1, n_rows))))
        return self._even_groups(n)

    def _add_scalars(self, X: Tensor, out: Tensor) -> None:
        n_rows, n_trees, groups = len(X), self.forest.n_trees, self._by_output
        codes = self.codes(X)
        if self._bits is not None and n_rows >= MANY_ROWS:
            self._bits.add(codes, groups.ptr, self._sums.start, out)
            return
        n_programs = -(-n_rows // ROWS) * groups.n
        if n_programs >= FEW_PROGRAMS * self._n_multiprocessors or n_trees <= groups.n:
            self._traverse(codes, self._slot_value, out, groups)
            return
        values = torch.empty((n_trees, n_rows), dtype=out.dtype, device=self.device)
        self._traverse(codes, self._slot_value, values)
        kernels.add_values[(-(-n_rows // ADDED_ROWS), groups.n)](
            values, n_rows, self._trees, groups.ptr, self._sums.start, out, out.stride(0), n_rows,
            ROWS=ADDED_ROWS, **kernels.EXACT,
        )  # fmt: skip

    def _add_vectors(self, X: Tensor, out: Tensor) -> None:
        n_rows, width = out.shape
        columns = min(16, triton.next_power_of_2(width))
        rows = ADDED // columns
        kernels.add_vectors[(-(-n_rows // rows), -(-width // columns))](
            self.exits(X), n_rows, self.forest.n_trees, self._first_leaf, self._sums.v, width,
            self._sums.start, out, n_rows, ROWS=rows, COLUMNS=columns, **kernels.EXACT,
        )  # fmt: skip

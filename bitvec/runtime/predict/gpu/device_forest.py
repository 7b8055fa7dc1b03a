"""A forest on a device: its tables, and the launches that take rows through them.

Rows become codes (`encode`). Where rows are many, a lane adds the values of all trees to the sum of
its row; where they are few, programs take trees side by side and leave values, which are added in
order after that. Vectors of leaves are added from exits. What no sum of constants gives (linear
leaves, minima, medians) is computed from exits by `torch.hard_sums`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
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
from bitvec.runtime.predict.gpu.code_layout import (
    BYTE_THRESHOLDS,
    SHORT_THRESHOLDS,
    CodeLayout,
    lay_out_codes,
)
from bitvec.runtime.predict.gpu.node_tables import NodeTables, tabulate
from bitvec.runtime.predict.torch.hard_columns import HardColumns
from bitvec.runtime.predict.torch.hard_sums import HardSums

TILE = 32
"""Rows of a tile of codes."""
ROWS, WARPS = 128, 4
"""Rows and warps of a program of `traverse`: a row a lane, so that a warp's rows are one tile's."""
RESIDENT, CACHE = 16, 192 << 10
"""Programs of a multiprocessor at a time, at most, and bytes of codes that its cache holds."""
FEW_PROGRAMS = 4
"""Programs for each multiprocessor below which trees are taken side by side."""
BUDGET = 1 << 30
"""Bytes of codes, exits and derived columns that are held at a time, about."""
MOST_GROUPS = (1 << 16) - 1
"""Programs along the second axis of a launch, at most."""
MOST_RUNS = 4
"""Launches of `encode`, at most, for planes that read neighbouring columns."""
EXACT = {"enable_fp_fusion": False}
"""Options of every launch: a product is rounded before it is added."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """The tables of `node_tables` and `code_layout` as tensors of a device."""

    column: Tensor
    missing: Tensor
    first: Tensor
    thresholds: Tensor
    word: Tensor
    plane: Tensor
    base: Tensor
    steps: Tensor
    slot_exit: Tensor
    trees: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Trees in groups: those of group g are the trees from ptr[g] to ptr[g + 1]."""

    ptr: Tensor
    n: int


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
        depth = np.zeros(0, np.int64)
        if B.n_trees:
            depth = np.maximum.reduceat(tree_paths.leaf_depth(B), B.leaf_ptr[:-1])
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
        self.layout = layout = lay_out_codes(forest, depth)
        self.nodes = nodes = tabulate(moved, depth[order], layout, stood.node)
        self.dtype: torch.dtype = getattr(torch, str(forest.dtype))
        self.columns = HardColumns(
            replace(forest, tests=layout.tests, kernel=None), layout.compared
        ).to(device)
        self._tables = _to_device(moved.leaf_ptr, layout, nodes, order, device)
        self._code_dtype = _code_dtype(layout.most_thresholds)
        self._splits: dict[int, _Groups] = {}
        self._by_output = self._slot_value = None
        slot_leaf = stood.leaf[nodes.slot_leaf]
        if self.adds_scalars:
            ends = np.searchsorted(tree_output[order], np.arange(forest.n_outputs + 1))
            self._by_output = self._groups(ends)
            at = torch.tensor(slot_leaf, device=device)
            self._slot_value = sums.v[:, 0][at].contiguous()
        self._first_leaf = torch.tensor(B.leaf_ptr[:-1], device=device)

        self._n_multiprocessors = 1
        if device.type == "cuda":
            self._n_multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count

    @property
    def n_bytes(self) -> int:
        """Bytes of all tables on the device."""
        tables = [getattr(self._tables, field.name) for field in fields(_Tables)]
        tables += [t for t in (self._slot_value, *self._sums.buffers()) if t is not None]
        return sum(t.numel() * t.element_size() for t in tables)

    def exits(self, X: Tensor, out: Tensor | None = None) -> Tensor:
        """Return leaf numbers within each tree, int32 (n_trees, batch), of rows on the device."""
        if out is None:
            out = torch.empty((self.forest.n_trees, len(X)), dtype=torch.int32, device=self.device)
        with self._current():
            for part in self._parts(len(X)):
                here = X[part]
                self._traverse(here, self.codes(here), self._tables.slot_exit, out[:, part])
        return out

    def _current(self) -> AbstractContextManager[Any]:
        """Return what makes the device the current one, on which Triton launches."""
        on_gpu = self.device.type == "cuda"
        return torch.cuda.device(self.device) if on_gpu else nullcontext()

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
                    out[part] = self._sums(leaf, read[part].to(self.dtype))
        total = out.T if self.adds_scalars else out
        return self._sums.finish(total) if self.adds_scalars or self.adds_vectors else total

    def _parts(self, n_rows: int) -> Iterator[slice]:
        """Yield rows that are held at a time."""
        forest, compared = self.forest, self.layout.compared
        derived = 3 * compared.n_compared * forest.dtype.itemsize if self.columns.parts else 0
        held = self.layout.n_planes * self._code_dtype.itemsize + derived
        held += 0 if self.adds_scalars else 16 * forest.n_trees
        room = max(1, BUDGET // max(1, held) // ROWS) * ROWS
        return (slice(at, min(at + room, n_rows)) for at in range(0, n_rows, room))

    def _groups(self, ptr: Array) -> _Groups:
        return _Groups(torch.tensor(ptr.astype(np.int32), device=self.device), ptr.size - 1)

    def codes(self, X: Tensor) -> Tensor:
        """Return the codes of rows in tiles, flat: see `triton_kernels`."""
        n_rows, n_planes, tables = len(X), self.layout.n_planes, self._tables
        if self.columns.parts:
            X = self.columns(X.to(self.dtype))
        room = -(-n_rows // ROWS) * ROWS
        codes = torch.empty(room * n_planes, dtype=self._code_dtype, device=self.device)
        if not n_planes:
            return codes
        runs = self.layout.runs
        side_by_side = len(runs) <= MOST_RUNS
        for begin, end in runs if side_by_side else [(0, n_planes)]:
            planes = min(32, triton.next_power_of_2(end - begin))
            rows = min(ROWS, max(32, 1024 // planes))
            kernels.encode[(room // rows, -(-(end - begin) // planes))](
                X, *X.stride(), n_rows, tables.column, tables.missing, tables.first,
                tables.thresholds, codes, n_planes, begin, end, 1,
                STEPS=self.layout.most_thresholds.bit_length(), SIDE_BY_SIDE=side_by_side,
                TILE=TILE, ROWS=rows, PLANES=planes, **EXACT,
            )  # fmt: skip
        return codes

    def _traverse(
        self,
        X: Tensor,
        codes: Tensor,
        slot_value: Tensor,
        out: Tensor,
        groups: _Groups | None = None,
    ) -> None:
        """Fill out[tree, row], or with `groups` the sums of out[group, row]."""
        n_rows, nodes, tables = len(X), self.nodes, self._tables
        adds = groups is not None
        groups = groups or self._side_by_side(n_rows)
        if not groups.n or not n_rows:
            return
        held = ROWS * self.layout.n_planes * self._code_dtype.itemsize
        resident = max(1, min(RESIDENT, CACHE // max(1, held)))
        n_programs = -(-n_rows // ROWS)
        if resident < RESIDENT:
            n_programs = min(n_programs, max(1, resident * self._n_multiprocessors // groups.n))
        kernels.traverse[(n_programs, groups.n)](
            codes, self.layout.n_planes, tables.word, tables.plane, tables.base, tables.steps,
            slot_value, tables.trees, groups.ptr, self._sums.start, out, out.stride(0), n_rows,
            DEPTH=nodes.depth, SHARED=nodes.shared, WIDE=nodes.is_wide,
            ADDS=adds, TILE=TILE, ROWS=ROWS,
            num_warps=WARPS, **EXACT,
        )  # fmt: skip

    def _side_by_side(self, n_rows: int) -> _Groups:
        """Return the trees in so many groups that all multiprocessors have work."""
        n_trees, wanted = self.forest.n_trees, FEW_PROGRAMS * self._n_multiprocessors
        n = max(1, min(n_trees, MOST_GROUPS, -(-wanted * ROWS // max(1, n_rows))))
        if n not in self._splits:
            self._splits[n] = self._groups(np.arange(n + 1) * n_trees // n)
        return self._splits[n]

    def _add_scalars(self, X: Tensor, out: Tensor) -> None:
        n_rows, groups, slot_value = len(X), self._by_output, self._slot_value
        assert groups is not None
        assert slot_value is not None
        codes = self.codes(X)
        blocks = -(-n_rows // ROWS) * groups.n
        if blocks >= FEW_PROGRAMS * self._n_multiprocessors or self.forest.n_trees <= groups.n:
            self._traverse(X, codes, slot_value, out, groups)
            return
        shape = (self.forest.n_trees, n_rows)
        values = torch.empty(shape, dtype=out.dtype, device=self.device)
        self._traverse(X, codes, slot_value, values)
        kernels.add_values[(-(-n_rows // 128), groups.n)](
            values, n_rows, self._tables.trees, groups.ptr, self._sums.start, out,
            out.stride(0), n_rows, ROWS=128, **EXACT,
        )  # fmt: skip

    def _add_vectors(self, X: Tensor, out: Tensor) -> None:
        n_rows, width = out.shape
        exits = self.exits(X)
        columns = min(16, triton.next_power_of_2(width))
        rows = 512 // columns
        kernels.add_vectors[(-(-n_rows // rows), -(-width // columns))](
            exits, n_rows, self.forest.n_trees, self._first_leaf, self._sums.v, width,
            self._sums.start, out, n_rows, ROWS=rows, COLUMNS=columns, **EXACT,
        )  # fmt: skip


def _code_dtype(most_thresholds: int) -> torch.dtype:
    if most_thresholds <= BYTE_THRESHOLDS:
        return torch.uint8
    return torch.uint16 if most_thresholds <= SHORT_THRESHOLDS else torch.int32


def _to_device(
    leaf_ptr: Array, layout: CodeLayout, nodes: NodeTables, order: Array, device: torch.device
) -> _Tables:
    none = np.zeros(1, np.int32)
    word = nodes.word
    if nodes.link is not None:
        word = nodes.link.astype(np.int64) << 32 | nodes.word
    slot_exit = nodes.slot_leaf - np.repeat(
        leaf_ptr[:-1], np.diff(np.append(nodes.base, nodes.slot_leaf.size))
    )
    arrays = {
        "column": layout.column,
        "missing": layout.missing,
        "first": layout.first,
        "thresholds": layout.thresholds,
        "word": word,
        "plane": none if nodes.plane is None else nodes.plane,
        "base": nodes.base,
        "steps": nodes.steps,
        "slot_exit": slot_exit.astype(np.int32),
        "trees": order.astype(np.int32),
    }
    return _Tables(**{name: torch.tensor(array, device=device) for name, array in arrays.items()})

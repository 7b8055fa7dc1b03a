"""Rows of one forest as codes on a device: derived columns, then a search in thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import triton
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.gpu import triton_kernels as kernels
from bitvec.runtime.predict.gpu.code_layout import BYTE_THRESHOLDS, SHORT_THRESHOLDS, CodeLayout
from bitvec.runtime.predict.torch.hard_columns import HardColumns

TILE = 32
"""Rows of a tile of codes."""
ROWS = 256
"""Rows to a multiple of which codes are made, so that programs need not ask which there are."""
MOST_RUNS = 4
"""Launches of `encode`, at most, for planes that read neighbouring columns."""
ELEMENTS = 1024
"""Codes that a program makes."""


class RowCodes:
    """Makes the codes of rows on a device.

    Parameters
    ----------
    forest : Forest
    layout : CodeLayout
        Its own.
    device : torch.device

    Attributes
    ----------
    columns : HardColumns
        Makes the compared columns of rows, which are the rows themselves where it has no parts.
    dtype : torch.dtype
        Of rows where columns are derived from them: the forest's.
    row_bytes : int
        Bytes of the codes of a row.
    held_bytes : int
        Bytes that a row takes while its codes are made.
    """

    def __init__(self, forest: Forest, layout: CodeLayout, device: torch.device) -> None:
        tests = layout.tests
        self.columns = HardColumns(replace(forest, tests=tests, kernel=None), layout.compared)
        self.columns.to(device)
        self.dtype: torch.dtype = getattr(torch, str(forest.dtype))
        self._layout, self._device = layout, device
        arrays = layout.column, layout.missing, *_padded(layout)
        self.tables = [torch.tensor(array, device=device) for array in arrays]
        # A float32 reaches a float64 where it reaches the next float32 that is no less.
        self._singles = torch.tensor(_round_up(arrays[-1]), device=device)
        self._code_dtype = _code_dtype(layout.most_thresholds)
        self.row_bytes = layout.n_planes * self._code_dtype.itemsize
        derived = 3 * layout.compared.n_compared * self.dtype.itemsize
        self.held_bytes = self.row_bytes + (derived if self.columns.parts else 0)

    def __call__(self, X: Tensor) -> Tensor:
        """Return the codes of rows in tiles, flat: see `triton_kernels`.

        Parameters
        ----------
        X : floats, (batch, n_features)
            On the device, of any strides and dtype; read as if cast to the forest's.
        """
        n_rows, layout = len(X), self._layout
        if self.columns.parts:
            X = self.columns(X.to(self.dtype))
        room = -(-n_rows // ROWS) * ROWS
        *tables, thresholds = self.tables
        if X.dtype.itemsize <= self._singles.itemsize:
            thresholds = self._singles
        codes = torch.empty(room * layout.n_planes, dtype=self._code_dtype, device=self._device)
        runs = layout.runs
        side_by_side = len(runs) <= MOST_RUNS
        for begin, end in runs if side_by_side else [(0, layout.n_planes)]:
            planes = min(32, triton.next_power_of_2(end - begin))
            rows = min(ROWS, max(32, ELEMENTS // planes))
            kernels.encode[(room // rows, -(-(end - begin) // planes))](
                X, *X.stride(), n_rows, *tables, thresholds, codes, layout.n_planes, begin, end, 1,
                STEPS=layout.most_thresholds.bit_length(), SIDE_BY_SIDE=side_by_side,
                TILE=TILE, ROWS=rows, PLANES=planes, **kernels.EXACT,
            )  # fmt: skip
        return codes


def _padded(layout: CodeLayout) -> tuple[Array, Array, Array]:
    """Return where the thresholds of each plane begin, half their room, and they, NaN in between.

    Threshold k = 1, 2 ... of a plane stands at its beginning + k; 2 * half is a power of 2.
    """
    n = np.diff(layout.first)
    half = (1 << np.frexp(n)[1]) >> 1
    start = np.concatenate([[0], np.cumsum(2 * half)])
    thresholds = np.full(start[-1] + 1, np.nan, layout.thresholds.dtype)
    plane = np.repeat(np.arange(n.size), n)
    of_plane = np.arange(layout.thresholds.size) - layout.first[plane]
    thresholds[start[plane] + of_plane + 1] = layout.thresholds
    return start[:-1].astype(np.int32), half.astype(np.int32), thresholds


def _round_up(array: Array) -> Array:
    with np.errstate(over="ignore"):
        near = array.astype(np.float32)
        return np.where(near < array, np.nextafter(near, np.float32(np.inf)), near)


def _code_dtype(most_thresholds: int) -> torch.dtype:
    if most_thresholds <= BYTE_THRESHOLDS:
        return torch.uint8
    return torch.uint16 if most_thresholds <= SHORT_THRESHOLDS else torch.int32

"""Rows by a kernel that reads binned columns: block by block binned, summed and answered.

What Python does around a batch takes as long as a hundred rows of a small forest.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from bitvec.core.output import Output
from bitvec.runtime.predict.cpu.bins.binners import BoundBinner
from bitvec.runtime.predict.cpu.bitvector.binned_trees import BinnedTrees, blocks_of
from bitvec.runtime.predict.cpu.compiling import by_address, inner, int64s, kernel, scratch
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.few_rows.lone_tree import is_sound
from bitvec.runtime.predict.cpu.few_rows.row_links import linked
from bitvec.runtime.predict.cpu.few_rows.row_scores import finish
from bitvec.runtime.predict.cpu.kernel_arrays import (
    c_call,
    load_float64,
    place_of,
    pointer,
    ran,
    room_on_stack,
    size_of,
    zero_of,
)
from bitvec.runtime.predict.cpu.protocol import TreeKernel, rows_of_block


def fields_of(trees: TreeKernel, dtype: np.dtype, output: Output) -> dict[str, Any] | None:
    """Return the fields that a call reads for rows of a dtype, None where it is left to others."""
    sums = output.dtype
    if not isinstance(trees, BinnedTrees):
        return None
    binners = [binner for binner in trees.binned.binners if isinstance(binner, BoundBinner)]
    if len(binners) < len(trees.binned.binners):
        return None
    bound = [binner.bound(dtype) for binner in binners if binner.n_columns]
    start = np.zeros(trees.n_sums, sums)
    if output.base_first:
        start[: output.n_outputs] = output.base_score
    return {
        "start": start,
        "answer": _answer_rows.address(sums),
        "binners": np.array([(fill.address(8), fields) for fill, fields, _ in bound], np.int64),
        "n_binners": len(bound),
        "add_trees": trees.sums.address(6),
        "trees": trees.address,
        "n_binned": trees.n_binned,
        "n_sums": trees.n_sums,
        "is_by_row": trees.sums_of_row > 0,
        "most_room": trees.most_room,
        "block": rows_of_block(trees),
        "sum_bytes": sums.itemsize,
    }


_blocks_of = inner(blocks_of)


@inner
def _start(header, sums, n, zero):
    """Fill the sums of n rows with what they begin with."""
    n_sums = field(header, "n_sums")
    start = carray(pointer(field(header, "start")), (n_sums,), type(zero))
    filled = carray(pointer(sums), (n * n_sums,), type(zero))
    # In the order in which they stand: LLVM makes stores apart of loops the other way round.
    if field(header, "is_by_row"):
        for row in range(n):
            for k in range(n_sums):
                filled[row * n_sums + k] = start[k]
    else:
        for k in range(n_sums):
            value = start[k]
            for row in range(n):
                filled[k * n + row] = value


@inner
def _finish(header, sums, n, to, n_rows, zero):
    """Fill raw scores of rows, one row after the other: `bitvec.core.output.Output.finish`."""
    n_outputs, n_sums, size = field(header, "n_outputs"), field(header, "n_sums"), size_of(zero)
    kind, is_by_row = type(zero), field(header, "is_by_row")
    added = carray(pointer(sums), (n * n_sums,), kind)
    raw = carray(pointer(to), (n_rows * n_outputs,), kind)
    divisor, scale, base = field(header, "divisor"), field(header, "scale"), field(header, "base")
    if divisor or scale or not (n_sums == 1 or is_by_row):
        of_row, of_output = (n_sums, 1) if is_by_row else (1, n)
        for row in range(n_rows):
            for k in range(n_outputs):
                raw[row * n_outputs + k] = added[row * of_row + k * of_output]
            finish(header, to + size * row * n_outputs, zero)
        return
    for row in range(n_rows):
        if base == 0:
            for k in range(n_outputs):
                raw[row * n_outputs + k] = added[row * n_sums + k]
        elif n_sums > 1:
            first = carray(pointer(base), (n_outputs,), np.float64)
            for k in range(n_outputs):
                value = np.float64(added[row * n_sums + k])
                raw[row * n_outputs + k] = kind(value + first[k])
    if base and n_sums == 1:
        only = load_float64(base)
        for row in range(n_rows):
            raw[row] = kind(np.float64(added[row]) + only)


@by_address
def _answer_rows(header, batch, out):
    """Fill the answers to a batch; return how many of its rows are served."""
    zero, to = zero_of(out), place_of(out)
    n_rows, x, row_stride, column_stride, room, n_blocks, binned, sums, scores = int64s(batch, 9)
    n = n_blocks * room
    _start(header, sums, n, zero)
    n_binned, n_binners = field(header, "n_binned"), field(header, "n_binners")
    binners = int64s(field(header, "binners"), 2 * n_binners)
    for k in range(n_binners):
        rows = (binners[2 * k + 1], x, row_stride, column_stride, n_rows, room, n_binned, binned)
        if not ran(binners[2 * k], rows):
            return 0
    trees = (field(header, "trees"), binned, room, n_rows, sums, n)
    if not ran(field(header, "add_trees"), trees):
        return 0
    link = field(header, "link")
    if link == 0:
        _finish(header, sums, n, to, n_rows, zero)
        return n_rows
    _finish(header, sums, n, scores, n_rows, zero)
    step, out_step = size_of(zero) * field(header, "n_outputs"), field(header, "out_bytes")
    return n_rows if linked(link, header, n_rows, scores, step, to, out_step) else 0


@kernel
def run_batch(X, header, out):
    """Fill the answers to the rows of X, of any strides; return how many rows are served."""
    n_rows = X.shape[0]
    if X.shape[1] != field(header, "n_features"):
        return -1
    if load_float64(field(header, "subnormal")) * 1.0 == 0.0:
        return -1
    finite, largest = field(header, "finite"), load_float64(field(header, "largest"))
    most, most_room = field(header, "block"), field(header, "most_room")
    n_blocks, room = _blocks_of(min(n_rows, most), most_room)
    binned = scratch(n_blocks * room * field(header, "n_binned"))
    sums = scratch(n_blocks * room * field(header, "n_sums") * field(header, "sum_bytes"))
    n_scores = min(n_rows, most) * field(header, "n_outputs") if field(header, "link") else 0
    scores = scratch(n_scores * field(header, "sum_bytes"))
    step, out_bytes = X.strides[0], field(header, "out_bytes")
    place, served = room_on_stack(8 * 9), 0
    batch = int64s(place, 9)
    batch[2], batch[3], batch[6] = step, X.strides[1], binned.ctypes.data
    batch[7], batch[8] = sums.ctypes.data, scores.ctypes.data
    while served < n_rows:
        n = min(most, n_rows - served)
        if finite and not is_sound(X, served, served + n, type(X[0, 0])(largest)):
            break
        batch[0], batch[1] = n, X.ctypes.data + served * step
        batch[5], batch[4] = _blocks_of(n, most_room)
        goal = np.int64(out.ctypes.data) + served * out_bytes
        if c_call(field(header, "answer"), (header, place, goal)) < n:
            break
        served += n
    # Numba frees an array after its last use by name, and addresses are none.
    return served + 0 * (binned.size + sums.size + scores.size)

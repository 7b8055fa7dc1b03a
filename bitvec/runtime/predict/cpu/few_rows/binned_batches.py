"""Rows by a kernel that reads binned columns: block by block binned, summed and answered.

What Python does around a batch takes as long as a hundred rows of a small forest.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.bins.binners import BoundBinner
from bitvec.runtime.predict.cpu.bitvector.binned_trees import BinnedTrees, blocks_of
from bitvec.runtime.predict.cpu.bitvector.grouped_values import REGISTER
from bitvec.runtime.predict.cpu.compiling import by_address, inner, int64s, kernel, scratch
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.few_rows.lone_tree import is_sound
from bitvec.runtime.predict.cpu.few_rows.row_links import linked
from bitvec.runtime.predict.cpu.few_rows.row_scores import finish_fields
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
from bitvec.runtime.predict.cpu.vectors import F64, address, count, load, number, vector
from bitvec.runtime.predict.cpu.vectors import store as store_vector


def fields_of(trees: TreeKernel, dtype: np.dtype, forest: Forest) -> dict[str, Any] | None:
    """Return the fields that a call reads for rows of a dtype, None where it is left to others."""
    output, sums = forest.output, forest.output.dtype
    if not isinstance(trees, BinnedTrees):
        return None
    binners = [binner for binner in trees.binned.binners if isinstance(binner, BoundBinner)]
    if len(binners) < len(trees.binned.binners):
        return None
    bound = [binner.bound(dtype) for binner in binners if binner.n_columns]
    start = np.zeros(trees.n_sums, sums)
    if output.base_first:
        start[: output.n_outputs] = output.base_score
    finished = finish_fields(forest)
    for name in ("scale", "base"):  # read a register at a time where sums fill registers
        finished[name] = np.pad(finished[name], (0, trees.n_sums - output.n_outputs))
    return finished | {
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


ON_STACK: Final = 1 << 16
"""Bytes that a call takes from the stack: to ask for them elsewhere takes as long as some rows."""

TILE: Final = 64
"""Rows whose sums are finished at a time."""

_blocks_of = inner(blocks_of)


@inner
def _start(header, sums, n, zero):
    """Fill the sums of n rows with what they begin with."""
    n_sums = field(header, "n_sums")
    if field(header, "is_by_row"):
        _start_rows(sums, n_sums, field(header, "start"), n, zero)
        return
    start = carray(pointer(field(header, "start")), (n_sums,), type(zero))
    filled = carray(pointer(sums), (n * n_sums,), type(zero))
    for k in range(n_sums):
        value = start[k]
        for row in range(n):
            filled[np.uint64(k * n + row)] = value


@intrinsic
def _start_rows(typing_context, sums, n_sums, start, n_rows, zero):
    """Fill the sums of rows, which fill registers: few are no loop for LLVM's own vectors."""

    def generate(context, builder, signature, arguments):
        sums, n_sums, start, n_rows, zero = arguments
        size = context.get_abi_sizeof(zero.type)
        row_bytes = builder.mul(n_sums, number(size))

        def fill_row(row, _):
            to = builder.add(sums, builder.mul(row, row_bytes))

            def fill_some(at, _):
                value = load(builder, start, at, vector(zero.type, REGISTER // size))
                store_vector(builder, value, to, at)

            count(builder, number(0), row_bytes, fill_some, step=REGISTER)

        count(builder, number(0), n_rows, fill_row)
        return context.get_dummy_value()

    return types.void(*[address] * 4, zero), generate


@intrinsic
def _finish_rows(typing_context, sums, n_sums, scale, base, to, n_outputs, n_rows, zero):
    """Fill raw scores of rows whose sums fill registers, and what stands behind up to `n_sums`."""

    def generate(context, builder, signature, arguments):
        sums, n_sums, scale, base, to, n_outputs, n_rows, zero = arguments
        size = context.get_abi_sizeof(zero.type)
        kind, wide = vector(zero.type, REGISTER // size), vector(F64, REGISTER // size)

        def finish_row(row, _):
            source = builder.add(sums, builder.mul(builder.mul(row, n_sums), number(size)))
            goal = builder.add(to, builder.mul(builder.mul(row, n_outputs), number(size)))

            def finish_some(k, _):
                at = builder.mul(k, number(size))
                value = load(builder, source, at, kind)
                value = builder.fmul(value, load(builder, scale, at, kind))
                more = load(builder, base, builder.mul(k, number(8)), wide)
                if size == 8:
                    value = builder.fadd(value, more)
                else:
                    value = builder.fadd(builder.fpext(value, wide), more)
                    value = builder.fptrunc(value, kind)
                store_vector(builder, value, goal, at)

            count(builder, number(0), n_sums, finish_some, step=REGISTER // size)

        count(builder, number(0), n_rows, finish_row)
        return context.get_dummy_value()

    return types.void(*[address] * 7, zero), generate


@inner
def _finish(header, sums, n, to, n_rows, zero):
    """Fill raw scores of rows, one row after the other: `bitvec.core.output.Output.finish`."""
    n_outputs, n_sums, kind = field(header, "n_outputs"), field(header, "n_sums"), type(zero)
    added = carray(pointer(sums), (n * n_sums,), kind)
    raw = carray(pointer(to), (n_rows * n_outputs,), kind)
    scale = carray(pointer(field(header, "scale")), (n_outputs,), kind)
    base = carray(pointer(field(header, "base")), (n_outputs,), np.float64)
    has_divisor = field(header, "divisor") != 0
    divisor = carray(pointer(field(header, "divisor")), (n_outputs,), kind)
    if not field(header, "is_by_row"):
        # Sums of an output stand side by side: a tile of rows stays in the first cache.
        for first in range(0, n_rows, TILE):
            here = min(TILE, n_rows - first)
            for k in range(n_outputs):
                column = carray(pointer(sums + (k * n + first) * size_of(zero)), (here,), kind)
                divided_by = divisor[k] if has_divisor else kind(1.0)
                by, more = scale[k], base[k]
                for i in range(here):
                    column[i] = kind(np.float64(column[i] / divided_by * by) + more)
                at = first * n_outputs + k
                for i in range(here):
                    raw[np.uint64(at + i * n_outputs)] = column[i]
        return
    if has_divisor:
        for row in range(n_rows):
            for k in range(n_outputs):
                added[row * n_sums + k] /= divisor[k]
    # All but the last rows, behind which no others are written.
    done = max(n_rows - (n_sums - 1) // n_outputs, 0)
    scales, bases = field(header, "scale"), field(header, "base")
    _finish_rows(sums, n_sums, scales, bases, to, n_outputs, done, zero)
    for row in range(done, n_rows):
        for k in range(n_outputs):
            value = added[row * n_sums + k] * scale[k]
            raw[row * n_outputs + k] = kind(np.float64(value) + base[k])


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


@inner
def _run_blocks(X, header, out, n_blocks, room, place):
    """Answer the rows block by block, in memory at an address; return how many are served."""
    n_rows, most, most_room = X.shape[0], field(header, "block"), field(header, "most_room")
    finite, largest = field(header, "finite"), load_float64(field(header, "largest"))
    binned_bytes, sums_bytes, _ = _bytes_of(header, n_rows, n_blocks, room)
    step, out_bytes, served = X.strides[0], field(header, "out_bytes"), 0
    at = room_on_stack(8 * 9)
    batch = int64s(at, 9)
    batch[2], batch[3], batch[6] = step, X.strides[1], place
    batch[7], batch[8] = place + binned_bytes, place + binned_bytes + sums_bytes
    while served < n_rows:
        n = min(most, n_rows - served)
        if finite and not is_sound(X, served, served + n, type(X[0, 0])(largest)):
            break
        batch[0], batch[1] = n, X.ctypes.data + served * step
        batch[5], batch[4] = _blocks_of(n, most_room)
        goal = np.int64(out.ctypes.data) + served * out_bytes
        if c_call(field(header, "answer"), (header, at, goal)) < n:
            break
        served += n
    return served


@inner
def _bytes_of(header, n_rows, n_blocks, room):
    """Return the bytes of binned columns, sums and scores of a block of rows."""
    n, sum_bytes = n_blocks * room, field(header, "sum_bytes")
    n_scores = min(n_rows, field(header, "block")) if field(header, "link") else 0
    scores_bytes = n_scores * field(header, "n_outputs") * sum_bytes
    return n * field(header, "n_binned"), n * field(header, "n_sums") * sum_bytes, scores_bytes


@kernel
def run_batch(X, header, out):
    """Fill the answers to the rows of X, of any strides; return how many rows are served."""
    n_rows = X.shape[0]
    if X.shape[1] != field(header, "n_features"):
        return -1
    if load_float64(field(header, "subnormal")) * 1.0 == 0.0:
        return -1
    most, most_room = field(header, "block"), field(header, "most_room")
    n_blocks, room = _blocks_of(min(n_rows, most), most_room)
    # Multiples of a cache line, the last apart, as `room` is.
    binned_bytes, sums_bytes, scores_bytes = _bytes_of(header, n_rows, n_blocks, room)
    n_bytes = binned_bytes + sums_bytes + scores_bytes
    if n_bytes <= ON_STACK:
        return _run_blocks(X, header, out, n_blocks, room, room_on_stack(n_bytes))
    held = scratch(n_bytes)
    # Numba frees an array after its last use by name, and addresses are none.
    return _run_blocks(X, header, out, n_blocks, room, held.ctypes.data) + 0 * held.size

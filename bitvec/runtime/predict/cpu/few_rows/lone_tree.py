"""Rows of a lone tree, block by block: what is refused is looked for, and answers are copied.

The answer to a row is its leaf's, so the answers of all leaves are made once.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import (
    c_call,
    copy_bytes,
    load_int32,
    pointer,
    room_on_stack,
    size_of,
    store,
)
from bitvec.runtime.predict.cpu.traversal.single import LANES
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I8,
    I32,
    I64,
    address,
    count,
    intrinsic_function,
    load,
    number,
    same,
    splat,
    vector,
)

AT_ONCE = 64
"""Values that are looked over in one turn."""
AHEAD = 8192
"""Bytes between what is looked over and what is fetched."""
BLOCK = 64
"""Rows of a lone tree that are looked over at a time; they stay in the first cache."""


@intrinsic
def _is_beyond(typing_context, start, n, largest):
    """Return whether one of n numbers, a multiple of `AT_ONCE`, is NaN or not below the largest.

    They have the type of `largest`. What comes `AHEAD` bytes later is fetched meanwhile.
    """
    size = largest.bitwidth // 8
    element, word = (F32, I32) if size == 4 else (F64, I64)
    lanes = 64 // size
    numbers, words = vector(element, lanes), vector(word, lanes)

    def generate(context, builder, signature, arguments):
        start, n, largest = arguments
        bound = splat(builder, largest, lanes)
        magnitude = same(word, lanes, (1 << (8 * size - 1)) - 1)
        name = "llvm.prefetch.p0"
        fetch = intrinsic_function(builder, name, ir.VoidType(), [I8.as_pointer(), I32, I32, I32])

        def body(k, held):
            found = []
            for each, beyond in enumerate(held):
                at = builder.add(
                    start, builder.mul(builder.add(k, number(lanes * each)), number(size))
                )
                ahead = builder.inttoptr(builder.add(at, number(AHEAD)), I8.as_pointer())
                builder.call(fetch, [ahead, *(ir.Constant(I32, flag) for flag in (0, 3, 1))])
                bits = builder.and_(load(builder, at, number(0), words), magnitude)
                wrong = builder.fcmp_unordered(">=", builder.bitcast(bits, numbers), bound)
                found.append(builder.or_(beyond, builder.sext(wrong, words)))
            return found

        nothing = same(word, lanes, 0)
        turns = AT_ONCE // lanes
        held = count(builder, number(0), n, body, AT_ONCE, carried=(nothing,) * turns)
        beyond = held[0]
        for other in held[1:]:
            beyond = builder.or_(beyond, other)
        reduce = intrinsic_function(
            builder, f"llvm.vector.reduce.or.v{lanes}i{8 * size}", word, [words]
        )
        return builder.icmp_unsigned("!=", builder.call(reduce, [beyond]), ir.Constant(word, 0))

    return types.boolean(address, address, largest), generate


@inner
def are_sound(start, n, largest):
    """Return whether n numbers that lie side by side are less than the largest."""
    whole = n // AT_ONCE * AT_ONCE
    if _is_beyond(start, whole, largest):
        return False
    values = carray(pointer(start), (n,), type(largest))
    sound = True
    for k in range(whole, n):
        sound &= abs(values[k]) < largest
    return sound


@inner
def is_sound(X, first, last, largest):
    """Return whether all values of some rows, of any strides, are less than the largest."""
    start, size = np.int64(X.ctypes.data) + first * X.strides[0], size_of(largest)
    n, columns = last - first, X.shape[1]
    if X.strides[1] == size and X.strides[0] == size * columns:
        return are_sound(start, n * columns, largest)
    if X.strides[0] == size:
        for column in range(columns):
            if not are_sound(start + column * X.strides[1], n, largest):
                return False
        return True
    sound = True
    for i in range(first, last):
        for column in range(columns):
            sound &= abs(X[i, column]) < largest
    return sound


@inner
def run_blocks(X, header, out, largest):
    """Fill the answers to rows of a lone tree, block by block; return how many are served."""
    row, step = np.int64(X.ctypes.data), X.strides[0]
    to, out_bytes = np.int64(out.ctypes.data), field(header, "out_bytes")
    find, finite = field(header, "find_rows"), field(header, "finite")
    answers = field(header, "answers")
    room = room_on_stack(field(header, "room_bytes"))
    leaves, n_rows = room + field(header, "leaves_at"), X.shape[0]
    for first in range(0, n_rows, BLOCK):
        last = min(first + BLOCK, n_rows)
        if finite and not is_sound(X, first, last, largest):
            return first
        for start in range(first, last, LANES):
            n = min(LANES, last - start)
            store(room, np.int64(n))
            c_call(find, (row + start * step, header, room))
            for i in range(n):
                leaf = np.int64(load_int32(leaves + 4 * i))
                copy_bytes(answers + out_bytes * leaf, to + (start + i) * out_bytes, out_bytes)
    return n_rows


@kernel
def fill_answers(header, leaves, out):
    """Fill the answers to a row of each leaf; return how many leaves have one."""
    answer, out_bytes = field(header, "answer"), field(header, "out_bytes")
    room = room_on_stack(field(header, "room_bytes"))
    for leaf in range(leaves):
        store(room + field(header, "leaves_at"), np.int32(leaf))
        if not c_call(answer, (header, room, np.int64(out.ctypes.data) + leaf * out_bytes)):
            return leaf
    return leaves

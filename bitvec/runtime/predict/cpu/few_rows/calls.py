"""Calls: what Python hands to compiled code, and what comes back."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, int64, typeof, types
from numba.extending import intrinsic
from numpy import array, empty, ndarray

from bitvec.core.arrays import FLOATS, Array
from bitvec.runtime.predict.cpu.compiling import inner, int64s, kernel
from bitvec.runtime.predict.cpu.few_rows.call_header import Header, field
from bitvec.runtime.predict.cpu.kernel_arrays import (
    called,
    load_float64,
    load_int32,
    pointer,
    room_on_stack,
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
from bitvec.runtime.predict.threads import for_each_block

Run = Callable[[Array, int, Array], int]
HeaderOf = Callable[[np.dtype], tuple[Header, int] | None]

TYPED = frozenset(map(np.dtype, (np.float32, np.float64, np.int32, np.int64)))
"""Dtypes of answers for which calls are compiled; others are handed over as bytes."""
AT_ONCE = 64
"""Values that are looked over in one turn."""
AHEAD = 8192
"""Bytes between what is looked over and what is fetched."""
BLOCK = 64
"""Rows of a lone tree that are looked over at a time; they stay in the first cache."""
CONTIGUOUS = 4096
"""Rows up to which an array of other strides is copied."""
MOST_SCORES = 1024
"""Rows beyond which scores are transformed by vectors."""


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
def _is_sound(X, first, last, largest):
    """Return whether all values of some rows are less than the largest."""
    n = (last - first) * X.shape[1]
    whole = n // AT_ONCE * AT_ONCE
    start = np.int64(X.ctypes.data) + first * X.shape[1] * X.itemsize
    if _is_beyond(start, whole, largest):
        return False
    values = carray(pointer(start), (n,), X.dtype)
    sound = True
    for k in range(whole, n):
        sound &= abs(values[k]) < largest
    return sound


@inner
def _copy(source, to, n_bytes):
    """Copy bytes, eight at a time as far as that goes."""
    words = n_bytes // 8
    a, b = int64s(source, words), int64s(to, words)
    for k in range(words):
        b[np.uint64(k)] = a[np.uint64(k)]
    for k in range(8 * words, n_bytes, 4):
        store(to + k, load_int32(source + k))


@inner
def _run_blocks(X, header, out, largest):
    """Fill the answers to rows of a lone tree, block by block; return how many are served."""
    row, step = np.int64(X.ctypes.data), X.shape[1] * X.itemsize
    to, out_bytes = np.int64(out.ctypes.data), field(header, "out_bytes")
    find, answers = field(header, "find_rows"), field(header, "answers")
    finite = field(header, "finite")
    if finite and field(header, "find_finite_rows"):
        find = field(header, "find_finite_rows")
    room = room_on_stack(field(header, "room_bytes"))
    leaves, n_rows = room + field(header, "leaves_at"), X.shape[0]
    for first in range(0, n_rows, BLOCK):
        last = min(first + BLOCK, n_rows)
        if finite and not _is_sound(X, first, last, largest):
            return first
        for start in range(first, last, LANES):
            n = min(LANES, last - start)
            store(room, np.int64(n))
            called(find, row + start * step, header, room)
            for i in range(n):
                leaf = np.int64(load_int32(leaves + 4 * i))
                _copy(answers + out_bytes * leaf, to + (start + i) * out_bytes, out_bytes)
    return n_rows


@kernel
def fill_answers(header, leaves, out):
    """Fill the answers to a row of each leaf; return how many leaves have one."""
    answer, out_bytes = field(header, "answer"), field(header, "out_bytes")
    room = room_on_stack(field(header, "room_bytes"))
    for leaf in range(leaves):
        store(room + field(header, "leaves_at"), np.int32(leaf))
        if not called(answer, header, room, np.int64(out.ctypes.data) + leaf * out_bytes):
            return leaf
    return leaves


@kernel
def run(X, header, out):
    """Fill the answers to the rows of X, C-contiguous; return how many rows are served."""
    if X.shape[1] != field(header, "n_features"):
        return -1
    row, step = np.int64(X.ctypes.data), X.shape[1] * X.itemsize
    to, out_bytes = np.int64(out.ctypes.data), field(header, "out_bytes")
    find, answer = field(header, "find"), field(header, "answer")
    room = room_on_stack(field(header, "room_bytes"))
    if load_float64(field(header, "subnormal")) * 1.0 == 0.0:
        return -1
    finite, largest = field(header, "finite"), load_float64(field(header, "largest"))
    if field(header, "find_rows"):
        return _run_blocks(X, header, out, type(X[0, 0])(largest))
    for i in range(X.shape[0]):
        if finite:
            sound = True
            for j in range(X.shape[1]):
                sound &= abs(np.float64(X[i, j])) < largest
            if not sound:
                return i
        called(find, row + i * step, header, room)
        if not called(answer, header, room, to + i * out_bytes):
            return i
    return X.shape[0]


@kernel
def run_scores(raw, header, out):
    """Fill the answers to rows of raw scores, C-contiguous; return how many rows are served."""
    row, step = np.int64(raw.ctypes.data), raw.shape[1] * raw.itemsize
    to, out_bytes = np.int64(out.ctypes.data), field(header, "out_bytes")
    link = field(header, "link")
    for i in range(raw.shape[0]):
        if not called(link, header, row + i * step, to + i * out_bytes):
            return i
    return raw.shape[0]


class Call:
    """Answers one verb to few rows.

    Parameters
    ----------
    header_of : callable
        From the dtype of X to the header for it and the most rows, or None if there is no answer.
    width : int, optional
        Of the answer to a row; None if it is one value.
    dtype : numpy dtype
        Of the answer.
    n_threads : int
    alone : int
        Rows up to which a second thread costs more than it brings.
    """

    __slots__ = (
        "_alone",
        "_dtype",
        "_headers",
        "_is_typed",
        "_make",
        "_n_threads",
        "_ways",
        "_width",
    )

    def __init__(
        self, header_of: HeaderOf, width: int | None, dtype: np.dtype, n_threads: int, alone: int
    ) -> None:
        self._make, self._width, self._dtype = header_of, width, dtype
        self._n_threads, self._alone = n_threads, alone
        self._headers: list[Header] = []
        self._ways: dict[np.dtype, tuple[Run, int, int]] = {}
        self._is_typed = dtype in TYPED

    def answer(self, X: Any) -> Array | None:
        """Return the answers to X in a new array, or None where they are left to others.

        Every attribute counts here: beside a small forest this is most of what a call costs.
        """
        if type(X) is not ndarray or X.ndim != 2:
            return None
        run, header, most = self._ways.get(X.dtype) or self._prepare(X.dtype)
        n_rows = len(X)
        if not 0 < n_rows <= most:
            return None
        if not X.flags.carray:
            if n_rows > CONTIGUOUS:
                return None
            X = array(X, order="C")
        width = self._width
        out = empty(n_rows if width is None else (n_rows, width), self._dtype)
        if n_rows > self._alone and self._n_threads > 1:
            return out if self._run_on_threads(run, X, header, out) else None
        served = run(X, header, out if self._is_typed else out.view(np.uint8))
        return out if served == n_rows else None

    def _run_on_threads(self, run: Run, X: Array, header: int, out: Array) -> bool:
        """Fill the answers part by part; return whether all rows are served."""
        n_rows, is_served = len(X), []

        def fill(part: slice) -> None:
            rows, to = X[part], out[part]
            served = run(rows, header, to if self._is_typed else to.view(np.uint8))
            is_served.append(served == len(rows))

        block = -(-n_rows // (2 * self._n_threads) // BLOCK) * BLOCK
        for_each_block(fill, n_rows, block=max(block, BLOCK), n_threads=self._n_threads)
        return all(is_served)

    def _prepare(self, dtype: np.dtype) -> tuple[Run, int, int]:
        if dtype not in FLOATS:
            return run, 0, 0
        found = self._make(dtype)
        if found is None:
            return self._ways.setdefault(dtype, (run, 0, 0))
        self._headers.append(found[0])
        return self._ways.setdefault(dtype, (self._compiled(dtype), found[0].address, found[1]))

    def _compiled(self, dtype: np.dtype) -> Run:
        """Return `run` for X of a dtype: without the look for types, which `answer` has seen to."""
        kind = self._dtype if self._is_typed else np.dtype(np.uint8)
        n_axes = 1 if self._width is None else 2
        types = tuple(typeof(empty((1,) * n, each)) for n, each in ((2, dtype), (n_axes, kind)))
        signature = (types[0], int64, types[1])
        run.compiled.compile(signature)
        entry: Run = run.compiled.overloads[signature].entry_point
        return entry


class ScoresCall:
    """Fills one verb's answers to few rows of raw scores."""

    def __init__(self, fields: Callable[[], dict[str, Any] | None], out_bytes: int) -> None:
        self._fields, self._out_bytes = fields, out_bytes
        self._header: Header | None = None

    def __call__(self, raw: Array, out: Array) -> bool:
        """Fill `out` with the answers; return False where that is left to others."""
        if len(raw) > MOST_SCORES or not (raw.flags.carray and out.flags.carray):
            return False
        if self._header is None:
            fields = self._fields()
            self._header = Header(**(fields or {}), out_bytes=self._out_bytes)
        if not self._header["link"]:
            return False
        to = out if out.dtype in TYPED else out.view(np.uint8)
        return bool(run_scores(raw, self._header.address, to) == len(raw))

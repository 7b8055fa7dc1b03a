"""Calls: what Python hands to compiled code, and what comes back."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import from_dtype, int64, types
from numpy import array, empty, ndarray

from bitvec.core.arrays import FLOATS, Array
from bitvec.runtime.predict.cpu.compiling import Kernel, kernel
from bitvec.runtime.predict.cpu.few_rows import waiting_threads
from bitvec.runtime.predict.cpu.few_rows.builtin import add_way, builtin
from bitvec.runtime.predict.cpu.few_rows.call_header import Header, field
from bitvec.runtime.predict.cpu.few_rows.lone_tree import is_sound, run_blocks
from bitvec.runtime.predict.cpu.few_rows.row_links import linked
from bitvec.runtime.predict.cpu.kernel_arrays import (
    address_of,
    c_call,
    constant,
    load_float64,
    room_on_stack,
)
from bitvec.runtime.predict.threads import for_each_block

Run = Callable[[Array, int, Array], int]


class Prepared(NamedTuple):
    """Header and limits of what answers rows of X of a dtype.

    Parameters
    ----------
    header : Header or None
        None if there is no answer.
    most : int
        The most rows.
    cycles : float
        Of a core, for a row.
    """

    header: Header | None
    most: int
    cycles: float = 1.0


TYPED = frozenset(map(np.dtype, (np.float32, np.float64, np.int32, np.int64)))
"""Dtypes of answers for which calls are compiled; others are handed over as bytes."""
CONTIGUOUS = 4096
"""Rows up to which an array of other strides is copied."""
AT_ONCE = 2e7
"""Cycles of a thread between two moments in which an interrupt is heard, ..."""
THREAD = 2e5
"""... and below which a second thread costs more than it brings."""
HELD = 1e5
"""Cycles for which other threads of Python may wait."""
STEP, MANY = 64, 2048
"""Rows of which a thread's part is a multiple, and from which on it is one of two."""
LINKED = 1 << 14
"""Scores of a thread's turn."""


@kernel
def run(X, header, out):
    """Fill the answers to the rows of X, C-contiguous; return how many rows are served."""
    if X.shape[1] != field(header, "n_features"):
        return -1
    row, step = np.int64(X.ctypes.data), X.strides[0]
    to, out_bytes = np.int64(out.ctypes.data), field(header, "out_bytes")
    find, answer = field(header, "find"), field(header, "answer")
    at_once, room_bytes = field(header, "rows_at_once"), field(header, "room_bytes")
    room = room_on_stack(min(at_once, X.shape[0]) * room_bytes)
    if load_float64(field(header, "subnormal")) * 1.0 == 0.0:
        return -1
    finite, largest = field(header, "finite"), load_float64(field(header, "largest"))
    most = type(X[0, 0])(largest)
    if field(header, "find_rows"):
        return run_blocks(X, header, out, most)
    walk = field(header, "walk")
    for first in range(0, X.shape[0], at_once):
        last = min(first + at_once, X.shape[0])
        if finite and not is_sound(X, first, last, most):
            return first
        for i in range(first, last):
            c_call(find, (row + i * step, header, room + (i - first) * room_bytes))
        if walk:
            c_call(walk, (last - first, header, room))
        for i in range(first, last):
            own = room + (i - first) * room_bytes
            if not c_call(answer, (header, own, to + i * out_bytes)):
                return i
    return X.shape[0]


@kernel
def run_scores(raw, header, out):
    """Fill the answers to rows of raw scores, C-contiguous; return whether all are served."""
    n, row, to = raw.shape[0], np.int64(raw.ctypes.data), np.int64(out.ctypes.data)
    step, out_bytes = raw.shape[1] * raw.itemsize, field(header, "out_bytes")
    return linked(field(header, "link"), header, n, row, step, to, out_bytes)


class Call:
    """Answers one verb to few rows.

    Parameters
    ----------
    prepare : callable
        From the dtype of X to what answers it.
    most_of : callable
        From it to the most rows.
    width : int, optional
        Of the answer to a row; None if it is one value.
    dtype : numpy dtype
        Of the answer.
    n_threads : int
    run : Kernel, optional
        Takes X, the address of the header and the answers to fill, and returns how many it served.
    strided : bool, optional
        Whether it takes X of any strides, and else one that is C-contiguous.
    then : Call, optional
        Answers more rows than this one does.
    bound : int, optional
        For more rows than so many, which are too many, `most_of` is not asked.
    """

    __slots__ = (
        "_alone",
        "_before",
        "_bound",
        "_builtin",
        "_dtype",
        "_headers",
        "_is_typed",
        "_kernels",
        "_limits",
        "_make",
        "_most_at_once",
        "_most_of",
        "_n_threads",
        "_needs",
        "_run",
        "_then",
        "_turn",
        "_ways",
        "_width",
    )

    def __init__(
        self,
        prepare: Callable[[np.dtype], Prepared],
        most_of: Callable[[np.dtype], int],
        width: int | None,
        dtype: np.dtype,
        n_threads: int,
        run: Kernel = run,
        then: Call | None = None,
        *,
        strided: bool = False,
        bound: int | None = None,
    ) -> None:
        self._make, self._most_of, self._width, self._dtype = prepare, most_of, width, dtype
        self._n_threads, self._run, self._then = n_threads, run, then
        self._bound = sys.maxsize if bound is None else bound
        self._needs: Literal["ALIGNED", "CARRAY"] = "ALIGNED" if strided else "CARRAY"
        self._most_at_once = self._alone = 0
        self._headers: list[Header] = []
        self._kernels: dict[np.dtype, tuple[Run, int]] = {}
        self._ways: dict[np.dtype, tuple[Run, int, int]] = {}
        self._limits: dict[np.dtype, int] = {}
        self._is_typed = dtype in TYPED
        self._builtin: Any = None
        self._turn = 0
        self._before: Call | None = None

    def function(self) -> Callable[[Any], Array | None]:
        """Return `answer`, or a builtin that stands for it where an answer has values."""
        if self._builtin is None and self._width != 0:
            step = self._dtype.itemsize if self._is_typed else 1
            made = builtin(self.answer, self._width or 0, self._dtype, step)
            call: Call | None = self
            before, turn = None, 0
            while call is not None:
                call._builtin, call._turn, call._before = made, turn, before
                before, call, turn = call, call._then, turn + 1
        return self._builtin or self.answer

    def answer(self, X: Any) -> Array | None:
        """Return the answers to X in a new array, or None where they are left to others.

        Every attribute counts here: beside a small forest this is most of what a call costs.
        """
        if type(X) is not ndarray or X.ndim != 2:
            return None
        run, header, most = self._ways.get(X.dtype) or self._prepare(X.dtype, len(X))
        n_rows = len(X)
        if not 0 < n_rows <= most:
            return None if self._then is None else self._then.answer(X)
        if not header:
            return None
        if not X.flags[self._needs]:
            if n_rows > CONTIGUOUS:
                return None
            X = array(X, order="C")
        width = self._width
        out = empty(n_rows if width is None else (n_rows, width), self._dtype)
        if n_rows > self._alone:
            return out if self._run_in_turns(X, header, out) else None
        served = run(X, header, out if self._is_typed else out.view(np.uint8))
        return out if served == n_rows else None

    def fill(self, X: Array, out: Array) -> bool:
        """Fill the answers to X; return whether all rows are served."""
        fits = out.dtype == self._dtype and out.size == len(X) * (self._width or 1)
        if not (len(X) and fits and out.flags.carray):
            return False
        _, header, most = self._ways.get(X.dtype) or self._prepare(X.dtype, len(X))
        if len(X) > most:
            return self._then is not None and self._then.fill(X, out)
        return header != 0 and X.flags[self._needs] and self._run_in_turns(X, header, out)

    def _run_in_turns(self, X: Array, header: int, out: Array) -> bool:
        """Fill the answers, between which an interrupt is heard; return whether all are served."""
        at_once = self._most_at_once
        for first in range(0, len(X), at_once):
            rows, to = X[first : first + at_once], out[first : first + at_once]
            if not self._run_on_threads(rows, header, to):
                return False
        return True

    def _run_on_threads(self, X: Array, header: int, out: Array) -> bool:
        """Fill them on the threads that it pays for, or on the calling one."""
        n_rows, n_threads = len(X), self._n_threads
        run, address = self._compiled(X.dtype)
        n_parts = n_threads * (1 if n_rows < MANY * n_threads else 2)
        part, served = -(-n_rows // (n_parts * STEP)) * STEP, None
        if part < n_rows > self._alone and n_threads > 1:
            step, width = self._dtype.itemsize if self._is_typed else 1, self._width or 0
            answers = address_of(out), width, max(width, 1) * self._dtype.itemsize, step
            rows = address, header, address_of(X), X.shape[1], *X.strides
            served = waiting_threads.run(
                (*rows, *answers, n_rows, part, -(-n_rows // part)), n_threads
            )
        if served is not None:
            return served
        return run(X, header, out if self._is_typed else out.view(np.uint8)) == n_rows

    def _prepare(self, dtype: np.dtype, n_rows: int) -> tuple[Run, int, int]:
        # Who asks for many rows alone, or for none, waits for no kernel of few.
        if n_rows > self._bound:
            return self._run, 0, 0
        most = self._limits.get(dtype)
        if most is None:
            most = self._limits.setdefault(dtype, self._most_of(dtype) if dtype in FLOATS else 0)
        if not 0 < n_rows <= most:
            return self._run, 0, 0
        header, most, cycles = self._make(dtype)
        if header is None:
            return self._ways.setdefault(dtype, (self._run, 0, most))
        self._headers.append(header)
        self._most_at_once = max(STEP, int(AT_ONCE * self._n_threads / cycles))
        self._alone = self._most_at_once if self._n_threads == 1 else int(THREAD / cycles)
        compiled, address = self._compiled(dtype)
        way = self._ways.setdefault(dtype, (compiled, header.address, most))
        if self._builtin is not None:
            less = 0 if self._before is None else self._before._less(dtype)
            rows = less, min(most, self._alone, int(HELD / cycles))
            add_way(self._builtin, self._turn, dtype, rows, way[1], address)
        return way

    def _less(self, dtype: np.dtype) -> int:
        """Return the rows that are not the next call's, as far as that is known."""
        return self._limits.get(dtype, self._bound)

    def _compiled(self, dtype: np.dtype) -> tuple[Run, int]:
        """Return the kernel for X of a dtype, without the look for types, and its address."""
        if dtype in self._kernels:
            return self._kernels[dtype]
        kind = self._dtype if self._is_typed else np.dtype(np.uint8)
        n_axes = 1 if self._width is None else 2
        # `numba.typeof` of an array imports `numpy.ma`, which takes as long as all the rest here.
        X = types.Array(from_dtype(dtype), 2, "A" if self._needs == "ALIGNED" else "C")
        signature = X, int64, types.Array(from_dtype(kind), n_axes, "C")
        return self._kernels.setdefault(dtype, self._run.version(signature))


class ScoresCall:
    """Fills one verb's answers to rows of raw scores.

    Parameters
    ----------
    fields : callable
        Makes the fields of the answer, or None if it is left to others.
    dtype : numpy dtype
        Of the scores.
    out_bytes : int
        Of the answer to a row.
    n_threads : int
    """

    def __init__(
        self,
        fields: Callable[[], dict[str, Any] | None],
        dtype: np.dtype,
        out_bytes: int,
        n_threads: int = 1,
    ) -> None:
        self._fields, self._dtype, self._out_bytes = fields, dtype, out_bytes
        self._n_threads = n_threads
        self._header: Header | None = None

    def fill(self, raw: Array, out: Array, otherwise: Callable[[Array, Array], object]) -> None:
        """Fill `out` with the answers; `otherwise` fills blocks of rows that are left to others."""
        if self._header is None:
            fields = self._fields()
            self._header = Header(**(fields or {}), out_bytes=self._out_bytes)
        header = self._header.address
        fits = raw.dtype == self._dtype and raw.flags.carray and out.flags.carray
        if not (fits and self._header["link"]):
            otherwise(raw, out)
            return
        is_typed = out.dtype in TYPED

        def fill(part: slice) -> None:
            rows, to = constant(raw[part]), out[part]
            if not run_scores(rows, header, to if is_typed else to.view(np.uint8)):
                otherwise(rows, to)

        block = max(1, LINKED // raw.shape[1])
        for_each_block(fill, len(raw), block=block, n_threads=self._n_threads)

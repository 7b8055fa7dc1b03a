"""Rows on several threads, without Python between them.

Python's threads take some 60 µs to begin and to end. Here helpers look out for the next call in
compiled code for a while, as OpenMP's threads do, before they sleep; caller and helpers take parts
of the rows until none is left. One caller is helped at a time, the others work alone meanwhile.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from numba import types

from bitvec.runtime.predict import threads
from bitvec.runtime.predict.cpu.compiling import Kernel, inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import (
    CACHE_LINE,
    added,
    address_of,
    aligned,
    c_call,
    exchanged,
    load_float64,
    load_int64,
    pause,
    result_of,
    store,
    watched,
)
from bitvec.runtime.predict.subnormals import SUBNORMAL

LEFT, SEATS, DONE, SERVED, STOP, SUBNORMALS, JOB = range(0, 7 * CACHE_LINE, CACHE_LINE)
"""Bytes at which stand: the parts that nobody has taken, the helpers that may still join, the parts
that are done, those of which all rows are served, whether helpers are to end, a subnormal number,
and the numbers of a call. Several threads write the first four, each of which has its own line."""
FIELDS = (
    "kernel", "header", "x", "columns", "row_stride", "column_stride", "out", "width",
    "row_bytes", "step", "n_rows", "block", "n_parts",
)  # fmt: skip
"""Numbers of a call: what `rows_answered` takes, and the parts of the rows."""
(
    KERNEL, HEADER, X, COLUMNS, ROW_STRIDE, COLUMN_STRIDE, OUT, WIDTH,
    ROW_BYTES, STEP, N_ROWS, BLOCK, N_PARTS,
) = range(len(FIELDS))  # fmt: skip
LOOKS: Final = 2000
"""Times that a helper looks for work before it sleeps, which takes about 50 µs."""
PATIENT: Final = 500
"""Times that a caller looks for the end before it offers its core to others."""


@inner
def rows_answered(
    kernel, header, x, n, columns, row_stride, column_stride, out, width, row_bytes, step
):
    """Run the kernel of a call on n rows at an address; return how many are served.

    Parameters
    ----------
    kernel, header : int64
        Addresses of a `compiling.Kernel` of (X, header, out), and of the header.
    row_stride, column_stride : int64
        Bytes from one row of X to the next, and from one column: of any that the kernel takes.
    width, row_bytes, step : int64
        Of the answer to a row: 0 if it has one axis, its bytes, and those of an element.
    """
    no = np.int64(0)
    # Arrays as numba hands them over: owner, parent, numbers, bytes of each, address, shape, steps.
    # Of X the kernel knows the bytes of a number by its dtype.
    rows = (no, no, n * columns, no, x, n, columns, row_stride, column_stride)
    call = (*rows, header, no, no, n * row_bytes // step, step, out)
    if width:
        return result_of(kernel, (*call, n, row_bytes // step, row_bytes, step))
    return result_of(kernel, (*call, n * row_bytes // step, step))


@inner
def _number(state, at):
    return load_int64(state + JOB + 8 * at)


@inner
def _take(state):
    """Answer parts until none is left."""
    while True:
        part = added(state + LEFT, -1)
        if part <= 0:
            return
        # Of this call: it does not end, and the next one does not begin, before the part is done.
        block, row_bytes = _number(state, BLOCK), _number(state, ROW_BYTES)
        row_stride, column_stride = _number(state, ROW_STRIDE), _number(state, COLUMN_STRIDE)
        first = (_number(state, N_PARTS) - part) * block
        n = min(block, _number(state, N_ROWS) - first)
        x = _number(state, X) + first * row_stride
        out = _number(state, OUT) + first * row_bytes
        served = rows_answered(
            _number(state, KERNEL), _number(state, HEADER), x, n, _number(state, COLUMNS),
            row_stride, column_stride, out, _number(state, WIDTH), row_bytes, _number(state, STEP),
        )  # fmt: skip
        added(state + SERVED, np.int64(served == n))
        added(state + DONE, 1)


@kernel
def _run_parts(state, seats, give_way):
    """Answer all parts with at most so many helpers; return whether all rows are served."""
    n_parts, looks = _number(state, N_PARTS), 0
    store(state + DONE, np.int64(0))
    store(state + SERVED, np.int64(0))
    exchanged(state + SEATS, seats)
    exchanged(state + LEFT, n_parts)
    _take(state)
    while watched(state + DONE) < n_parts:
        pause()
        looks += 1
        if looks > PATIENT and give_way:
            c_call(give_way, (np.int64(0),))
    return watched(state + SERVED) == n_parts


@kernel
def _help(state, looks):
    """Help until there is nothing to do for a while; return whether this thread is of use."""
    if load_float64(state + SUBNORMALS) * 1.0 == 0.0:  # it would make other sums than the caller
        return False
    look = 0
    while look < looks and watched(state + STOP) == 0:
        if watched(state + LEFT) > 0 and added(state + SEATS, -1) > 0:
            _take(state)
            look = 0
        pause()
        look += 1
    return watched(state + STOP) == 0


class _Helper(threading.Thread):
    """A thread that helps, and sleeps where nobody has asked for a while."""

    def __init__(self, state: int) -> None:
        super().__init__(name="bitvec helper", daemon=True)
        self.is_awake, self._sleep, self._state = True, threading.Lock(), state
        self._sleep.acquire()

    def run(self) -> None:
        """Help until the process ends."""
        threads.keep_apart()
        help = _compiled(_help, 2)
        while help(self._state, LOOKS):
            self.is_awake = False
            if help(self._state, 1):  # whoever saw it awake until now
                self._sleep.acquire()

    def wake(self) -> None:
        """Have it look out for work."""
        if not self.is_awake:
            self.is_awake = True
            self._sleep.release()


class _Pool:
    """The helpers of this process, and what they share with callers."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._memory = aligned(JOB + 8 * len(FIELDS))
        self._memory[:] = 0
        self._memory[SUBNORMALS:][:8].view(np.float64)[0] = SUBNORMAL
        self._job = self._memory[JOB:].view(np.int64)
        self._state = address_of(self._memory)
        self._helpers: list[_Helper] = []

    def run(self, job: tuple[int, ...], n_threads: int) -> bool | None:
        """Do what `run` of the module says."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            self._job[:] = job
            seats = self._wake(min(n_threads, job[N_PARTS]) - 1)
            threads.keep_core()
            return bool(_compiled(_run_parts, 3)(self._state, seats, _give_way()))
        finally:
            self._busy.release()

    def _wake(self, n: int) -> int:
        """Wake so many helpers; return how many there are."""
        if len(self._helpers) < n or not all(one.is_alive() for one in self._helpers):
            self._helpers = [one for one in self._helpers if one.is_alive()]
            with contextlib.suppress(RuntimeError):  # the interpreter is shutting down
                while len(self._helpers) < n:
                    self._helpers.append(_Helper(self._state))
                    self._helpers[-1].start()
        for helper in self._helpers[:n]:
            helper.wake()
        return min(n, len(self._helpers))

    def stop(self) -> None:
        """End the helpers: what they run must not go before them."""
        self._memory[STOP:][:8].view(np.int64)[0] = 1
        for helper in self._helpers:
            helper.wake()
            helper.join(1.0)


_pool = _Pool()


def run(job: tuple[int, ...], n_threads: int) -> bool | None:
    """Answer rows on at most so many threads, of which the calling one is one.

    Parameters
    ----------
    job : tuple of int
        The numbers of `FIELDS`.

    Returns
    -------
    bool, optional
        Whether all rows are served; None if another caller is helped at the moment.
    """
    return _pool.run(job, n_threads)


@cache
def _compiled(function: Kernel, n: int) -> Callable[..., Any]:
    """Return a kernel of n int64, without the look for types."""
    return function.version((types.int64,) * n)[0]


@cache
def _give_way() -> int:
    """Return the address of what offers the calling thread's core to others, or 0."""
    library, name = ("kernel32", "SwitchToThread") if os.name == "nt" else (None, "sched_yield")
    try:
        return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def _forget() -> None:
    # A forked child has none of the threads.
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _pool.stop())

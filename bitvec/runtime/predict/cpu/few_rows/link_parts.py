"""Parts of the links of `row_links`: exponentials as the source has them, and checks of scores."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import numpy as np
from numba import carray

from bitvec.core.transforms import LEAST_EXP, TABLE_SIZE
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.exponentials import c_exp_of, steps_and_rest, table_exp_of
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import (
    load_float64,
    load_like,
    pointer,
    room_on_stack,
    size_of,
    store,
)
from bitvec.runtime.predict.cpu.numpy_loops import call_loop


@inner
def is_finite(scores, n, zero):
    """Return whether n numbers are all finite."""
    values, n_others = carray(pointer(scores), (n,), type(zero)), 0
    for k in range(n):
        n_others += int(not abs(values[k]) < np.inf)
    return n_others == 0


@inner
def parameter_of(header, zero):
    """Return the parameter of a link, in the type of its numbers."""
    return type(zero)(load_float64(field(header, "parameter")))


@inner
def c_exp(x, header):
    """Return exp as the C library has it."""
    return c_exp_of(x, field(header, "expf"), field(header, "exp"))


@inner
def fill_exp(header, x, out, n_rows, width, zero):
    """Fill `out` with exp as the source has it, of rows of numbers that stand elsewhere."""
    table, n = field(header, "exp_table"), n_rows * width
    if table:
        # Of arrays, and loop by loop, so that LLVM makes vectors of what it can.
        values = carray(pointer(x), (n,), type(zero))
        exps = carray(pointer(out), (n,), type(zero))
        entries = carray(pointer(table), (TABLE_SIZE,), np.float64)
        room = room_on_stack(12 * n)
        steps = carray(pointer(room), (n,), np.int32)
        rests = carray(pointer(room + 4 * n), (n,), np.float64)
        n_least = 0
        for k in range(n):
            value = np.float64(values[k])
            n_least += int(value <= LEAST_EXP)
            steps[k], rests[k] = steps_and_rest(value)
        for k in range(n):
            entry = entries[np.uint32(steps[k]) & np.uint32(TABLE_SIZE - 1)]
            exps[k] = table_exp_of(steps[k], rests[k], entry)
        for row in range(n_rows if n_least else 0):
            for k in range((row + 1) * width - width % 4, (row + 1) * width):
                if values[k] <= LEAST_EXP:
                    exps[k] = 0
    elif size_of(zero) == 4 or field(header, "takes_c_exp"):
        for k in range(n):
            at = size_of(zero) * k
            store(out + at, c_exp(load_like(x + at, zero), header))
    else:
        call_loop(field(header, "exp_loop"), field(header, "exp_data"), n, x, out, zero)

"""The links of `bitvec.core.links` for one row, compiled, with their bits.

exp is the C library's, or NumPy's own loop, where each stands in `bitvec.core.transforms`. What the
reference goes ways of its own for (NaN, infinities, beyond the range of exp) is left to it: a link
then returns 0.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray

from bitvec.core.links import INVERSE, SLOPE
from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.core.transforms import LEAST_EXP, TABLE_SIZE
from bitvec.runtime.predict.cpu import numpy_loops, probabilities
from bitvec.runtime.predict.cpu.compiling import by_address, inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import (
    load_float64,
    load_int64,
    load_like,
    place_of,
    pointer,
    room_on_stack,
    size_of,
    store,
    zero_of,
)
from bitvec.runtime.predict.cpu.numpy_loops import call_loop, call_loop_of_two
from bitvec.runtime.predict.cpu.probabilities import (
    EXP_TABLE,
    LARGEST,
    c_exp_of,
    steps_and_rest,
    table_exp_of,
)
from bitvec.runtime.predict.cpu.softmax_kernels import PAIRWISE, pairwise

_SLOPE, _INVERSE = np.float32(SLOPE), np.float32(INVERSE)
_ROOT = np.float32(1.41421356)
MOST_OUTPUTS = 4096
"""Outputs for which the stack has room a few times."""


def fields_of(output: Output) -> dict[str, Any] | None:
    """Return the fields that a link reads, or None if it is not served here."""
    kind, dtype = output.post_transform, output.dtype
    if output.n_outputs > MOST_OUTPUTS:
        return None
    fields: dict[str, Any] = {
        "n_outputs": output.n_outputs,
        "n_groups_of": len(output.groups),
        "n_outputs_of": np.array(output.groups, np.int64),
    }
    if kind is PostTransform.IDENTITY:
        return fields
    is_wide = output.softmax_sum is SoftmaxSum.WIDE
    if kind is PostTransform.SOFTMAX and is_wide and max(output.groups) > PAIRWISE:
        return None
    chooses = kind in (PostTransform.SOFTMAX, PostTransform.EXPONENTIAL)
    is_table = chooses and output.softmax_sum is SoftmaxSum.IN_ORDER_TABLE
    takes_c_exp = chooses and probabilities.takes_c_exp(output, dtype)
    for name, (ufunc, takes) in _LOOPS.get(kind, {}).items():
        if name == "exp" and (is_table or takes_c_exp or dtype == np.float32):
            continue  # which has the C library's, or CatBoost's
        found = numpy_loops.loop(ufunc, takes or dtype)
        if found is None:
            return None
        fields[f"{name}_loop"], fields[f"{name}_data"] = found
    if is_table:
        fields["exp_table"] = EXP_TABLE
    elif kind not in _WITHOUT_EXP:
        if not probabilities.has_exponentials(dtype):
            return None
        fields["expf"], fields["exp"] = probabilities.c_exponentials()
    return fields | {
        "transform": LINKS[kind].address(dtype),
        "parameter": np.array([output.parameter]),
        "is_wide": is_wide,
        "takes_c_exp": takes_c_exp,
    }


@inner
def _is_finite(header, scores, zero):
    for k in range(field(header, "n_outputs")):
        if not abs(load_like(scores + size_of(zero) * k, zero)) < np.inf:
            return False
    return True


@inner
def _parameter(header, zero):
    return type(zero)(load_float64(field(header, "parameter")))


@inner
def _c_exp(x, header):
    return c_exp_of(x, field(header, "expf"), field(header, "exp"))


@inner
def _fill_exp(header, x, out, n, zero):
    """Fill `out` with exp as the source has it, of n numbers that stand elsewhere."""
    table = field(header, "exp_table")
    if table:
        # Of arrays, whose loops LLVM makes vectors of.
        values = carray(pointer(x), (n,), type(zero))
        exps = carray(pointer(out), (n,), type(zero))
        entries = carray(pointer(table), (TABLE_SIZE,), np.float64)
        for k in range(n):
            step, rest = steps_and_rest(np.float64(values[k]))
            entry = entries[np.uint32(step) & np.uint32(TABLE_SIZE - 1)]
            exps[k] = table_exp_of(step, rest, entry)
        for k in range(n - n % 4, n):
            if values[k] <= LEAST_EXP:
                exps[k] = 0
    elif size_of(zero) == 4 or field(header, "takes_c_exp"):
        for k in range(n):
            at = size_of(zero) * k
            store(out + at, _c_exp(load_like(x + at, zero), header))
    else:
        call_loop(field(header, "exp_loop"), field(header, "exp_data"), n, x, out, zero)


@by_address
def _sigmoid(header, scores, out):
    zero, to = zero_of(out), place_of(out)
    parameter, one = _parameter(header, zero), type(zero)(1)
    for k in range(field(header, "n_outputs")):
        at = size_of(zero) * k
        value = load_like(scores + at, zero) * parameter
        if not abs(value) < np.inf or -value > LARGEST:
            return 0
        if size_of(zero) == 4:
            value = max(value, type(zero)(-88.7))
        store(to + at, one / (_c_exp(-value, header) + one))
    return 1


@by_address
def _logistic(header, scores, out):
    zero, to, one = zero_of(out), place_of(out), np.float32(1)
    for k in range(field(header, "n_outputs")):
        at = size_of(zero) * k
        value = np.float32(load_like(scores + at, zero))
        if not abs(value) < np.inf:
            return 0
        above = one / (one + _c_exp(-abs(value), header))
        store(to + at, type(zero)(one - above if value < 0 else above))
    return 1


@by_address
def _softmax(header, scores, out):
    zero, to, start = zero_of(out), place_of(out), 0
    width, parameter = size_of(zero), _parameter(header, zero)
    below = room_on_stack(width * field(header, "n_outputs"))
    for group in range(field(header, "n_groups_of")):
        size = load_int64(field(header, "n_outputs_of") + 8 * group)
        x, result = scores + width * start, to + width * start
        # Arrays, whose loops LLVM makes vectors of.
        values = carray(pointer(x), (size,), type(zero))
        held = carray(pointer(below), (size,), type(zero))
        exps = carray(pointer(result), (size,), type(zero))
        n_refused = 0
        for k in range(size):
            value = values[k] if parameter == 1 else values[k] / parameter
            n_refused += int(not abs(value) < np.inf)
            held[k] = value
        if n_refused:
            return 0
        top = held[0]
        for k in range(1, size):
            top = held[k] if held[k] > top else top
        for k in range(size):
            held[k] -= top
        _fill_exp(header, below, result, size, zero)
        if field(header, "is_wide"):
            total = type(zero)(pairwise(exps, 0, size))
        else:
            total = exps[0]
            for k in range(1, size):
                total += exps[k]
        for k in range(size):
            exps[k] /= total
        start += size
    return 1


@by_address
def _softmax_of_halves(header, scores, out):
    zero, to = zero_of(out), place_of(out)
    if not _is_finite(header, scores, zero):
        return 0
    width, one = size_of(zero), type(zero)(1)
    spare = room_on_stack(2 * width)
    for k in range(field(header, "n_outputs")):
        x = load_like(scores + width * k, zero)
        store(spare, -abs(x))
        _fill_exp(header, spare, spare + width, 1, zero)
        exp = load_like(spare + width, zero)
        store(to + width * k, (exp if x < 0 else one) / (exp + one))
    return 1


@by_address
def _softmax_unshifted(header, scores, out):
    zero, to, start = zero_of(out), place_of(out), 0
    width, one = size_of(zero), type(zero)(1)
    if not _is_finite(header, scores, zero):
        return 0
    for group in range(field(header, "n_groups_of")):
        size = load_int64(field(header, "n_outputs_of") + 8 * group)
        result, total = to + width * start, zero
        for k in range(size):
            x = load_like(scores + width * (start + k), zero)
            if x > LARGEST:
                return 0
            exp = _c_exp(x, header)
            store(result + width * k, exp)
            total = exp if k == 0 else total + exp
        for k in range(size):
            store(result + width * k, load_like(result + width * k, zero) * (one / total))
        start += size
    return 1


@by_address
def _softmax_zero(header, scores, out):
    zero, to, start = zero_of(out), place_of(out), 0
    width, least = size_of(zero), type(zero)(1e-7)
    if not _is_finite(header, scores, zero):
        return 0
    spare = room_on_stack(width * (field(header, "n_outputs") + 2))
    for group in range(field(header, "n_groups_of")):
        size = load_int64(field(header, "n_outputs_of") + 8 * group)
        x, result = scores + width * start, to + width * start
        top = load_like(x, zero)
        for k in range(size):
            top = max(top, load_like(x + width * k, zero))
        for k in range(size):
            store(spare + width * k, load_like(x + width * k, zero) - top)
        _fill_exp(header, spare, result, size, zero)
        store(spare, -top)
        _fill_exp(header, spare, spare + width, 1, zero)
        exp_of_zero, total = load_like(spare + width, zero), zero
        for k in range(size):
            value, exp = load_like(x + width * k, zero), load_like(result + width * k, zero)
            counts = abs(value) > least
            each = exp if counts else zero
            total = each if k == 0 else total + each
            store(result + width * k, exp if counts else value * exp_of_zero)
        for k in range(size):
            store(result + width * k, load_like(result + width * k, zero) / total)
        start += size
    return 1


@by_address
def _probit(header, scores, out):
    zero, to, one = zero_of(out), place_of(out), np.float32(1)
    spare = room_on_stack(16)
    for k in range(field(header, "n_outputs")):
        at = size_of(zero) * k
        x = np.float32(load_like(scores + at, zero)) * np.float32(2) - one
        store(spare, np.float64((one - x) * (one + x)))
        call_loop(
            field(header, "log_loop"), field(header, "log_data"), 1, spare, spare + 8, np.float64(0)
        )
        log = np.float32(load_float64(spare + 8))
        v = log * np.float32(0.5) + _SLOPE
        root = np.float32(math.sqrt(np.float32(math.sqrt(v * v - log * _INVERSE)) - v))
        value = np.float32(math.copysign(root, x)) * _ROOT
        if value != value:
            return 0
        store(to + at, type(zero)(value))
    return 1


@by_address
def _exponential(header, scores, out):
    zero, to = zero_of(out), place_of(out)
    if not _is_finite(header, scores, zero):
        return 0
    if field(header, "takes_c_exp"):
        for k in range(field(header, "n_outputs")):
            if load_like(scores + size_of(zero) * k, zero) > LARGEST:
                return 0
    _fill_exp(header, scores, to, field(header, "n_outputs"), zero)
    return 1


@by_address
def _power_of_two(header, scores, out):
    zero, to, n = zero_of(out), place_of(out), field(header, "n_outputs")
    width, parameter = size_of(zero), _parameter(header, zero)
    if not _is_finite(header, scores, zero):
        return 0
    spare = room_on_stack(width * (n + 1))
    store(spare, type(zero)(2))
    for k in range(n):
        store(spare + width * (k + 1), -load_like(scores + width * k, zero) / parameter)
    function, data = field(header, "power_loop"), field(header, "power_data")
    call_loop_of_two(function, data, n, spare, spare + width, to, zero)
    return 1


@by_address
def _softplus(header, scores, out):
    zero, to, n = zero_of(out), place_of(out), field(header, "n_outputs")
    width, spare = size_of(zero), room_on_stack(size_of(zero) * n)
    for k in range(n):
        x = load_like(scores + width * k, zero)
        if not abs(x) < np.inf or x > LARGEST:
            return 0
        store(spare + width * k, _c_exp(x, header))
    function, data = field(header, "log1p_loop"), field(header, "log1p_data")
    call_loop(function, data, n, spare, to, zero)
    return 1


@by_address
def _signed_square(header, scores, out):
    zero, to = zero_of(out), place_of(out)
    for k in range(field(header, "n_outputs")):
        x = load_like(scores + size_of(zero) * k, zero)
        store(to + size_of(zero) * k, x * abs(x))
    return 1


@by_address
def _hinge(header, scores, out):
    zero, to = zero_of(out), place_of(out)
    for k in range(field(header, "n_outputs")):
        x = load_like(scores + size_of(zero) * k, zero)
        store(to + size_of(zero) * k, type(zero)(1) if x > 0 else zero)
    return 1


@by_address
def _at_most_one(header, scores, out):
    zero, to = zero_of(out), place_of(out)
    for k in range(field(header, "n_outputs")):
        x = load_like(scores + size_of(zero) * k, zero)
        store(to + size_of(zero) * k, type(zero)(1) if x > 1 else x)
    return 1


LINKS = {
    PostTransform.SIGMOID: _sigmoid,
    PostTransform.LOGISTIC: _logistic,
    PostTransform.SOFTMAX: _softmax,
    PostTransform.SOFTMAX_OF_HALVES: _softmax_of_halves,
    PostTransform.SOFTMAX_UNSHIFTED: _softmax_unshifted,
    PostTransform.SOFTMAX_ZERO: _softmax_zero,
    PostTransform.PROBIT: _probit,
    PostTransform.EXPONENTIAL: _exponential,
    PostTransform.EXPONENTIAL_STANDARD_RATIO: _power_of_two,
    PostTransform.LOGARITHM_ONE_PLUS_EXP: _softplus,
    PostTransform.SIGNED_SQUARE: _signed_square,
    PostTransform.HINGE: _hinge,
    PostTransform.AT_MOST_ONE: _at_most_one,
}
"""Functions of the header, the address of a row's scores, and that of as many numbers to fill."""

_WITHOUT_EXP = frozenset(
    {
        PostTransform.PROBIT,
        PostTransform.EXPONENTIAL_STANDARD_RATIO,
        PostTransform.SIGNED_SQUARE,
        PostTransform.HINGE,
        PostTransform.AT_MOST_ONE,
    }
)
"""Links that take no exp."""

_EXP: dict[str, tuple[np.ufunc, np.dtype | None]] = {"exp": (np.exp, None)}
_LOOPS: dict[PostTransform, dict[str, tuple[np.ufunc, np.dtype | None]]] = {
    PostTransform.SOFTMAX: _EXP,
    PostTransform.SOFTMAX_OF_HALVES: _EXP,
    PostTransform.SOFTMAX_ZERO: _EXP,
    PostTransform.EXPONENTIAL: _EXP,
    PostTransform.PROBIT: {"log": (np.log, np.dtype(np.float64))},
    PostTransform.LOGARITHM_ONE_PLUS_EXP: {"log1p": (np.log1p, None)},
    PostTransform.EXPONENTIAL_STANDARD_RATIO: {"power": (np.power, None)},
}
"""Functions of NumPy that links take, and in which dtype if it is not the scores'."""

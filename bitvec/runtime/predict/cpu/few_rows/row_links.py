"""The links of `bitvec.core.links`, compiled, with their bits.

exp is the C library's, NumPy's own loop, or CatBoost's from a table, where each stands in
`bitvec.core.transforms`. What the reference goes ways of its own for (NaN, infinities, beyond the
range of exp) is left to it: a link then returns 0.
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
from bitvec.runtime.predict.cpu import exponentials, numpy_loops
from bitvec.runtime.predict.cpu.compiling import by_address, inner
from bitvec.runtime.predict.cpu.exponentials import (
    EXP_TABLE,
    LARGEST,
)
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.few_rows.link_parts import c_exp, fill_exp, is_finite, parameter_of
from bitvec.runtime.predict.cpu.kernel_arrays import (
    c_call,
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
from bitvec.runtime.predict.cpu.numpy_loops import (
    PAIRWISE,
    call_loop,
    call_loop_of_two,
    pairwise,
)

_SLOPE, _INVERSE = np.float32(SLOPE), np.float32(INVERSE)
_ROOT = np.float32(1.41421356)
MOST_OUTPUTS = 4096
"""Scores of the rows that are linked together: the stack has room for them a few times."""


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
    takes_c_exp = chooses and exponentials.takes_c_exp(output, dtype)
    for name, (ufunc, takes) in _LOOPS.get(kind, {}).items():
        if name == "exp" and (is_table or takes_c_exp or dtype == np.float32):
            continue  # which has the C library's, or CatBoost's
        found = numpy_loops.loop(ufunc, takes or dtype)
        if found is None:
            return None
        fields[f"{name}_loop"], fields[f"{name}_data"] = found
    if is_table:
        fields["exp_table"] = EXP_TABLE
    elif kind not in _WITHOUT_EXP and "exp_loop" not in fields:
        if not exponentials.has_exponentials(dtype):
            return None
        fields["expf"], fields["exp"] = exponentials.c_exponentials()
    return fields | {
        "transform": LINKS[kind].address(dtype),
        "parameter": np.array([output.parameter]),
        "is_wide": is_wide,
        "takes_c_exp": takes_c_exp,
    }


@inner
def linked(function, header, n_rows, scores, step, out, out_step):
    """Run a link, or what takes the same, on some rows; return whether all are served.

    Scores and answers of the next row stand so many bytes on.
    """
    at_once = max(np.int64(1), MOST_OUTPUTS // field(header, "n_outputs"))
    for row in range(0, n_rows, at_once):
        n = min(at_once, n_rows - row)
        if not c_call(function, (header, n, scores + step * row, out + out_step * row)):
            return False
    return True


@by_address
def _sigmoid(header, n_rows, scores, out):
    zero, to = zero_of(out), place_of(out)
    parameter, one = parameter_of(header, zero), type(zero)(1)
    for k in range(n_rows * field(header, "n_outputs")):
        at = size_of(zero) * k
        value = load_like(scores + at, zero) * parameter
        if not abs(value) < np.inf or -value > LARGEST:
            return 0
        if size_of(zero) == 4:
            value = max(value, type(zero)(-88.7))
        store(to + at, one / (c_exp(-value, header) + one))
    return 1


@by_address
def _logistic(header, n_rows, scores, out):
    zero, to, one = zero_of(out), place_of(out), np.float32(1)
    for k in range(n_rows * field(header, "n_outputs")):
        at = size_of(zero) * k
        value = np.float32(load_like(scores + at, zero))
        if not abs(value) < np.inf:
            return 0
        above = one / (one + c_exp(-abs(value), header))
        store(to + at, type(zero)(one - above if value < 0 else above))
    return 1


@inner
def _shift(x, out, size, parameter):
    """Fill `out` with numbers less the largest; return that, and how many are NaN or infinite."""
    n_others = 0
    for k in range(size):
        out[k] = x[k] if parameter == 1 else x[k] / parameter
        n_others += int(not abs(out[k]) < np.inf)
    top = out[0]
    for k in range(1, size):
        top = out[k] if out[k] > top else top
    for k in range(size):
        out[k] -= top
    return top, n_others


@inner
def _total(x, size):
    """Return the sum of numbers, in order."""
    total = x[0]
    for k in range(1, size):
        total += x[k]
    return total


@inner
def _divide(x, out, size, divisor):
    for k in range(size):
        out[k] = x[k] / divisor


@by_address
def _softmax(header, n_rows, scores, out):
    zero, to, start = zero_of(out), place_of(out), 0
    kind, n_outputs, parameter = type(zero), field(header, "n_outputs"), parameter_of(header, zero)
    room = room_on_stack(2 * size_of(zero) * n_rows * n_outputs)
    x = carray(pointer(scores), (n_rows * n_outputs,), kind)
    result = carray(pointer(to), (n_rows * n_outputs,), kind)
    for group in range(field(header, "n_groups_of")):
        size, n_others = load_int64(field(header, "n_outputs_of") + 8 * group), 0
        below = carray(pointer(room), (n_rows * size,), kind)
        for row in range(n_rows):
            at = row * n_outputs + start
            n_others += _shift(x[at:], below[row * size :], size, parameter)[1]
        if n_others:
            return 0
        powers = room + size_of(zero) * n_rows * size
        fill_exp(header, room, powers, n_rows, size, zero)
        exps = carray(pointer(powers), (n_rows * size,), kind)
        for row in range(n_rows):
            own, at = exps[row * size :], row * n_outputs + start
            total = kind(pairwise(own, size)) if field(header, "is_wide") else _total(own, size)
            _divide(own, result[at:], size, total)
        start += size
    return 1


@by_address
def _softmax_of_halves(header, n_rows, scores, out):
    zero, to, n = zero_of(out), place_of(out), n_rows * field(header, "n_outputs")
    if not is_finite(scores, n, zero):
        return 0
    kind, one = type(zero), type(zero)(1)
    room = room_on_stack(2 * size_of(zero) * n)
    x, below = carray(pointer(scores), (n,), kind), carray(pointer(room), (n,), kind)
    for k in range(n):
        below[k] = -abs(x[k])
    powers = room + size_of(zero) * n
    fill_exp(header, room, powers, n, 1, zero)
    exps, result = carray(pointer(powers), (n,), kind), carray(pointer(to), (n,), kind)
    for k in range(n):
        result[k] = (exps[k] if x[k] < 0 else one) / (exps[k] + one)
    return 1


@by_address
def _softmax_unshifted(header, n_rows, scores, out):
    zero, to, start = zero_of(out), place_of(out), 0
    kind, n_outputs = type(zero), field(header, "n_outputs")
    n = n_rows * n_outputs
    if not is_finite(scores, n, zero):
        return 0
    x, result = carray(pointer(scores), (n,), kind), carray(pointer(to), (n,), kind)
    for k in range(n):
        if x[k] > LARGEST:
            return 0
        result[k] = c_exp(x[k], header)
    for group in range(field(header, "n_groups_of")):
        size = load_int64(field(header, "n_outputs_of") + 8 * group)
        for row in range(n_rows):
            own = result[row * n_outputs + start :]
            factor = kind(1) / _total(own, size)
            for k in range(size):
                own[k] *= factor
        start += size
    return 1


@by_address
def _softmax_zero(header, n_rows, scores, out):
    zero, to, start = zero_of(out), place_of(out), 0
    kind, n_outputs, least = type(zero), field(header, "n_outputs"), type(zero)(1e-7)
    n = n_rows * n_outputs
    if not is_finite(scores, n, zero):
        return 0
    room = room_on_stack(size_of(zero) * (2 * n_outputs + 2))
    x, result = carray(pointer(scores), (n,), kind), carray(pointer(to), (n,), kind)
    for group in range(field(header, "n_groups_of")):
        size = load_int64(field(header, "n_outputs_of") + 8 * group)
        below = carray(pointer(room), (size + 1,), kind)
        powers = room + size_of(zero) * (size + 1)
        exps = carray(pointer(powers), (size + 1,), kind)
        for row in range(n_rows):
            own, goal = x[row * n_outputs + start :], result[row * n_outputs + start :]
            below[size] = -_shift(own, below, size, kind(1))[0]
            fill_exp(header, room, powers, 1, size + 1, zero)
            for k in range(size):
                counts = abs(own[k]) > least
                goal[k] = exps[k] if counts else own[k] * exps[size]
                exps[k] = exps[k] if counts else zero
            _divide(goal, goal, size, _total(exps, size))
        start += size
    return 1


@by_address
def _probit(header, n_rows, scores, out):
    zero, to, one = zero_of(out), place_of(out), np.float32(1)
    spare = room_on_stack(16)
    for k in range(n_rows * field(header, "n_outputs")):
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
def _exponential(header, n_rows, scores, out):
    zero, to, n = zero_of(out), place_of(out), n_rows * field(header, "n_outputs")
    if not is_finite(scores, n, zero):
        return 0
    if field(header, "takes_c_exp"):
        for k in range(n):
            if load_like(scores + size_of(zero) * k, zero) > LARGEST:
                return 0
    fill_exp(header, scores, to, n_rows, field(header, "n_outputs"), zero)
    return 1


@by_address
def _power_of_two(header, n_rows, scores, out):
    zero, to, n = zero_of(out), place_of(out), n_rows * field(header, "n_outputs")
    width, parameter = size_of(zero), parameter_of(header, zero)
    if not is_finite(scores, n, zero):
        return 0
    spare = room_on_stack(width * (n + 1))
    store(spare, type(zero)(2))
    for k in range(n):
        store(spare + width * (k + 1), -load_like(scores + width * k, zero) / parameter)
    function, data = field(header, "power_loop"), field(header, "power_data")
    call_loop_of_two(function, data, n, spare, spare + width, to, zero)
    return 1


@by_address
def _softplus(header, n_rows, scores, out):
    zero, to, n = zero_of(out), place_of(out), n_rows * field(header, "n_outputs")
    width, spare = size_of(zero), room_on_stack(size_of(zero) * n)
    for k in range(n):
        x = load_like(scores + width * k, zero)
        if not abs(x) < np.inf or x > LARGEST:
            return 0
        store(spare + width * k, c_exp(x, header))
    function, data = field(header, "log1p_loop"), field(header, "log1p_data")
    call_loop(function, data, n, spare, to, zero)
    return 1


@by_address
def _signed_square(header, n_rows, scores, out):
    zero, to = zero_of(out), place_of(out)
    for k in range(n_rows * field(header, "n_outputs")):
        x = load_like(scores + size_of(zero) * k, zero)
        store(to + size_of(zero) * k, x * abs(x))
    return 1


@by_address
def _hinge(header, n_rows, scores, out):
    zero, to = zero_of(out), place_of(out)
    for k in range(n_rows * field(header, "n_outputs")):
        x = load_like(scores + size_of(zero) * k, zero)
        store(to + size_of(zero) * k, type(zero)(1) if x > 0 else zero)
    return 1


@by_address
def _at_most_one(header, n_rows, scores, out):
    zero, to = zero_of(out), place_of(out)
    for k in range(n_rows * field(header, "n_outputs")):
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
"""Functions of the header, some rows, the address of their scores, and that of numbers to fill."""

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

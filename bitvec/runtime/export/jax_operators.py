"""Operators of torch's programs as functions of JAX.

XLA does not keep the bits of floats by itself: on a CPU it takes subnormal numbers for zero, rounds
a product and a sum once where it fuses them, drops the addition of a constant 0, and merges
constants of a chain. So floats are compared by their bits, as integers; and arithmetic that must be
rounded as written has a selection between two operations, and before a constant. It never takes its
other side, which no compiler knows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

IN_BOUNDS = lax.GatherScatterMode.PROMISE_IN_BOUNDS
UNROLLED = 16
"""Trees that are added in one step of a loop."""

Function = Callable[..., Any]


def _keys(x: Any) -> Any:
    """Return integers in the order of floats, equal for both zeros; of NaN they mean nothing."""
    bits = lax.bitcast_convert_type(x, jnp.int32 if x.dtype == jnp.float32 else jnp.int64)
    return jnp.where(bits < 0, jnp.iinfo(bits.dtype).min - bits, bits)


def _compares(compare: Function, *, of_nan: bool = False) -> Function:
    def run(x: Any, y: Any) -> Any:
        dtype = jnp.result_type(x, y)
        if not jnp.issubdtype(dtype, jnp.floating):
            return compare(x, y)
        x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
        is_nan, found = jnp.isnan(x) | jnp.isnan(y), compare(_keys(x), _keys(y))
        return found | is_nan if of_nan else found & ~is_nan

    return run


def _plus(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x + y if alpha == 1 else x + alpha * y


def _minus(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x - y if alpha == 1 else x - alpha * y


def _rounded(compute: Function) -> Function:
    """Return arithmetic of two operands that is neither fused nor merged with another."""

    def run(x: Any, y: Any) -> Any:
        if not jnp.issubdtype(jnp.result_type(x, y), jnp.floating):
            return compute(x, y)
        # NaN in either operand makes the other NaN, and the result is NaN anyway.
        x, y = jnp.where(jnp.isnan(y), y, x), jnp.where(jnp.isnan(x), x, y)
        z = compute(x, y)
        return jnp.where(jnp.isnan(z), jnp.nan, z)

    return run


def _clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:  # not by jnp.clip, whose gradient at a bound is not torch's, 1
        x = jnp.where(x < low, low, x)
    return x if high is None else jnp.where(x > high, high, x)


def _take(x: Any, axis: int, index: Any) -> Any:
    return x.at[(slice(None),) * (axis % x.ndim) + (index,)].get(mode=IN_BOUNDS)


def _index(x: Any, indices: Sequence[Any]) -> Any:
    places = tuple(slice(None) if one is None else one for one in indices)
    return x.at[places].get(mode=IN_BOUNDS)


def _index_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    """Add rows of `source` to rows of x, one after the other."""
    assert axis == 0
    if not len(source):
        return x
    never = jnp.isnan(source[0]) & (source[0] == source[0])
    x = jnp.where(never, jnp.nan, x)  # no longer a constant 0, whose addition would be dropped

    def add(total: Any, one: Any) -> tuple[Any, None]:
        place, row = one
        if len(total) == 1:
            return total + row, None
        own = lax.dynamic_index_in_dim(total, place, keepdims=False)
        return lax.dynamic_update_index_in_dim(total, own + row, place, 0), None

    return lax.scan(add, x, (index, source), unroll=UNROLLED)[0]


def _scatter(x: Any, axis: int, index: Any, value: Any) -> Any:
    value = jnp.broadcast_to(jnp.asarray(value, x.dtype), index.shape)
    return jnp.put_along_axis(x, index, value, axis, inplace=False, mode=IN_BOUNDS)


def _scatter_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    places = list(jnp.indices(index.shape, sparse=True))
    places[axis] = index
    return x.at[tuple(places)].add(source, mode=IN_BOUNDS)


def _index_fill(x: Any, axis: int, index: Any, value: Any) -> Any:
    return x.at[(slice(None),) * (axis % x.ndim) + (index,)].set(value, mode=IN_BOUNDS)


def _slice(x: Any, axis: int = 0, start: Any = None, stop: Any = None, step: int = 1) -> Any:
    return x[(slice(None),) * (axis % x.ndim) + (slice(start, stop, step),)]


def _split(x: Any, sizes: Sequence[int], axis: int = 0) -> Any:
    return jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis=axis)


def _unbind(x: Any, axis: int = 0) -> Any:
    return [lax.index_in_dim(x, k, axis, keepdims=False) for k in range(x.shape[axis])]


def _view(x: Any, shape: Sequence[int]) -> Any:
    rest = math.prod(n for n in shape if n != -1)
    return x.reshape([x.size // max(rest, 1) if n == -1 else n for n in shape])


def _flatten(x: Any, first: int = 0, last: int = -1) -> Any:
    end = last % x.ndim + 1
    return x.reshape(*x.shape[:first], math.prod(x.shape[first:end]), *x.shape[end:])


def _expand(x: Any, shape: Sequence[int]) -> Any:
    own = (1,) * (len(shape) - x.ndim) + x.shape
    return jnp.broadcast_to(x, [m if n == -1 else n for n, m in zip(shape, own, strict=True)])


def _sort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    order = jnp.argsort(x, axis=axis, descending=descending, stable=True)
    return jnp.take_along_axis(x, order, axis=axis), order


def _reduces(reduce: Function) -> Function:
    def run(x: Any, axes: Any = None, keepdims: bool = False, **options: Any) -> Any:
        axes = tuple(axes) if isinstance(axes, Sequence) else axes
        return reduce(x, axis=axes or None, keepdims=keepdims)

    return run


def _softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    return jnp.where(beta * x > threshold, x, jnp.logaddexp(beta * x, 0.0) / beta)


def _new(x: Any, shape: Sequence[int], value: Any = 0, dtype: Any = None) -> Any:
    return jnp.full(shape, value, dtype or x.dtype)


_matmul = partial(jnp.matmul, precision=lax.Precision.HIGHEST)

OPERATORS: dict[str, Function] = {
    "__and__": jnp.bitwise_and,
    "__or__": jnp.bitwise_or,
    "__xor__": jnp.bitwise_xor,
    "abs": jnp.abs,
    "add": _plus,
    "addcmul": lambda x, y, z, value=1: x + value * y * z,
    "addmm": lambda x, y, z: x + _matmul(y, z),
    "all": _reduces(jnp.all),
    "amax": _reduces(jnp.max),
    "amin": _reduces(jnp.min),
    "arange": lambda *ends, dtype=None: jnp.arange(*ends, dtype=dtype),
    "argmax": lambda x, axis=None, keepdims=False: jnp.argmax(x, axis=axis, keepdims=keepdims),
    "argsort": lambda x, *, stable=True, dim=-1, descending=False: _sort(x, dim, descending)[1],
    "bitwise_and": jnp.bitwise_and,
    "bitwise_not": jnp.invert,
    "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor,
    "bmm": _matmul,
    "cat": lambda parts, axis=0: jnp.concatenate(parts, axis),
    "clamp": _clamp,
    "clamp_max": lambda x, high: _clamp(x, high=high),
    "clamp_min": _clamp,
    "contiguous": lambda x: x,
    "copysign": jnp.copysign,
    "cumprod": lambda x, axis: jnp.cumprod(x, axis),
    "cumsum": lambda x, axis: jnp.cumsum(x, axis),
    "detach": lax.stop_gradient,
    "diff": lambda x, n=1, axis=-1: jnp.diff(x, n, axis),
    "div": jnp.divide,
    "eq": _compares(operator.eq),
    "exp": jnp.exp,
    "expand": _expand,
    "flatten": _flatten,
    "floor": jnp.floor,
    "full": lambda shape, value, dtype=None: jnp.full(shape, value, dtype),
    "gather": lambda x, axis, index: jnp.take_along_axis(x, index, axis, mode=IN_BOUNDS),
    "ge": _compares(operator.ge),
    "gt": _compares(operator.gt),
    "index": _index,
    "index_add": _index_add,
    "index_fill": _index_fill,
    "index_select": _take,
    "isfinite": jnp.isfinite,
    "isnan": jnp.isnan,
    "le": _compares(operator.le),
    "linear": lambda x, weight, bias=0: _matmul(x, weight.T) + bias,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "lt": _compares(operator.lt),
    "masked_fill": lambda x, mask, value: jnp.where(mask, value, x),
    "matmul": _matmul,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "mul": jnp.multiply,
    "ne": _compares(operator.ne, of_nan=True),
    "neg": jnp.negative,
    "new_full": _new,
    "new_zeros": _new,
    "numpy_T": jnp.transpose,
    "ones": lambda shape, dtype=None: jnp.ones(shape, dtype),
    "ones_like": jnp.ones_like,
    "pow": jnp.power,
    "reciprocal": jnp.reciprocal,
    "relu": jax.nn.relu,
    "repeat": lambda x, counts: jnp.tile(x, counts),
    "reshape": _view,
    "rsub": lambda x, y: y - x,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "searchsorted": lambda line, x, right=False: jnp.searchsorted(
        line, x, "right" if right else "left"
    ),
    "select": lambda x, axis, at: lax.index_in_dim(x, at, axis, keepdims=False),
    "sigmoid": jax.nn.sigmoid,
    "sign": jnp.sign,
    "slice": _slice,
    "softmax": lambda x, axis: jax.nn.softmax(x, axis),
    "softplus": _softplus,
    "sort": _sort,
    "split_with_sizes": _split,
    "sqrt": jnp.sqrt,
    "square": jnp.square,
    "stack": lambda parts, axis=0: jnp.stack(parts, axis),
    "sub": _minus,
    "sum": _reduces(jnp.sum),
    "sym_size": lambda x, axis: x.shape[axis],
    "tanh": jnp.tanh,
    "to": lambda x, dtype: x.astype(dtype),
    "trunc": jnp.trunc,
    "unbind": _unbind,
    "unsqueeze": jnp.expand_dims,
    "view": _view,
    "where": jnp.where,
    "zeros": lambda shape, dtype=None: jnp.zeros(shape, dtype),
    "zeros_like": jnp.zeros_like,
}
"""By the name of torch's operator, without its overload."""

ROUNDED: dict[str, Function] = {
    **{name: _rounded(OPERATORS[name]) for name in ("add", "div", "mul", "sub")},
    "rsub": _rounded(OPERATORS["rsub"]),
    "square": lambda x: _rounded(jnp.multiply)(x, x),
}
"""Arithmetic that is rounded as torch rounds it, operation by operation."""

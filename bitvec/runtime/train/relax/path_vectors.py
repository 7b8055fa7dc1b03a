"""Steps along the paths of soft trees for a run of rows, in LLVM's vector language.

Rows stand in vectors of `LANES`, and a run is a whole number of these. All are float32, but for the
columns of X, which are float64 or float32 as the argument `like` is.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.float_kernels import (
    E2,
    E3,
    E4,
    E5,
    E6,
    E7,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOWEST,
)
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I32,
    address,
    count,
    intrinsic_function,
    load,
    number,
    same,
    splat,
    store,
    vector,
)

LANES = 16
LEAST_SHARE = 1e-30
"""Shares of a row below this count as 0. Products of them would be subnormal numbers, which take a
hundred times as long."""
TERMS = (E7, E6, E5, E4, E3, E2)
ROW = vector(F32, LANES)
SIZE = 4


def _all(value):
    return same(F32, LANES, float(value))


class _Maths:
    """Arithmetic of vectors of float32."""

    def __init__(self, builder) -> None:
        self.builder = builder

    def product(self, a, b):
        return self.builder.fmul(a, b, flags=["contract"])

    def total(self, a, b):
        return self.builder.fadd(a, b, flags=["contract"])

    def difference(self, a, b):
        return self.builder.fsub(a, b, flags=["contract"])

    def multiplied_and_added(self, a, b, c):
        return self.total(self.product(a, b), c)

    def one(self, name: str, a):
        kind = intrinsic_function(self.builder, f"llvm.{name}.v{LANES}f32", ROW, [ROW])
        return self.builder.call(kind, [a])

    def where(self, comparison: str, a, b, yes, no):
        return self.builder.select(self.builder.fcmp_ordered(comparison, a, b), yes, no)

    def flushed(self, share):
        """Return shares, 0 where they are too small; NaN stays."""
        return self.where("<=", share, _all(LEAST_SHARE), _all(0), share)

    def exponential(self, x):
        """Return exp(x) of x at most 0, and 0 below `LOWEST`."""
        lowest = _all(LOWEST)
        u = self.where(">", x, lowest, x, lowest)
        k = self.one("floor", self.multiplied_and_added(u, _all(LOG2_E), _all(0.5)))
        r = self.difference(u, self.product(k, _all(LN2_HIGH)))
        r = self.difference(r, self.product(k, _all(LN2_LOW)))
        series = _all(TERMS[0])
        for term in TERMS[1:]:
            series = self.multiplied_and_added(series, r, _all(term))
        small = self.multiplied_and_added(self.product(series, r), r, self.total(r, _all(1)))
        whole = self.builder.fptosi(k, vector(I32, LANES))
        bits = self.builder.shl(
            self.builder.add(whole, same(I32, LANES, 127)), same(I32, LANES, 23)
        )
        scaled = self.product(small, self.builder.bitcast(bits, ROW))
        return self.where(">=", x, lowest, scaled, _all(0))

    def turns(self, m):
        """Return sigmoid(−m) and sigmoid(m); the lesser is not 1 less the other, which rounds.

        Both are NaN where m is.
        """
        small = self.exponential(self.builder.fneg(self.one("fabs", m)))
        lesser = self.builder.fdiv(small, self.total(_all(1), small))
        greater = self.difference(_all(1), lesser)
        greater = self.builder.select(self.builder.fcmp_unordered("uno", m, m), m, greater)
        zero = _all(0)
        left = self.where(">", m, zero, lesser, greater)
        return left, self.where("<=", m, zero, lesser, greater)


class _Rows:
    """Loads, stores and numbers of all lanes at the rows from `at` on."""

    def __init__(self, builder, at) -> None:
        self.builder = builder
        self.bytes = builder.mul(at, number(SIZE))

    def load(self, base):
        return load(self.builder, base, self.bytes, ROW)

    def store(self, value, base) -> None:
        store(self.builder, value, base, self.bytes)


def _turned(builder, rows: _Rows, m, left, right, here, low, high) -> None:
    """Store both shares at a node, and the shares of the rows that reach its children."""
    maths = _Maths(builder)
    to_left, to_right = maths.turns(m)
    rows.store(to_left, left)
    rows.store(to_right, right)
    reached = rows.load(here)
    rows.store(maths.flushed(maths.product(reached, to_left)), low)
    rows.store(maths.flushed(maths.product(reached, to_right)), high)


@intrinsic
def turn_by_column(
    typing_context,
    x,
    b,
    cut,
    inverse,
    moved,
    at_equal,
    missing,
    gamma,
    n,
    left,
    right,
    here,
    low,
    high,
):
    """Fill the shares at a node that compares a column, and those of its children.

    Parameters
    ----------
    x : address of n values, F
    b, cut, inverse : F
        Threshold, how far the soft one lies below, and 1 over the margin scale.
    moved, at_equal, missing, gamma : float32
        By how much the threshold has moved: m = gamma · ((x − b + cut) · inverse − moved). What
        margins of 0, and of missing values, count as.
    n : int
        Rows.
    left, right, here, low, high : addresses of float32, (n,)
        Shares at the node, filled; of the rows that reach it, and its children, which are filled.
    """

    def generate(context, builder, signature, arguments):
        x, *numbers = arguments[:8]
        n, left, right, here, low, high = arguments[8:]
        b, cut, inverse, moved, at_equal, missing, gamma = (
            splat(builder, one, LANES) for one in numbers
        )
        wide = numbers[0].type
        size = 8 if wide == F64 else 4

        def body(at, _):
            rows, maths = _Rows(builder, at), _Maths(builder)
            value = load(builder, x, builder.mul(at, number(size)), vector(wide, LANES))
            m = builder.fmul(builder.fadd(builder.fsub(value, b), cut), inverse)
            m = m if wide == F32 else builder.fptrunc(m, ROW)
            m = maths.difference(m, moved)
            m = maths.where("==", m, _all(0), at_equal, m)
            m = builder.select(builder.fcmp_unordered("uno", value, value), missing, m)
            _turned(builder, rows, builder.fmul(m, gamma), left, right, here, low, high)

        count(builder, number(0), n, body, LANES)
        return context.get_dummy_value()

    numbers = [b, b, b, *[types.float32] * 4]
    return types.void(address, *numbers, *[address] * 6), generate


@intrinsic
def turn_by_margin(typing_context, margin, at_equal, gamma, n, left, right, here, low, high):
    """Fill the same of a node whose margins, but for gamma, are given at an address."""

    def generate(context, builder, signature, arguments):
        margin, at_equal, gamma, n, left, right, here, low, high = arguments
        at_equal, gamma = (splat(builder, one, LANES) for one in (at_equal, gamma))

        def body(at, _):
            rows = _Rows(builder, at)
            m = rows.load(margin)
            m = _Maths(builder).where("==", m, _all(0), at_equal, m)
            _turned(builder, rows, builder.fmul(m, gamma), left, right, here, low, high)

        count(builder, number(0), n, body, LANES)
        return context.get_dummy_value()

    return types.void(address, types.float32, types.float32, *[address] * 6), generate


@intrinsic
def take_turns(typing_context, here, left, right, n, low, high):
    """Fill how far rows reach the children of a node, from their shares at it."""

    def generate(context, builder, signature, arguments):
        here, left, right, n, low, high = arguments
        maths = _Maths(builder)

        def body(at, _):
            rows = _Rows(builder, at)
            reached = rows.load(here)
            rows.store(maths.flushed(maths.product(reached, rows.load(left))), low)
            rows.store(maths.flushed(maths.product(reached, rows.load(right))), high)

        count(builder, number(0), n, body, LANES)
        return context.get_dummy_value()

    return types.void(*[address] * 6), generate


@intrinsic
def add_leaf(typing_context, share, factor, n, total):
    """Add a number times the shares at a leaf to a total."""

    def generate(context, builder, signature, arguments):
        share, factor, n, total = arguments
        factor = splat(builder, factor, LANES)

        def body(at, _):
            rows = _Rows(builder, at)
            after = _Maths(builder).multiplied_and_added(rows.load(share), factor, rows.load(total))
            rows.store(after, total)

        count(builder, number(0), n, body, LANES)
        return context.get_dummy_value()

    return types.void(address, types.float32, address, address), generate


@intrinsic
def flow_of_leaf(typing_context, share, factor, wanted, n, is_first, flow):
    """Add share · wanted · factor to the flow, set by the first output; return Σ share · wanted.

    Parameters
    ----------
    factor : float32
        The leaf's value.
    wanted : address of float32, (n,)
        The gradient to an output.
    """

    def generate(context, builder, signature, arguments):
        share, factor, wanted, n, is_first, flow = arguments
        maths = _Maths(builder)
        factor = splat(builder, factor, LANES)
        first = splat(builder, builder.icmp_signed("!=", is_first, number(0)), LANES)

        def body(at, sums):
            rows = _Rows(builder, at)
            part = maths.product(rows.load(share), rows.load(wanted))
            before = builder.select(first, _all(0), rows.load(flow))
            rows.store(maths.multiplied_and_added(part, factor, before), flow)
            return [maths.total(sums[0], part)]

        return _sum(builder, count(builder, number(0), n, body, LANES, [_all(0)])[0])

    return types.float32(address, types.float32, address, address, address, address), generate


@intrinsic
def carry_up(typing_context, low, high, left, right, gamma, n, flow, slope):
    """Fill a node's flow and the gradient to its margins, of which the sum is returned.

    Notes
    -----
    The flow A of a turn is the sum of u · du over the leaves below it, that of a node is the sum
    of both, and dm = gamma · (A_right · s(−m) − A_left · s(m)).
    """

    def generate(context, builder, signature, arguments):
        low, high, left, right, gamma, n, flow, slope = arguments
        maths, gamma = _Maths(builder), splat(builder, gamma, LANES)

        def body(at, sums):
            rows = _Rows(builder, at)
            below, above = rows.load(low), rows.load(high)
            rows.store(maths.total(below, above), flow)
            to_right = maths.product(below, rows.load(right))
            found = maths.difference(maths.product(above, rows.load(left)), to_right)
            found = maths.product(found, gamma)
            rows.store(found, slope)
            return [maths.total(sums[0], found)]

        return _sum(builder, count(builder, number(0), n, body, LANES, [_all(0)])[0])

    return types.float32(*[address] * 4, types.float32, *[address] * 3), generate


def _sum(builder, parts):
    """Return the sum of all lanes, half to half."""
    width = LANES
    while width > 1:
        width //= 2
        lanes = [*range(width)]
        low = builder.shuffle_vector(parts, parts, ir.Constant(vector(I32, width), lanes))
        high = builder.shuffle_vector(
            parts, parts, ir.Constant(vector(I32, width), [lane + width for lane in lanes])
        )
        parts = builder.fadd(low, high)
    return builder.extract_element(parts, ir.Constant(I32, 0))

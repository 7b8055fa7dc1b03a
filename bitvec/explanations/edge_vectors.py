"""Steps along an edge for 64 rows, in LLVM's vector language.

Rows stand in 8 vectors of 8 float64; P or G at one depth is float64 (n_points, 8, 8). States are
64 bits, one a row. What an edge needs not is left out: a mask of the edges above of the same
feature where there are none, a scale where it is 1. Code is made twice for each step, since it is
the first 8 rows alone that count where `few`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache

from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.vectors import (
    F64,
    I1,
    I8,
    I64,
    address,
    count,
    load,
    number,
    same,
    shuffle,
    splat,
    store,
    vector,
)

ROWS, LANES = 64, 8
VECTORS = ROWS // LANES
POINT = 8 * ROWS
"""Bytes of P at one point."""
COEFFICIENTS = 5
"""Coefficients of a point, as `edge_steps.COEFFICIENTS`: those of P, and those of what is added."""
YES, NO, DEAD, PSI_YES, PSI_NO = range(COEFFICIENTS)
RECORD = 8 * COEFFICIENTS
"""Bytes of the coefficients of a point."""


@intrinsic
def outcome(typing_context, byte, least):
    """Return the bits of 64 rows: whether the byte of each, at an address, is at least `least`."""

    def generate(context, builder, signature, arguments):
        found = load(builder, arguments[0], number(0), vector(I8, ROWS))
        wanted = splat(builder, builder.trunc(arguments[1], I8), ROWS)
        return builder.bitcast(builder.icmp_unsigned(">=", found, wanted), I64)

    return types.int64(address, types.int64), generate


class _Rows:
    """Emission of code for 64 rows: loads, masks, choices between the coefficients of a point."""

    def __init__(
        self, builder, n_vectors, coefficients, n_points, state, above, n_coefficients=COEFFICIENTS
    ) -> None:
        self.builder, self.coefficients, self.n_points = builder, coefficients, n_points
        self.vectors = range(n_vectors)
        self.record = 8 * n_coefficients
        self.goes = self._masks(state)
        self.went = None if above is None else self._masks(above)

    def _masks(self, state):
        bits = self.builder.bitcast(state, vector(I1, ROWS))
        lanes = [[*range(LANES * k, LANES * (k + 1))] for k in self.vectors]
        return [shuffle(self.builder, bits, bits, part) for part in lanes]

    def coefficient(self, i, which):
        offset = self.builder.add(self.builder.mul(i, number(self.record)), number(8 * which))
        return splat(self.builder, load(self.builder, self.coefficients, offset, F64), LANES)

    def chosen(self, k, yes, no, neither):
        """Return a coefficient of the rows of vector k, by their states."""
        if self.went is not None:
            no = self.builder.select(self.went[k], no, neither)
        return self.builder.select(self.goes[k], yes, no)

    def load(self, base, i, k):
        return load(self.builder, base, self.place(i, k), vector(F64, LANES))

    def store(self, value, base, i, k) -> None:
        store(self.builder, value, base, self.place(i, k))

    def place(self, i, k):
        return self.builder.add(self.builder.mul(i, number(POINT)), number(8 * LANES * k))

    def each_point(self, body, carried=()):
        return count(self.builder, number(0), self.n_points, body, carried=carried)


def _for_all_or_few(emit):
    """Return what generates code for all rows, and for the first vector, by the last argument."""

    def generate(context, builder, signature, arguments):
        *given, few = arguments
        with builder.if_else(builder.icmp_signed("!=", few, number(0))) as (first, every):
            with first:
                emit(builder, 1, *given)
            with every:
                emit(builder, VECTORS, *given)
        return context.get_dummy_value()

    return generate


@cache
def down(repeated: bool):
    """Return what fills P at `target` with P at `source` times the edge's factor."""

    @intrinsic
    def go_down(typing_context, source, target, coefficients, n_points, state, above, few):
        def emit(builder, n_vectors, source, target, coefficients, n_points, state, above):
            rows = _Rows(
                builder, n_vectors, coefficients, n_points, state, above if repeated else None
            )

            def at_point(i, _):
                yes, no, dead = (rows.coefficient(i, which) for which in (YES, NO, DEAD))
                for k in rows.vectors:
                    p = builder.fmul(rows.load(source, i, k), rows.chosen(k, yes, no, dead))
                    rows.store(p, target, i, k)

            rows.each_point(at_point)

        return types.void(*(address,) * 4, *(types.int64,) * 3), _for_all_or_few(emit)

    return go_down


@cache
def up(repeated: bool, leaf: bool, first: bool):
    """Return what carries G at `source` up, and adds what the edge adds to 64 totals.

    At a leaf of value `value`, `source` is the P above the edge. G at `target` is set by the first
    edge below a node, and added to by the second.
    """

    @intrinsic
    def go_up(
        typing_context, source, target, coefficients, n_points, state, above, value, total, few
    ):
        def emit(
            builder, n_vectors, source, target, coefficients, n_points, state, above, value, total
        ):
            rows = _Rows(
                builder, n_vectors, coefficients, n_points, state, above if repeated else None
            )
            values, zeros = splat(builder, value, LANES), same(F64, LANES, 0.0)

            def at_point(i, totals):
                yes, no = (rows.coefficient(i, which) for which in (PSI_YES, PSI_NO))
                if leaf:
                    factors = [rows.coefficient(i, which) for which in (YES, NO, DEAD)]
                    factors = [builder.fmul(factor, values) for factor in factors]
                found = []
                for k in rows.vectors:
                    g = rows.load(source, i, k)
                    g = builder.fmul(g, rows.chosen(k, *factors)) if leaf else g
                    here = g if first else builder.fadd(rows.load(target, i, k), g)
                    rows.store(here, target, i, k)
                    psi = rows.chosen(k, yes, no, zeros)
                    found.append(_multiply_add(builder, g, psi, totals[k]))
                return found

            zero = number(0)
            before = [rows.load(total, zero, k) for k in rows.vectors]
            for k, sums in enumerate(rows.each_point(at_point, before)):
                rows.store(sums, total, zero, k)

        integers = (types.int64, types.int64)
        return types.void(
            *(address,) * 4, *integers, types.float64, address, types.int64
        ), _for_all_or_few(emit)

    return go_up


@cache
def added(leaf: bool):
    """Return what keeps at each point what an edge adds to its feature; `source` as for `up`."""

    @intrinsic
    def keep_added(
        typing_context, source, target, coefficients, n_points, state, above, value, few
    ):
        def emit(builder, n_vectors, source, target, coefficients, n_points, state, above, value):
            rows = _Rows(builder, n_vectors, coefficients, n_points, state, above)
            values, zeros = splat(builder, value, LANES), same(F64, LANES, 0.0)

            def at_point(i, _):
                factors = [rows.coefficient(i, which) for which in (YES, NO, DEAD)]
                factors = [builder.fmul(factor, values) for factor in factors]
                yes, no = (rows.coefficient(i, which) for which in (PSI_YES, PSI_NO))
                for k in rows.vectors:
                    g = rows.load(source, i, k)
                    g = builder.fmul(g, rows.chosen(k, *factors)) if leaf else g
                    rows.store(builder.fmul(g, rows.chosen(k, yes, no, zeros)), target, i, k)

            rows.each_point(at_point)

        integers = (types.int64, types.int64)
        return types.void(*(address,) * 4, *integers, types.float64, types.int64), _for_all_or_few(
            emit
        )

    return keep_added


@intrinsic
def add_pair(typing_context, source, psi, n_points, state, total, few):
    """Add to 64 totals the sum over points of what was kept times psi of another edge.

    `psi` is the address of float64 (n_points, 2): where the row goes along that edge, or not.
    """

    def emit(builder, n_vectors, source, psi, n_points, state, total):
        rows = _Rows(builder, n_vectors, psi, n_points, state, None, n_coefficients=2)

        def at_point(i, totals):
            yes, no = rows.coefficient(i, 0), rows.coefficient(i, 1)
            return [
                _multiply_add(builder, rows.load(source, i, k), rows.chosen(k, yes, no, None), sums)
                for k, sums in enumerate(totals)
            ]

        zero = number(0)
        before = [rows.load(total, zero, k) for k in rows.vectors]
        for k, sums in enumerate(rows.each_point(at_point, before)):
            rows.store(sums, total, zero, k)

    return types.void(*(address,) * 3, types.int64, address, types.int64), _for_all_or_few(emit)


def _multiply_add(builder, a, b, c):
    """Return a b + c, in one instruction where the processor has it."""
    product = builder.fmul(a, b, flags=["contract"])
    return builder.fadd(product, c, flags=["contract"])

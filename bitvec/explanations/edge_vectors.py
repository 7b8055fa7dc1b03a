"""Steps along an edge for 64 rows, in LLVM's vector language.

Rows stand in 8 vectors of 8 float64; the array of P or G at one depth holds, for each of the 8,
a vector a point: float64 (8, n_points, 8). States are 64 bits of an int64, one a row.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

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
    place,
    same,
    splat,
    store,
    vector,
)

ROWS, LANES = 64, 8
VECTOR = 8 * LANES
"""Bytes of a vector."""
RECORD = 5 * 8
"""Bytes of the coefficients of one point; see `edge_steps.COEFFICIENTS`."""
YES, NO, DEAD, PSI_YES, PSI_NO = (8 * k for k in range(5))


@intrinsic
def outcome(typing_context, byte, least):
    """Return the bits of 64 rows: whether the byte of each, at an address, is at least `least`."""

    def generate(context, builder, signature, arguments):
        found = load(builder, arguments[0], number(0), vector(I8, ROWS))
        wanted = splat(builder, builder.trunc(arguments[1], I8), ROWS)
        return builder.bitcast(builder.icmp_unsigned(">=", found, wanted), I64)

    return types.int64(address, types.int64), generate


def _mask(builder, state, k):
    """Return the bits of the rows 8k ... 8k + 7 as a mask of lanes."""
    shifted = builder.lshr(state, builder.mul(k, number(LANES)))
    return builder.bitcast(builder.trunc(shifted, I8), vector(I1, LANES))


def _coefficient(builder, record, offset):
    return splat(builder, builder.load(place(builder, record, number(offset), F64), align=8), LANES)


def _each_point(builder, coefficients, n_points, k, body, carried=()):
    """Emit `for point: carried = body(its record, offset of its vector, carried)`."""

    def at(i, held):
        record = builder.add(coefficients, builder.mul(i, number(RECORD)))
        row = builder.add(builder.mul(k, n_points), i)
        return body(record, builder.mul(row, number(VECTOR)), held)

    return count(builder, number(0), n_points, at, carried=carried)


@intrinsic
def down(typing_context, source, target, coefficients, n_points, state, above):
    """Fill P at `target` with P at `source` times the edge's factor, by the rows' states."""

    def generate(context, builder, signature, arguments):
        source, target, coefficients, n_points, state, above = arguments

        def of_rows(k, _):
            goes, went = _mask(builder, state, k), _mask(builder, above, k)

            def at_point(record, offset, _):
                yes, no, dead = (_coefficient(builder, record, c) for c in (YES, NO, DEAD))
                factor = builder.select(goes, yes, builder.select(went, no, dead))
                p = load(builder, source, offset, vector(F64, LANES))
                store(builder, builder.fmul(p, factor), target, offset)

            _each_point(builder, coefficients, n_points, k, at_point)

        count(builder, number(0), number(ROWS // LANES), of_rows)
        return context.get_dummy_value()

    return types.void(*(address,) * 4, types.int64, types.int64), generate


def _up(is_first: bool):
    @intrinsic
    def up(typing_context, source, target, coefficients, n_points, state, above, scale, total):
        """Carry `scale` times the G at `source` up, and add what the edge adds to 64 totals.

        G at `target` is set by the first edge below a node, and added to by the second.
        """

        def generate(context, builder, signature, arguments):
            source, target, coefficients, n_points, state, above, scale, total = arguments
            scales = splat(builder, scale, LANES)
            zeros = same(F64, LANES, 0.0)

            def of_rows(k, _):
                goes, went = _mask(builder, state, k), _mask(builder, above, k)

                def at_point(record, offset, held):
                    g = load(builder, source, offset, vector(F64, LANES))
                    g = builder.fmul(g, scales)
                    yes, no = (_coefficient(builder, record, c) for c in (PSI_YES, PSI_NO))
                    psi = builder.select(goes, yes, builder.select(went, no, zeros))
                    if is_first:
                        store(builder, g, target, offset)
                    else:
                        before = load(builder, target, offset, vector(F64, LANES))
                        store(builder, builder.fadd(before, g), target, offset)
                    return [_multiply_add(builder, g, psi, held[0])]

                offset = builder.mul(k, number(VECTOR))
                before = load(builder, total, offset, vector(F64, LANES))
                sums = _each_point(builder, coefficients, n_points, k, at_point, [before])
                store(builder, sums[0], total, offset)

            count(builder, number(0), number(ROWS // LANES), of_rows)
            return context.get_dummy_value()

        return (
            types.void(*(address,) * 4, types.int64, types.int64, types.float64, address),
            generate,
        )

    return up


def _multiply_add(builder, a, b, c):
    """Return a b + c, in one instruction where the processor has it."""
    product = builder.fmul(a, b, flags=["contract"])
    return builder.fadd(product, c, flags=["contract"])


up_first, up_second = _up(True), _up(False)

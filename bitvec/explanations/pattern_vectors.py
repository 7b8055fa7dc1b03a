"""Patterns of 64 rows, and values that are looked up by them, in LLVM's vector language.

A pattern is a byte whose bits say which of some features, or of the tests of some nodes, a row
satisfies.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.bitvector import grouped_values
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.vectors import (
    F64,
    I8,
    I32,
    I64,
    address,
    count,
    load,
    number,
    splat,
    store,
    vector,
)

LANES = 64
MOST_BITS = 8
"""Bits of a pattern that is one byte."""
LOW, WIDTH, BIT = range(3)
"""Fields of a test, uint8: a bit is satisfied by a row if in all its tests the row's byte of the
binned column lies in [low, low + width)."""
TEST = 3
"""Bytes of a test, its binned column apart."""
PLANES = grouped_values.by_planes(MOST_BITS)
"""True where values stand in planes of bytes or words, and are looked up in registers."""


@intrinsic
def fill_patterns(typing_context, rows, room, column, tests, n_tests, full, pattern, n_rows):
    """Fill the patterns of n_rows rows, a multiple of 64: `full` without the bits of failed tests.

    `rows`, `column` (int32, of each test), `tests` and `pattern` are addresses. Of the number of a
    bit the lowest 3 bits count.
    """

    def generate(context, builder, signature, arguments):
        rows, room, column, tests, n_tests, full, pattern, n_rows = arguments
        kind = vector(I8, LANES)
        whole = splat(builder, builder.trunc(full, I8), LANES)

        def at_rows(row, _):
            def at_test(test, carried):
                at = builder.zext(load(builder, column, builder.mul(test, number(4)), I32), I64)
                found = load(builder, rows, builder.add(builder.mul(at, room), row), kind)
                record = builder.add(tests, builder.mul(test, number(TEST)))
                low, width, bit = (load(builder, record, number(k), I8) for k in range(TEST))
                found = builder.sub(found, splat(builder, low, LANES))
                holds = builder.icmp_unsigned("<", found, splat(builder, width, LANES))
                mask = builder.shl(I8(1), builder.and_(bit, I8(MOST_BITS - 1)))
                failed = builder.and_(carried[0], splat(builder, builder.not_(mask), LANES))
                return [builder.select(holds, carried[0], failed)]

            satisfied = count(builder, number(0), n_tests, at_test, carried=[whole])
            store(builder, satisfied[0], pattern, row)

        count(builder, number(0), n_rows, at_rows, step=LANES)
        return context.get_dummy_value()

    return types.void(*(address,) * 8), generate


@intrinsic(prefer_literal=True)
def add_looked_up(typing_context, values, pattern, total, n_rows, bits):
    """Add values[pattern[i]] to total[i] for n_rows rows, a multiple of 64, all float64.

    `values` is a table of `grouped_values.table_places(bits)`, in planes or not; `bits` is a
    literal.
    """
    bits = bits.literal_value

    def generate(context, builder, signature, arguments):
        values, pattern, total, n_rows = arguments[:4]
        kind = vector(F64, 8)

        def at_rows(row, _):
            if PLANES:
                where = load(builder, pattern, row, vector(I8, LANES))
                found = grouped_values.looked_up(builder, values, where, 8, bits)
            else:
                first = [builder.add(row, number(k)) for k in range(0, LANES, 8)]
                found = [leaf_tables.loaded(builder, values, pattern, k, kind, I8) for k in first]
            for k, value in enumerate(found):
                at = builder.add(builder.mul(row, number(8)), number(64 * k))
                added = builder.fadd(load(builder, total, at, kind), builder.bitcast(value, kind))
                store(builder, added, total, at)

        count(builder, number(0), n_rows, at_rows, step=LANES)
        return context.get_dummy_value()

    return types.void(*(address,) * 4, types.IntegerLiteral(bits)), generate

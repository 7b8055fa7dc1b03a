"""Bins of values among a column's thresholds: how many of them each value reaches.

Values are searched in registers where AVX-512 looks 16 of them up at once or AVX2 looks 8 up, else
from a table of buckets.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from functools import partial

import numpy as np
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import load_int64
from bitvec.runtime.predict.cpu.keys import key_of_bits
from bitvec.runtime.predict.cpu.target import permuted_words
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    I1,
    I8,
    I16,
    I32,
    address,
    count,
    intrinsic_function,
    load,
    number,
    same,
    shuffle,
    splat,
    store,
    vector,
)

FEW = 4
"""Thresholds up to which a value is compared with each."""
LEVELS = 8
"""Thresholds that fit the registers: less than 2 to this power."""
_SIGNLESS, _INFINITY = 0x7FFFFFFF, 0x7F800000
_LOWEST = -(2**31)


STEP = 64
"""Values are searched so many at a time, at least."""
LANES = permuted_words() or 16
"""Values of a vector."""
_FEW_IN_FLIGHT = 4
_IN_FLIGHT = (
    {3: 8, 4: 8, 5: 8, 6: 8, 7: 4, 8: 4} if LANES == 16 else dict.fromkeys(range(3, LEVELS + 1), 4)
)
"""Vectors searched in step, by levels: as many as the registers hold."""
_PERMUTE = {16: "llvm.x86.avx512.permvar.si.512", 8: "llvm.x86.avx2.permd"}


def _make_search(ties: bool):
    """Make a search of n values among up to 255 thresholds that stand in registers.

    n is a multiple of `STEP`. The thresholds, floats, form a search tree stored level by level:
    slot 1 is the root, 2i and 2i + 1 are the children of i. With negative `levels` they are so few,
    from slot 0 on, and a value is compared with each. No value reaches a threshold that is NaN, and
    NaN reaches none. With `ties`, a bit per value says whether it equals a threshold.
    """

    @intrinsic
    def search(typing_context, values, n, table, levels, bins, tied):
        def generate(context, builder, signature, arguments):
            values, n, table, levels, bins, tied = arguments
            kind, floats = vector(I32, LANES), vector(F32, LANES)
            permute = intrinsic_function(builder, _PERMUTE[LANES], kind, [kind, kind])

            def entry(registers, level, index):
                first = (1 << level) // LANES
                if first <= 1:
                    return builder.call(permute, [registers[first], index])
                own = registers[first : 2 * first]
                if LANES == 16:
                    name = "llvm.x86.avx512.vpermi2var.d.512"
                    pair = intrinsic_function(builder, name, kind, [kind, kind, kind])
                    found = [
                        builder.call(pair, [own[k], index, own[k + 1]]) for k in range(0, first, 2)
                    ]
                else:
                    found = [builder.call(permute, [register, index]) for register in own]
                bit = LANES * first // len(found)
                while len(found) > 1:
                    # A bit that is moved to the sign selects without a comparison.
                    moved = builder.shl(index, same(I32, LANES, 32 - bit.bit_length()))
                    upper = builder.icmp_signed("<", moved, same(I32, LANES, 0))
                    found = [
                        builder.select(upper, found[k + 1], found[k])
                        for k in range(0, len(found), 2)
                    ]
                    bit *= 2
                return found[0]

            def descended(xs, depth, registers):
                """Return how many thresholds values reach, and which of them last."""
                index = [same(I32, LANES, 1)] * len(xs)
                reached = [same(F32, LANES, float("nan"))] * len(xs)
                for level in range(depth):
                    pivot = [builder.bitcast(entry(registers, level, i), floats) for i in index]
                    for u, x in enumerate(xs):
                        right = builder.fcmp_ordered(">=", x, pivot[u])
                        if ties:
                            reached[u] = builder.select(right, pivot[u], reached[u])
                        twice = builder.add(index[u], index[u])
                        index[u] = builder.sub(twice, builder.sext(right, kind))
                found = [builder.sub(i, same(I32, LANES, 1 << depth)) for i in index]
                pairs = zip(reached, xs, strict=True)
                return found, [builder.fcmp_ordered("==", *pair) for pair in pairs]

            def counted(xs, pivots):
                """The same of a few thresholds, of which values are compared with each."""
                found, equal = [same(I32, LANES, 0)] * len(xs), [same(I1, LANES, 0)] * len(xs)
                for pivot in pivots:
                    for u, x in enumerate(xs):
                        reaches = builder.fcmp_ordered(">=", x, pivot)
                        found[u] = builder.sub(found[u], builder.sext(reaches, kind))
                        equal[u] = builder.or_(equal[u], builder.fcmp_ordered("==", x, pivot))
                return found, equal

            def run(flight, search):
                """Search all values, so many vectors in step."""

                def body(k, _, flight):
                    at = [builder.add(k, number(LANES * u)) for u in range(flight)]
                    xs = [
                        load(builder, values, builder.mul(place, number(4)), floats) for place in at
                    ]
                    found, equal = search(xs)
                    while found[0].type.count < 16:
                        found, equal = _joined(builder, found), _joined(builder, equal)
                    for u, bin in enumerate(found):
                        first = builder.add(k, number(16 * u))
                        store(builder, builder.trunc(bin, vector(I8, 16)), bins, first)
                        if ties:
                            offset = builder.udiv(first, number(8))
                            store(builder, builder.bitcast(equal[u], I16), tied, offset)

                whole = builder.and_(n, number(-LANES * flight))
                count(builder, number(0), whole, partial(body, flight=flight), step=LANES * flight)
                if LANES * flight > STEP:
                    rest = partial(body, flight=STEP // LANES)
                    count(builder, whole, n, rest, step=STEP)

            end = builder.append_basic_block("end")
            cases = {
                levels: builder.append_basic_block("search")
                for levels in (*range(-FEW, 0), *_IN_FLIGHT)
            }
            switch = builder.switch(levels, cases[LEVELS])
            for own, block in cases.items():
                if own < LEVELS:
                    switch.add_case(number(own), block)
                builder.position_at_end(block)
                if own < 0:
                    ones = [load(builder, table, number(4 * k), F32) for k in range(-own)]
                    pivots = [splat(builder, one, LANES) for one in ones]
                    run(_FEW_IN_FLIGHT, partial(counted, pivots=pivots))
                else:
                    registers = [
                        load(builder, table, number(4 * LANES * k), kind)
                        for k in range(max(1, (1 << own) // LANES))
                    ]
                    run(_IN_FLIGHT[own], partial(descended, depth=own, registers=registers))
                builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        return types.void(address, address, address, address, address, address), generate

    return search


def _joined(builder, vectors):
    """Return vectors of twice the lanes, each of two that follow each other."""
    lanes = list(range(2 * vectors[0].type.count))
    return [
        shuffle(builder, *pair, lanes) for pair in zip(vectors[::2], vectors[1::2], strict=True)
    ]


search = _make_search(ties=False)
search_ties = _make_search(ties=True)


@inner
def _key32(bits):
    if (bits & np.int32(_SIGNLESS)) > np.int32(_INFINITY):
        return np.int32(_LOWEST)
    return np.int32(key_of_bits(bits, np.int32(31), np.int32(_SIGNLESS)))


@inner
def _key64(bits):
    if (bits & np.int64(0x7FFFFFFFFFFFFFFF)) > np.int64(0x7FF0000000000000):
        return np.int64(-0x8000000000000000)
    return key_of_bits(bits, 63, np.int64(0x7FFFFFFFFFFFFFFF))


@inner
def search_buckets(values, n, scale, lookup, sorted_keys, buckets, bins):
    """Fill `bins` from a table of buckets: each bucket begins with the bin of those below it.

    A value's bucket is monotone in the value, so that thresholds of lower buckets are reached;
    those of its own bucket are compared one by one. `sorted_keys` ends with a key above all.
    """
    low, high, factor = scale[0], scale[1], scale[2]
    bits = values.view(np.int32)
    for k in range(n):
        x = values[k]
        x = x if x > low else low
        x = x if x < high else high
        buckets[k] = np.int32((x - low) * factor)
    for k in range(n):
        bin = np.int64(lookup[np.uint64(buckets[k])])
        key = _key32(bits[k])
        while key >= sorted_keys[np.uint64(bin)]:
            bin += 1
        bins[k] = bin


@inner
def correct(x, row_stride, values, n, sorted32, sorted64, bins):
    """Correct the bins of float64 values whose rounding to float32 equals that of a threshold."""
    bits = values.view(np.int32)
    for k in range(n):
        bin = np.int64(bins[k])
        if bin > 0 and sorted32[bin - 1] == _key32(bits[k]):
            key = _key64(load_int64(x + k * row_stride))
            while bin > 0 and key < sorted64[bin - 1]:
                bin -= 1
            bins[k] = bin


@inner
def correct_marked(x, row_stride, values, n, sorted32, sorted64, tied, bins):
    """`correct` for the groups of 16 rows in which a bit of `tied` is set."""
    for group in range((n + 15) // 16):
        if tied[group]:
            k = group * 16
            correct(
                x + k * row_stride, row_stride, values[k:], min(16, n - k), sorted32, sorted64,
                bins[k:],
            )  # fmt: skip

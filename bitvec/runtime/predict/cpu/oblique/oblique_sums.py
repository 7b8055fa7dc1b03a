"""Rows of S times blocks of rows of X: exact sums, in the order of storage, with rows in the lanes.

A lane is one row of X. So a vector does for many rows what the reference does for each: multiply,
round, add, round, entry by entry. No sum is reordered and nothing is fused, so nothing has to be
decided again, as it would have to be near b after a product by BLAS. Nor is that faster where the
processor adds while it multiplies: on a Zen 4 processor these sums take 0.25 to 1.05 times the time
of NumPy's product, for 10 to 200 columns, and no threads of a library get in the way of ours.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import partial

from numba import types

from bitvec.runtime.predict.cpu.oblique.turning import VECTOR, emitted
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I8,
    I64,
    address,
    count,
    load,
    number,
    same,
    splat,
    store,
    vector,
)

CHUNK = 256
"""Bytes of a column in a chunk of rows: 64 float32 or 32 float64, four vectors."""
TILE = 4
"""Rows of S that are summed at a time where they read the same columns."""

PREDICATES = {
    (False, False): (">", "fcmp_ordered"),
    (False, True): (">", "fcmp_unordered"),
    (True, False): (">=", "fcmp_ordered"),
    (True, True): (">=", "fcmp_unordered"),
}
"""By [z >= b and not z > b] and [NaN goes right]: unordered comparisons hold for NaN."""


def _shape(size: int):
    return (F32 if size == 4 else F64), VECTOR // size


@emitted
def sums(typing_context, x, offsets, weights, n_entries, z, n_rows, size):
    """Sum `n_rows` rows of S over a chunk of rows of X.

    Entry j of all these rows reads the column at `x + offsets[j]` bytes; their weights for it stand
    side by side. The sums of row k go to `z + k * CHUNK`. `n_rows` and `size`, the bytes of a
    value, are literals. Cost: a multiplication and an addition for each entry and vector.
    """
    literals = n_rows, size
    n_rows, size = (literal.literal_value for literal in literals)
    element, lanes = _shape(size)
    # Sums that do not fit the registers would be kept in memory.
    n_vectors = CHUNK // VECTOR if n_rows == 1 or vectors() == "avx512" else 1

    def generate(context, builder, signature, arguments):
        x, offsets, weights, n_entries, z = arguments[:5]
        start = [same(element, lanes, -0.0)] * (n_rows * n_vectors)  # -0.0 + t is t, bit for bit

        def body(j, totals, first):
            column = builder.add(x, load(builder, offsets, builder.mul(j, number(8)), I64))
            values = [
                load(builder, column, number(VECTOR * (first + v)), vector(element, lanes))
                for v in range(n_vectors)
            ]
            entry = builder.add(weights, builder.mul(j, number(n_rows * size)))
            following = []
            for k in range(n_rows):
                weight = splat(builder, load(builder, entry, number(k * size), element), lanes)
                for v in range(n_vectors):
                    term = builder.fmul(weight, values[v])
                    following.append(builder.fadd(totals[k * n_vectors + v], term))
            return following

        for first in range(0, CHUNK // VECTOR, n_vectors):
            inside = partial(body, first=first)
            totals = count(builder, number(0), n_entries, inside, carried=start)
            for k in range(n_rows):
                for v in range(n_vectors):
                    at = number(k * CHUNK + (first + v) * VECTOR)
                    store(builder, totals[k * n_vectors + v], z, at)
        return context.get_dummy_value()

    return types.void(address, address, address, address, address, *literals), generate


@emitted
def compare(typing_context, z, terms, out, greater_equal, missing_right, size):
    """Compare r * (z - offset) with b for a chunk of z, into bytes 0 or 1 at `out`.

    `terms` are offset, r and b. The last three arguments are literals.
    """
    literals = greater_equal, missing_right, size
    greater_equal, missing_right, size = (literal.literal_value for literal in literals)
    element, lanes = _shape(size)
    relation, emit = PREDICATES[bool(greater_equal), bool(missing_right)]

    def generate(context, builder, signature, arguments):
        z, terms, out = arguments[:3]
        offset, r, b = (
            splat(builder, load(builder, terms, number(k * size), element), lanes) for k in range(3)
        )
        for v in range(CHUNK // VECTOR):
            value = load(builder, z, number(VECTOR * v), vector(element, lanes))
            value = builder.fmul(r, builder.fsub(value, offset))
            right = getattr(builder, emit)(relation, value, b)
            store(builder, builder.zext(right, vector(I8, lanes)), out, number(lanes * v))
        return context.get_dummy_value()

    return types.void(address, address, address, *literals), generate

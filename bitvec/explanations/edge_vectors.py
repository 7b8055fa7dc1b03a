"""Steps along edges and over subtrees for 64 rows, in LLVM's vector language.

Rows stand in vectors of 64 bytes, of float64 or float32 as the last argument, `like`, is; P or G at
one depth is (n_points, 64). States are 64 bits, one a row, and patterns 64 bytes. A mask of the
edges above of the same feature is left out where there are none. Code is made twice for each step,
since it is the rows of the first vector alone that count where `few`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache, partial

from numba import types
from numba.extending import intrinsic

from bitvec.explanations.bottom_subtrees import PATTERNS
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I1,
    I8,
    I32,
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

ROWS = 64
COEFFICIENTS = 5
"""Coefficients of a point, as `edge_steps.COEFFICIENTS`: those of P, and those of what is added."""
YES, NO, DEAD, PSI_YES, PSI_NO = range(COEFFICIENTS)
_SIZES = {types.float32: 4, types.float64: 8}


@intrinsic
def outcome(typing_context, byte, least):
    """Return the bits of 64 rows: whether the byte of each, at an address, is at least `least`."""

    def generate(context, builder, signature, arguments):
        found = load(builder, arguments[0], number(0), vector(I8, ROWS))
        wanted = splat(builder, builder.trunc(arguments[1], I8), ROWS)
        return builder.bitcast(builder.icmp_unsigned(">=", found, wanted), I64)

    return types.int64(address, types.int64), generate


@intrinsic
def add_bit(typing_context, pattern, bits, place):
    """Add a bit of each of 64 rows to their patterns at an address, which the first bit sets."""

    def generate(context, builder, signature, arguments):
        pattern, bits, place = arguments
        none = same(I8, ROWS, 0)
        one = splat(builder, builder.shl(I8(1), builder.trunc(place, I8)), ROWS)
        added = builder.select(builder.bitcast(bits, vector(I1, ROWS)), one, none)
        before = load(builder, pattern, number(0), vector(I8, ROWS))
        is_first = builder.icmp_signed("==", place, number(0))
        before = builder.select(is_first, none, before)
        store(builder, builder.or_(before, added), pattern, number(0))
        return context.get_dummy_value()

    return types.void(address, types.int64, types.int64), generate


class _Rows:
    """Emission of code for rows in vectors: loads, stores, numbers of a point, loops over them."""

    def __init__(self, builder, size: int, n_vectors: int, n_points) -> None:
        self.builder, self.size, self.n_points = builder, size, n_points
        self.vectors = range(n_vectors)
        self.lanes = 64 // size
        self.element, self.integer = (F32, I32) if size == 4 else (F64, I64)
        self.kind = vector(self.element, self.lanes)

    def masks(self, state):
        bits = self.builder.bitcast(state, vector(I1, ROWS))
        lanes = [[*range(self.lanes * k, self.lanes * (k + 1))] for k in self.vectors]
        return [shuffle(self.builder, bits, bits, part) for part in lanes]

    def number(self, base, i, width, which):
        """Return one of `width` numbers of a point, in all lanes."""
        offset = self.builder.add(
            self.builder.mul(i, number(self.size * width)), number(self.size * which)
        )
        return splat(self.builder, load(self.builder, base, offset, self.element), self.lanes)

    def load(self, base, i, k):
        return load(self.builder, base, self.place(i, k), self.kind)

    def store(self, value, base, i, k) -> None:
        store(self.builder, value, base, self.place(i, k))

    def place(self, i, k):
        return self.builder.add(self.builder.mul(i, number(self.size * ROWS)), number(64 * k))

    def each_point(self, body, carried=()):
        return count(self.builder, number(0), self.n_points, body, carried=carried)

    def add_to(self, total, terms) -> None:
        """Add to totals a sum over points of products: `terms` gives factors for a vector each."""
        zero = number(0)
        before = [self.load(total, zero, k) for k in self.vectors]

        def at_point(i, sums):
            pairs = zip(terms(i), sums, strict=True)
            return [_multiply_add(self.builder, a, b, one) for (a, b), one in pairs]

        for k, after in zip(self.vectors, self.each_point(at_point, before), strict=True):
            self.store(after, total, zero, k)

    def indices(self, pattern):
        """Return the patterns of the rows of each vector, wide as its numbers."""
        kind = vector(self.integer, self.lanes)
        parts = [
            load(self.builder, pattern, number(self.lanes * k), vector(I8, self.lanes))
            for k in self.vectors
        ]
        return [self.builder.zext(part, kind) for part in parts]

    def looked_up(self, table, i, pattern, indices):
        """Return a point's values of the rows of each vector, by their patterns."""
        start = self.builder.add(table, self.builder.mul(i, number(self.size * PATTERNS)))
        if vectors() != "avx512":
            return [
                leaf_tables.loaded(
                    self.builder, start, pattern, number(self.lanes * k), self.kind, I8
                )
                for k in self.vectors
            ]
        n, integers = PATTERNS // self.lanes, vector(self.integer, self.lanes)
        registers = [load(self.builder, start, number(64 * k), self.kind) for k in range(n)]
        if n == 1:
            registers *= 2
        return [
            leaf_tables.looked_up(self.builder, registers, index, self.kind, integers)
            for index in indices
        ]


def _steps(n_arguments: int, emit):
    """Return the signature and code of a step whose last arguments are `few` and `like`."""

    def made(few, like):
        size = _SIZES[like]

        def generate(context, builder, signature, arguments):
            *given, is_few, _ = arguments
            with builder.if_else(builder.icmp_signed("!=", is_few, number(0))) as (first, every):
                for branch, n_vectors in ((first, 1), (every, size)):
                    with branch:
                        emit(partial(_Rows, builder, size, n_vectors), *given)
            return context.get_dummy_value()

        return types.void(*(types.int64,) * n_arguments, few, like), generate

    return made


def _emit_times(which, repeated, make, source, target, coefficients, n_points, state, above):
    """Fill `target` with `source` times what states choose of two coefficients and 0, or three."""
    rows = make(n_points)
    goes, went = rows.masks(state), rows.masks(above) if repeated else None
    none = same(rows.element, rows.lanes, 0.0)

    def at_point(i, _):
        chosen = [rows.number(coefficients, i, COEFFICIENTS, n) for n in which]
        yes, no, dead = (*chosen, none)[:3]
        for k in rows.vectors:
            factor = _chosen(rows.builder, goes, went, k, yes, no, dead)
            rows.store(rows.builder.fmul(rows.load(source, i, k), factor), target, i, k)

    rows.each_point(at_point)


@cache
def down(repeated: bool):
    """Return what fills P at `target` with P at `source` times the edge's factor."""
    made = _steps(6, partial(_emit_times, (YES, NO, DEAD), repeated))

    @intrinsic
    def go_down(typing_context, source, target, coefficients, n_points, state, above, few, like):
        return made(few, like)

    return go_down


@cache
def up(repeated: bool, first: bool):
    """Return what carries G at `source` up, and adds what the edge adds to 64 totals.

    G at `target` is set by the first edge below a node, and added to by the second.
    """

    def emit(make, source, target, coefficients, n_points, state, above, total):
        rows = make(n_points)
        goes, went = rows.masks(state), rows.masks(above) if repeated else None
        none = same(rows.element, rows.lanes, 0.0)

        def terms(i):
            yes, no = (rows.number(coefficients, i, COEFFICIENTS, n) for n in (PSI_YES, PSI_NO))
            for k in rows.vectors:
                g = rows.load(source, i, k)
                here = g if first else rows.builder.fadd(rows.load(target, i, k), g)
                rows.store(here, target, i, k)
                yield g, _chosen(rows.builder, goes, went, k, yes, no, none)

        rows.add_to(total, terms)

    made = _steps(7, emit)

    @intrinsic
    def go_up(
        typing_context, source, target, coefficients, n_points, state, above, total, few, like
    ):
        return made(few, like)

    return go_up


_made_added = _steps(6, partial(_emit_times, (PSI_YES, PSI_NO), True))


@intrinsic
def keep_added(typing_context, source, target, coefficients, n_points, state, above, few, like):
    """Keep at each point what an edge adds to its feature."""
    return _made_added(few, like)


def _emit_pair(make, source, psi, n_points, state, total):
    rows = make(n_points)
    goes = rows.masks(state)

    def terms(i):
        yes, no = rows.number(psi, i, 2, 0), rows.number(psi, i, 2, 1)
        for k in rows.vectors:
            yield rows.load(source, i, k), _chosen(rows.builder, goes, None, k, yes, no, None)

    rows.add_to(total, terms)


_made_pair = _steps(5, _emit_pair)


@intrinsic
def add_pair(typing_context, source, psi, n_points, state, total, few, like):
    """Add to 64 totals the sum over points of what was kept times psi of another edge.

    `psi` is the address of (n_points, 2): where the row goes along that edge, or not.
    """
    return _made_pair(few, like)


@cache
def carry(first: bool):
    """Return what sets `target`, or adds to it, P at `source` times what a table has."""

    def emit(make, source, target, pattern, table, n_points):
        rows = make(n_points)
        indices = rows.indices(pattern)

        def at_point(i, _):
            found = rows.looked_up(table, i, pattern, indices)
            for k, value in zip(rows.vectors, found, strict=True):
                p = rows.load(source, i, k)
                if first:
                    value = rows.builder.fmul(p, value)
                else:
                    value = _multiply_add(rows.builder, p, value, rows.load(target, i, k))
                rows.store(value, target, i, k)

        rows.each_point(at_point)

    made = _steps(5, emit)

    @intrinsic
    def carry_up(typing_context, source, target, pattern, table, n_points, few, like):
        return made(few, like)

    return carry_up


def _emit_looked_up(make, source, pattern, table, n_points, total):
    rows = make(n_points)
    indices = rows.indices(pattern)

    def terms(i):
        found = rows.looked_up(table, i, pattern, indices)
        for k, value in zip(rows.vectors, found, strict=True):
            yield rows.load(source, i, k), value

    rows.add_to(total, terms)


_made_looked_up = _steps(5, _emit_looked_up)


@intrinsic
def add_looked_up(typing_context, source, pattern, table, n_points, total, few, like):
    """Add to 64 totals the sum over points of P at `source` times what a table has."""
    return _made_looked_up(few, like)


def _chosen(builder, goes, went, k, yes, no, dead):
    """Return a coefficient of the rows of vector k, by their states."""
    if went is not None:
        no = builder.select(went[k], no, dead)
    return builder.select(goes[k], yes, no)


def _multiply_add(builder, a, b, c):
    """Return a b + c, in one instruction where the processor has it."""
    product = builder.fmul(a, b, flags=["contract"])
    return builder.fadd(product, c, flags=["contract"])

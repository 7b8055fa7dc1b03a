"""Parts of kernels in LLVM's vector language: types, splats, loads, loops.

A numba `@intrinsic` emits these instructions in place of a call; LLVM lowers vectors of any width
to what the processor has. Loads and stores name no alignment beyond that of an element.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()

address = types.int64
"""The numba type of an address, and of every count and offset."""


def vector(element, lanes: int):
    """Return the type of a vector."""
    return ir.VectorType(element, lanes)


def same(element, lanes: int, value):
    """Return the constant vector with one value in all lanes."""
    return ir.Constant(vector(element, lanes), [value] * lanes)


def number(value: int):
    """Return an int64 constant."""
    return ir.Constant(I64, value)


def splat(builder, value, lanes: int):
    """Return a vector with a scalar in all lanes."""
    undefined = ir.Constant(vector(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(vector(I32, lanes), [0] * lanes))


def shuffle(builder, a, b, lanes: list[int]):
    """Return the given lanes of a and b side by side."""
    return builder.shuffle_vector(a, b, ir.Constant(vector(I32, len(lanes)), lanes))


def place(builder, base, offset, element):
    """Return the address `base + offset` bytes as a pointer to an element."""
    return builder.inttoptr(builder.add(base, offset), element.as_pointer())


def load(builder, base, offset, element):
    """Load an element (or a vector) from `base + offset` bytes."""
    return builder.load(place(builder, base, offset, element), align=1)


def store(builder, value, base, offset):
    """Store a value at `base + offset` bytes."""
    builder.store(value, place(builder, base, offset, value.type), align=1)


def intrinsic_function(builder, name: str, result, arguments: list[object]):
    """Return an LLVM intrinsic by its name."""
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, kind, name)


def count(builder, first, last, body, step: int = 1, carried=()):
    """Emit `for k in range(first, last, step): carried = body(k, carried)`; return `carried`."""
    entry = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    k = builder.phi(I64)
    k.add_incoming(first, entry)
    held = []
    for value in carried:
        phi = builder.phi(value.type)
        phi.add_incoming(value, entry)
        held.append(phi)
    builder.cbranch(builder.icmp_signed("<", k, last), inside, after)
    builder.position_at_end(inside)
    following = body(k, held) or []
    k.add_incoming(builder.add(k, number(step)), builder.block)
    for phi, value in zip(held, following, strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return held


def settled(builder, lanes: int, moved, depth):
    """Emit `at = moved(at, lane)` for all lanes in step, from 0, while they move; return `at`.

    They move `depth` times at most, or two where that is less. Two moves are made in each turn, so
    that there are half as many branches, and before them one where `depth` is odd.
    """
    entry = builder.block
    odd, turn, after = (builder.append_basic_block(name) for name in ("odd", "turn", "after"))
    builder.cbranch(builder.trunc(depth, I1), odd, turn)
    builder.position_at_end(odd)
    first, rest = [moved(number(0), lane) for lane in range(lanes)], builder.sub(depth, number(1))
    builder.branch(turn)
    builder.position_at_end(turn)
    at, left = [builder.phi(I64) for _ in range(lanes)], builder.phi(I64)
    once = [moved(place, lane) for lane, place in enumerate(at)]
    twice = [moved(place, lane) for lane, place in enumerate(once)]
    fewer = builder.sub(left, number(2))
    moves = number(0)
    for place, before, start, then in zip(twice, once, at, first, strict=True):
        moves = builder.or_(moves, builder.xor(before, place))
        start.add_incoming(number(0), entry)
        start.add_incoming(then, odd)
        start.add_incoming(place, turn)
    left.add_incoming(depth, entry)
    left.add_incoming(rest, odd)
    left.add_incoming(fewer, turn)
    goes_on = builder.icmp_unsigned("!=", moves, number(0))
    goes_on = builder.and_(goes_on, builder.icmp_signed(">", fewer, number(0)))
    builder.cbranch(goes_on, turn, after)
    builder.position_at_end(after)
    return twice

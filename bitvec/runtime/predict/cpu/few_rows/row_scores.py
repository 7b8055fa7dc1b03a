"""Exit leaves of one row become its raw scores: added tree by tree in the output's dtype."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate, Output
from bitvec.runtime.predict.cpu.compiling import by_address, inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import (
    c_call,
    load_float64,
    load_int32,
    load_int64,
    load_like,
    place_of,
    size_of,
    store,
    zero_of,
)
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.vectors import (
    I32,
    I64,
    address,
    count,
    intrinsic_function,
    load,
    number,
    place,
    same,
    splat,
    vector,
)
from bitvec.runtime.predict.cpu.vectors import store as store_value


def fields_of(forest: Forest, sums: leaf_vectors.LeafSums, has_vectors: bool) -> dict[str, Any]:
    """Return the fields that the sum reads; `has_vectors` says that leaves come as vectors."""
    output = forest.output
    return finish_fields(forest) | {
        "answer": fill_scores.address(output.dtype),
        "n_trees": forest.n_trees,
        "id_of": None if has_vectors else sums.id_of,
        "entry_ptr": sums.entry_ptr,
        "column": sums.column if output.n_outputs > 1 else None,
        "v": sums.v,
        "width": sums.v.shape[1],
    }


def finish_fields(forest: Forest) -> dict[str, Any]:
    """Return the fields that are read where sums begin, and where they become raw scores."""
    output, n = forest.output, forest.output.n_outputs
    scale, base = np.ones(n, output.dtype), np.full(n, -0.0)  # which change no number
    return {
        "n_outputs": n,
        "start": output.base_score if output.base_first else None,
        "divisor": _divisor(output, forest.n_trees),
        "scale": scale if output.scale is None else output.scale,
        # In float64: a sum of two float32 rounded to float64 and then to float32 is that rounded
        # to float32 at once.
        "base": base if output.base_first else output.base_score.astype(np.float64),
    }


def _divisor(output: Output, n_trees: int) -> np.ndarray | None:
    if output.aggregate is not Aggregate.MEAN or n_trees == 0:
        return None
    if output.divisor is not None:
        return output.divisor
    return np.full(output.n_outputs, n_trees, output.dtype)


LANES, MOST_PARTS = 8, 3
"""Scores of a register, and registers whose sums run side by side."""


@intrinsic(prefer_literal=True)
def _add_values(typing_context, v, width, id_of, leaves, n_trees, scores, last, parts, zero):
    """Add to some scores, a literal number of registers, their values in the vectors of all trees.

    The last register holds `last` of them; with no `parts` it is one score. The sums stay in
    registers: in memory each addition would wait for the one before.
    """
    parts = parts.literal_value

    def generate(context, builder, signature, arguments):
        v, width, id_of, leaves, n_trees, scores, last, _, zero = arguments
        size, kind = context.get_abi_sizeof(zero.type), vector(zero.type, LANES)
        step = builder.mul(width, number(size))
        lanes = ir.Constant(vector(I32, LANES), list(range(LANES)))
        few = builder.icmp_signed("<", lanes, splat(builder, builder.trunc(last, I32), LANES))
        name = f"v{LANES}f{8 * size}.p0"
        read = intrinsic_function(
            builder, f"llvm.masked.load.{name}", kind, [kind.as_pointer(), I32, few.type, kind]
        )
        write = intrinsic_function(
            builder, f"llvm.masked.store.{name}", ir.VoidType(),
            [kind, kind.as_pointer(), I32, few.type],
        )  # fmt: skip
        align, zeros = ir.Constant(I32, 1), same(zero.type, LANES, 0.0)
        offsets = [number(LANES * size * part) for part in range(parts)]

        def values(base):
            if not parts:
                return [load(builder, base, number(0), zero.type)]
            found = [load(builder, base, offset, kind) for offset in offsets[:-1]]
            spot = place(builder, base, offsets[-1], kind)
            return [*found, builder.call(read, [spot, align, few, zeros])]

        def put(found, base):
            if not parts:
                return store_value(builder, found[0], base, number(0))
            for part, offset in zip(found[:-1], offsets[:-1], strict=True):
                store_value(builder, part, base, offset)
            spot = place(builder, base, offsets[-1], kind)
            builder.call(write, [found[-1], spot, align, few])

        def add(has_ids):
            def add_tree(tree, carried):
                which = load(builder, leaves, builder.mul(tree, number(4)), I32)
                if has_ids:
                    at = builder.mul(builder.zext(which, I64), number(4))
                    which = load(builder, id_of, at, I32)
                at = builder.add(v, builder.mul(builder.zext(which, I64), step))
                return [builder.fadd(*pair) for pair in zip(carried, values(at), strict=True)]

            put(count(builder, number(0), n_trees, add_tree, carried=values(scores)), scores)

        is_given = builder.icmp_unsigned("!=", id_of, number(0))
        with builder.if_else(is_given) as (with_ids, without):
            with with_ids:
                add(has_ids=True)
            with without:
                add(has_ids=False)
        return context.get_dummy_value()

    return types.void(*[address] * 7, types.IntegerLiteral(parts), zero), generate


@inner
def _add(header, leaves, scores, zero):
    """Add the vectors of the leaves of all trees to the scores, tree by tree."""
    n_trees, width, v = field(header, "n_trees"), field(header, "width"), field(header, "v")
    id_of, entry_ptr = field(header, "id_of"), field(header, "entry_ptr")
    column, size = field(header, "column"), size_of(zero)
    if entry_ptr == 0 and column == 0:
        if width == 1:
            _add_values(v, width, id_of, leaves, n_trees, scores, 1, 0, zero)
            return
        for first in range(0, width, MOST_PARTS * LANES):
            n = min(width - first, MOST_PARTS * LANES)
            parts, at = (n + LANES - 1) // LANES, size * first
            last = n - LANES * (parts - 1)
            if parts == 1:
                _add_values(v + at, width, id_of, leaves, n_trees, scores + at, last, 1, zero)
            elif parts == 2:
                _add_values(v + at, width, id_of, leaves, n_trees, scores + at, last, 2, zero)
            else:
                _add_values(v + at, width, id_of, leaves, n_trees, scores + at, last, 3, zero)
        return
    for tree in range(n_trees):
        vector = np.int64(load_int32(leaves + 4 * tree))
        if id_of:
            vector = np.int64(np.uint32(load_int32(id_of + 4 * vector)))
        if entry_ptr:
            for k in range(
                load_int64(entry_ptr + 8 * vector), load_int64(entry_ptr + 8 * vector + 8)
            ):
                at = scores + size * np.int64(load_int32(column + 4 * k))
                store(at, load_like(at, zero) + load_like(v + size * k, zero))
        else:
            at = scores + size * np.int64(load_int32(column + 4 * vector))
            store(at, load_like(at, zero) + load_like(v + size * vector, zero))


@inner
def finish(header, scores, zero):
    """Make raw scores of sums over trees: `bitvec.core.output.Output.finish`."""
    divisor, scale, base = field(header, "divisor"), field(header, "scale"), field(header, "base")
    kind = type(zero)
    for k in range(field(header, "n_outputs")):
        at = scores + size_of(zero) * k
        value = load_like(at, zero)
        if divisor:
            value = value / load_like(divisor + size_of(zero) * k, zero)
        value = value * load_like(scale + size_of(zero) * k, zero)
        store(at, kind(np.float64(value) + load_float64(base + 8 * k)))


@by_address
def fill_scores(header, room, out):
    """Fill the answer to the row whose leaves stand in the room; return 0 if it is left to others.

    That is its raw scores, or what the function `link` makes of them.
    """
    zero, to = zero_of(out), place_of(out)
    link, start = field(header, "link"), field(header, "start")
    scores = room + field(header, "scores_at") if link else to
    for k in range(field(header, "n_outputs")):
        at = size_of(zero) * k
        store(scores + at, load_like(start + at, zero) if start else zero)
    _add(header, room + field(header, "leaves_at"), scores, zero)
    finish(header, scores, zero)
    return c_call(link, (header, np.int64(1), scores, to)) if link else 1


@by_address
def _leaf_numbers(header, room, out):
    """Fill exit leaves as int32, counted within each tree."""
    leaves, leaf_ptr = room + field(header, "leaves_at"), field(header, "leaf_ptr")
    for tree in range(field(header, "n_trees")):
        leaf = np.int64(load_int32(leaves + 4 * tree)) - load_int64(leaf_ptr + 8 * tree)
        store(out + 4 * tree, np.int32(leaf))
    return 1


@by_address
def _leaf_ids(header, room, out):
    """Fill the source's ids of exit leaves as int64, or leaf numbers where it has none."""
    leaves, leaf_ptr = room + field(header, "leaves_at"), field(header, "leaf_ptr")
    leaf_id = field(header, "leaf_id")
    for tree in range(field(header, "n_trees")):
        leaf = np.int64(load_int32(leaves + 4 * tree))
        number = leaf - load_int64(leaf_ptr + 8 * tree)
        store(out + 8 * tree, load_int64(leaf_id + 8 * leaf) if leaf_id else number)
    return 1


LEAVES = {"exit_leaves": _leaf_numbers, "apply": _leaf_ids}


def leaf_fields(forest: Forest, verb: str) -> dict[str, Any]:
    """Return the fields of an answer that tells leaves."""
    has_ids = verb == "apply" and forest.source is not None
    return {
        "answer": LEAVES[verb].address(),
        "n_trees": forest.n_trees,
        "leaf_id": forest.source.leaf_id if has_ids else None,  # type: ignore[union-attr]
    }

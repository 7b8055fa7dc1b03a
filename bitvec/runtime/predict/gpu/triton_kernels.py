"""Kernels in Triton: codes of rows, exits of trees, sums in order.

Codes lie in tiles of TILE rows: that of row i in plane p stands at
((i // TILE) * n_planes + p) * TILE + i % TILE, so that lanes that hold neighbouring rows and are at
the same node read one line. No product is fused with a sum, and the sum of a row runs in the order
of its trees, without atomics.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

EXACT = {"enable_fp_fusion": False}
"""Options of every launch: a product is rounded before it is added."""
_SIZES = ("n_rows", "n_planes", "begin", "end", "unit", "n_trees", "stride", "out_stride", "width")
"""Numbers for whose values no kernel is compiled anew."""


@triton.jit(do_not_specialize=_SIZES)
def encode(
    x, row_stride, column_stride, n_rows,
    column, missing, start, half, thresholds, codes, n_planes, begin, end, unit,
    STEPS: tl.constexpr, SIDE_BY_SIDE: tl.constexpr,
    TILE: tl.constexpr, ROWS: tl.constexpr, PLANES: tl.constexpr,
):  # fmt: skip
    """Write the codes of rows in the planes from `begin` to `end`; rows beyond n_rows get some too.

    A binary search of STEPS steps in the thresholds of each plane, which `row_codes` pads with NaN
    to 2 * half - 1: threshold k stands at start + k, and a step of half 0 changes nothing. A warp
    holds rows of one plane, so that it reads few lines of thresholds; `unit` is 1, which a compiler
    that knew it would take as a reason to have warps hold several planes. SIDE_BY_SIDE says that
    the planes read neighbouring columns, whose values lanes then load side by side and hand over.
    """
    first_row = tl.program_id(0).to(tl.int64) * ROWS
    first_plane = begin + tl.program_id(1) * PLANES
    element = tl.arange(0, PLANES * ROWS)
    local, plane = element % ROWS, first_plane + element // ROWS
    is_plane = plane < end
    if SIDE_BY_SIDE:
        row = first_row + tl.arange(0, ROWS)[:, None]
        at = tl.load(column + begin) + (first_plane - begin) + tl.arange(0, PLANES)[None, :]
        here = (row < n_rows) & (first_plane + tl.arange(0, PLANES)[None, :] < end)
        read = x + row * row_stride + at.to(tl.int64) * column_stride
        value = tl.reshape(tl.trans(tl.load(read, mask=here, other=0.0)), (PLANES * ROWS,))
    else:
        at = tl.load(column + plane, mask=is_plane, other=0).to(tl.int64)
        here = (first_row + local < n_rows) & is_plane
        read = x + (first_row + local) * row_stride + at * column_stride
        value = tl.load(read, mask=here, other=0.0)
    own = thresholds + tl.load(start + plane, mask=is_plane, other=0)
    step = tl.load(half + plane, mask=is_plane, other=0)
    value = value.to(thresholds.dtype.element_ty)
    reached = tl.zeros((PLANES * ROWS,), tl.int32)
    for _ in tl.static_range(STEPS):
        probe = reached + step
        reached = tl.where(value >= tl.load(own + probe), probe, reached)
        step >>= 1
    code = tl.where(value == value, reached, tl.load(missing + plane, mask=is_plane, other=0))
    place = ((local // TILE) * n_planes + plane) * TILE + (local % TILE) * unit
    tl.store(codes + first_row * n_planes + place, code.to(codes.dtype.element_ty), mask=is_plane)


@triton.jit(do_not_specialize=_SIZES)
def traverse(
    codes, n_planes, word, plane_of, base, steps, slot_value, trees, group_ptr, start,
    out, out_stride, n_rows,
    DEPTH: tl.constexpr, SHARED: tl.constexpr, WIDE: tl.constexpr, ADDS: tl.constexpr,
    TILE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Take rows through the trees of a group, each a lane's own; see `node_tables` for slots.

    A group's trees are those from group_ptr[g] to group_ptr[g + 1]. What stands at the slots where
    rows end is written to out[trees[k], row], or added from start[g] on and written to out[g, row].
    Programs take blocks of rows in turn, so that a launch of few holds few codes in caches.
    The words of linked trees are int64, with links in the high half.

        for each tree:              full                        linked
            at = root               1                           base[tree]
            at = child(at) ...      2 at + (code >= own)        link(at) + (code >= own)

    Where the nodes of a level share one test (oblivious trees), `word` holds one for each level,
    and lanes read their codes side by side. Cost of a step else: a load of 4 or 8 bytes, one of a
    code, both from anywhere, and 8 operations.
    """
    group = tl.program_id(1)
    local = tl.arange(0, ROWS)
    for block in range(tl.program_id(0), tl.cdiv(n_rows, ROWS), tl.num_programs(0)):
        first_row = tl.cast(block, tl.int64) * ROWS
        row = first_row + local
        here = codes + first_row * n_planes + (local // TILE) * (n_planes * TILE) + local % TILE
        if ADDS:
            total = tl.load(start + (local * 0 + group))  # not added to 0, which would lose a -0.0
        for tree in range(tl.load(group_ptr + group), tl.load(group_ptr + group + 1)):
            if DEPTH > 0:
                root = (tl.zeros((), tl.int64) + tree) << DEPTH
                at = tl.full((ROWS,), 1, tl.uint32)
                for level in tl.static_range(DEPTH):
                    if SHARED:
                        place = (tl.zeros((), tl.int64) + tree) * DEPTH + level
                    else:
                        place = root + at.to(tl.int64)
                    right = _turns(
                        tl.load(word + place), plane_of, place, here, WIDE=WIDE, TILE=TILE
                    )
                    at = (at << 1) | right
                value = tl.load(slot_value + (root - (1 << DEPTH)) + at.to(tl.int64))
            else:
                at = tl.zeros((ROWS,), tl.uint32) + tl.load(base + tree).to(tl.uint32)
                n_steps = tl.load(steps + tree)
                moves = n_steps
                while moves > 0:
                    before = at
                    for _ in tl.static_range(4):
                        before = at
                        place = at.to(tl.int64)
                        record = tl.load(word + place)
                        test = record.to(tl.int32)
                        right = _turns(test, plane_of, place, here, WIDE=WIDE, TILE=TILE)
                        at = (record >> 32).to(tl.uint32) + right
                    n_steps -= 4
                    # Rows that have arrived stay where they are.
                    moves = tl.minimum(n_steps, tl.max((at != before).to(tl.int32), axis=0))
                value = tl.load(slot_value + at.to(tl.int64))
            if ADDS:
                total = total + value
            else:
                place = tl.load(trees + tree).to(tl.int64) * out_stride + row
                tl.store(out + place, value, mask=row < n_rows)
        if ADDS:
            tl.store(out + group.to(tl.int64) * out_stride + row, total, mask=row < n_rows)


@triton.jit
def _turns(test, plane_of, place, here, WIDE: tl.constexpr, TILE: tl.constexpr):
    """Return 1 where rows go right, else 0: the sign of what their codes lack."""
    if WIDE:
        plane = tl.load(plane_of + place).to(tl.uint32)
        lacks = test - tl.load(here + plane.to(tl.int64) * TILE).to(tl.int32)
    else:
        plane = test.to(tl.uint32) & 0x7FFF
        lacks = test - (tl.load(here + plane.to(tl.int64) * TILE).to(tl.int32) << 15)
    return lacks.to(tl.uint32) >> 31


@triton.jit(do_not_specialize=_SIZES)
def add_values(
    values, stride, trees, group_ptr, start, out, out_stride, n_rows, ROWS: tl.constexpr
):
    """Add values[tree, row] over the trees of a group, in order, from start[g] on: out[g, row]."""
    group = tl.program_id(1)
    local = tl.arange(0, ROWS)
    row = tl.program_id(0).to(tl.int64) * ROWS + local
    here = row < n_rows
    total = tl.load(start + (local * 0 + group))
    for k in tl.range(
        tl.load(group_ptr + group), tl.load(group_ptr + group + 1), loop_unroll_factor=8
    ):
        place = tl.load(trees + k).to(tl.int64) * stride + row
        total = total + tl.load(values + place, mask=here, other=0.0)
    tl.store(out + group.to(tl.int64) * out_stride + row, total, mask=here)


@triton.jit(do_not_specialize=_SIZES)
def add_vectors(
    leaves, stride, n_trees, first_leaf, v, width, start, out, n_rows,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add the leaf vectors v[first_leaf[tree] + leaves[tree, row]] in the order of trees."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_row, is_column = row < n_rows, column < width
    here = is_row[:, None] & is_column[None, :]
    total = tl.load(start + column, mask=is_column, other=0.0)[None, :]
    total = tl.broadcast_to(total, (ROWS, COLUMNS))
    for tree in range(n_trees):
        leaf = tl.load(leaves + tl.cast(tree, tl.int64) * stride + row, mask=is_row, other=0)
        leaf = leaf.to(tl.int64) + tl.load(first_leaf + tree)
        total += tl.load(v + leaf[:, None] * width + column[None, :], mask=here, other=0.0)
    tl.store(out + row[:, None] * width + column[None, :], total, mask=here)

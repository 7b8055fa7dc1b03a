"""Kernels in Triton for 32 rows at a time: a lane's word holds one bit of each.

Bit r of lane 32 c + j, c < 4, in block i belongs to row (32 i + r) * 128 + 4 j + c, since a word of
codes holds those of four neighbouring rows. A plane of bits holds, for one block, the outcome of
[code >= k] in 128 words; a node's outcome is made of three planes by two operations of logic, for
32 rows at once, and so is the leaf that rows have come to.
"""

# ruff: noqa: RUF005 - Triton takes no starred tuples
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment, misc"

from __future__ import annotations

import triton
import triton.language as tl

_SIZES = ("n_rows", "room", "n_planes", "n_bits", "n_blocks", "n_groups", "out_stride")
"""Numbers for whose values no kernel is compiled anew."""


@triton.jit(do_not_specialize=_SIZES)
def split_codes(
    words, n_planes, room, first_bit, bits, n_bits, SHIFT: tl.constexpr, WIDTH: tl.constexpr
):
    """Write the planes of bits of one plane of codes and one block of rows.

    From first_bit[plane] on: [code >= h << SHIFT] for h = 0, 1 ... up to one that no code reaches,
    then [low digit of code >= l] for l = 1 ... 2 ** SHIFT - 1. Codes have WIDTH bits; `words` holds
    4 of one tile of 32 rows each.
    """
    block, plane = tl.program_id(0).to(tl.int64), tl.program_id(1)
    j = tl.arange(0, 32)
    read = ()
    for r in tl.static_range(32):
        tile = block * 128 + r * 4 + j // 8
        place = (tile * n_planes + plane) * 8 + j % 8
        read = read + (tl.load(words + place, mask=tile * 32 < room, other=0),)
    digits = (
        _digits(read, 0, WIDTH), _digits(read, 1, WIDTH),
        _digits(read, 2, WIDTH), _digits(read, 3, WIDTH),
    )  # fmt: skip
    first = tl.load(first_bit + plane)
    n_high = tl.load(first_bit + plane + 1) - first - ((1 << SHIFT) - 1)
    to = bits + (block * n_bits + first) * 128 + j
    for high in range(n_high):
        for c in tl.static_range(4):
            tl.store(to + 32 * c, _reaches(digits[c], high << SHIFT, WIDTH))
        to += 128
    for low in range(1, 1 << SHIFT):
        for c in tl.static_range(4):
            tl.store(to + 32 * c, _reaches(digits[c], low, SHIFT))
        to += 128


@triton.jit
def _digits(read, c: tl.constexpr, WIDTH: tl.constexpr):
    """Return the binary digits, the last one first, of the codes in byte c of 32 words."""
    digits = ()
    for b in tl.static_range(WIDTH):
        digit = tl.zeros(read[0].shape, tl.int32)
        for eight in tl.static_range(4):
            # Bit i of byte c: digit b of the code in byte c of word 8 * eight + i.
            gathered = tl.zeros(read[0].shape, tl.int32)
            for i in tl.static_range(8):
                gathered = gathered | (((read[8 * eight + i] >> b) & 0x01010101) << i)
            digit = digit | (((gathered >> (8 * c)) & 0xFF) << (8 * eight))
        digits = digits + (digit,)
    return digits


@triton.jit
def _reaches(digits, k, WIDTH: tl.constexpr):
    """Return the words of [value >= k], of the WIDTH lowest binary digits, the last one first."""
    reached = tl.full(digits[0].shape, -1, tl.int32)
    for b in tl.static_range(WIDTH):
        asked = -((k >> b) & 1)
        reached = (digits[b] & reached) | ((digits[b] | reached) & ~asked)
    return tl.where(k >> WIDTH > 0, 0, reached)


@triton.jit(do_not_specialize=_SIZES)
def follow(
    bits, n_bits, nodes, node_ptr, group_ptr, n_groups, exits, n_blocks,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Take a block of rows through the trees of a group; see `bit_tables` for the nodes.

    The state of a row is the leftmost leaf that its tests so far leave, in binary digits of which
    each is a word: it becomes the node's `mid` where it is `lo` and the row goes right. Leaves go
    to exits[tree, block, k, lane], whose byte c is that of bit k + 8 c.
    """
    block, group = (tl.program_id(0) // n_groups).to(tl.int64), tl.program_id(0) % n_groups
    lane = tl.arange(0, 128)
    here = bits + block * n_bits * 128 + lane
    for tree in range(tl.load(group_ptr + group), tl.load(group_ptr + group + 1)):
        state = ()
        for _ in tl.static_range(WIDTH):
            state = state + (tl.zeros((128,), tl.int32),)
        begin, end = tl.load(node_ptr + tree), tl.load(node_ptr + tree + 1)
        for node in tl.range(begin, end, loop_unroll_factor=4):
            planes, leaf = tl.load(nodes + 2 * node), tl.load(nodes + 2 * node + 1)
            high = here + ((planes >> 16) & 0xFFFF) * 128
            low = here + (planes & 0xFFFF) * 128
            moves = tl.load(high + 128) | (tl.load(high) & tl.load(low))
            for b in tl.static_range(WIDTH):
                moves = moves & ~(state[b] ^ -((leaf >> b) & 1))
            moved = ()
            for b in tl.static_range(WIDTH):
                moved = moved + (state[b] ^ (moves & -((leaf >> (8 + b)) & 1)),)
            state = moved
        to = exits + (tl.cast(tree, tl.int64) * n_blocks + block) * 1024 + lane
        for k in tl.static_range(8):
            packed = (state[0] >> k) & 0x01010101
            for b in tl.static_range(1, WIDTH):
                packed = packed | (((state[b] >> k) & 0x01010101) << b)
            tl.store(to + k * 128, packed)


@triton.jit(do_not_specialize=_SIZES)
def add_exits(exits, n_blocks, v, first_leaf, group_ptr, start, out, out_stride, n_rows):
    """Add v[first_leaf[tree] + exit] over the trees of a group, in order, from start[g] on.

    A lane holds one word of exits, that is 4 rows.
    """
    part, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    block, k = part // 8, part % 8
    lane = tl.arange(0, 128)
    total = ()
    for _ in tl.static_range(4):
        total = total + (tl.load(start + (lane * 0 + group)),)
    begin, end = tl.load(group_ptr + group), tl.load(group_ptr + group + 1)
    for tree in tl.range(begin, end, loop_unroll_factor=4):
        at = (tl.cast(tree, tl.int64) * n_blocks + block) * 8 + k
        word = tl.load(exits + at * 128 + lane)
        value = v + tl.load(first_leaf + tree)
        added = ()
        for c in tl.static_range(4):
            added = added + (total[c] + tl.load(value + ((word >> (8 * c)) & 0xFF)),)
        total = added
    for c in tl.static_range(4):
        row = (block * 32 + k + 8 * c) * 128 + lane % 32 * 4 + lane // 32
        tl.store(out + group.to(tl.int64) * out_stride + row, total[c], mask=row < n_rows)

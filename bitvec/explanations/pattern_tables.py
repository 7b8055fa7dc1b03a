"""Tables of groups of leaves by pattern, made, and looked up for rows.

    for group in groups:                                   # whose tables stay in the cache
        for block of 1,024 rows:
            pattern[rows] = bits of the group's tests
            for slot in group:  total[target[slot], rows] += table[slot, pattern[rows]]

With AVX-512 a table is in planes of one or two bytes, looked up in registers for many rows at once.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, unreachable"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bitvec.explanations.path_values import pair_place
from bitvec.explanations.pattern_groups import SLOT
from bitvec.explanations.pattern_values import (
    CHUNK,
    fill_leaf_values,
    find_distinct,
    find_leaf_sets,
)
from bitvec.explanations.pattern_vectors import (
    BIT,
    LANES,
    MOST_BITS,
    PLANES,
    TEST,
    add_looked_up,
    fill_patterns,
)
from bitvec.runtime.predict.cpu.bitvector.grouped_values import plane_bits, table_places
from bitvec.runtime.predict.cpu.compiling import inner, kernel

PATTERNS = 1 << MOST_BITS
PLACES = np.array([table_places(bits) for bits in range(MOST_BITS + 1)])
"""Values of a slot's table, by the bits of its group."""
PART = np.array([plane_bits(bits) // 8 for bits in range(MOST_BITS + 1)])
"""Bytes of a value in each plane of it."""
SPAN = 1 << 16
"""Values of tables that stay in the cache while rows pass."""
ROWS = 1024
"""Rows whose totals stay in the cache."""


class Slots(NamedTuple):
    """Features that groups add to, or pairs of them.

    Parameters
    ----------
    pairs : bool
    ptr : int64, (n_groups + 1,)
    target : int64
        The features, or the places of pairs below a diagonal, that each group adds to.
    table_ptr : int64, (n_groups + 1,)
        Where the tables of each group begin: an output after the other, in each its slots.
    """

    pairs: Any
    ptr: Any
    target: Any
    table_ptr: Any


class Counts(NamedTuple):
    """Distinct patterns of the background in groups of many bits, which are sets of a leaf.

    Parameters
    ----------
    ptr : int64, (n_groups + 1,)
        Nothing is held of groups of few bits, and of those that came after the room was full.
    found : int64
    weight : float64
    """

    ptr: Any
    found: Any
    weight: Any


class Room(NamedTuple):
    """Scratch: sets of rows and background rows, of groups and of leaves, and sums of leaves.

    Parameters
    ----------
    rows, background, leaf_rows, leaf_background : Sets
    terms : float64, (4 k + 5, CHUNK)
        For leaves of at most k features.
    sums : float64, (n_chunks, k or k (k - 1) / 2, CHUNK)
    at : int64, (n,)
        Where the sums of each row begin.
    offset : int64
        Where the rows of a group's slots begin, an output after the other.
    """

    rows: Any
    background: Any
    leaf_rows: Any
    leaf_background: Any
    terms: Any
    sums: Any
    at: Any
    offset: Any


@kernel
def fill_pair_slots(slot_ptr, slot, ptr, target):
    """Fill the slots of pairs of each group's features."""
    n = 0
    for g in range(len(slot_ptr) - 1):
        for i in range(slot_ptr[g], slot_ptr[g + 1]):
            for m in range(slot_ptr[g], i):
                target[n] = pair_place(slot[i], slot[m])
                n += 1
        ptr[g + 1] = n


@inner
def _find_patterns(rows, n, ones, groups, g, sets):
    """Fill the patterns of rows in a group, 8 bits at a time; return how many are distinct."""
    first, last = groups.test_ptr[g], groups.test_ptr[g + 1]
    sets.key[:n] = 0
    for low in range(0, groups.bits[g], MOST_BITS):
        stop = first
        while stop < last and groups.tests[stop, BIT] < low + MOST_BITS:
            stop += 1
        full = (1 << min(MOST_BITS, groups.bits[g] - low)) - 1
        fill_patterns(
            np.int64(rows.ctypes.data), rows.shape[1],
            np.int64(groups.column.ctypes.data) + 4 * first,
            np.int64(groups.tests.ctypes.data) + TEST * first, stop - first, full,
            np.int64(sets.byte.ctypes.data), -(-n // LANES) * LANES,
        )  # fmt: skip
        for r in range(n):
            sets.key[r] |= np.int64(sets.byte[r]) << low
        first = stop
    return find_distinct(sets, n, ones)


@kernel
def fill_counts(groups, background, n_background, ones, room, counts):
    """Fill the patterns of the background in groups of many bits, as far as there is room."""
    n, is_full = 0, False
    for g in range(len(groups.bits)):
        if groups.bits[g] > MOST_BITS and not is_full:
            n_found = _find_patterns(background, n_background, ones, groups, g, room.background)
            is_full = n + n_found > len(counts.found)
            if not is_full:
                counts.found[n : n + n_found] = room.background.found[:n_found]
                counts.weight[n : n + n_found] = room.background.weight[:n_found]
                n += n_found
        counts.ptr[g + 1] = n


@inner
def _add_group(g, groups, slots, trees, orders, n_sets, given, n, room, target):
    """Add the values of a group's leaves to the rows of `target` that `room.offset` names.

    Element r of these rows, of n, has the pattern `room.rows.found[room.rows.which[r]]`. `given`
    are the patterns of the background, which are sets of the leaf in a group of many bits.
    """
    tree, n_slots = groups.tree[g], slots.ptr[g + 1] - slots.ptr[g]
    own, backgrounds = room.leaf_rows, room.leaf_background
    flat, wide = room.sums.reshape(-1), room.sums.shape[1] * CHUNK
    for leaf in range(groups.leaf[g], groups.leaf[g + 1]):
        items = groups.items[groups.item_ptr[leaf] : groups.item_ptr[leaf + 1]]
        k = len(items)
        n_own = find_leaf_sets(room.rows, n_sets, items, own)
        found, weight = given
        if groups.bits[g] <= MOST_BITS:
            n_distinct = find_leaf_sets(room.background, len(found), items, backgrounds)
            found, weight = backgrounds.found[:n_distinct], backgrounds.weight[:n_distinct]
        for start in range(0, n_own, CHUNK):
            fill_leaf_values(
                own.found[start:], min(CHUNK, n_own - start), found, weight, k, orders,
                slots.pairs, room.terms, room.sums[start // CHUNK],
            )  # fmt: skip
        for r in range(n):
            which = own.which[room.rows.which[r]]
            room.at[r] = which // CHUNK * wide + which % CHUNK
        for j in range(trees.output_ptr[tree + 1] - trees.output_ptr[tree]):
            v = trees.value[trees.value_at[leaf] + j]
            sums = 0
            for i in range(k):
                for m in range(i if slots.pairs else 1):
                    slot = np.int64(items[i, SLOT])
                    if slots.pairs:
                        slot = pair_place(slot, np.int64(items[m, SLOT]))
                    out, found = target[room.offset[j * n_slots + slot] :], flat[sums * CHUNK :]
                    for r in range(n):
                        out[r] += v * found[room.at[r]]
                    sums += 1


@kernel
def fill_tables(
    groups, slots, trees, orders, background, n_background, ones, room, first, last, table
):
    """Fill the tables of the groups of few bits among those from `first` up to `last`."""
    plain = np.empty(PATTERNS)
    for g in range(first, last):
        if groups.bits[g] == 0 or groups.bits[g] > MOST_BITS:
            continue
        n_backgrounds = _find_patterns(background, n_background, ones, groups, g, room.background)
        size, places = 1 << groups.bits[g], PLACES[groups.bits[g]]
        begin = slots.table_ptr[g] - slots.table_ptr[first]
        n_rows = (slots.table_ptr[g + 1] - slots.table_ptr[g]) // places
        for p in range(size):
            room.rows.found[p], room.rows.which[p] = p, p
        for row in range(n_rows):
            room.offset[row] = begin + row * places
        table[begin : begin + n_rows * places] = 0.0
        given = room.background.found[:n_backgrounds], room.background.weight[:n_backgrounds]
        _add_group(g, groups, slots, trees, orders, size, given, size, room, table)
        if PLANES:
            parts, of_table, width = (
                plain.view(np.uint8),
                table.view(np.uint8),
                PART[groups.bits[g]],
            )
            for row in range(n_rows):
                plain[:size] = table[room.offset[row] : room.offset[row] + size]
                for k in range(8):
                    at = 8 * room.offset[row] + k // width * places * width + k % width
                    for p in range(size):
                        of_table[at + p * width] = parts[8 * p + k]


@kernel
def add_tables(groups, slots, trees, rows, n_rows, byte, first, last, table, total):
    """Add to `total`, float64 (n_outputs, n_targets, width), what tables have for rows."""
    at_table, at_total = np.int64(table.ctypes.data), np.int64(total.ctypes.data)
    at_rows, at_byte = np.int64(rows.ctypes.data), np.int64(byte.ctypes.data)
    at_column, at_tests = np.int64(groups.column.ctypes.data), np.int64(groups.tests.ctypes.data)
    n_targets, width, start = total.shape[1], total.shape[2], first
    while start < last:
        stop = start + 1
        while stop < last and slots.table_ptr[stop + 1] - slots.table_ptr[start] <= SPAN:
            stop += 1
        for row in range(0, n_rows, ROWS):
            n = -(-min(ROWS, n_rows - row) // LANES) * LANES
            for g in range(start, stop):
                bits, test, tree = groups.bits[g], groups.test_ptr[g], groups.tree[g]
                if bits == 0 or bits > MOST_BITS:
                    continue
                fill_patterns(
                    at_rows + row, width, at_column + 4 * test, at_tests + TEST * test,
                    groups.test_ptr[g + 1] - test, (1 << bits) - 1, at_byte, n,
                )  # fmt: skip
                at = at_table + 8 * (slots.table_ptr[g] - slots.table_ptr[first])
                for j in range(trees.output_ptr[tree], trees.output_ptr[tree + 1]):
                    for s in range(slots.ptr[g], slots.ptr[g + 1]):
                        of_slot = trees.output[j] * n_targets + slots.target[s]
                        sums = at_total + 8 * (of_slot * width + row)
                        if bits <= 6:
                            add_looked_up(at, at_byte, sums, n, 6)
                        elif bits == 7:
                            add_looked_up(at, at_byte, sums, n, 7)
                        else:
                            add_looked_up(at, at_byte, sums, n, 8)
                        at += 8 * PLACES[bits]
        start = stop
    # numba frees an array after its last use by name, and addresses are none.
    return table.size + byte.size + total.size + rows.size + groups.column.size + groups.tests.size


@kernel
def add_distinct(
    groups, slots, trees, orders, background, n_background, ones, room, counts, rows, n_rows,
    ones_of_rows, least_bits, total,
):  # fmt: skip
    """Add to `total` the values of groups of at least some bits, by distinct patterns of rows."""
    n_targets, width, flat = total.shape[1], total.shape[2], total.reshape(-1)
    for g in range(len(groups.bits)):
        if groups.bits[g] < least_bits:
            continue
        n_sets = _find_patterns(rows, n_rows, ones_of_rows, groups, g, room.rows)
        first, last, n, tree = counts.ptr[g], counts.ptr[g + 1], 0, groups.tree[g]
        given = counts.found[first:last], counts.weight[first:last]
        if first == last:
            found = _find_patterns(background, n_background, ones, groups, g, room.background)
            given = room.background.found[:found], room.background.weight[:found]
        for j in range(trees.output_ptr[tree], trees.output_ptr[tree + 1]):
            for s in range(slots.ptr[g], slots.ptr[g + 1]):
                room.offset[n] = (trees.output[j] * n_targets + slots.target[s]) * width
                n += 1
        _add_group(g, groups, slots, trees, orders, n_sets, given, n_rows, room, flat)

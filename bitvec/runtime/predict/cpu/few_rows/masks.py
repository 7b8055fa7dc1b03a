"""The bitvectors themselves: all nodes of 16 trees side by side, without a walk.

Column j of B has zeros on the leaves that a row leaves behind when it goes right at node j. Of 16
trees (8 or 4 with shorter vectors) one node each is tested at a time: a comparison of 16 keys, and
the zeros of the nodes at which rows go right are united. What is not zero then is the leaves that
survive, of which the first is the exit leaf. AND commutes, so nodes stand in any order: sorted by
the registers that hold their key columns, from which one instruction takes 16 of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.bitvector import oblivious
from bitvec.runtime.predict.cpu.few_rows import costs, set_rows
from bitvec.runtime.predict.cpu.few_rows.mask_kernels import (
    FIND,
    UNROLLED,
    lanes,
    place_bytes,
    window,
)
from bitvec.runtime.predict.cpu.kernel_arrays import aligned
from bitvec.runtime.predict.cpu.target import features, vectors
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import DOUBLE, reading_of

MOST_LEAVES = 1 << 20
"""Leaves of an oblivious tree: they are counted in 32 bits."""


def unsupported_reason(forest: Forest) -> str | None:
    """Return why a forest cannot be packed so, in a few words, or None."""
    if vectors() != "avx512" and not (vectors() == "portable" and "avx2" in features()):
        return "no instruction takes keys from a register"
    return None


def _bits(forest: Forest, dtype: np.dtype) -> int:
    """Return the bits of a key of X of a dtype."""
    return 64 if reading_of(dtype, forest.dtype) == DOUBLE else 32


def least_cycles(forest: Forest, dtype: np.dtype) -> float:
    """Return what a row costs at least, if every lane is used: a slot for each node or level."""
    n_slots: int = forest.n_nodes
    if oblivious.unsupported_reason(forest) is None:
        n_slots = int(np.ceil(np.log2(np.diff(forest.bitvectors.leaf_ptr))).sum())
    cycles = costs.masks_cycles(n_slots // lanes(_bits(forest, dtype)), 0, forest.n_trees, 0)
    return cycles + costs.key_cycles(forest, "masks")


class Masks:
    """A forest packed as bitvectors, for X of a dtype.

    Trees stand in groups of as many as there are lanes. A group has a segment of slots for each
    word of leaves (as many as a lane has bits), the last word first, and in that for each window of
    key columns (as many as registers hold). A slot has two vectors: one less than the threshold,
    and ones at the leaves of the word that a row leaves behind if its key is above that; and apart
    from these, as bytes, the place of the key column in its window. A node whose leaves lie in
    several words has a slot in each.

    A group of oblivious trees (all nodes of a level have one test) has a slot for each level: the
    exit leaf is the number whose digits are the outcomes, so that the united bits are it at once.
    """

    name = "masks"

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        compared = min(dtype, forest.dtype, key=lambda each: each.itemsize)
        reading = reading_of(dtype, forest.dtype)
        bits = _bits(forest, dtype)
        keys_of = set_rows.layout_of(forest, compared)
        key_columns = keys_of.columns[1:]  # without the one that leaves of a walk read
        n_keys = keys_of.n_keys - 1
        integer = np.dtype(f"i{bits // 8}")
        limits = np.iinfo(integer)
        missing = np.where(key_columns["missing"] == 0, limits.min, limits.max)
        is_compared = key_columns["content"] == keyed.COMPARED
        key_columns["missing"][is_compared] = missing[is_compared]
        size = window(bits)
        n_windows = -(-n_keys // size)
        n_lanes, n_trees = lanes(bits), forest.n_trees
        n_groups = -(-n_trees // n_lanes)

        def padded(values: Array) -> Array:
            room = aligned(n_windows * size * integer.itemsize).view(integer)
            room[:] = 0
            room[: values.size] = values
            return room

        first_leaf = np.zeros(n_groups * n_lanes, np.int32)
        first_leaf[:n_trees] = forest.bitvectors.leaf_ptr[:-1]
        n_words, counts, places, slots = _slots(
            forest, compared, bits, keys_of.of_node - 1, n_windows, n_groups
        )
        n_bytes = places.nbytes + slots.nbytes
        self.cycles = costs.masks_cycles(int(counts.sum()), counts.size, n_trees, n_bytes)
        self.cycles += costs.key_cycles(forest, "masks")
        self.keys_bytes = n_windows * size * bits // 8
        self.leaves_bytes = 4 * n_groups * n_lanes
        self.has_vectors = False
        self.fields: dict[str, Any] = {
            "find": FIND[reading].address(),
            **keys_of.fields,
            "n_columns": key_columns.size,
            "n_compared": int(np.count_nonzero(is_compared)),
            "key_columns": key_columns,
            "reading": reading,
            "columns": padded(key_columns["column"]),
            "missing": padded(missing),
            "missing_first": padded(key_columns["missing_first"]),
            "missing_last": padded(key_columns["missing_last"]),
            "n_groups": n_groups,
            "n_windows": n_windows,
            "n_words": n_words,
            "counts": counts,
            "places": places,
            "slots": slots,
            "first_leaf": first_leaf,
        }


def _slots(
    forest: Forest, dtype: np.dtype, bits: int, of_node: Array, n_windows: int, n_groups: int
) -> tuple[Array, Array, Array, Array]:
    """Return each group's number of words, each segment's of slots, and the slots' two parts.

    Words are none in groups of oblivious trees.
    """
    B, tests, n_lanes, size = forest.bitvectors, forest.tests, lanes(bits), window(bits)
    below = keys.thresholds(tests.b, tests.relation, dtype) - 1
    below[(tests.kind == Kind.EQUAL) | (tests.kind == Kind.SET)] = 0
    tree = B.tree_of_node
    levels = _levels(B, np.stack([of_node, below]))
    has_levels = np.ones(n_groups * n_lanes, bool)
    has_levels[tree[levels < 0]] = False
    is_oblivious = np.min(has_levels.reshape(n_groups, n_lanes), axis=1, initial=True)
    most = np.ones(n_groups * n_lanes, np.int64)
    most[: B.n_trees] = np.diff(B.leaf_ptr)
    n_words = -(-most.reshape(n_groups, n_lanes).max(axis=1, initial=1) // bits)
    n_words[is_oblivious] = 1
    segment_ptr = np.concatenate([[0], np.cumsum(n_words * n_windows)])

    # One entry for each node and word that has leaves which the node leaves behind; of an oblivious
    # tree one for each level.
    lo, mid = B.lo.astype(np.int64), B.mid.astype(np.int64)
    by_level = is_oblivious[tree // n_lanes]
    n_of = np.where(by_level, levels == 1, (mid - 1) // bits - lo // bits + 1)
    node = np.repeat(np.arange(B.n_nodes), n_of)
    word = ranges(np.where(by_level, 0, lo // bits), n_of)
    group, lane = np.divmod(tree[node], n_lanes)
    key_window, place = np.divmod(of_node[node], size)
    segment = segment_ptr[group] + (n_words[group] - 1 - word) * n_windows + key_window
    # Entries of one segment and lane stand one below the other.
    run = segment * n_lanes + lane
    order = np.argsort(run, kind="stable")
    run_size = np.bincount(run, minlength=segment_ptr[-1] * n_lanes)
    rank = np.empty(node.size, np.int64)
    rank[order] = ranges(np.zeros(run_size.size, np.int64), run_size)
    counts = run_size.reshape(-1, n_lanes).max(axis=1, initial=0)
    counts = -(-counts // UNROLLED) * UNROLLED
    slot = (np.cumsum(counts) - counts)[segment] + rank

    first = np.maximum(lo[node] - word * bits, 0).astype(np.uint64)
    last = np.minimum(mid[node] - word * bits, bits).astype(np.uint64)
    every = np.uint64(2**bits - 1)
    # Ones at the leaves [first, last): a shift by 64 bits is none, so the upper end goes down.
    ones = (every << first) & (every >> (np.uint64(bits) - last))
    ones = np.where(by_level[node], (mid - lo)[node].astype(np.uint64), ones)
    kind = np.dtype(f"u{bits // 8}")
    n_slots, n_bytes = int(counts.sum()), place_bytes(bits)
    slots = aligned(n_slots * 2 * n_lanes * kind.itemsize).view(kind).reshape(-1, 2, n_lanes)
    slots[:] = 0
    slots[slot, 0, lane] = below[node].astype(kind)
    slots[slot, 1, lane] = ones.astype(kind)
    # A key of 64 bits in a short register is taken as two halves, which have places of their own.
    halves = n_bytes // n_lanes
    places = aligned(n_slots * n_bytes).reshape(-1, n_lanes, halves)
    places[:] = 0
    for half in range(halves):
        places[slot, lane, half] = halves * place + half
    n_words[is_oblivious] = 0
    return n_words.astype(np.int64), counts.astype(np.int64), places, slots


def _levels(B: Bitvectors, tests: Array) -> Array:
    """Return 1 for the first node of each level of an oblivious tree, 0 for its others, else -1.

    A tree is oblivious if it is full and the nodes of a level have one test: a column of `tests`.
    """
    lo, mid, hi = (part.astype(np.int64) for part in (B.lo, B.mid, B.hi))
    tree, n_leaves = B.tree_of_node, np.diff(B.leaf_ptr)
    left = mid - lo
    # Breadth first, the nodes of a full tree with so many leaves to the left begin here.
    first = np.minimum(n_leaves[tree] // (2 * left) - 1, np.diff(B.node_ptr)[tree] - 1)
    first += B.node_ptr[:-1][tree]
    fits = (left == hi - mid) & (tests == tests[:, first]).all(axis=0)
    fits &= n_leaves[tree] <= MOST_LEAVES
    is_oblivious = np.ones(B.n_trees, bool)
    is_oblivious[tree[~fits]] = False
    return np.where(is_oblivious[tree], first == np.arange(B.n_nodes), -1)

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

from bitvec.core.arrays import Array, ranges, unique_integers
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.bitvector import oblivious
from bitvec.runtime.predict.cpu.few_rows import costs, ranked_keys, set_masks, set_rows
from bitvec.runtime.predict.cpu.few_rows.mask_kernels import (
    FIND,
    UNROLLED,
    lanes,
    place_bytes,
    window,
)
from bitvec.runtime.predict.cpu.kernel_arrays import CACHE_LINE, aligned, constant
from bitvec.runtime.predict.cpu.target import features, vectors
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import DOUBLE, reading_of

MOST_LEAVES = 1 << 20
"""Leaves of an oblivious tree: they are counted in 32 bits."""


def unsupported_reason(forest: Forest) -> str | None:
    """Return why a forest cannot be packed so, in a few words, or None."""
    if vectors() != "avx512" and not (vectors() == "portable" and "avx2" in features()):
        return "no instruction takes keys from a register"
    if set_masks.most_bytes(forest) > set_masks.MOST_BYTES:
        return "its sets hold too many codes"
    return None


def _bits(forest: Forest, dtype: np.dtype) -> int:
    """Return the bits of a key of X of a dtype: of float64 64, or 32 where ranks cost less."""
    if reading_of(dtype, forest.dtype) != DOUBLE:
        return 32
    is_compared = _is_compared(forest)
    wide = costs.masks_cycles(_n_slots(forest) // lanes(64), 0, 0, 0)
    narrow = costs.masks_cycles(_n_slots(forest) // lanes(32), 0, 0, 0)
    columns = unique_integers(forest.tests.feature[is_compared]).size
    cuts = np.count_nonzero(is_compared) / max(1, columns)
    return 32 if narrow + costs.rank_cycles(columns, cuts) < wide else 64


def _is_compared(forest: Forest) -> Array:
    kind = forest.tests.kind
    return (kind != Kind.EQUAL) & (kind != Kind.SET)


def _n_slots(forest: Forest) -> int:
    """Return the nodes, or of oblivious trees the levels, that are no sets."""
    if oblivious.unsupported_reason(forest) is None:
        return int(np.ceil(np.log2(np.diff(forest.bitvectors.leaf_ptr))).sum())
    return int(np.count_nonzero(forest.tests.kind != Kind.SET))


def least_cycles(forest: Forest, dtype: np.dtype) -> float:
    """Return what a row costs at least, if every lane is used: a slot for each node or level."""
    n_slots = _n_slots(forest) // lanes(_bits(forest, dtype))
    cycles = costs.masks_cycles(n_slots, 0, 0, 0) + costs.added_cycles(forest)
    return cycles + costs.key_cycles(forest, "masks")


class Masks:
    """A forest packed as bitvectors, for X of a dtype.

    Trees stand in groups of as many as there are lanes. A group has a segment of slots for each
    word of leaves (as many as a lane has bits), the last word first, and in that for each window of
    key columns (as many as registers hold). A slot has two vectors: one less than the threshold,
    and ones at the leaves of the word that a row leaves behind if its key is above that; and apart
    from these, as bytes, the place of the key column in its window. A node whose leaves lie in
    several words has a slot in each. Nodes that test sets have none: see `set_masks`.

    A group of oblivious trees (all nodes of a level have one test) has a slot for each level: the
    exit leaf is the number whose digits are the outcomes, so that the united bits are it at once.

    Parameters
    ----------
    forest : Forest
    dtype : numpy dtype
        Of X.
    bits : {32, 64}, optional
        Of a key of float64; what costs less if not given.
    """

    name = "masks"

    def __init__(self, forest: Forest, dtype: np.dtype, bits: int | None = None) -> None:
        compared = min(dtype, forest.dtype, key=lambda each: each.itemsize)
        reading, bits = reading_of(dtype, forest.dtype), bits or _bits(forest, dtype)
        keys_of = set_rows.layout_of(forest, compared)
        key_columns = keys_of.columns[1:]  # without the one that leaves of a walk read
        integer = np.dtype(np.int64 if reading == DOUBLE else np.int32)
        n_compared = int(np.count_nonzero(key_columns["content"] == keyed.COMPARED))
        size = window(bits)
        n_windows = -(-key_columns.size // size)

        def padded(values: Array) -> Array:
            room = aligned(n_windows * size * integer.itemsize).view(integer)
            room[:] = 0
            room[: values.size] = values
            return room

        tests = forest.tests
        below = keys.thresholds(tests.b, tests.relation, compared) - 1
        ranked: dict[str, Any] = {}
        if reading == DOUBLE and bits == 32:
            nodes = np.flatnonzero(_is_compared(forest))
            of_column = keys_of.of_node[nodes] - 1
            below[nodes], ranked = ranked_keys.rank(of_column, below[nodes], n_compared)
        below[~_is_compared(forest)] = 0
        slots = _slots(forest, bits, below, keys_of, n_windows)
        # Behind the keys lie the values whose ranks they are, the addresses of sets' vectors, and
        # the leaves in the order of the groups where that is not the one of the trees.
        values_at = n_windows * size * bits // 8
        addresses_at = values_at + (-(-n_compared // CACHE_LINE) * CACHE_LINE * 8 if ranked else 0)
        found_at = -(-(addresses_at + 8 * slots["n_sets"]) // CACHE_LINE) * CACHE_LINE
        self.leaves_bytes = 4 * slots["first_leaf"].size
        self.keys_bytes = found_at + (self.leaves_bytes if slots["turn_of_tree"] is not None else 0)
        self.has_vectors = False
        self.cycles = _cycles(slots, forest.n_trees) + costs.added_cycles(forest)
        self.cycles += costs.key_cycles(forest, "masks")
        if ranked:
            self.cycles += costs.rank_cycles(n_compared, ranked["cuts"].size / max(1, n_compared))
        self.fields: dict[str, Any] = {
            "find": FIND[reading, bits].address(),
            "n_columns": key_columns.size,
            "n_compared": n_compared,
            "key_columns": key_columns,
            "reading": reading,
            "columns": padded(key_columns["column"]),
            "missing": padded(key_columns["missing"]),
            "missing_first": padded(key_columns["missing_first"]),
            "missing_last": padded(key_columns["missing_last"]),
            "n_windows": n_windows,
            "values_at": values_at,
            "addresses_at": addresses_at,
            "found_at": found_at,
            **ranked,
            **slots,
        }


def _cycles(slots: dict[str, Any], n_trees: int) -> float:
    counts: Array = slots["counts"]
    n_united = slots["n_sets"] * int(np.maximum(slots["n_words"], 1).sum())
    n_bytes = slots["places"].nbytes + slots["slots"].nbytes
    n_put = 0 if slots["turn_of_tree"] is None else n_trees
    found = costs.masks_cycles(int(counts.sum()), counts.size, n_united, n_bytes)
    return found + costs.sorted_cycles(n_put, 0)


def _slots(
    forest: Forest, bits: int, below: Array, keys_of: set_rows.KeyLayout, n_windows: int
) -> dict[str, Any]:
    """Return fields of a header: each group's number of words, each segment's of slots, and these.

    Words are none in groups of oblivious trees.
    """
    B, n_lanes = forest.bitvectors, lanes(bits)
    n_groups = -(-B.n_trees // n_lanes)
    turn_of_tree = _turns(B, n_lanes)
    tree = turn_of_tree[B.tree_of_node]
    levels = _levels(B, np.stack([keys_of.of_node, below]))
    has_levels = np.ones(n_groups * n_lanes, bool)
    has_levels[tree[levels < 0]] = False
    is_oblivious = np.min(has_levels.reshape(n_groups, n_lanes), axis=1, initial=True)
    most = np.ones(n_groups * n_lanes, np.int64)
    most[turn_of_tree] = np.diff(B.leaf_ptr)
    n_words = -(-most.reshape(n_groups, n_lanes).max(axis=1, initial=1) // bits)
    n_words[is_oblivious] = 1

    # One entry for each node and word that has leaves which the node leaves behind; of an oblivious
    # tree one for each level.
    lo, mid = B.lo.astype(np.int64), B.mid.astype(np.int64)
    by_level = is_oblivious[tree // n_lanes]
    n_of = np.where(by_level, levels == 1, (mid - 1) // bits - lo // bits + 1)
    node = np.repeat(np.arange(B.n_nodes), n_of)
    word = ranges(np.where(by_level, 0, lo // bits), n_of)
    group, lane = np.divmod(tree[node], n_lanes)
    word_vector = np.cumsum(n_words)[group] - 1 - word
    first = np.maximum(lo[node] - word * bits, 0).astype(np.uint64)
    last = np.minimum(mid[node] - word * bits, bits).astype(np.uint64)
    every = np.uint64(2**bits - 1)
    # Ones at the leaves [first, last): a shift by 64 bits is none, so the upper end goes down.
    ones = (every << first) & (every >> (np.uint64(bits) - last))
    ones = np.where(by_level[node], (mid - lo)[node].astype(np.uint64), ones)
    ones = ones.astype(f"u{bits // 8}")
    key = keys_of.of_node[node]
    is_set = forest.tests.kind[node] == Kind.SET
    n_vectors = int(n_words.sum())
    of_sets = set_masks.fields_of(
        keys_of,
        key[is_set],
        (word_vector * n_lanes + lane)[is_set],
        ones[is_set],
        n_vectors * n_lanes,
    )

    key, lane, word_vector, ones, node = (
        part[~is_set] for part in (key - 1, lane, word_vector, ones, node)
    )
    packed = _packed(key, lane, word_vector, ones, below[node], n_vectors, n_windows)
    first_leaf = np.zeros(n_groups * n_lanes, np.int32)
    first_leaf[turn_of_tree] = B.leaf_ptr[:-1]
    n_words[is_oblivious] = 0
    is_sorted = bool((turn_of_tree[1:] < turn_of_tree[:-1]).any())
    return {
        "turn_of_tree": constant(turn_of_tree) if is_sorted else None,
        "n_groups": n_groups,
        "n_words": n_words.astype(np.int64),
        "first_leaf": first_leaf,
        **packed,
        **of_sets,
    }


def _packed(
    key: Array,
    lane: Array,
    word_vector: Array,
    ones: Array,
    below: Array,
    n_vectors: int,
    n_windows: int,
) -> dict[str, Any]:
    """Return fields of a header: the slots of each segment, and their two parts."""
    bits = 8 * ones.itemsize
    n_lanes = lanes(bits)
    key_window, place = np.divmod(key, window(bits))
    segment = word_vector * n_windows + key_window
    # Entries of one segment and lane stand one below the other.
    run = segment * n_lanes + lane
    order = np.argsort(run, kind="stable")
    run_size = np.bincount(run, minlength=n_vectors * n_windows * n_lanes)
    turn = np.empty(key.size, np.int64)
    turn[order] = ranges(np.zeros(run_size.size, np.int64), run_size)
    counts = run_size.reshape(-1, n_lanes).max(axis=1, initial=0)
    counts = -(-counts // UNROLLED) * UNROLLED
    slot = (np.cumsum(counts) - counts)[segment] + turn
    n_slots, n_bytes = int(counts.sum()), place_bytes(bits)
    slots = aligned(n_slots * 2 * n_lanes * ones.itemsize).view(ones.dtype)
    slots = slots.reshape(-1, 2, n_lanes)
    slots[:] = 0
    slots[slot, 0, lane] = below.astype(ones.dtype)
    slots[slot, 1, lane] = ones
    # A key of 64 bits in a short register is taken as two halves, which have places of their own.
    halves = n_bytes // n_lanes
    places = aligned(n_slots * n_bytes).reshape(-1, n_lanes, halves)
    places[:] = 0
    for half in range(halves):
        places[slot, lane, half] = halves * place + half
    return {"counts": counts.astype(np.int64), "places": places, "slots": slots}


def _turns(B: Bitvectors, n_lanes: int) -> Array:
    """Return the turn at which each tree stands: by leaves where that saves slots, else its own.

    A group has as many slots as its largest tree.
    """
    n_nodes = np.diff(B.node_ptr)
    order = np.argsort(n_nodes, kind="stable")
    groups = np.arange(0, B.n_trees, n_lanes)
    most = [int(np.maximum.reduceat(n, groups).sum()) for n in (n_nodes, n_nodes[order])]
    turns = np.arange(B.n_trees)
    if costs.sorted_cycles(B.n_trees, most[1]) < costs.sorted_cycles(0, most[0]):
        turns[order] = np.arange(B.n_trees)
    return turns


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

"""Groups of leaves, neighbours under one node, whose values depend on few bits of a row.

A bit says whether a row satisfies all edges of one feature above the group's node, or whether it
goes right at one node inside the group. A leaf of the group is reached through a feature where the
feature's bits of the leaf have the values that the leaf wants. Groups are the largest subtrees of
at most MOST_BITS bits; a leaf that alone has more is a group of its own, with a bit a feature.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.explanations.pattern_vectors import BIT, LOW, MOST_BITS, WIDTH
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant

SLOT, CARE, WANT = range(3)
"""Fields of an item: the place of its feature in its group, its bits, and what these must be."""


class PatternGroups(NamedTuple):
    """The groups of a forest, in the order of their leaves.

    Parameters
    ----------
    tree : int64, (n_groups,)
    bits : int64, (n_groups,)
    leaf : int64, (n_groups + 1,)
        The first leaf of each group, and the one after the last.
    test_ptr : int64, (n_groups + 1,)
    column : int32, (n_tests,)
        The binned column of a test.
    tests : uint8, (n_tests, 3)
        LOW, WIDTH and BIT as in `pattern_vectors`, by rising bits within a group.
    slot_ptr : int64, (n_groups + 1,)
    slot : int64, (n_slots,)
        The features that a group's leaves read.
    item_ptr : int64, (n_leaves + 1,)
    items : uint8, (n_items, 3)
        The features of each leaf: SLOT, CARE and WANT. CARE is 0 in a group of more than MOST_BITS
        bits: there the bit of a feature has the number SLOT.
    """

    tree: Any
    bits: Any
    leaf: Any
    test_ptr: Any
    column: Any
    tests: Any
    slot_ptr: Any
    slot: Any
    item_ptr: Any
    items: Any


@inner
def _index(values, first, n, value):
    """Return where a value stands among those from `first` on, or n."""
    at = first
    while at < n and values[at] != value:
        at += 1
    return at


@inner
def _add_test(column, tests, first, n, node, right, bin_column, least, bit):
    """Add the outcome of a node to the tests of a bit, which are those from `first` on."""
    at = _index(column, first, n, bin_column[node])
    low, high = np.int64(0), np.int64(256)
    if at < n:
        low = np.int64(tests[at, LOW])
        high = low + np.int64(tests[at, WIDTH])
    if right:
        low = max(low, least[node])
    else:
        high = min(high, least[node])
    column[at], tests[at, BIT] = bin_column[node], bit
    tests[at, LOW], tests[at, WIDTH] = low, max(high - low, 0)
    return max(n, at + 1)


@kernel
def _fill_groups(
    leaf_ptr, path_ptr, path_node, path_right, lo, hi, bin_column, least, feature, groups
):
    """Fill the groups, and return how many there are, and how many tests, slots and items."""
    tree, bits, leaf, test_ptr, column, tests, slot_ptr, slot, item_ptr, items = groups
    n, n_tests, n_slots, n_items, deepest = 0, 0, 0, 0, 1
    for at in range(len(path_ptr) - 1):
        deepest = max(deepest, path_ptr[at + 1] - path_ptr[at])
    above, inside = np.empty(deepest, np.int64), np.empty(MOST_BITS + 1, np.int64)
    for t in range(len(leaf_ptr) - 1):
        start = leaf_ptr[t]
        while start < leaf_ptr[t + 1]:
            path = path_node[path_ptr[start] : path_ptr[start + 1]]
            rights = path_right[path_ptr[start] : path_ptr[start + 1]]
            depth, n_above, n_inside, stop = 0, 0, 0, start + 1
            while depth < len(path):
                node = path[depth]
                n_nodes = hi[node] - lo[node] - 1
                if leaf_ptr[t] + lo[node] == start and n_above + n_nodes <= MOST_BITS:
                    stop = leaf_ptr[t] + hi[node]
                    break
                at = _index(above, 0, n_above, feature[node])
                above[at] = feature[node]
                n_above = max(n_above, at + 1)
                depth += 1
            for i in range(n_above):
                first = n_tests
                for m in range(depth):
                    if feature[path[m]] == above[i]:
                        given = path[m], rights[m], bin_column, least, i
                        n_tests = _add_test(column, tests, first, n_tests, *given)
            for under in range(start, stop):
                first = n_items
                for m in range(path_ptr[under], path_ptr[under + 1]):
                    node, wanted = path_node[m], path_right[m]
                    at = _index(slot, slot_ptr[n], n_slots, feature[node])
                    slot[at] = feature[node]
                    n_slots = max(n_slots, at + 1)
                    item = _index(items[:, SLOT], first, n_items, at - slot_ptr[n])
                    if item == n_items:
                        items[item, SLOT], items[item, CARE], items[item, WANT] = (
                            at - slot_ptr[n], 0, 0,
                        )  # fmt: skip
                        n_items += 1
                    if m - path_ptr[under] < depth:
                        bit, wanted = _index(above, 0, n_above, feature[node]), True
                    else:
                        bit = n_above + _index(inside, 0, n_inside, node)
                        if bit == n_above + n_inside:
                            given = node, True, bin_column, least, bit
                            n_tests = _add_test(column, tests, n_tests, n_tests, *given)
                            inside[n_inside] = node
                            n_inside += 1
                    if n_above <= MOST_BITS:
                        items[item, CARE] |= 1 << bit
                        items[item, WANT] |= np.int64(wanted) << bit
                item_ptr[under + 1] = n_items
            tree[n], bits[n] = t, n_above + n_inside
            n += 1
            leaf[n], test_ptr[n], slot_ptr[n] = stop, n_tests, n_slots
            start = stop
    return n, n_tests, n_slots, n_items


def pattern_groups(forest: Forest, outcomes: OutcomeBytes) -> PatternGroups:
    """Return the groups of a forest whose nodes read one column each."""
    B = forest.bitvectors
    paths = tree_paths.path_table(B)
    n, size = forest.n_leaves, paths[1].size
    leaf, test_ptr, slot_ptr, item_ptr = (np.zeros(n + 1, np.int64) for _ in range(4))
    tree, bits, slot = np.zeros(n, np.int64), np.zeros(n, np.int64), np.empty(size + 1, np.int64)
    column, tests = np.empty(size + n, np.int32), np.empty((size + n, 3), np.uint8)
    items = np.empty((size + 1, 3), np.uint8)
    given: tuple[Array, ...] = (
        tree,
        bits,
        leaf,
        test_ptr,
        column,
        tests,
        slot_ptr,
        slot,
        item_ptr,
        items,
    )
    nodes = B.lo, B.hi, outcomes.bin_column, outcomes.least, forest.tests.feature
    read = map(constant, (B.leaf_ptr, *paths, *nodes))
    m, n_tests, n_slots, n_items = _fill_groups(*read, PatternGroups(*given))
    ends = m, m, m + 1, m + 1, n_tests, n_tests, m + 1, n_slots, n + 1, n_items
    parts = zip(given, ends, strict=True)
    return PatternGroups(*(constant(part[:end].copy()) for part, end in parts))

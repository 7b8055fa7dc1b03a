"""Subtrees at the bottom of trees whose values depend on few bits of a row.

A bit says whether the row goes right at a node of the subtree, or whether it goes along all edges
above it of a feature that the subtree tests again. Subtrees are the largest of at most MOST_BITS
bits. A leaf whose node has more below is a subtree of its own.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import constant

MOST_BITS: Final = 4
PATTERNS: Final = 1 << MOST_BITS


class Subtrees(NamedTuple):
    """The subtrees of a forest, in the order of their leaves.

    Parameters
    ----------
    node : int64, (n_subtrees,)
        Their first nodes.
    leaf : int64, (n_subtrees, 2)
        The first leaf of each within its tree, and the one after the last.
    n_bits : int64, (n_subtrees,)
    bit : int64, (n_subtrees, MOST_BITS)
        The node whose outcome a bit is, or ~depth of the edge that a row goes along or not.
    slot_ptr : int64, (n_subtrees + 1,)
    feature : int64, (n_slots,)
        The features that a subtree tests.
    share : float64, (n_slots,)
        z of the feature from the root to the last edge above the subtree, 1 without one.
    above : int64, (n_slots,)
        The bit of that edge, -1 without one.
    """

    node: Any
    leaf: Any
    n_bits: Any
    bit: Any
    slot_ptr: Any
    feature: Any
    share: Any
    above: Any

    @classmethod
    def of(cls, n_leaves: int, n_slots: int) -> Subtrees:
        """Return room for subtrees of so many leaves and features."""
        node, n_bits = np.zeros(n_leaves, np.int64), np.zeros(n_leaves, np.int64)
        leaf, bit = np.zeros((n_leaves, 2), np.int64), np.zeros((n_leaves, MOST_BITS), np.int64)
        feature, share, above = (
            np.zeros(n_slots, np.int64),
            np.zeros(n_slots),
            np.zeros(n_slots, np.int64),
        )
        return cls(node, leaf, n_bits, bit, np.zeros(n_leaves + 1, np.int64), feature, share, above)

    def cut(self, n: int) -> Subtrees:
        """Return the first n, for kernels that read them."""
        n_slots = int(self.slot_ptr[n])
        ends = n, n, n, n, n + 1, n_slots, n_slots, n_slots
        return Subtrees(*(constant(part[:end]) for part, end in zip(self, ends, strict=True)))


@inner
def place_of_feature(subtrees, s, n, feature):
    """Return where a feature stands among the n slots of a subtree, or n."""
    first, at = subtrees.slot_ptr[s], 0
    while at < n and subtrees.feature[first + at] != feature:
        at += 1
    return at


@inner
def place_of_node(subtrees, s, n, node):
    """Return the number of the bit of a node among the first n of a subtree, or n."""
    at = 0
    while at < n and subtrees.bit[s, at] != node:
        at += 1
    return at


@inner
def find_subtree(subtrees, s, node, first, last, left, right, mid, feature, depth, on_path, shares):
    """Fill subtree s, of the leaves from `first` to `last` of a node's; say whether it fits.

    `on_path` are, by depth, the feature of the edges above and, in `shares`, z of these features.
    Also returns the most features of a leaf's path that are none of the edges above.
    """
    first_slot = subtrees.slot_ptr[s]
    n_bits, n_slots, most = 0, 0, 0
    for leaf in range(first, last):
        below, new, seen = node, 0, 0
        while below >= 0:
            at = place_of_node(subtrees, s, n_bits, below)
            if at == n_bits:
                if n_bits == MOST_BITS:
                    return False, 0
                subtrees.bit[s, n_bits] = below
                n_bits += 1
            slot = place_of_feature(subtrees, s, n_slots, feature[below])
            if slot == n_slots:
                same = depth
                while same > 0 and on_path[same] != feature[below]:
                    same -= 1
                subtrees.feature[first_slot + slot] = feature[below]
                subtrees.share[first_slot + slot] = shares[same] if same else 1.0
                subtrees.above[first_slot + slot] = -1
                if same:
                    if n_bits == MOST_BITS:
                        return False, 0
                    subtrees.bit[s, n_bits] = ~same
                    subtrees.above[first_slot + slot] = n_bits
                    n_bits += 1
                n_slots += 1
            if not (seen >> slot) & 1:
                seen |= 1 << slot
                new += subtrees.above[first_slot + slot] < 0
            below = right[below] if leaf >= mid[below] else left[below]
        most = max(most, new)
    subtrees.node[s], subtrees.n_bits[s] = node, n_bits
    subtrees.leaf[s, 0], subtrees.leaf[s, 1] = first, last
    subtrees.slot_ptr[s + 1] = first_slot + n_slots
    return True, most

"""Tests of trees as cuts of their columns, and the pairs of leaves of two trees that rows share.

A test of one column is the set of values that it sends right: what happens to the lowest value, the
keys at which that changes, and the way of NaN. Every other test is a variable of its own that is
true or false, shared by tests that are the same bit by bit; nothing is known of how such variables
depend on each other, so regions may be larger than what rows reach, never smaller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.float_keys import key_of
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.core.value_sets import missing_values, told_values
from bitvec.verify.source_trees import SourceTrees

Region = dict[int, int]
"""For each variable that a path tests, the atoms that it admits, as bits; NaN is the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """The tests of trees, one row each.

    `variable` is a column, or n_features and more where the test is a variable of its own, whose
    only cut is at 0. `key` holds the first values, rising, from which on a test goes the other way
    than just below; `right` says where the lowest value goes, `missing_right` where NaN does.
    """

    variable: Int64[Array, " n_nodes"]
    right: Bool[Array, " n_nodes"]
    missing_right: Bool[Array, " n_nodes"]
    ptr: Int64[Array, " n_nodes_plus_1"]
    key: Int64[Array, " n_cuts"]

    def of(self, node: int) -> list[int]:
        """Return the cuts of one test."""
        keys: list[int] = self.key[self.ptr[node] : self.ptr[node + 1]].tolist()
        return keys


def top_key(dtype: np.dtype, *, infinite: bool) -> int:
    """Return the key of the largest value that a row may hold."""
    return key_of(np.inf, dtype) - (not infinite)


def cuts(trees: SourceTrees, top: int, others: dict[bytes, int]) -> Cuts:
    """Return the cuts of all tests; `others` numbers those that are variables of their own."""
    tests, n = trees.tests, trees.tests.n_nodes
    variable = tests.feature.astype(np.int64)
    one = np.flatnonzero(variable >= 0)
    wide = np.flatnonzero(variable < 0)
    for node in wide.tolist():
        name = _bits_of(trees, node)
        variable[node] = trees.n_features + others.setdefault(name, len(others))
    told, others_right = told_values(tests, one, trees.row_dtype)
    special = missing_values(tests, one, trees.row_dtype, trees.missing_sentinel)
    every, lowest = np.arange(one.size), np.full(one.size, -top)
    which = np.concatenate([every, *[told.which] * 2, *[special.which] * 2])
    ends = (told.first, told.last + 1, special.first, special.last + 1)
    key = np.clip(np.concatenate([lowest, *ends]), -top, top + 1)
    step = np.repeat(
        np.array([0, 1, -1, 2, -2], np.int8),  # 1 within what is told, 2 within what is missing
        [one.size, *[told.which.size] * 2, *[special.which.size] * 2],
    )
    order = np.lexsort((key, which))
    which, key, state = which[order], key[order], np.cumsum(step[order])
    # After all steps at a key; what begins beyond the highest value is empty.
    holds = np.append((which[1:] != which[:-1]) | (key[1:] != key[:-1]), True)[: key.size]
    holds &= key <= top
    which, key, state = which[holds], key[holds], state[holds]
    goes_right = np.where(
        state >= 2, tests.missing_right[one[which]], (state % 2 == 1) != others_right[which]
    )
    begins = np.ones(which.size, bool)
    begins[1:] = which[1:] != which[:-1]
    turns = ~begins
    turns[1:] &= goes_right[1:] != goes_right[:-1]
    right = np.zeros(n, bool)
    right[one] = goes_right[begins]
    count = np.zeros(n, np.int64)
    count[one] = np.bincount(which[turns], minlength=one.size)
    count[wide] = 1
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    merged = np.zeros(int(ptr[-1]), np.int64)
    merged[ranges(ptr[one], count[one])] = key[turns]
    missing_right = tests.missing_right & (variable < trees.n_features)
    return Cuts(variable, right, missing_right, ptr, merged)


def _bits_of(trees: SourceTrees, node: int) -> bytes:
    """Return the bits of a test of several columns; its sums run in the order of storage."""
    tests = trees.tests
    rows, entries = tests.part_of(node)
    sentinel = trees.missing_sentinel
    parts: list[Array | None] = [
        np.diff(tests.row_ptr[rows.start : rows.stop + 1]),
        tests.column[entries],
        tests.activation[rows],
        tests.indicator[entries] if tests.indicator is not None else np.full(1, -1, np.int32),
        *(
            np.asarray(value, np.float64)
            for value in (
                tests.weight[entries],
                tests.offset[rows],
                tests.r[rows],
                tests.b[node] + 0.0,  # comparisons do not tell the zeros apart
                np.nan if tests.substitute is None else tests.substitute[entries],
                np.nan if sentinel is None else sentinel,
            )
        ),
        *(getattr(tests, name)[node] for name in ("kind", "relation", "missing_rule")),
        tests.missing_right[node],
    ]
    return b"|".join(np.ascontiguousarray(part).tobytes() for part in parts)


def same_tests(
    a: Cuts, b: Cuts, i: Int64[Array, " n"], j: Int64[Array, " n"], *, missing: bool
) -> tuple[Bool[Array, " n"], Bool[Array, " n"]]:
    """Tell which tests i of `a` equal tests j of `b`, and which of these with sides exchanged."""
    first, count = a.ptr[i], a.ptr[i + 1] - a.ptr[i]
    same = (a.variable[i] == b.variable[j]) & (count == b.ptr[j + 1] - b.ptr[j])
    swapped = a.right[i] != b.right[j]
    if missing:
        same &= (a.missing_right[i] != b.missing_right[j]) == swapped
    at = np.flatnonzero(same)
    pair = np.repeat(at, count[at])
    equal = a.key[ranges(first[at], count[at])] == b.key[ranges(b.ptr[j[at]], count[at])]
    same[pair[~equal]] = False
    return same, swapped


class Space:
    """The atoms of some tests of two forests: intervals on which each test is constant."""

    def __init__(
        self, sides: tuple[Cuts, Cuts], nodes: tuple[list[int], list[int]], n_features: int,
        *, missing: bool,
    ) -> None:  # fmt: skip
        self.sides, self.n_features, self.missing = sides, n_features, missing
        found: dict[int, set[int]] = {}
        for side, members in zip(sides, nodes, strict=True):
            for node in members:
                found.setdefault(int(side.variable[node]), set()).update(side.of(node))
        self.cuts = {variable: sorted(keys) for variable, keys in found.items()}
        self._masks: dict[tuple[int, int], tuple[int, int, int]] = {}

    def mask(self, side: int, node: int) -> tuple[int, int, int]:
        """Return a test's variable, the atoms that it sends right and all atoms."""
        known = self._masks.get((side, node))
        if known is not None:
            return known
        own = self.sides[side]
        variable = int(own.variable[node])
        cuts = self.cuts[variable]
        n_atoms = len(cuts) + 1
        every = (1 << n_atoms) - 1
        right = every if own.right[node] else 0
        for key in own.of(node):
            behind = bisect_left(cuts, key) + 1
            right ^= every >> behind << behind
        if self.missing and variable < self.n_features:
            right |= int(own.missing_right[node]) << n_atoms
            every |= 1 << n_atoms
        self._masks[side, node] = found = variable, right, every
        return found

    def admitted(self, region: Region, side: int, node: int, *, right: bool) -> tuple[int, int]:
        """Return a test's variable, and the atoms of a region that it sends one way."""
        variable, goes, every = self.mask(side, node)
        return variable, region.get(variable, every) & (goes if right else ~goes)

    def interval(self, variable: int, atom: int, top: int) -> tuple[int, int] | None:
        """Return the first and the last key of an atom; None for NaN."""
        cuts = self.cuts[variable]
        if atom > len(cuts):
            return None
        first = cuts[atom - 1] if atom else -top
        return first, cuts[atom] - 1 if atom < len(cuts) else top


def shared_leaves(
    space: Space,
    trees: tuple[SourceTrees, SourceTrees],
    start: tuple[int, int],
    region: Region,
    steps: list[int],
) -> Iterator[tuple[int, int, Region]]:
    """Yield (leaf, leaf, region) for each pair of leaves whose region is not empty.

    `steps` holds the number of steps that are left, and ends below 0 where they did not suffice.
    """
    todo = [(*start, region)]
    while todo:
        at, region = list(todo[-1][:2]), todo.pop()[2]
        while max(at) >= 0:
            steps[0] -= 1
            if steps[0] < 0:
                return
            # The second side first: what the first has asked above settles most of its tests.
            for side in [side for side in (1, 0) if at[side] >= 0]:
                node = at[side]
                variable, right = space.admitted(region, side, node, right=True)
                _, left = space.admitted(region, side, node, right=False)
                if not left or not right:
                    break
            if right and left:
                other = at.copy()
                other[side] = int(trees[side].right[node])
                todo.append((other[0], other[1], {**region, variable: right}))
                region = {**region, variable: left}
            at[side] = int((trees[side].left if left else trees[side].right)[node])
        yield ~at[0], ~at[1], region


def unseen_leaves(
    trees: SourceTrees,
    seen: Int64[Array, "2 n_seen"],
    *,
    most_steps: int,
    missing: bool,
    infinite: bool,
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the leaves (tree, leaf id) that were not seen: those that rows may reach, and others.

    The others are empty in the boxes of their paths. A leaf below tests of several columns counts
    as reachable, unless the same test stands on its path both ways, and so do all leaves of a tree
    that takes more than `most_steps` to walk.
    """
    tree, known = trees.tree_of_leaf, set(zip(*seen.tolist(), strict=True))
    name = list(zip(tree.tolist(), trees.leaf_id.tolist(), strict=True))
    unseen = [leaf for leaf, of in enumerate(name) if of[0] >= 0 and of not in known]
    own = cuts(trees, top_key(trees.row_dtype, infinite=infinite), {})
    met: set[int] = set()
    for root in trees.root[np.unique(tree[unseen])].tolist():
        space = Space((own, own), (subtree(trees, root), []), trees.n_features, missing=missing)
        steps = [most_steps]
        pairs = shared_leaves(space, (trees, trees), (root, ~0), {}, steps)
        met.update(leaf for leaf, _, _ in pairs)
        if steps[0] < 0:
            met.update(unseen)
    reached, empty = ([name[k] for k in unseen if (k in met) is want] for want in (True, False))
    return reached, empty


def subtree(trees: SourceTrees, start: int) -> list[int]:
    """Return the nodes at and below a child, each once."""
    met, todo = set(), [start]
    while todo:
        node = todo.pop()
        if node >= 0 and node not in met:
            met.add(node)
            todo += [int(trees.left[node]), int(trees.right[node])]
    return list(met)

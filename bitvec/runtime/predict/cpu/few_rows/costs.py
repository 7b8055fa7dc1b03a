"""Costs of few rows, in cycles of one core: between layouts, and against kernels for batches.

Measured on a Zen 5 processor, whose AVX-512 was switched off for the level portable; `_SEGMENT`,
`_LEVEL` and `_KEY` alone are estimates that a few models bore out.
"""

from __future__ import annotations

import bisect
import math
from typing import Final

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import unique_integers
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.choice import (
    COLD,
    COMPILED,
    LONG_CALL,
    SMALL,
    Choice,
    walked_bytes,
)
from bitvec.runtime.predict.cpu.target import Vectors, vectors

_SLOT: Final[dict[Vectors, tuple[float, float, float]]] = {
    "avx512": (1.4, 3.2, 5.0),
    "portable": (2.0, 2.0, 3.0),
}
"""A node of all trees side by side, where slots lie in the first cache, the second or beyond."""
_CACHES: Final = (40 << 10, 1 << 20)
_SEGMENT: Final = 2.0
"""A segment of slots, however many they are."""
_UNITED: Final = 1.3
"""A vector of the leaves that a category leaves behind."""
_PUT: Final = 1.0
"""A tree whose leaf is put in its place."""
_RANK: Final = 3.3
_SEARCHED: Final = 1.3
"""A value whose rank is sought, and a step of the search."""
_ADDED: Final = 3.0
_VALUE: Final = 0.4
"""A tree whose leaf is added, and each further value of it."""
_OUTPUT: Final = 7.0
"""An output beyond the first, whose sum becomes a score."""
_STEP: Final = 2.4
"""A step of a tree that is walked, 16 in flight, down to the deepest leaf."""
_LAST_CACHE, _FAR = 4 << 20, 3.0
"""Bytes of trees beyond which a step takes longer, and the factor."""
WALKED_FEW, WALKED = 8, 16
"""Trees that a row walks in step where no more are left, and else."""
_LEVEL: Final = 12.0
"""A level of a tree that is walked by itself, straight over X."""
_KEY: Final = {"masks": 1.3, "walks": 4.0}
"""A column whose value is made a key."""
ROW: Final = 90.0
"""A row by any layout of few rows, before its trees."""
_CALL: Final = 500.0
"""Cycles that a batch costs more than few rows do, in a compiled call; else `LONG_CALL`."""
_ROWS: Final = {
    "perfect": 70,
    "hybrid": 56,
    "oblivious": 64,
    "deep": 16 + COLD,
    "single": 16,
}
"""Rows of a large batch that cost as much as what a kernel for batches takes at once, at least.

Those that read binned columns take 64 rows, of which the states in a chain wait for each other.
"""
_CHAIN_ROWS: Final[dict[Vectors, int]] = {"avx512": SMALL, "portable": 96, "none": 96}
"""The same of a chain, by the level of vectors; with AVX-512 its cost is that of a small batch."""
MOST: Final = 1024
"""Rows at most for which few rows have a way of their own."""


def added_cycles(forest: Forest) -> float:
    """Return the cycles of a row whose leaves become raw scores."""
    of_tree = _ADDED + _VALUE * (forest.leaves.v.shape[1] - 1)
    return of_tree * forest.n_trees + _OUTPUT * (forest.n_outputs - 1)


def masks_cycles(n_slots: int, n_segments: int, n_united: int, n_bytes: int) -> float:
    """Return the cycles of a row's leaves by bitvectors side by side."""
    slot = _SLOT[vectors()][bisect.bisect_left(_CACHES, n_bytes)]
    united = _SEGMENT * n_segments + _UNITED * n_united
    return slot * n_slots + united


def sorted_cycles(n_trees: int, n_slots: int) -> float:
    """Return the cycles of slots, and of the leaves of so many trees that are put in order."""
    return _SLOT[vectors()][1] * n_slots + _PUT * n_trees


def rank_cycles(n_columns: int, n_cuts: float) -> float:
    """Return the cycles of the ranks of some columns, among so many cuts of each."""
    return n_columns * (_RANK + _SEARCHED * math.log2(1 + n_cuts))


def _far(forest: Forest) -> float:
    return _FAR if walked_bytes(forest) > _LAST_CACHE else 1.0


def direct_cycles(forest: Forest) -> float:
    """Return the cycles of a row that walks straight over X, through a tree at a time."""
    levels = tree_paths.levels(forest.bitvectors)
    return _LEVEL * _far(forest) * (levels + forest.n_trees) + added_cycles(forest)


def block_cycles(forest: Forest) -> float:
    """Return the cycles of a row in a block of rows that walk a lone tree."""
    levels = tree_paths.leaf_depth(forest.bitvectors).mean() if forest.n_leaves else 0.0
    return float(20 + 3 * levels + forest.n_features / 4)


def key_cycles(forest: Forest, layout: str) -> float:
    """Return the cycles of a row whose columns become the keys of a layout."""
    return _KEY[layout] * unique_integers(forest.tests.feature).size


def walk_cycles(forest: Forest) -> float:
    """Return the cycles of a row that walks through some trees in step."""
    B = forest.bitvectors
    if B.n_trees == 0:
        return 0.0
    start = np.arange(0, B.n_trees, WALKED)
    steps = np.maximum.reduceat(tree_paths.tree_depth(B), start).astype(float)
    in_step = np.where(B.n_trees - start > WALKED_FEW, WALKED, WALKED_FEW)
    walked = _STEP * _far(forest) * float(steps @ in_step) + added_cycles(forest)
    return walked + key_cycles(forest, "walks")


def most_rows(cycles: float, small: Choice, large: Choice) -> int:
    """Return up to how many rows a call of so many cycles a row costs less than a batch.

    `small` and `large` run batches of up to and of more than `forest_rows.SMALL_BATCH` rows.
    """
    at_once = _CHAIN_ROWS[vectors()] if small.name == "chain" else _ROWS.get(small.name, 1)
    cycles += ROW
    call = _CALL if small.name in COMPILED else LONG_CALL
    own = small.own
    least = call + at_once * (small.cycles - own)
    if (cycles - own) * at_once >= least:
        return int(least // (cycles - own))
    least += at_once * own
    # Beyond, each row adds to both.
    gain = cycles - (small if at_once == 1 else large).cycles
    beyond = MOST if gain <= 0 else at_once + (least - cycles * at_once) / gain
    return int(min(beyond, MOST))

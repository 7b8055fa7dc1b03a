"""Interventional Shapley values: unknown columns take the values of background rows.

Leaves stand in groups of few bits (`pattern_groups`), and each group has a table of what it adds to
its features, or to pairs of them, by the pattern of these bits (`pattern_values`), looked up for
rows (`pattern_tables`). A table costs the distinct patterns of the background, whatever its rows.

Tables are kept where those of the forest have at most KEPT_BYTES, so that one row after another
finds them. Others are made in parts of that size for each block of rows and dropped. Leaves of more
features than tables have, and all leaves where tables that are not kept would serve few rows, are
summed for the distinct patterns of the rows instead; the background is counted once for the former,
as far as COUNTED patterns are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.errors import UnsupportedModelError
from bitvec.explanations.contributions import in_float64, tree_outputs
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.explanations.path_values import squares
from bitvec.explanations.pattern_groups import pattern_groups
from bitvec.explanations.pattern_tables import (
    PATTERNS,
    PLACES,
    ROWS,
    Counts,
    Room,
    Slots,
    add_distinct,
    add_tables,
    fill_counts,
    fill_pair_slots,
    fill_tables,
)
from bitvec.explanations.pattern_values import CHUNK, MOST_FEATURES, Sets, orders
from bitvec.explanations.pattern_vectors import MOST_BITS
from bitvec.runtime.predict.cpu import choice
from bitvec.runtime.predict.cpu.engine import NumbaEngine
from bitvec.runtime.predict.cpu.kernel_arrays import constant

KEPT_BYTES = 128 << 20
"""Tables that are kept, or made and dropped, at once."""
COUNTED = 2 << 20
"""Patterns of the background that are kept with their numbers, 32 MiB."""


class BackgroundValues:
    """Interventional Shapley values and interactions of a forest.

    Parameters
    ----------
    forest : Forest
        Supported: see `unsupported.require_supported`.
    background : (n, n_features)
        Rows in the forest's dtype.

    Raises
    ------
    UnsupportedModelError
        If a path reads more than 63 columns.
    """

    block = 8192
    """Rows that are explained together."""
    described = "with background rows"

    def __init__(self, forest: Forest, background: Array) -> None:
        self._outcomes = OutcomeBytes(forest)
        self._groups = pattern_groups(forest, self._outcomes)
        self._most_bits = int(self._groups.bits.max(initial=0))
        if self._most_bits > MOST_FEATURES:
            raise UnsupportedModelError(
                f"a path must read at most {MOST_FEATURES} columns to be explained with "
                f"`background`, got {self._most_bits}: explain by cover, without `background`."
            )
        self.base = _engine(in_float64(forest)).raw(background).mean(axis=0)
        trees, n = tree_outputs(forest), len(background)
        self._trees = trees._replace(value=constant(trees.value / n))
        self._outputs_of_group = np.diff(trees.output_ptr)[self._groups.tree]
        self._background = constant(self._outcomes.fill(background)), n, constant(np.ones(n))
        self._orders = constant(orders())
        self._shape = forest.n_outputs, forest.n_features
        self._lock = Lock()
        self._kept: dict[bool, tuple[Slots, Array | None]] = {}
        slots, _ = self._slots_and_table(False)
        self._counts = self._counted(slots)

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of at most `block` rows of floats."""
        return self._run(X, False)[:, :, : len(X)].transpose(2, 1, 0)

    def interactions(self, X: Array) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
        """Return the interactions of at most `block` rows of floats."""
        return squares(self._run(X, False), self._run(X, True), len(X))

    def _run(self, X: Array, pairs: bool) -> Array:
        """Return values (n_outputs, n_features, width), or twice the interactions of pairs."""
        n_outputs, n_features = self._shape
        n_targets = n_features * (n_features - 1) // 2 if pairs else n_features
        rows, n = constant(self._outcomes.fill(X)), len(X)
        total = np.zeros((n_outputs, n_targets, rows.shape[1]))
        slots, table = self._slots_and_table(pairs)
        least_bits = 1
        if table is not None or n >= PATTERNS:
            least_bits, byte = MOST_BITS + 1, np.empty(ROWS, np.uint8)
            for first, last in self._parts(slots):
                part = self._table(slots, first, last) if table is None else table
                where = rows, n, byte, first, last
                add_tables(self._groups, slots, self._trees, *where, constant(part), total)
        if self._most_bits >= least_bits:
            given = self._counts, rows, n, constant(np.ones(n)), least_bits, total
            add_distinct(*self._given(slots, rows.shape[1]), *given)
        return total

    def _counted(self, slots: Slots) -> Counts:
        """Return the patterns of the background in groups that have no tables."""
        n_wide, n = int(np.sum(self._groups.bits > MOST_BITS)), self._background[1]
        most = min(n_wide * n, COUNTED)
        ptr, found = np.zeros(self._groups.bits.size + 1, np.int64), np.empty(most, np.int64)
        counts = Counts(ptr, found, np.empty(most))
        fill_counts(self._groups, *self._background, self._given(slots, 0)[-1], counts)
        held = int(ptr[-1])
        return Counts(ptr, found[:held].copy(), counts.weight[:held].copy())

    def _slots_and_table(self, pairs: bool) -> tuple[Slots, Array | None]:
        """Return where groups add to, and all tables if these are kept."""
        with self._lock:
            if pairs not in self._kept:
                slots = self._slots(pairs)
                is_kept = 8 * int(slots.table_ptr[-1]) <= KEPT_BYTES
                table = self._table(slots, 0, slots.ptr.size - 1) if is_kept else None
                self._kept[pairs] = slots, table
            return self._kept[pairs]

    def _slots(self, pairs: bool) -> Slots:
        groups = self._groups
        n, ptr, target = np.diff(groups.slot_ptr), groups.slot_ptr, groups.slot
        if pairs:
            n = n * (n - 1) // 2
            ptr, target = np.zeros(n.size + 1, np.int64), np.empty(int(n.sum()), np.int64)
            fill_pair_slots(groups.slot_ptr, groups.slot, ptr, target)
        is_small = groups.bits <= MOST_BITS
        places = np.where(is_small, PLACES[np.minimum(groups.bits, MOST_BITS)], 0)
        table_ptr = np.concatenate([[0], np.cumsum(n * self._outputs_of_group * places)])
        return Slots(pairs, constant(ptr), constant(target), constant(table_ptr))

    def _parts(self, slots: Slots) -> Iterator[tuple[int, int]]:
        """Yield ranges of groups whose tables have at most KEPT_BYTES, if they are several."""
        first, n, ptr = 0, slots.ptr.size - 1, slots.table_ptr
        while first < n:
            end = np.searchsorted(ptr, ptr[first] + KEPT_BYTES // 8, side="right")
            last = max(first + 1, int(end) - 1)
            yield first, last
            first = last

    def _table(self, slots: Slots, first: int, last: int) -> Array:
        table = np.empty(int(slots.table_ptr[last] - slots.table_ptr[first]))
        fill_tables(*self._given(slots, 0), first, last, table)
        return table

    def _given(self, slots: Slots, n_rows: int) -> tuple[object, ...]:
        """Return what kernels sum leaves by, with room for so many rows."""
        n_rows, k = max(n_rows, PATTERNS), int(np.diff(self._groups.item_ptr).max(initial=1))
        n_background = self._background[0].shape[1]
        rows, background = Sets.of(n_rows), Sets.of(n_background)
        leaf_rows, leaf_background = Sets.of(n_rows), Sets.of(n_background)
        n_offsets = int((np.diff(slots.ptr) * self._outputs_of_group).max(initial=0))
        sums = np.empty((-(-n_rows // CHUNK), k * (k - 1) // 2 if slots.pairs else k, CHUNK))
        terms, at = np.empty((4 * k + 5, CHUNK)), np.empty(n_rows, np.int64)
        offset = np.empty(n_offsets, np.int64)
        room = Room(rows, background, leaf_rows, leaf_background, terms, sums, at, offset)
        return self._groups, slots, self._trees, self._orders, *self._background, room


def _engine(forest: Forest) -> NumbaEngine:
    """Return an engine that is soon ready: for one batch a walk needs the least tables."""
    walks = choice.unsupported_reason("deep", forest) is None
    return NumbaEngine(forest, kernel="deep" if walks else None, n_jobs=1)

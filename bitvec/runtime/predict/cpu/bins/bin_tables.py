"""Tables in which values find their bins: sorted keys, search trees, buckets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core import float_keys
from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats
from bitvec.core.node_tests import Relation
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.bins.bin_search import FEW, LANES
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.target import permuted_words

PER_COLUMN = 255
"""Thresholds that one binned column tells apart."""
BUCKETS = 4096
TABLES = ("tree", "sorted32", "sorted64", "scale", "lookup")


@dataclass(frozen=True, slots=True, eq=False)
class BinTables:
    """Tables in which values of one dtype are searched, for all columns.

    Parameters
    ----------
    tree : float32
        Per column a search tree of 2 ** levels slots, level by level from slot 1 on; of at most
        `FEW` thresholds these alone. Then as many slots as a register holds.
    sorted32, sorted64 : int32, int64
        Per column the thresholds as keys, rising, then a key above all.
    scale : float32, (n_columns, 3)
        Least and greatest value and factor of a column's buckets.
    lookup : uint16
        Per column and bucket, the bin below the bucket.
    settle : bool
        Whether a value that rounds to the float32 of a threshold must be compared in float64.
    """

    tree: Array
    sorted32: Array
    sorted64: Array
    scale: Array
    lookup: Array
    settle: bool

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that the kernel reads."""
        return tuple(getattr(self, name) for name in TABLES)


def bin_tables(
    columns: Array, thresholds: list[Array], forest_dtype: np.dtype, dtype: np.dtype
) -> BinTables:
    narrow, wide = np.dtype(np.float32), np.dtype(np.float64)
    settle = forest_dtype == wide and dtype == wide
    none = np.iinfo(np.int32).max
    trees, sorted32, sorted64, lookups = [], [], [], []
    scale = np.zeros((len(columns), 3), np.float32)
    for position, (column, key) in enumerate(zip(columns, thresholds, strict=True)):
        if forest_dtype == narrow:
            key32 = key
        elif settle:
            # A threshold that no value reaches reads as NaN, and NaN is put behind all keys below.
            with np.errstate(over="ignore", invalid="ignore"):
                rounded = floats(key, forest_dtype).astype(np.float32)
            key32 = np.where(np.isnan(rounded), none, float_keys.keys(rounded)).astype(np.int32)
        else:
            value = floats(key, forest_dtype)
            beyond = np.isnan(value)
            relation = np.full(key.size, Relation.GREATER_EQUAL)
            at = keys.thresholds(np.where(beyond, 0.0, value), relation, narrow)
            key32 = np.where(beyond, none, at).astype(np.int32)
        sorted32.append(np.append(key32, none))
        sorted64.append(np.append(key if settle else [], np.iinfo(np.int64).max))
        if not settle:
            sorted64[-1] = np.zeros(0, np.int64)
        if key.size <= PER_COLUMN:
            trees.append(_search_tree(floats(key32, narrow), int(column[3])))
        if uses_buckets(key):
            scale[position], lookup = _buckets(key32)
            lookups.append(lookup)
    return BinTables(
        constant(np.concatenate([*trees, np.zeros(LANES, np.float32)])),
        constant(np.concatenate(sorted32).astype(np.int32)),
        constant(np.concatenate(sorted64).astype(np.int64)),
        constant(scale),
        constant(np.concatenate([np.zeros(0, np.int64), *lookups]).astype(np.uint16)),
        settle,
    )


def uses_buckets(key: Array) -> bool:
    """Return whether the kernel searches these thresholds by buckets, not in registers."""
    return permuted_words() == 0 or key.size > PER_COLUMN


def levels_of(n_thresholds: int) -> int:
    """Return the levels of a column's search tree, or less than 0 for so few thresholds."""
    if n_thresholds <= FEW:
        return -n_thresholds
    return int(np.ceil(np.log2(n_thresholds + 1)))


def tree_slots(levels: int) -> int:
    """Return the slots of `BinTables.tree` for a column with such levels."""
    return -levels if levels < 0 else 1 << levels


def _search_tree(thresholds: Array, levels: int) -> Array:
    """Return a column's part of `BinTables.tree`; slot 0 of a tree is not used."""
    if levels < 0:
        return thresholds
    size = 1 << levels
    room = np.full(size - 1, np.nan, np.float32)
    room[: thresholds.size] = thresholds
    tree = np.zeros(size, np.float32)
    for level in range(levels):
        step = size >> level
        tree[1 << level : 2 << level] = room[step // 2 - 1 :: step]
    return tree


def _buckets(key32: Array) -> tuple[Array, Array]:
    """Return (low, high, factor) of buckets and the number of thresholds below each bucket."""
    with np.errstate(invalid="ignore"):
        value = floats(key32, np.dtype(np.float32))
    value = np.where(np.isnan(value), np.float32(np.inf), value)
    finite = value[np.isfinite(value)]
    low, high = (finite.min(), finite.max()) if finite.size else (np.float32(0), np.float32(0))
    with np.errstate(over="ignore"):
        span = np.float32(high - low)
    # A factor too large would carry roundings of subnormal numbers from one bucket to another.
    if not 1e-30 < span < 1e38:
        return np.array([0, 0, 0], np.float32), np.zeros(BUCKETS, np.int64)
    factor = np.float32((BUCKETS - 1.5) / span)
    place = _bucket_of(value, low, high, factor)
    while place.max() >= BUCKETS:
        factor = np.nextafter(factor, np.float32(0))
        place = _bucket_of(value, low, high, factor)
    lookup = np.searchsorted(place, np.arange(BUCKETS), side="left")
    return np.array([low, high, factor], np.float32), lookup


def _bucket_of(value: Array, low: np.float32, high: np.float32, factor: np.float32) -> Array:
    return ((np.clip(value, low, high) - low) * factor).astype(np.int64)

"""Binned columns of tests of one column: bins, and what is derived from them, packed per column.

The binned column of a one-hot test holds bins: how many of the column's thresholds a value reaches.
Everything else about such a test is a matter of bins too: the values that count as missing, and
those that equal b, lie between two thresholds; NaN has bin 0, below all. So binned columns in which
missing values go the other way, equality binned columns, and binned columns of the thresholds
beyond the 255th are derived from bins alone, exactly and whatever the dtype of X.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array, unique_integers
from bitvec.core.float_keys import key_of
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, Kind, MissingRule
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.bins.bin_kernels import FIELDS, fill_bins
from bitvec.runtime.predict.cpu.bins.bin_tables import (
    BUCKETS,
    PER_COLUMN,
    TABLES,
    BinTables,
    bin_tables,
    levels_of,
    tree_slots,
    uses_buckets,
)
from bitvec.runtime.predict.cpu.bins.binners import Bound, BoundBinner
from bitvec.runtime.predict.cpu.bins.windows import WINDOW
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, constant

MOST_THRESHOLDS = 65_535
"""Thresholds of one column whose bins fit two bytes."""


class ThresholdBinner(BoundBinner):
    """Makes the binned columns of one-hot margin, kernel and equality tests.

    Parameters
    ----------
    columns : int64, (n_columns, 9)
        Per column that is read: its number, the binned column of its plain bins or -1, the number
        of its thresholds, levels of its search tree, where its tree, its sorted thresholds and its
        buckets begin, and the first and last of its derived binned columns.
    derived : int64, (n_derived, 8)
        Per derived binned column: the binned column, what is subtracted from a bin, whether it
        tests a range of bins, that range as its first bin and length, the byte of a missing value,
        and the range of bins that count as missing besides 0.
    thresholds : list of arrays
        Per column, its thresholds as keys of the forest's dtype, rising.
    dtype : numpy dtype
        The forest's.
    """

    def __init__(
        self, columns: Array, derived: Array, thresholds: list[Array], dtype: np.dtype
    ) -> None:
        super().__init__()
        self._columns = constant(columns)
        self._derived = constant(derived)
        self._windows = constant(_windows(columns[:, 0]))
        self._thresholds = thresholds
        self._dtype = dtype
        self._tables: dict[str, BinTables] = {}

    @property
    def n_columns(self) -> int:
        """The columns of X that it reads."""
        return len(self._columns)

    @property
    def most_thresholds(self) -> int:
        """The thresholds of the column that has most."""
        return max((key.size for key in self._thresholds), default=0)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the arrays that it reads, X apart."""
        tables = [array for table in self._tables.values() for array in table.arrays]
        return sum(a.nbytes for a in [self._columns, self._derived, self._windows, *tables])

    def _bind(self, dtype: np.dtype) -> Bound:
        tables = self._tables_for(dtype)
        columns, windows, derived = self._columns, self._windows, self._derived
        found = {
            "n_columns": len(columns),
            "n_windows": len(windows),
            "n_derived": len(derived),
            "n_sorted": tables.sorted32.size,
            "n_lookup": tables.lookup.size,
            **{name: address_of(getattr(tables, name)) for name in TABLES},
        }
        found |= {"columns": address_of(columns), "windows": address_of(windows)}
        found |= {"derived": address_of(derived)}
        fields = constant(np.array([found[name] for name in FIELDS], np.int64))
        return fill_bins(dtype.itemsize == 8, tables.settle), address_of(fields), fields

    def _tables_for(self, dtype: np.dtype) -> BinTables:
        # A forest of float64 searches float32 values among other keys than float64 ones; one of
        # float32 reads both as float32.
        name = "same" if self._dtype.itemsize == 4 else dtype.name
        if name in self._tables:
            return self._tables[name]
        tables = bin_tables(self._columns, self._thresholds, self._dtype, dtype)
        return self._tables.setdefault(name, tables)


def _windows(columns: Array) -> Array:
    """Return windows of up to 16 neighbouring columns: first column, width, first and last record.

    `columns` are rising.
    """
    windows: list[list[int]] = []
    for position, column in enumerate(columns):
        if not windows or column >= windows[-1][0] + WINDOW:
            windows.append([int(column), 1, position, position])
        windows[-1][1] = int(column) - windows[-1][0] + 1
        windows[-1][3] = position + 1
    return np.array(windows, np.int64).reshape(-1, 4)


def bin_thresholds(forest: Forest, node: Array) -> tuple[Array, Array, int, ThresholdBinner]:
    """Return binned column and least byte of one-hot nodes, the number of columns, their binner.

    Parameters
    ----------
    node : integers, (n,)
        Margin, kernel and equality nodes that read one column.
    """
    tests, dtype = forest.tests, forest.dtype
    feature = tests.feature[node]
    equal = tests.kind[node] == Kind.EQUAL
    first = keys.thresholds(tests.b[node], tests.relation[node], dtype)
    beyond = np.zeros_like(first)  # the key after the last that is equal
    if equal.any():
        first[equal], last = keys.equal_range(tests.b[node[equal]], dtype)
        beyond[equal] = last + 1
    ranges = _missing_ranges(forest)
    # A rule that adds no value to NaN is the rule of NaN.
    adds = np.array([bool(ranges[int(each)]) for each in MissingRule])
    rule = np.where(adds[tests.missing_rule[node]], tests.missing_rule[node], MissingRule.NAN)
    right = tests.missing_right[node]
    lowest = key_of(-np.inf, dtype)

    bin_column = np.empty(node.size, np.int32)
    least = np.empty(node.size, np.uint8)
    columns: list[list[int]] = []
    derived: list[list[int]] = []
    thresholds: list[Array] = []
    n_binned, tree_start, sorted_start, lookup_start = 0, 0, 0, 0
    order = np.argsort(feature, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(feature[order])) + 1):
        if not part.size:
            continue
        is_equal = equal[part]
        breaks = [first[part], beyond[part][is_equal]]
        if right[part].any() or is_equal.any():
            breaks.append(np.array([lowest]))  # above NaN, whose bin is then 0 alone
        breaks += [np.array(ranges[value], np.int64) for value in unique_integers(rule[part])]
        key = unique_integers(np.concatenate(breaks)).astype(f"i{dtype.itemsize}")
        bin = np.searchsorted(key, first[part]) + 1
        last = np.zeros_like(bin)
        last[is_equal] = np.searchsorted(key, beyond[part][is_equal]) + 1
        # A binned column for each combination of: equality or sub-column, missing rule, side of
        # missing values. Where one byte for missing values serves both sides, they share a binned
        # column.
        code = np.where(is_equal, bin + (key.size + 1) * last, -1 - (bin - 1) // PER_COLUMN)
        least[part] = np.where(is_equal, 1, (bin - 1) % PER_COLUMN + 1)
        byte = _missing_bytes(code, rule[part], least[part], right[part])
        signature = (code * len(MissingRule) + rule[part]) * (PER_COLUMN + 1) + byte
        _, where, which = np.unique(signature, return_index=True, return_inverse=True)
        distinct = np.stack([code, rule[part], byte], axis=1)[where]
        bin_column[part] = n_binned + which
        own, first_derived = -1, len(derived)
        for position, (code, a_rule, fill) in enumerate(distinct):
            here, missing, one = n_binned + position, ranges[a_rule], where[position]
            if code == -1 and fill == 0 and not missing and key.size <= PER_COLUMN:
                own = here
                continue
            span = np.searchsorted(key, missing) + 1 if missing else np.array([0, 0])
            tested = (bin[one], last[one] - bin[one]) if code >= 0 else (0, 0)
            offset = 0 if code >= 0 else -(code + 1) * PER_COLUMN
            derived.append([here, offset, code >= 0, *tested, fill, span[0], span[1] - span[0]])
        starts = tree_start, sorted_start, lookup_start
        ends = first_derived, len(derived)
        levels = levels_of(key.size)
        columns.append([feature[part[0]], own, key.size, levels, *starts, *ends])
        thresholds.append(key)
        n_binned += len(distinct)
        tree_start += tree_slots(levels) if key.size <= PER_COLUMN else 0
        sorted_start += key.size + 1
        lookup_start += BUCKETS if uses_buckets(key) else 0
    binner = ThresholdBinner(
        np.array(columns, np.int64).reshape(-1, 9),
        np.array(derived, np.int64).reshape(-1, 8),
        thresholds,
        dtype,
    )
    return bin_column, least, n_binned, binner


def _missing_bytes(code: Array, rule: Array, least: Array, right: Array) -> Array:
    """Return the byte of a missing value in the binned column of each node of one column.

    A node goes right where the byte reaches its least one. If among the nodes of one kind those
    that send a missing value right have lesser bytes than the others, one byte serves them all.
    """
    byte = np.where(right, np.where(code >= 0, 1, PER_COLUMN), 0)
    if not right.any():
        return byte
    _, group = np.unique(code * len(MissingRule) + rule, return_inverse=True)
    greatest = np.zeros(group.max() + 1, np.int64)
    np.maximum.at(greatest, group[right], least[right])
    lowest = np.full(group.max() + 1, PER_COLUMN + 1)
    np.minimum.at(lowest, group[~right], least[~right])
    return np.where((greatest < lowest)[group], greatest[group], byte)


def _missing_ranges(forest: Forest) -> dict[int, tuple[int, ...]]:
    """Return per missing rule the first key that counts as missing and the one after the last."""
    ranges: dict[int, tuple[int, ...]] = {int(MissingRule.NAN): ()}
    first, last = keys.magnitude_range(ZERO_THRESHOLD, forest.dtype)
    ranges[int(MissingRule.NAN_OR_ZERO)] = (first, last + 1)
    sentinel = forest.inputs.missing_sentinel
    ranges[int(MissingRule.NAN_OR_SENTINEL)] = ()
    if sentinel is not None and not np.isnan(sentinel):
        with np.errstate(over="ignore"):
            value = np.array([sentinel]).astype(forest.dtype)
        low, high = keys.equal_range(value, forest.dtype)
        ranges[int(MissingRule.NAN_OR_SENTINEL)] = (int(low[0]), int(high[0]) + 1)
    return ranges

"""Binned columns of set tests: equal tests share one, and tables fill them.

A set's whole answer is a table of bits by slot: for each code of its column, for any other value,
and for a missing one, so that sets of one column need not agree in anything but how a code is read.
Tests with equal tables share a binned column. The binned columns of sets that several trees test
are made once for a block of rows; those of the others just before their tree is run, in binned
columns that all trees use in turn, so that thousands of distinct sets need but as many binned
columns as one tree has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, unique_integers
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, ZERO_THRESHOLD, CodeRule, Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Int64, UInt8
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.bins.binners import MOST_BINNED, Bound, BoundBinner
from bitvec.runtime.predict.cpu.bins.set_kernels import (
    CODE_COLUMNS,
    COLUMN,
    INDEX_COLUMNS,
    LOOKUP,
    PART_SLOTS,
    fill_sets,
)
from bitvec.runtime.predict.cpu.bins.set_tables import SetColumn, SetTable, distinct_sets
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, aligned, constant
from bitvec.runtime.predict.cpu.target import has_byte_shuffle

MOST_SHARED = 64
"""Sets binned for the whole block of rows, at most, where a chain reads all from binned columns.

More of them fall out of the first-level cache: 282 sets in 4,886 of 12,000 nodes then take no less
time than made anew for each tree. A chain that looks sets up as it goes gains from none.
"""
MOST_CODES = (1 << 31) - 2


@dataclass(frozen=True, slots=True, eq=False)
class TreeSets:
    """The sets that are looked up tree by tree.

    Parameters
    ----------
    first_column : int
        The binned columns of a tree's sets are numbered from here on, in the order of its lookups.
    tree_ptr : int64, (n_trees + 1,)
        Lookups of each tree: those in tables of bytes, then those in long tables.
    long_ptr : int64, (n_trees,)
        The first lookup of each tree in a long table.
    lookups : records LOOKUP
    tables : uint8
    """

    first_column: int
    tree_ptr: Int64[Array, " n_trees_plus_1"]
    long_ptr: Int64[Array, " n_trees"]
    lookups: Array
    tables: UInt8[Array, " n_bytes"]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays of the tables."""
        return self.tree_ptr, self.long_ptr, self.lookups, self.tables

    def short_lookups(self, bin_column: Array, tree: Array) -> tuple[Array, Array]:
        """Return which of its tree's lookups each node is, and whether in a table of bytes.

        Parameters
        ----------
        bin_column, tree : integers, (n,)
            The binned column of each node, and its tree.
        """
        number = bin_column.astype(np.int64) - self.first_column
        n_short = (self.long_ptr - self.tree_ptr[:-1])[tree]
        return number, (number >= 0) & (number < n_short)


def no_sets(n_trees: int) -> TreeSets:
    """Return those of trees that need none."""
    return TreeSets(
        MOST_BINNED,
        constant(np.zeros(n_trees + 1, np.int64)),
        constant(np.zeros(n_trees, np.int64)),
        constant(np.zeros(0, LOOKUP)),
        constant(np.zeros(0, np.uint8)),
    )


class SetBinner(BoundBinner):
    """Makes the binned columns of set tests; see `cpu.bins.binners.Binner`.

    Parameters
    ----------
    columns : list of SetColumn
    code_column : integers
        The first binned column of the codes of each column.
    lookups : records LOOKUP
        Those of the binned columns that are made once for a block.
    in_trees : TreeSets
        Those that the kernels make; their tables are the tables of all.
    sentinel : float, optional
    dtype : numpy dtype
        The forest's.
    """

    def __init__(
        self,
        columns: list[SetColumn],
        code_column: Array,
        lookups: Array,
        in_trees: TreeSets,
        sentinel: float | None,
        dtype: np.dtype,
    ) -> None:
        super().__init__()
        self.in_trees = in_trees
        self._columns = columns
        self._code_column = code_column
        self._lookups = constant(lookups)
        self._sentinel = sentinel
        self._dtype = dtype
        maps = [column.map for column in columns if column.map is not None]
        self._maps = constant(np.concatenate([np.zeros(0, np.int32), *maps]))
        self._records: dict[str, Array] = {}

    @property
    def n_columns(self) -> int:
        """The columns of X that it reads."""
        return len(self._columns)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the arrays that it and the kernels read, X apart."""
        arrays = [self._lookups, self._maps, *self.in_trees.arrays, *self._records.values()]
        return sum(array.nbytes for array in arrays)

    def _bind(self, dtype: np.dtype) -> Bound:
        narrow = np.dtype(np.float32) in (dtype, self._dtype)
        records = self._records_for(np.dtype(np.float32 if narrow else np.float64))
        held = records, self._maps, self._lookups, self.in_trees.tables
        columns, maps, lookups, tables = map(address_of, held)
        sizes = len(records), len(self._maps), len(self._lookups)
        found = columns, sizes[0], maps, sizes[1], lookups, sizes[2], tables
        fields = constant(np.array(found, np.int64))
        return fill_sets(dtype.itemsize == 8, narrow), address_of(fields), fields

    def _records_for(self, dtype: np.dtype) -> Array:
        """Return the columns as the kernel takes them, for values read as `dtype`."""
        if dtype.name not in self._records:
            records = np.zeros(len(self._columns), COLUMN)
            next_map = 0
            for record, column, bin_column in zip(
                records, self._columns, self._code_column, strict=True
            ):
                record["column"], record["code"] = column.feature, bin_column
                record["is_long"] = column.is_long
                record["is_exact"] = column.code_rule == CodeRule.EXACT
                record["first"], record["beyond"] = _code_keys(column, dtype)
                record["missing_first"], record["missing_beyond"] = self._missing_keys(
                    column.missing_rule, dtype
                )
                record["other"] = column.n_codes + 1
                record["map"] = -1
                if column.map is not None:
                    record["map"] = next_map
                    next_map += column.map.size
            self._records.setdefault(dtype.name, constant(records))
        return self._records[dtype.name]

    def _missing_keys(self, rule: int, dtype: np.dtype) -> tuple[int, int]:
        """Return the first key that counts as missing, NaN apart, and the one after the last."""
        first, last = 1, 0
        if rule == MissingRule.NAN_OR_ZERO:
            first, last = keys.magnitude_range(ZERO_THRESHOLD, dtype)
        elif rule == MissingRule.NAN_OR_SENTINEL:
            with np.errstate(over="ignore"):
                value = np.array([self._sentinel], np.float64).astype(self._dtype)
            first, last = (int(key[0]) for key in keys.equal_range(value, dtype))
        return first, last + 1


def _code_keys(column: SetColumn, dtype: np.dtype) -> tuple[int, int]:
    """Return the first key of the values that may be codes, and the one after the last."""
    bounds = np.array([-1.0, float(column.n_codes)])
    relation = np.array([Relation.GREATER, Relation.GREATER_EQUAL])
    above, beyond = keys.thresholds(bounds, relation, dtype)
    return int(above) if column.code_rule == CodeRule.TRUNCATE else 0, int(beyond)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why the set tests of a forest have no binned columns, or None."""
    most = MOST_CODES // WORD_BITS
    sizes = np.diff(forest.tests.set_ptr)[forest.tests.kind == Kind.SET]
    if sizes.max(initial=0) > most:
        return f"a set has codes above {most * WORD_BITS - 1}"
    return None


def bin_sets(
    forest: Forest, node: Array, first_column: int, *, most_shared: int | None = None
) -> tuple[Array, Array, int, SetBinner]:
    """Return binned column and least byte of set nodes, the number of columns, their binner.

    Parameters
    ----------
    node : integers, (n,)
        Set nodes, of a forest for which `unsupported_reason` is None.
    first_column : int
        The binned columns are numbered from here on.
    most_shared : int, optional
        At most so many sets have a binned column for the whole block of rows; chosen if not given.
    """
    if most_shared is None:
        most_shared = 0 if has_byte_shuffle() else MOST_SHARED
    columns, sets, set_of = distinct_sets(forest, node)
    n_code_columns = [CODE_COLUMNS if column.is_long else INDEX_COLUMNS for column in columns]
    code_column = first_column + np.concatenate([[0], np.cumsum(n_code_columns)]).astype(np.int64)
    lookups, tables = _lookups(columns, sets, code_column)
    tree = forest.bitvectors.tree_of_node[node].astype(np.int64)
    tests = tree * len(sets) + set_of
    used = unique_integers(tests)
    n_uses = np.bincount(used % max(len(sets), 1), minlength=len(sets))
    shared = np.argsort(-n_uses, kind="stable")[: min(most_shared, int((n_uses > 1).sum()))]
    lookups["target"][shared] = code_column[-1] + np.arange(shared.size)
    bin_column = lookups["target"][set_of].astype(np.int32)

    is_own = np.ones(len(sets), bool)
    is_own[shared] = False
    used = used[is_own[used % max(len(sets), 1)]]
    of_tree, own = np.divmod(used, max(len(sets), 1))
    tree_ptr = np.searchsorted(of_tree, np.arange(forest.n_trees + 1))
    first_own = int(code_column[-1]) + shared.size
    target = first_own + np.arange(used.size) - tree_ptr[of_tree]
    in_trees = lookups[own]
    in_trees["target"] = target
    is_long = in_trees["parts"] == 0
    n_long = np.bincount(of_tree[is_long], minlength=forest.n_trees)
    long_ptr = tree_ptr[1:] - n_long
    at_own = is_own[set_of]
    bin_column[at_own] = target[np.searchsorted(used, tests[at_own])]
    binner = SetBinner(
        columns,
        code_column[:-1],
        lookups[shared],
        TreeSets(first_own, constant(tree_ptr), constant(long_ptr), constant(in_trees), tables),
        forest.inputs.missing_sentinel,
        forest.dtype,
    )
    n_binned = int(target.max(initial=first_own - 1)) + 1 - first_column
    return bin_column, np.ones(node.size, np.uint8), n_binned, binner


def _lookups(
    columns: list[SetColumn], sets: list[SetTable], code_column: Array
) -> tuple[Array, Array]:
    """Return a lookup per set, without its target, and all tables."""
    column = np.array([one.column for one in sets], np.int64)
    size = np.array([len(one.table) for one in sets], np.int64)
    last = np.array([one.last for one in sets], np.int64)
    is_long = np.array([one.is_long for one in columns], bool)[column]
    lookups = np.zeros(len(sets), LOOKUP)
    lookups["table"] = np.cumsum(size) - size
    lookups["last"] = last
    lookups["code"] = code_column[column]
    lookups["parts"] = np.where(is_long, 0, last // PART_SLOTS + 1)
    tables = aligned(int(size.sum()))
    for one, start in zip(sets, lookups["table"].tolist(), strict=True):
        tables[start : start + len(one.table)] = np.frombuffer(one.table, np.uint8)
    return lookups, constant(tables)

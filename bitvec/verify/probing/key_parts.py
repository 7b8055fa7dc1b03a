"""Parts that rows behind key tables are searched by: tables, values told apart, partial rows."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate, Identity, KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.core.features import FeatureMap
from bitvec.core.float_keys import FLOAT64, floats, keys
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.verify.probing.key_inverses import coefficients

MOST_BITS: Final = 10
"""Comparisons in a key of which every outcome is tried."""


class Column(NamedTuple):
    """A column of φ: a value of a table, or of X where `table` is -1."""

    table: int
    place: int


def columns_of(feature_map: FeatureMap | None) -> tuple[list[Column], list[Undone]] | None:
    """Return the columns of a map of key tables, and the tables; None of any other map."""
    if isinstance(feature_map, Identity):
        return [Column(-1, at) for at in range(feature_map.n_inputs)], []
    if isinstance(feature_map, KeyTables):
        tables = [Undone.of(table, feature_map.multiplier) for table in feature_map.tables]
        columns = [
            Column(at, place)
            for at, table in enumerate(feature_map.tables)
            for place in range(table.default.size)
        ]
        return columns, tables
    if not isinstance(feature_map, Concatenate):
        return None
    columns, tables = [], []
    for part in feature_map.maps:
        found = columns_of(part)
        if found is None:
            return None
        shift = len(tables)
        columns += [Column(at + shift if at >= 0 else at, place) for at, place in found[0]]
        tables += found[1]
    return columns, tables


class Undone(NamedTuple):
    """A table with the parts of its keys: columns of whole numbers, and comparisons."""

    table: KeyTable
    multiplier: int
    c: tuple[int, ...]
    whole: dict[int, int]
    """Coefficients by column of X."""
    bits: tuple[int, ...]
    """Parts that are comparisons."""

    @staticmethod
    def of(table: KeyTable, multiplier: int) -> Undone:
        """Return a table's parts."""
        c = coefficients(table, multiplier)
        whole: dict[int, int] = {}
        for at in np.flatnonzero(table.kind == Part.WHOLE).tolist():
            column = int(table.column[at])
            whole[column] = whole.get(column, 0) + c[at]
        bits = tuple(np.flatnonzero(table.kind != Part.WHOLE).tolist())
        return Undone(table, multiplier, tuple(c), whole, bits)

    @property
    def can_be_undone(self) -> bool:
        """True unless a column counts twice, which makes its coefficient even."""
        return all(c % 2 for c in self.whole.values()) and len(self.bits) <= MOST_BITS


class Partial(NamedTuple):
    """Partial rows: whole numbers by column of X, and the atoms of columns that are still open."""

    value: dict[int, Int64[Array, " n"]]
    admitted: Bool[Array, "n n_atoms"]

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.admitted)

    def take(self, at: Array) -> Partial:
        """Return some rows."""
        return Partial({c: value[at] for c, value in self.value.items()}, self.admitted[at])


class Atoms(NamedTuple):
    """Values of a column of X that no test and no part of a key in a tree tells apart.

    Intervals of float keys, rising, and behind them NaN; `begin` is the place of the first among
    those of all columns. `is_number` marks the atoms of one value, a whole number of 32 bits.
    """

    begin: int
    first: Int64[Array, " n"]
    last: Int64[Array, " n"]
    is_number: Bool[Array, " n_plus_1"]

    @staticmethod
    def of(begin: int, cuts: list[int], top: int) -> Atoms:
        """Return the atoms of [-top, top] that begin at `cuts`."""
        first = np.unique(np.array([-top, *cuts], np.int64))
        first = first[(first >= -top) & (first <= top)]
        last = np.append(first[1:] - 1, top)
        x = floats(first, FLOAT64)
        whole = (first == last) & (x >= LOWEST) & (x <= HIGHEST) & (x == np.floor(x))
        return Atoms(begin, first, last, np.append(whole, False))

    @property
    def own(self) -> slice:
        """Places of its atoms, NaN's included."""
        return slice(self.begin, self.begin + self.first.size + 1)

    def place(self, x: Float[Array, " n"]) -> Int64[Array, " n"]:
        """Return the places of values."""
        at = np.searchsorted(self.first, keys(x), side="right") - 1
        return self.begin + np.where(np.isnan(x), self.first.size, at)


def can_be_searched(forest: Forest) -> bool:
    """Return whether a feature map is made of key tables and columns of X that hold anything."""
    everywhere = all(domain.is_everything for domain in forest.inputs.domains or ())
    return everywhere and columns_of(forest.feature_map) is not None

"""Rows that take a path whose nodes read key tables, or a proof that none does.

A path admits some values of each column of X, and of each table some of its entries: keys, or
"no key that is there". A table that must not miss is joined to what is known so far: its keys are
undone for the numbers still open, which narrows the columns of its parts. A column that no such
table fixes holds a number that no key is made of, so all other tables that read it miss, as they
may. What is joined is complete as long as k tables have at most 2k numbers open: of more, known
ones are tried. Nor is it complete where a bound on the work is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable
from bitvec.core.feature_maps.key_tables import Part
from bitvec.core.float_keys import floats, key_of, keys
from bitvec.core.reference import outcomes
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.core.value_sets import atoms as cut_atoms
from bitvec.verify.probing.key_joins import Joins, Search
from bitvec.verify.probing.key_parts import Atoms, Partial

ROWS: Final = 8
"""Rows of a path that are tried by the literal tests, of each of two kinds."""
PATH: Final = 1 << 15
"""Numbers that a path counts for, besides those that it tries."""


class Verdict(NamedTuple):
    """Proof that no row takes a path, or rows that do; neither where the search came to an end.

    `outcomes` holds those of all nodes of the tree for each of the rows.
    """

    none: bool
    rows: Float[Array, "n n_features"] | None = None
    outcomes: Bool[Array, "n n_nodes"] | None = None


class KeyPaths(Search):
    """Searches rows for the paths of a forest whose feature map is made of key tables."""

    def of_tree(self, nodes: Int64[Array, " n_nodes"]) -> TreePaths:
        """Return what searches the paths of one tree, all nodes of which are given."""
        return TreePaths(self, nodes)


class TreePaths:
    """Searches rows for the paths of one tree."""

    def __init__(self, search: KeyPaths, nodes: Int64[Array, " n_nodes"]) -> None:
        self.search, self.nodes, tests = search, nodes, search.forest.tests
        rows = tests.row_ptr[tests.node_ptr[nodes]], tests.row_ptr[tests.node_ptr[nodes + 1]]
        read = {int(c) for a, b in zip(*rows, strict=True) for c in tests.column[a:b]}
        self.read = sorted(read)
        self.joined: dict[tuple[object, ...], tuple[Partial, bool]] = {}
        self.tables = {search.columns[c].table for c in read} - {-1}
        cuts: dict[int, list[int]] = {}
        parts = [
            (int(own.table.column[at]), int(own.table.kind[at]), own.table.b[at])
            for own in (search.tables[t] for t in sorted(self.tables))
            for at in range(own.table.column.size)
        ]
        for column, kind, b in parts:
            key = key_of(b, search.forest.dtype)
            into = cuts.setdefault(column, [])
            into += [key + 1] * (kind != Part.WHOLE) + [key] * (kind == Part.EQUAL)
        told = {c: self._told(nodes[search.feature[nodes] == c], c) for c in self.read}
        for c, (_, first, _) in told.items():
            if search.columns[c].table < 0:
                cuts.setdefault(search.columns[c].place, []).extend(first.tolist())
        self.atoms: dict[int, Atoms] = {}
        begin = 0
        for column, cut in sorted(cuts.items()):
            self.atoms[column] = Atoms.of(begin, cut, search.top)
            begin = self.atoms[column].own.stop
        self.admitted = np.ones(begin, bool)
        for own in self.atoms.values():
            self.admitted[own.own.stop - 1] = search.missing
        self.sides = {
            int(node): side
            for c, (own, first, right) in told.items()
            for node, side in zip(own, self._sides(c, own, first, right), strict=True)
        }
        self.passes = {
            (t, bit): self._passes(search.tables[t].table, bit)
            for t in self.tables
            for bit in search.tables[t].bits
        }
        self.joins = Joins(search, self.atoms, self.passes)

    def _told(self, nodes: Array, column: int) -> tuple[Array, Array, Array]:
        """Return nodes that read one column of φ, its atoms and whether they go right there."""
        search = self.search
        top = search.top if search.columns[column].table < 0 else search.infinity
        sentinel = search.forest.inputs.missing_sentinel
        first, _, right = cut_atoms(search.forest.tests, nodes, top, sentinel)
        return nodes, first, right

    def _sides(self, column: int, nodes: Array, first: Array, right: Array) -> Iterator[Array]:
        """Yield for each node which atoms, or which entries of a table, go right."""
        search, (t, place) = self.search, self.search.columns[column]
        if t < 0:
            key = np.append(self.atoms[place].first, 0)
            is_nan = np.arange(key.size) == key.size - 1
        else:
            table = search.tables[t].table
            x = np.append(table.value[:, place], table.default[place]).astype(np.float64)
            key, is_nan = keys(x), np.isnan(x)
        at = np.searchsorted(first, key, side="right") - 1
        missing_right = search.forest.tests.missing_right[nodes]
        for node in range(nodes.size):
            yield np.where(is_nan, missing_right[node], right[node, at])

    def _passes(self, table: KeyTable, bit: int) -> Bool[Array, " n_atoms"]:
        """Return in which atoms of its column a comparison in a key holds."""
        own = self.atoms[int(table.column[bit])]
        x = floats(own.first, self.search.forest.dtype)
        if table.kind[bit] == Part.GREATER:
            return np.append(x > table.b[bit], table.missing_passes[bit])
        return np.append(x == table.b[bit], False)

    def solve(self, path: list[tuple[int, bool]]) -> Verdict:
        """Return rows that come by the nodes of a path from the root and leave each by its side."""
        admitted = self.admitted.copy()
        entries: dict[int, Array] = {}
        for node, right in path:
            if node in self.sides:
                t, place = self.search.columns[int(self.search.feature[node])]
                fits = self.sides[node] == right
                if t < 0:
                    admitted[self.atoms[place].own] &= fits
                else:
                    entries[t] = fits & entries[t] if t in entries else fits
        if not all(admitted[own.own].any() for own in self.atoms.values()):
            return Verdict(True)
        if not all(fits.any() for fits in entries.values()):
            return Verdict(True)
        if self.search.work <= 0:
            return Verdict(False)
        self.search.work -= PATH
        start = Partial({}, admitted[None]).take(np.zeros(ROWS, np.int64))
        for tables, columns in self._apart({t for t, fits in entries.items() if not fits.all()}):
            read = np.zeros(admitted.size, bool)
            for column in columns:
                read[self.atoms[column].own] = True
            left = {t: entries[t] for t in sorted(tables)}
            # Paths of a tree often differ in other columns alone.
            key = (*left, *(fits.tobytes() for fits in left.values()), admitted[read].tobytes())
            if key not in self.joined:
                self.joined[key] = self.joins.of(Partial({}, (admitted | ~read)[None]), left)
            found, complete = self.joined[key]
            if not found.n:
                return Verdict(complete)
            found = found.take(self.search.rng.integers(found.n, size=ROWS))
            start.value.update(found.value)
            start = Partial(start.value, start.admitted & found.admitted)
        X = self._rows(start)
        h = self._outcomes(X)
        at, sides = (np.array(side) for side in zip(*path, strict=True))
        shown = np.flatnonzero(np.all(h[:, at - self.nodes[0]] == sides, axis=1))
        if not shown.size:
            return Verdict(False)
        kept = np.unique(shown[[0, -1]])
        return Verdict(False, X[kept], h[kept])

    def _apart(self, tables: set[int]) -> list[tuple[set[int], set[int]]]:
        """Return the tables in groups that have no column of X in common, and these columns."""
        groups: list[tuple[set[int], set[int]]] = []
        for t in sorted(tables):
            own, read = {t}, set(self.search.tables[t].table.column.tolist())
            for other in [group for group in groups if group[1] & read]:
                groups.remove(other)
                own, read = own | other[0], read | other[1]
            groups.append((own, read))
        return groups

    def _rows(self, partial: Partial) -> Array:
        """Complete partial rows, by a base row's values where they admit these, and by others."""
        search, n = self.search, partial.n
        X = search.base[search.rng.integers(len(search.base), size=2 * n)]
        for column, own in self.atoms.items():
            if column in partial.value:
                X[:, column] = np.tile(partial.value[column], 2).astype(X.dtype)
                continue
            admitted = np.tile(partial.admitted[:, own.own], (2, 1))
            place = own.place(X[:, column]) - own.begin
            anew = np.flatnonzero(~admitted[np.arange(2 * n), place] | (np.arange(2 * n) >= n))
            X[anew, column] = self._chosen(column, admitted[anew])
        return X

    def _chosen(self, column: int, admitted: Bool[Array, "n n_atoms"]) -> Array:
        """Return an admitted value for each row: of a column of numbers that keys are made of, one
        that no key is made of, where there is one."""
        own, rng, dtype = self.atoms[column], self.search.rng, self.search.forest.dtype
        every = np.arange(len(admitted))
        unknown = self.search.unknown.get(column)
        weight = admitted * (1 + rng.random(admitted.shape))
        if unknown is not None:
            weight[:, own.is_number] /= 4
        at = weight.argmax(axis=1)
        begins = rng.random(at.size) < 0.5
        nan, at = at == own.first.size, np.minimum(at, own.first.size - 1)
        x = floats(np.where(begins, own.first[at], own.last[at]), dtype)
        if unknown is not None:
            inside = floats(np.minimum(own.first[at] + 1, own.last[at]), dtype)
            x = np.where((x == np.floor(x)) & np.isfinite(x), inside, x)
            for number in rng.permutation(unknown):
                hit = admitted[every, own.place(np.array([number])) - own.begin]
                x, nan = np.where(hit, number, x), nan & ~hit
        return np.where(nan, np.nan, x)

    def _outcomes(self, X: Array) -> Bool[Array, "n n_nodes"]:
        """Return the outcomes of all nodes, by the literal tests."""
        row, node = np.divmod(np.arange(len(X) * self.nodes.size), self.nodes.size)
        h = outcomes(self.search.forest, self._columns(X), row, self.nodes[node])
        return h.reshape(len(X), self.nodes.size)

    def _columns(self, X: Array) -> Float[Array, "n n_columns"]:
        """Return the columns of φ(X) that the tree reads; the others are 0."""
        search, Z = self.search, np.zeros((len(X), len(self.search.columns)))
        with np.errstate(invalid="ignore"):
            values = {
                t: search.tables[t].table(X, search.tables[t].multiplier) for t in self.tables
            }
        for c in self.read:
            t, place = search.columns[c]
            Z[:, c] = X[:, place] if t < 0 else values[t][:, place]
        return Z

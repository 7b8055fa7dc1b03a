"""Rows that take a path whose nodes read key tables, or a proof that none does.

A path admits some values of each column of X, and of each table some of its entries: keys, or
"no key that is there". A table that must not miss is joined to what is known so far: its keys are
undone for the numbers still open, which narrows the columns of its parts. A column that no such
table fixes holds a number that no key is made of, so all other tables that read it miss, as they
may. What is joined is complete as long as k tables have at most 2k numbers open: of more, known
ones are tried. Nor is it complete where a bound on the work is met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt64

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.core.float_keys import floats, key_of, keys
from bitvec.core.forest import Forest
from bitvec.core.reference import outcomes
from bitvec.core.value_sets import atoms as cut_atoms
from bitvec.verify.probing.key_inverses import (
    MOST_POINTS,
    lattice,
    possible,
    solutions,
)
from bitvec.verify.probing.key_parts import MOST_BITS, Atoms, Partial, columns_of
from bitvec.verify.probing.key_rows import UNKNOWN, known_values

WIDTH: Final = 1 << 10
"""Partial rows of a path that are kept at a time."""
POINTS: Final = 1 << 19
"""Numbers that a join tries, at most."""
GUESSES: Final = 64
"""Known numbers that a column is tried with, where more than two are open."""
MOST_TABLES: Final = 3
"""Tables whose keys are undone together."""
ROWS: Final = 8
"""Rows of a path that are tried by the literal tests, of each of two kinds."""
WORK: Final = 1 << 32
"""Numbers tried in all, after which paths are only looked at for contradictions."""
PATH: Final = 1 << 15
"""Numbers that a path counts for, besides those that it tries."""


class Verdict(NamedTuple):
    """Proof that no row takes a path, or rows that do; neither where the search came to an end.

    `outcomes` holds those of all nodes of the tree for each of the rows.
    """

    none: bool
    rows: Float[Array, "n n_features"] | None = None
    outcomes: Bool[Array, "n n_nodes"] | None = None


class KeyPaths:
    """Searches rows for the paths of a forest whose feature map is made of key tables."""

    def __init__(
        self,
        forest: Forest,
        base: Float[Array, "n n_features"],
        *,
        missing: bool,
        infinite: bool,
        seed: int,
    ) -> None:
        found = columns_of(forest.feature_map)
        assert found is not None  # by `can_be_searched`
        self.columns, self.tables = found
        self.forest, self.base, self.missing = forest, base, missing
        self.infinity = key_of(np.inf, forest.dtype)
        self.top = self.infinity - (not infinite)
        self.feature = forest.tests.feature
        self.rng, self.work = np.random.default_rng(seed), WORK
        self.known: dict[int, Array] = {}
        self.unknown: dict[int, Array] = {}
        for column, values in known_values(forest)[0].items():
            x = base[:, column]
            x = x[(x >= LOWEST) & (x <= HIGHEST) & (x == np.floor(x))]
            self.known[column] = np.unique(np.append(x, sorted(values))).astype(np.int64)
            self.unknown[column] = self.rng.integers(LOWEST, HIGHEST, UNKNOWN).astype(np.float64)

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
                self.joined[key] = self._joined(Partial({}, (admitted | ~read)[None]), left)
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

    def _joined(self, partial: Partial, left: dict[int, Array]) -> tuple[Partial, bool]:
        """Return partial rows under which each table may show one of its entries left."""
        tables, complete = self.search.tables, True
        for column in {c for t in left for c in tables[t].whole}:
            partial = self._fixed(partial, column)
        if not all(tables[t].can_be_undone for t in left):
            left = {t: fits for t, fits in left.items() if tables[t].can_be_undone}
            complete = False
        while partial.n:
            open_in = {t: [c for c in tables[t].whole if c not in partial.value] for t in left}
            # A table that may miss does so while one of its columns is open.
            ready = [t for t, fits in left.items() if not fits[-1] or not open_in[t]]
            if not ready:
                break
            if self._restricted(partial, ready, open_in, left):
                if not all(fits.any() for fits in left.values()):
                    return partial.take(np.zeros(0, np.int64)), complete
                continue
            chosen = self._chosen_tables(ready, open_in, left)
            if len(chosen) == 1:
                partial, full = self._guessed(partial, open_in[chosen[0]])
                complete &= full
            partial, full = self._looked_up(partial, {t: left.pop(t) for t in chosen})
            complete &= full
        return partial, complete

    def _restricted(
        self,
        partial: Partial,
        ready: list[int],
        open_in: dict[int, list[int]],
        left: dict[int, Array],
    ) -> bool:
        """Drop entries without an entry of some other table whose keys agree, of all such pairs.

        Return whether one was dropped.
        """
        for pair in combinations([t for t in ready if len(open_in[t]) > 2], 2):
            columns = sorted({c for t in pair for c in open_in[t]})
            of = lattice(self._coefficients(pair, columns))
            entries = [np.flatnonzero(left[t][:-1]) for t in pair]
            n = entries[0].size * entries[1].size
            bits = [(t, at) for t in pair for at in self.search.tables[t].bits]
            if of is None or not of.settles_one or len(bits) > MOST_BITS or partial.n * n > POINTS:
                continue
            key = self._keys(pair, entries, np.arange(n))
            agree = np.zeros(n, bool)
            for _, rest in self._rests(partial, pair, bits):
                own = possible(of, (key + rest[:, None]).reshape(-1, 2))
                agree |= own.reshape(-1, n).any(axis=0)
            table = agree.reshape(entries[0].size, entries[1].size)
            dropped = False
            for axis, (t, own) in enumerate(zip(pair, entries, strict=True)):
                fits = np.zeros(left[t].size, bool)
                fits[own] = table.any(axis=1 - axis)
                dropped |= int(fits.sum()) < own.size
                left[t] = fits
            if dropped:
                return True
        return False

    def _chosen_tables(
        self, ready: list[int], open_in: dict[int, list[int]], left: dict[int, Array]
    ) -> list[int]:
        """Return the table with the fewest open columns, or several of which few rows are left.

        One table's keys allow of few numbers if at most two are open; those of k tables if at most
        2k are.
        """
        tables = self.search.tables
        first = min(ready, key=lambda t: (len(open_in[t]), left[t].sum()))
        if len(open_in[first]) <= 2:
            return [first]
        for k in range(2, MOST_TABLES + 1):
            fit = []
            for chosen in combinations(ready, k):
                columns = sorted({c for t in chosen for c in open_in[t]})
                if len(columns) > 2 * k or sum(len(tables[t].bits) for t in chosen) > MOST_BITS:
                    continue
                of = lattice(self._coefficients(chosen, columns))
                if of is not None and of.points <= MOST_POINTS:
                    fit.append((np.prod([float(left[t].sum()) for t in chosen]), chosen))
            if fit:
                return [*min(fit)[1]]
        return [first]

    def _coefficients(
        self, tables: Iterable[int], columns: list[int]
    ) -> tuple[tuple[int, ...], ...]:
        whole = [self.search.tables[t].whole for t in tables]
        return tuple(tuple(own.get(c, 0) % 2**64 for c in columns) for own in whole)

    def _fixed(self, partial: Partial, column: int) -> Partial:
        """Fix a column that can hold nothing but some whole numbers."""
        own = self.atoms[column]
        at = np.flatnonzero(partial.admitted[0, own.own])
        if column in partial.value or not own.is_number[at].all():
            return partial
        number = floats(own.first[at], self.search.forest.dtype).astype(np.int64)
        row, choice = np.divmod(np.arange(partial.n * at.size), at.size)
        return self._with(partial.take(row), {column: number[choice]})

    def _guessed(self, partial: Partial, columns: list[int]) -> tuple[Partial, bool]:
        """Fix known numbers in some columns, all but two of those that are open."""
        known = self.search.known
        for column in sorted(columns, key=lambda c: known[c].size)[:-2]:
            own = np.append(known[column], self.search.unknown[column][:1].astype(np.int64))
            own = self.search.rng.permutation(own)[:GUESSES]
            row, choice = np.divmod(np.arange(partial.n * own.size), own.size)
            partial = self._with(partial.take(row), {column: own[choice]})
            partial = self._narrow(partial, GUESSES)
        return partial, len(columns) <= 2

    def _with(self, partial: Partial, value: dict[int, Array]) -> Partial:
        """Return the partial rows that admit numbers in some columns, and hold them."""
        admitted, every = partial.admitted, np.arange(partial.n)
        fits = np.ones(partial.n, bool)
        places = {c: self.atoms[c].place(x.astype(np.float64)) for c, x in value.items()}
        for place in places.values():
            fits &= admitted[every, place]
        partial = Partial({**partial.value, **value}, admitted).take(np.flatnonzero(fits))
        for column, place in places.items():
            partial.admitted[:, self.atoms[column].own] = False
            partial.admitted[np.arange(partial.n), place[fits]] = True
        return partial

    def _narrow(self, partial: Partial, most: int) -> Partial:
        if partial.n <= most:
            return partial
        return partial.take(np.sort(self.search.rng.choice(partial.n, most, replace=False)))

    def _looked_up(self, partial: Partial, fits: dict[int, Array]) -> tuple[Partial, bool]:
        """Join entries of tables: their comparisons one way or the other, then the open numbers."""
        own, rng, complete = {t: self.search.tables[t] for t in fits}, self.search.rng, True
        unknown = sorted({c for t in own.values() for c in t.whole if c not in partial.value})
        bits = [(t, at) for t, table in own.items() for at in table.bits]
        entries = [np.flatnonzero(held[:-1]) for held in fits.values()]
        n = int(np.prod([places.size for places in entries])) if unknown else 0
        chosen, of = np.arange(n), None
        if unknown:
            of = lattice(self._coefficients(fits, unknown))
            assert of is not None  # by `_chosen_tables`
            points = min(of.points, MOST_POINTS)
            if partial.n * n > (most := max(1, POINTS // points)):
                chosen = np.unique(rng.integers(n, size=most)) if n > most else chosen
                partial = self._narrow(partial, max(1, most // chosen.size))
                complete = False
        found = []
        for narrow, rest in self._rests(partial, fits, bits):
            if of is None:
                held = [
                    _holds(table.table, -rest[:, at], fits[t])
                    for at, (t, table) in enumerate(own.items())
                ]
                found.append(narrow.take(np.flatnonzero(np.all(held, axis=0))))
                continue
            self.search.work -= narrow.n * chosen.size * points
            key = self._keys(fits, entries, chosen)
            solved = solutions(of, (key + rest[:, None]).reshape(-1, len(own)))
            complete &= solved.complete
            values = dict(zip(unknown, solved.values.T, strict=True))
            found.append(self._with(narrow.take(solved.at // max(chosen.size, 1)), values))
        partial = _all(found) if found else partial.take(np.zeros(0, np.int64))
        return self._narrow(partial, WIDTH), complete and partial.n <= WIDTH

    def _keys(
        self, tables: Iterable[int], entries: list[Array], chosen: Int64[Array, " n"]
    ) -> UInt64[Array, "n n_tables"]:
        """Return the keys of some of all tuples of entries, one of each table."""
        places = np.unravel_index(chosen, [own.size for own in entries])
        own = [self.search.tables[t].table.key for t in tables]
        return np.stack([k[e[p]] for k, e, p in zip(own, entries, places, strict=True)], axis=1)

    def _rests(
        self, partial: Partial, tables: Iterable[int], bits: list[tuple[int, int]]
    ) -> Iterator[tuple[Partial, UInt64[Array, "n n_tables"]]]:
        """Yield, by outcome of all comparisons, the partial rows that admit it and what they take
        off the keys of tables."""
        for outcome in product((False, True), repeat=len(bits)):
            narrow = self._passing(partial, bits, outcome)
            if narrow.n:
                parts = [self._known_part(narrow, t, bits, outcome) for t in tables]
                yield narrow, -np.stack(parts, axis=1)

    def _known_part(
        self, partial: Partial, t: int, bits: list[tuple[int, int]], outcome: tuple[bool, ...]
    ) -> UInt64[Array, " n"]:
        """Return what comparisons and known numbers add to the keys of a table."""
        own = self.search.tables[t]
        passed = [own.c[at] for (of, at), bit in zip(bits, outcome, strict=True) if of == t and bit]
        total = np.full(partial.n, sum(passed) % 2**64, np.uint64)
        for column, c in own.whole.items():
            if column in partial.value:
                total += np.uint64(c % 2**64) * partial.value[column].astype(np.uint64)
        return total

    def _passing(
        self, partial: Partial, bits: list[tuple[int, int]], outcome: tuple[bool, ...]
    ) -> Partial:
        """Return the partial rows that admit an outcome of each comparison, narrowed to it."""
        admitted, fits = partial.admitted.copy(), np.ones(partial.n, bool)
        columns = [int(self.search.tables[t].table.column[at]) for t, at in bits]
        for part, column, bit in zip(bits, columns, outcome, strict=True):
            admitted[:, self.atoms[column].own] &= self.passes[part] == bit
        for column in columns:
            fits &= admitted[:, self.atoms[column].own].any(axis=1)
        return Partial(partial.value, admitted).take(np.flatnonzero(fits))

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


def _holds(table: KeyTable, key: UInt64[Array, " n"], fits: Array) -> Bool[Array, " n"]:
    """Return whether the entry of each key is among those that fit, the last for no entry."""
    at = np.minimum(np.searchsorted(table.key, key), max(table.key.size - 1, 0))
    found = table.key[at] == key if table.key.size else np.zeros(key.size, bool)
    return np.where(found, fits[at], fits[-1])


def _all(parts: list[Partial]) -> Partial:
    columns = parts[0].value
    return Partial(
        {c: np.concatenate([part.value[c] for part in parts]) for c in columns},
        np.concatenate([part.admitted for part in parts]),
    )

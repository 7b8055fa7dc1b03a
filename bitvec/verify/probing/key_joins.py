"""Joins of key tables to what is known of the rows of a path, complete or told not to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST
from bitvec.core.float_keys import floats, key_of
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool, Float, Int64, UInt64
from bitvec.verify.probing.key_inverses import MOST_POINTS, lattice, possible, solutions
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
WORK: Final = 1 << 32
"""Numbers tried in all, after which paths are only looked at for contradictions."""


class Search:
    """State of a search in a forest whose feature map is made of key tables."""

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


class Joins:
    """Joins tables of one tree.

    Parameters
    ----------
    search : Search
    atoms : mapping
        By column of X, the ranges of its values that no test and no key tells apart.
    passes : mapping
        By table and comparison in its key, the atoms in which it holds.
    """

    def __init__(
        self,
        search: Search,
        atoms: Mapping[int, Atoms],
        passes: Mapping[tuple[int, int], Bool[Array, " n_atoms"]],
    ) -> None:
        self.search, self.atoms, self.passes = search, atoms, passes

    def of(self, partial: Partial, left: dict[int, Array]) -> tuple[Partial, bool]:
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

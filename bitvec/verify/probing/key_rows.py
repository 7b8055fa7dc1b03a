"""Rows whose keys are in the tables of a feature map, or just beside them.

Keys of up to two whole numbers are undone outright, of more beside known numbers of the others.
Columns of numbers stand at thresholds.
"""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate, KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.shape_annotations import Float
from bitvec.verify.probing.key_inverses import coefficients, lattice, solutions

TRIES = 1 << 6
"""Combinations of other parts that each key is tried with."""
KEYS = 1 << 12
"""Keys of a table that are undone, each time that they are tried counted."""
UNKNOWN = 8
"""Whole numbers of a column that no key is known to be made of."""
OTHERS = 0.1
"""Share of values that are none of the known ones."""


def with_keys(
    forest: Forest,
    X: Float[Array, "n n_features"],
    rng: np.random.Generator,
    *,
    missing: bool,
    infinite: bool,
) -> None:
    """Put numbers that keys are made of, and thresholds, into rows drawn at random."""
    wholes, edges = known_values(forest)
    if not wholes and not edges:
        return
    for column in range(forest.n_features):
        drawn = rng.random(len(X)) >= OTHERS
        if column in wholes:
            known = np.array(sorted(wholes[column]), np.float64)
            others = rng.choice(rng.integers(LOWEST, HIGHEST, UNKNOWN).astype(np.float64), len(X))
            X[:, column] = rng.choice(known, len(X)) if known.size else others
            X[~drawn, column] = others[~drawn]
            if missing:
                X[rng.random(len(X)) < OTHERS / 2, column] = np.nan
        elif edges.get(column):
            cuts = np.array(sorted(edges[column]), X.dtype)
            near = [cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)]
            ends = [np.array([np.nan] * missing + [np.inf, -np.inf] * infinite, X.dtype)]
            values = np.concatenate([*near, *ends])
            X[drawn, column] = rng.choice(values, int(drawn.sum()))


def _key_tables(feature_map: FeatureMap | None) -> list[KeyTables]:
    if isinstance(feature_map, KeyTables):
        return [feature_map]
    if isinstance(feature_map, Concatenate):
        return [found for part in feature_map.maps for found in _key_tables(part)]
    return []


def known_values(forest: Forest) -> tuple[dict[int, set[float]], dict[int, set[float]]]:
    """Return the whole numbers that keys may be made of, and the thresholds, by column of X.

    Both are empty without key tables.
    """
    maps = _key_tables(forest.feature_map)
    wholes: dict[int, set[float]] = {at: set() for at in forest.inputs.category_hashes}
    edges: dict[int, set[float]] = {}
    if not maps:
        return {}, edges
    tests = forest.tests
    for column, kind, b in zip(
        tests.column.tolist(), tests.kind.tolist(), tests.b.tolist(), strict=True
    ):
        if column < forest.n_features:
            into = wholes if kind == Kind.EQUAL and column in wholes else edges
            into.setdefault(column, set()).add(b)
    tables = [(table, own.multiplier) for own in maps for table in own.tables]
    for table, _ in tables:
        for column, kind, b in zip(
            table.column.tolist(), table.kind.tolist(), table.b.tolist(), strict=True
        ):
            if kind == Part.WHOLE:
                wholes.setdefault(column, set())
            else:
                into = wholes if column in wholes else edges
                into.setdefault(column, set()).add(b)
    for table, multiplier in sorted(tables, key=lambda pair: pair[0].column.size):
        _undo(table, multiplier, wholes)
    return wholes, edges


def _undo(table: KeyTable, multiplier: int, wholes: dict[int, set[float]]) -> None:
    """Add the whole numbers that some keys of a table are made of."""
    column, c = table.column.tolist(), coefficients(table, multiplier)
    own = [at for at in range(len(column)) if table.kind[at] == Part.WHOLE]
    if not own or len({column[at] for at in own}) < len(own):
        return
    own.sort(key=lambda at: len(wholes[column[at]]), reverse=True)
    others, unknown = own[:-2], own[-2:]
    choices = [sorted(wholes[column[at]]) for at in others]
    choices += [[0.0, 1.0]] * (len(column) - len(own))
    others = [*others, *(at for at in range(len(column)) if at not in own)]
    known = [np.array(sorted(wholes[column[at]]), np.int64) for at in unknown]
    undone = lattice((tuple(c[at] for at in unknown),))
    assert undone is not None  # the coefficients are odd
    tried = list(islice(product(*choices), TRIES))
    keys = table.key[:: 1 + table.key.size * len(tried) // KEYS]
    for values in tried:
        rest = sum(c[at] * int(value) for at, value in zip(others, values, strict=True)) % 2**64
        found = solutions(undone, (keys - np.uint64(rest))[:, None]).values
        if len(unknown) == 2:
            # Some pair of numbers fits almost every key: one that is known tells the right one.
            either = np.isin(found[:, 0], known[0]) | np.isin(found[:, 1], known[1])
            found = found[either] if either.any() else found
        for at, part in enumerate(unknown):
            wholes[column[part]] |= set(found[:, at].astype(np.float64).tolist())

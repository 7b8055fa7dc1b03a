"""Rows whose keys are in the tables of a feature map, or just beside them.

A key of one whole number is undone by the inverse of the multiplier. One of several is undone for
the last of them, by trying what is known of the others: where what is left fits 32 bits, it is
another known number, up to one chance in 2**32. Columns of numbers stand at thresholds.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from jaxtyping import Float

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate, KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind

TRIES = 1 << 12
"""Combinations of other parts that each key is tried with."""
KEYS = 64
"""Keys of a table that are undone."""
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
    maps = _key_tables(forest.feature_map)
    if not maps:
        return
    wholes, edges = _known(forest, maps)
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


def _known(
    forest: Forest, maps: list[KeyTables]
) -> tuple[dict[int, set[float]], dict[int, set[float]]]:
    """Return the whole numbers that keys may be made of, and the thresholds, by column of X."""
    tests = forest.tests
    wholes: dict[int, set[float]] = {at: set() for at in forest.inputs.category_hashes}
    edges: dict[int, set[float]] = {}
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
        for at in range(table.column.size):
            if table.kind[at] == Part.WHOLE and table.key.size:
                wholes[int(table.column[at])] |= _undone(table, multiplier, at, wholes)
    return wholes, edges


def _undone(
    table: KeyTable, multiplier: int, place: int, wholes: dict[int, set[float]]
) -> set[float]:
    """Return the whole numbers of one part that some keys have beside known other parts."""
    inverse = pow(multiplier, -1, 2**64)
    choices: list[list[int]] = []
    for at, (column, kind) in enumerate(
        zip(table.column.tolist(), table.kind.tolist(), strict=True)
    ):
        if at != place:
            known = sorted(wholes[column]) if kind == Part.WHOLE else [0, 1]
            choices.append([int(value) for value in known])
    found: set[float] = set()
    step = max(1, table.key.size // KEYS)
    n = table.column.size
    others = [at for at in range(n) if at != place]
    # key = sum over parts of multiplier**(n - at + 1) · part
    powers = [pow(multiplier, n - at + 1, 2**64) for at in range(n)]
    scale = np.uint64(pow(inverse, n - place + 1, 2**64))
    for tried, values in enumerate(product(*choices)):
        if tried == TRIES:
            break
        rest = sum(powers[at] * value for at, value in zip(others, values, strict=True)) % 2**64
        left = ((table.key[::step] - np.uint64(rest)) * scale).astype(np.int64)
        found |= set(left[(left >= LOWEST) & (left <= HIGHEST)].astype(np.float64).tolist())
    return found

"""Columns of a table as what nodes compare, and conditions of nodes on them.

A column is read as 64 bits, NaN as NULL. A forest of float32 compares what a cast to float32 makes
of a value; its conditions are moved to the float64 at which that cast turns, so that no cast to 32
bits is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.float_keys import FLOAT64, first_cast_to, floats, key_of, keys
from bitvec.core.forest import Forest
from bitvec.core.key_intervals import Values, complement, right_values
from bitvec.runtime.export.sql.dialects import Dialect

TOP = key_of(np.inf, FLOAT64)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Values of float64 that go right at each node, and what is put in the place of some.

    `snapped` holds for each column (first, last, value): values that a cast to float32 makes one
    number which nodes tell from its neighbours.
    """

    right: tuple[Values, ...]
    snapped: dict[int, tuple[tuple[int, int, int], ...]]


def conditions_of(forest: Forest) -> Conditions:
    """Return the conditions of a forest whose nodes each test one column."""
    tests = forest.tests
    nodes = np.arange(forest.n_nodes)
    narrow = list(right_values(tests, nodes, forest.inputs.missing_sentinel))
    if forest.dtype == np.float64:
        return Conditions(tuple(narrow), {})
    ends = {end for values in narrow for first, last in values.intervals for end in (first, last)}
    asked = np.array(sorted(ends | {end + 1 for end in ends}), np.int64)
    wide = dict(zip(asked.tolist(), first_cast_to(asked, forest.dtype).tolist(), strict=True))
    points: dict[int, set[int]] = {}
    right = []
    for node, values in enumerate(narrow):
        moved = tuple((wide[first], wide[last + 1] - 1) for first, last in values.intervals)
        right.append(Values(moved, values.nan))
        for part in (values, complement(values, forest.dtype)):
            single = {first for first, last in part.intervals if first == last}
            points.setdefault(int(tests.feature[node]), set()).update(single)
    snapped = {}
    end = key_of(np.inf, forest.dtype)
    for column, singles in points.items():
        point = np.array(sorted(singles - {-end, end}), np.int64)
        value = keys(floats(point, forest.dtype).astype(FLOAT64))
        first, after = first_cast_to(point, forest.dtype), first_cast_to(point + 1, forest.dtype)
        pieces = zip(first.tolist(), (after - 1).tolist(), value.tolist(), strict=True)
        if point.size:
            snapped[column] = tuple(pieces)
    # Of what is snapped only the number itself is left.
    cells = {
        column: {(first, last): (at, at) for first, last, at in pieces}
        for column, pieces in snapped.items()
    }
    kept = (
        Values(tuple(cells.get(column, {}).get(one, one) for one in values.intervals), values.nan)
        for column, values in zip(tests.feature.tolist(), right, strict=True)
    )
    return Conditions(tuple(kept), snapped)


def number(dialect: Dialect, key: int) -> str:
    """Return the literal of the float64 of a key."""
    return dialect.number(float(floats(np.array(key), FLOAT64)[()]))


def reading(
    dialect: Dialect, forest: Forest, conditions: Conditions, column: int, *, texts: bool
) -> str:
    """Return the expression that reads a column of the table `t`.

    Parameters
    ----------
    texts : bool
        Whether the table holds the categories of a code book, and not their codes.
    """
    names, book = forest.inputs.feature_names, forest.inputs.book(column)
    source = f"t.{dialect.quoted(f'x{column}' if names is None else names[column])}"
    if texts and book is not None:
        pairs = enumerate(map(dialect.literal, book))
        known = " ".join(f"WHEN {source} = {label} THEN {at}" for at, label in pairs)
        cases = f"CASE WHEN {source} IS NULL THEN NULL {known} ELSE -1 END"
        return dialect.cast(cases, FLOAT64)
    value = dialect.cast(source, FLOAT64)
    whens: list[str] = []
    if dialect.is_nan is not None:
        whens.append(f"WHEN {dialect.is_nan.format(value)} THEN NULL")
    else:
        # SQLite would read a text as a number; no other function of it raises an error in words.
        told = dialect.literal(f"column {column} must hold numbers, got ")
        whens.append(
            f"WHEN typeof({source}) IN ('text', 'blob') "
            f"THEN json_extract('{{}}', {told} || typeof({source}))"
        )
    for first, last, at in conditions.snapped.get(column, ()):
        low, high = number(dialect, first), number(dialect, last)
        whens.append(f"WHEN {value} BETWEEN {low} AND {high} THEN {number(dialect, at)}")
    return f"CASE {' '.join(whens)} ELSE {value} END"


def condition(dialect: Dialect, name: str, values: Values) -> str:
    """Return an expression that is true just where a column holds one of some values.

    Elsewhere it is false or NULL, which sends a row on in a CASE.
    """
    others = complement(values, FLOAT64).intervals
    if not values.intervals:
        return f"{name} IS NULL" if values.nan else "1 = 0"
    if not others:
        return "1 = 1" if values.nan else f"{name} IS NOT NULL"
    if len(others) < len(values.intervals):
        text = f"NOT ({_ranges(dialect, name, others)})"
    else:
        text = _ranges(dialect, name, values.intervals)
    return f"({name} IS NULL OR {text})" if values.nan else text


def _ranges(dialect: Dialect, name: str, intervals: tuple[tuple[int, int], ...]) -> str:
    points = [first for first, last in intervals if first == last and abs(first) < TOP]
    parts = []
    if len(points) > 1:
        parts.append(f"{name} IN ({', '.join(number(dialect, point) for point in points)})")
    else:
        parts += [f"{name} = {number(dialect, point)}" for point in points]
    for first, last in intervals:
        if first == last and abs(first) < TOP:
            continue
        # An infinity has no literal: it lies beyond the greatest number.
        if first == TOP:
            parts.append(f"{name} > {number(dialect, TOP - 1)}")
        elif last == -TOP:
            parts.append(f"{name} < {number(dialect, 1 - TOP)}")
        elif first == -TOP:
            parts.append(f"{name} <= {number(dialect, last)}")
        elif last == TOP:
            parts.append(f"{name} >= {number(dialect, first)}")
        else:
            parts.append(f"{name} BETWEEN {number(dialect, first)} AND {number(dialect, last)}")
    return " OR ".join(parts)

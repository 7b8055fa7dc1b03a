"""Laws of key tables: compiled look-ups, and a dictionary of Python integers, find the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitvec.core.feature_maps import KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.errors import InvalidForestError

N_COLUMNS = 3
VALUES = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 7.0, LOWEST, HIGHEST, HIGHEST + 1.0, 1e300, -1e300)
CELLS = st.sampled_from([*VALUES, np.nan, np.inf, -np.inf])


@st.composite
def tables(draw: Any, multiplier: int) -> KeyTable:
    """Parts of all kinds; keys of rows that are likely, and others; some beside each other."""
    n = draw(st.integers(1, 4))
    column = draw(st.lists(st.integers(0, N_COLUMNS - 1), min_size=n, max_size=n))
    kind = draw(st.lists(st.sampled_from([*Part]), min_size=n, max_size=n))
    b = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, -1.0]), min_size=n, max_size=n))
    passes = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    likely = st.lists(st.sampled_from([0, 1, -1, 2, 7, LOWEST, HIGHEST]), min_size=n, max_size=n)
    keys = {literal_key(parts, multiplier) for parts in draw(st.lists(likely, max_size=12))}
    keys |= set(draw(st.lists(st.integers(0, 2**64 - 1), max_size=3)))
    keys |= {key + 1 for key in keys if key < 2**64 - 1 and draw(st.booleans())}
    width = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return KeyTable(
        np.array(column, np.int32),
        np.array(kind, np.uint8),
        np.array(b),
        np.array(passes, bool),
        np.array(sorted(keys), np.uint64),
        rng.normal(size=(len(keys), width)).astype(np.float32),
        rng.normal(size=width).astype(np.float32),
    )


@st.composite
def maps(draw: Any) -> KeyTables:
    """One or two tables; a multiplier of 1 makes keys of one slot."""
    multiplier = draw(st.sampled_from([1, 3, 0x4906BA494954CB65, 2**64 - 1]))
    found = draw(st.lists(tables(multiplier), min_size=1, max_size=2))
    return KeyTables(N_COLUMNS, tuple(found), multiplier)


def literal_key(parts: list[int], multiplier: int) -> int:
    key = 0
    for part in parts:
        key = multiplier * (key + multiplier * part) % 2**64
    return key


def literal(phi: KeyTables, row: list[float]) -> list[float]:
    """Look a row up in dictionaries, with Python's integers."""
    values: list[float] = []
    for table in phi.tables:
        parts: list[int | None] = []
        for column, kind, b, passes in zip(
            table.column, table.kind, table.b, table.missing_passes, strict=True
        ):
            x = row[column]
            if kind == Part.WHOLE:
                whole = x == x and abs(x) <= 2.0**31 and x == int(x) and LOWEST <= int(x) <= HIGHEST
                parts.append(int(x) if whole else None)
            elif kind == Part.GREATER:
                parts.append(int(passes) if x != x else int(x > b))
            else:
                parts.append(int(x == b))
        held = {int(key): table.value[at].tolist() for at, key in enumerate(table.key)}
        known = [part for part in parts if part is not None]
        key = literal_key(known, phi.multiplier) if len(known) == len(parts) else None
        values += held.get(key, table.default.tolist())
    return values


@settings(deadline=None, max_examples=60)
@given(maps(), st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8))
def test_all_look_ups_find_the_same(phi: KeyTables, rows: list[list[float]]) -> None:
    from bitvec.runtime.predict.cpu.key_kernels import Lookup

    X = np.array(rows, np.float64).reshape(-1, N_COLUMNS)
    wanted = np.array([literal(phi, row) for row in rows], np.float64).reshape(-1, phi.n_features)
    np.testing.assert_array_equal(phi(X), wanted)
    np.testing.assert_array_equal(Lookup(phi)(X), wanted)


BAD = {
    "no part": {
        "column": np.zeros(0, np.int32),
        "kind": np.zeros(0, np.uint8),
        "b": np.zeros(0),
        "missing_passes": np.zeros(0, bool),
    },
    "keys that fall": {"key": np.array([2, 1], np.uint64)},
    "a key twice": {"key": np.array([2, 2], np.uint64)},
    "a column below 0": {"column": np.array([-1], np.int32)},
    "a kind": {"kind": np.array([3], np.uint8)},
    "a threshold that is NaN": {"b": np.array([np.nan])},
    "no value": {"value": np.zeros((2, 0), np.float32), "default": np.zeros(0, np.float32)},
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_refused(name: str) -> None:
    good: dict[str, Any] = {
        "column": np.zeros(1, np.int32),
        "kind": np.zeros(1, np.uint8),
        "b": np.zeros(1),
        "missing_passes": np.zeros(1, bool),
        "key": np.array([1, 2], np.uint64),
        "value": np.zeros((2, 1), np.float32),
        "default": np.zeros(1, np.float32),
    }
    KeyTables(1, (KeyTable(**good),), 3)
    with pytest.raises(InvalidForestError):
        KeyTable(**{**good, **BAD[name]})


@pytest.mark.parametrize(("n_inputs", "multiplier"), [(0, 3), (1, 2), (1, 0), (1, 2**64 + 1)])
def test_a_bad_map_is_refused(n_inputs: int, multiplier: int) -> None:
    table = KeyTable(
        np.zeros(1, np.int32),
        np.zeros(1, np.uint8),
        np.zeros(1),
        np.zeros(1, bool),
        np.zeros(0, np.uint64),
        np.zeros((0, 1), np.float32),
        np.zeros(1, np.float32),
    )
    with pytest.raises(InvalidForestError):
        KeyTables(n_inputs, (table,), multiplier)

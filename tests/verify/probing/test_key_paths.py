"""Rows behind key tables: found for each side that a row can show, and none called out of reach."""

from __future__ import annotations

import operator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bitvectors, examples

from bitvec.core import reference, structure
from bitvec.core.feature_maps import Concatenate, Identity, KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, axis_aligned
from bitvec.core.output import Output
from bitvec.verify.probing import probe_rows
from bitvec.verify.probing.key_inverses import (
    MOST_POINTS,
    coefficients,
    lattice,
    possible,
    solutions,
)
from bitvec.verify.probing.probe_targets import Outcome

MULTIPLIER = 0x4906BA494954CB65
N_COLUMNS = 3
HASHES = (-784473192, 593172586, 797982799)
SMALL = (-1, 0, 2)
CUTS = (-1.0, 0.0, 0.5)
WHOLE_NUMBERS = st.integers(LOWEST, HIGHEST)


@given(st.lists(st.tuples(WHOLE_NUMBERS, WHOLE_NUMBERS), min_size=1, max_size=20))
def test_any_two_numbers_are_among_those_that_their_key_is_undone_to(pairs):
    c = tuple(pow(MULTIPLIER, k, 2**64) for k in (5, 2))
    keys = np.array([[(c[0] * x + c[1] * y) % 2**64] for x, y in pairs], np.uint64)
    found = solutions(lattice((c,)), keys)
    assert found.complete
    listed = [(int(at), x, y) for at, (x, y) in zip(found.at, found.values.tolist(), strict=True)]
    assert len(listed) == len(set(listed))
    assert {(at, x, y) for at, (x, y) in enumerate(pairs)} <= set(listed)
    for at, x, y in listed:
        assert (c[0] * x + c[1] * y) % 2**64 == int(keys[at, 0])
        assert LOWEST <= x <= HIGHEST
        assert LOWEST <= y <= HIGHEST


@given(WHOLE_NUMBERS, st.integers(0, 2**64 - 1))
def test_one_number_is_undone_where_there_is_one(number, other):
    c = pow(MULTIPLIER, 3, 2**64)
    found = solutions(lattice(((c,),)), np.array([[number * c % 2**64], [other]], np.uint64))
    assert found.values[found.at == 0].tolist() == [[number]]
    assert all(value * c % 2**64 == other for (value,) in found.values[found.at == 1].tolist())


COLUMNS_OF_TABLES = (
    ((0, 1, 2, 3), (0, 1, 2)),
    ((0, 1, 2), (1, 2, 3)),
    ((0, 1, 2, 3), (1, 2, 3)),
    ((0, 1, 2, 3), (4, 2, 1), (1, 2, 3)),
    ((0, 1, 2, 3), (2, 3, 4), (3, 4, 5)),
)


@pytest.mark.parametrize("tables", COLUMNS_OF_TABLES)
def test_any_numbers_are_among_those_that_their_keys_are_undone_to(tables):
    n = 1 + max(map(max, tables))
    C = [[0] * n for _ in tables]
    for row, own in zip(C, tables, strict=True):
        for place, column in enumerate(own):
            row[column] = pow(MULTIPLIER, len(own) - place + 1, 2**64)
    of = lattice(tuple(map(tuple, C)))

    @examples(10)
    @given(st.lists(WHOLE_NUMBERS, min_size=n, max_size=n))
    def holds(numbers):
        keys = [sum(map(operator.mul, row, numbers)) % 2**64 for row in C]
        found = solutions(of, np.array([keys], np.uint64))
        assert possible(of, np.array([keys], np.uint64)).all()
        assert found.complete == (of.points <= MOST_POINTS)
        assert numbers in found.values.tolist() or not found.complete
        for values in found.values.tolist():
            assert [sum(map(operator.mul, row, values)) % 2**64 for row in C] == keys

    holds()


def test_keys_of_which_one_number_follows_are_known_not_to_agree():
    c = [pow(MULTIPLIER, k, 2**64) for k in (5, 4, 3, 2)]
    of = lattice((tuple(c), (0, *c[1:])))
    assert of.settles_one
    rng = np.random.default_rng(0)
    keys = rng.integers(2**63, size=(100, 2)).astype(np.uint64)
    assert not possible(of, keys).any()
    found = solutions(of, keys)
    assert not found.at.size
    assert found.complete


def test_sums_that_depend_on_each_other_have_no_lattice():
    assert lattice(((1, 1, 0), (0, 1, 1), (1, 0, 1))) is None


def test_keys_of_a_multiplier_that_hides_nothing_are_undone_in_part():
    found = solutions(lattice(((1, 1),)), np.array([[7]], np.uint64))
    assert not found.complete
    assert found.at.size
    assert np.all(found.values.sum(axis=1) == 7)


@st.composite
def key_forests(draw: Any, multiplier: int, numbers: tuple[int, ...]) -> Forest:
    """Trees that read three columns and the values of tables, each of up to three parts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = []
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, 3))
        kind = rng.choice([Part.WHOLE, Part.WHOLE, Part.GREATER, Part.EQUAL], n)
        column = rng.permutation(N_COLUMNS)[:n] if draw(st.booleans()) else rng.integers(3, size=n)
        whole = kind == Part.WHOLE
        b = np.where(kind == Part.EQUAL, rng.choice(numbers, n), rng.choice(CUTS, n))
        parts = np.where(whole, rng.choice(numbers, (6, n)), rng.integers(0, 2, (6, n)))
        table = KeyTable(
            column.astype(np.int32),
            kind.astype(np.uint8),
            np.where(whole, 0.0, b),
            rng.random(n) < 0.5,
            np.zeros(0, np.uint64),
            np.zeros((0, 1), np.float32),
            np.zeros(1, np.float32),
        )
        c = coefficients(table, multiplier)
        key = {sum(a * int(p) for a, p in zip(c, row, strict=True)) % 2**64 for row in parts}
        width = int(rng.integers(1, 3))
        tables.append(
            KeyTable(
                table.column,
                table.kind,
                table.b,
                table.missing_passes,
                np.array(sorted(key), np.uint64),
                rng.choice([-1.0, 0.0, 1.0, np.nan], (len(key), width)).astype(np.float32),
                rng.choice([-1.0, 0.0, 1.0], width).astype(np.float32),
            )
        )
    phi = Concatenate((Identity(N_COLUMNS), KeyTables(N_COLUMNS, tuple(tables), multiplier)))
    B = draw(bitvectors(max_trees=2, max_leaves=9))
    n = B.n_nodes
    column = rng.integers(phi.n_features, size=n)
    is_x, is_equal = column < N_COLUMNS, rng.random(n) < 0.3
    tests = axis_aligned(
        column.astype(np.int32),
        np.where(is_x & is_equal, rng.choice(numbers, n), rng.choice(CUTS, n)),
        missing_right=rng.random(n) < 0.5,
        kind=np.where(is_x & is_equal, Kind.EQUAL, Kind.MARGIN),
    )
    return Forest(
        tests,
        B,
        Leaves(np.zeros((B.n_leaves, 1))),
        Output(1, np.dtype(np.float64)),
        Inputs(N_COLUMNS, category_hashes=(1, 2)),
        feature_map=phi,
    )


def sides_of(forest: Forest, X: np.ndarray) -> set[tuple[int, bool]]:
    """Return the sides of nodes that rows show, by the literal tests."""
    Z, (left, right) = reference.columns(forest, X), structure.children(forest.bitvectors)
    h = reference.hard_tests(forest, Z)
    found = set()
    for root in forest.bitvectors.node_ptr[:-1][np.diff(forest.bitvectors.leaf_ptr) > 1].tolist():
        for row in h:
            node = root
            while node >= 0:
                found.add((node, bool(row[node])))
                node = int(right[node] if row[node] else left[node])
    return found


def brute_force(numbers: tuple[int, ...]) -> np.ndarray:
    values = {*CUTS, *numbers, *(x + 1 for x in numbers), 0.25, 77.0, -5.0, np.inf, -np.inf}
    values |= {float(np.nextafter(x, to)) for x in CUTS for to in (np.inf, -np.inf)}
    return np.array([*product([*values, np.nan], repeat=N_COLUMNS)])


def checked(forest: Forest, numbers: tuple[int, ...], *, finite: bool) -> Any:
    """Return the coverage, which must claim what rows show, and deny nothing that some show."""
    rows, coverage = probe_rows(forest, missing=not finite, infinite=not finite).collect()
    some = brute_force(numbers)
    if finite:
        assert np.all(np.isfinite(rows))
        some = some[np.isfinite(some).all(axis=1)]
    bits = {False: int(Outcome.LEFT), True: int(Outcome.RIGHT)}
    shown = sides_of(forest, rows)
    claimed = {(at, h) for at in range(forest.n_nodes) for h in bits if coverage.seen[at] & bits[h]}
    assert claimed == shown
    for node, side in sides_of(forest, some) | shown:
        assert coverage.reachable[node]
        assert coverage.needed[node] & bits[side]
    return coverage


@examples(12)
@given(key_forests(MULTIPLIER, HASHES), st.booleans())
def test_what_is_reachable_and_can_be_shown_is_shown(forest, finite):
    coverage = checked(forest, HASHES, finite=finite)
    tables = forest.feature_map.maps[1].tables
    wholes = [table.column[table.kind == Part.WHOLE].tolist() for table in tables]
    if all(len(set(own)) == len(own) <= 2 for own in wholes):
        assert coverage.fraction == 1


@pytest.mark.parametrize("multiplier", [1, 3, 2**64 - 1])
def test_nothing_is_called_out_of_reach_where_most_numbers_share_their_keys(multiplier):
    @examples(6)
    @given(key_forests(multiplier, SMALL), st.booleans())
    def holds(forest, finite):
        checked(forest, SMALL, finite=finite)

    holds()

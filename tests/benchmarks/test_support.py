"""The tables of what works with what are what trying it finds."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("onnx")
pytest.importorskip("sklearn")

from benchmarks import arithmetic, convergence, extras, support
from benchmarks.report import RESULTS
from bitvec.converters.dispatch import FORMATS
from bitvec.errors import MissingLibraryError
from bitvec.runtime.export.onnx_targets import TARGETS


def kept(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return rows


def test_every_kind_verb_and_target_is_in_the_table() -> None:
    tried = {(row["kind"], row["part"], row["what"]) for row in kept("support")}
    parts = {"verbs": support.VERBS, "exports": support.EXPORTS, "runtimes": support.RUNTIMES}
    assert tried == {
        (kind.name, part, what)
        for kind in support.KINDS
        for part, columns in parts.items()
        for what in columns
    }
    assert [*support.RUNTIMES] == [f"`{name}`" for name in TARGETS]
    writers = {f"`{source.writes}`" for source in FORMATS if source.writes not in (None, "onnx")}
    assert writers == {f"`{library}`" for library in support.LIBRARIES}


QUICK = "weighted median (AdaBoostRegressor)"


@pytest.mark.parametrize(
    "name",
    [
        kind.name if kind.name == QUICK else pytest.param(kind.name, marks=pytest.mark.full)
        for kind in support.KINDS
    ],
)
def test_a_kind_supports_what_the_table_says(name: str) -> None:
    try:
        found = [*support.measure(name, Namespace())]
    except (MissingLibraryError, ModuleNotFoundError) as missing:
        pytest.skip(str(missing))
    said = {
        (row["part"], row["what"]): row["found"] for row in kept("support") if row["kind"] == name
    }
    for row in found:
        if support.sign(row["found"]) != "not tried":
            expected = said[row["part"], row["what"]]
            assert support.sign(row["found"]) == support.sign(expected), row


@pytest.mark.parametrize("name", arithmetic.SOURCES)
def test_a_source_compares_and_adds_as_the_table_says(name: str) -> None:
    (expected,) = (row for row in kept("arithmetic") if row["source"] == name)
    try:
        (found,) = arithmetic.measure(name, Namespace())
    except ImportError as missing:
        pytest.skip(str(missing))
    assert found == expected


def test_every_extra_is_in_the_table_with_what_it_brings() -> None:
    rows = {row["extra"]: row["names"] for row in kept("extras")}
    assert [*rows] == [*extras.cases(Namespace())]
    for name, names in rows.items():
        assert extras.names_of(name) == names


def test_relaxations_come_to_the_hard_tree_and_the_refused_one_does_not() -> None:
    rows = {row["name"]: row for row in kept("convergence")}
    assert [*rows] == [*convergence.cases(Namespace())]
    for name in ("sigmoid", "index_sparsemax", convergence.REFUSED):
        (found,) = convergence.measure(name, Namespace())
        expected = rows[name]
        assert found.keys() == expected.keys()
        for gamma in map(str, convergence.GAMMAS):
            # Rounded to two digits, of which the last may differ by another library's exponential.
            assert found[gamma] == pytest.approx(expected[gamma], rel=0.11, abs=1e-9)

"""Cells of a file become the codes and numbers that the forest's columns ask for."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bitvec
from bitvec.core.city_hash import category_hash
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.runtime.export.web.facts import forest_facts
from bitvec.runtime.export.web.pages import trees_json

pytestmark = pytest.mark.full

HERE = Path(__file__).parent
BOOKS = {
    "text": ("red", "NA", "10", "-1"),
    "number": (3, 1, 2.5, 1 << 53, (1 << 53) + 1),
    "truth": (False, True),
    "hashed": ("red", category_hash("green")),
    "plain": None,
}


@pytest.fixture
def forest() -> Forest:
    n = len(BOOKS)
    forest = Forest.from_matrices(np.zeros((0, n)), [], np.zeros((1, 0)), [1])
    inputs = Inputs(n, tuple(BOOKS), tuple(BOOKS.values()), hashed=(3,))
    return replace(forest, inputs=inputs)


@pytest.fixture
def read(node, forest, tmp_path):
    """From cells to what is read of them, after a first line of names."""

    def read_rows(rows: list[list[str]]) -> dict[str, list]:
        done = _cells(node, forest, tmp_path, rows)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return read_rows


def _cells(
    node: str, forest: Forest, folder: Path, rows: list[list[str]]
) -> subprocess.CompletedProcess[str]:
    """Read rows, the first of them perhaps of names, with the page's own code."""
    page = folder / "page"
    shutil.copytree(Path(bitvec.__file__).parent / "runtime" / "export" / "web" / "page", page)
    (page / "package.json").write_text('{"type": "module"}')
    facts = forest_facts(forest) | {"trees": trees_json(forest)}
    (folder / "job.json").write_text(json.dumps({"page": facts, "rows": rows}))
    command = [node, str(HERE / "cells.mjs"), str(page), str(folder / "job.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_categories_are_found_by_their_texts(read):
    rows = [
        list(BOOKS),
        ["NA", "2.50", "TRUE", "red", " 1e3 "],
        ["10", "3", "false", "", "-inf"],
        ["", "", "", "NA", "NA"],
        ["blue", "7", "True", "red", "+.5"],
        ["red", "9007199254740992", "True", "red", "1"],
        ["red", "9007199254740993", "True", "red", "1"],
    ]
    found = read(rows)
    assert found["problems"] == []
    assert found["texts"][1:] == [
        ["1", "2", "1", "0", "1000"],
        ["2", "0", "0", "NaN", "-Infinity"],
        ["NaN"] * 5,
        ["-1", "-1", "1", "0", "0.5"],
        ["0", "3", "1", "0", "1"],
        ["0", "4", "1", "0", "1"],
    ]
    assert [note.split(": ")[0] for note in found["notes"]] == ["text", "number"]


def test_what_may_be_another_category_is_told(read):
    rows = [
        list(BOOKS),
        ["2", "1", "true", "red", "0"],  # a code in the place of a text
        ["red", "one", "true", "red", "0"],  # a text in the place of a number
        ["red", "1", "yes", "red", "0"],
        ["red", "1", "true", "green", "0"],  # a category that is known by its hash alone
        ["red", "1", "true", "hash " + str(category_hash("green")), "0"],
        ["red", "1", "true", "red", "0x10"],
        ["red", "1", "true", "red", "1_000"],
    ]
    found = read(rows)
    assert found["texts"][1:] == [None] * 7
    columns = ["text", "number", "truth", "hashed", "hashed", "plain", "plain"]
    for row, (column, problem) in enumerate(zip(columns, found["problems"], strict=True), 1):
        assert problem.startswith(f'Row {row} (line {row + 1}), column "{column}": ')


@pytest.fixture
def nameless() -> Forest:
    return Forest.from_matrices(np.zeros((0, 3)), [], np.zeros((1, 0)), [1])


@pytest.mark.parametrize(
    ("first", "is_header"), [(["a", "NA", "c"], True), (["0", "5", "2"], False)]
)
def test_a_first_row_without_a_number_is_a_header(node, nameless, tmp_path, first, is_header):
    found = _cells(node, nameless, tmp_path, [first, ["1", "2", "3"]])
    assert found.returncode == 0, found.stderr
    assert (json.loads(found.stdout)["texts"][0] is None) == is_header


@pytest.mark.parametrize("first", [["0", "1", "2"], ["1", "2", "3"]])
def test_a_first_row_that_counts_may_be_either_and_is_refused(node, nameless, tmp_path, first):
    found = _cells(node, nameless, tmp_path, [first, ["1", "2", "3"]])
    assert "may be names or values" in found.stderr


@pytest.mark.parametrize("first", [["NA", "NA", "NA"], ["", "", ""], ["a", "b", "a"]])
def test_names_that_are_not_distinct_are_refused(node, nameless, tmp_path, first):
    found = _cells(node, nameless, tmp_path, [first, ["1", "2", "3"]])
    assert "Column names must be distinct" in found.stderr

"""The table of what each relaxation supports is what trying it finds."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest

pytest.importorskip("torch")

from benchmarks import relaxation_support
from benchmarks.report import RESULTS
from bitvec.runtime.train.relax.relaxations import RELAXATIONS

KEPT = json.loads((RESULTS / "relaxation_support.json").read_text(encoding="utf-8"))["rows"]


def test_every_relaxation_is_in_the_table():
    assert [row["name"] for row in KEPT] == list(RELAXATIONS)
    assert all(relaxation_support.TRIED.keys() < row.keys() for row in KEPT)


@pytest.mark.parametrize(
    "row",
    [r if r["name"] == "smooth_step" else pytest.param(r, marks=pytest.mark.full) for r in KEPT],
    ids=lambda row: row["name"],
)
def test_a_relaxation_supports_what_the_table_says(row):
    (found,) = relaxation_support.measure(row["name"], Namespace())
    assert found == row

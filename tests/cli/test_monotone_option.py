"""Monotone constraints on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from monotone_laws import rises

import bitvec

Run = Callable[..., Result]
ROWS = ("cancer-y.csv", "--target", "y")


@pytest.mark.parametrize(
    ("command", "more"),
    [("retrain", ("--budget", "quick", "-o", "new.safetensors")), ("update", ("-o", "new.ubj"))],
)
def test_what_comes_out_keeps_the_directions(
    run: Run, desk: Path, command: str, more: tuple[str, ...]
) -> None:
    given = ("--monotone", "mean radius=1,1=-1")
    found = run(command, "cancer.ubj", *ROWS, *given, *more, "--json")
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["monotone"] == {"mean radius": 1, "mean texture": -1}
    start, X = bitvec.convert(desk / "cancer.ubj"), _rows(desk)
    if (rises(start, X, 0) < 0).any() or (rises(start, X, 1) > 0).any():
        assert "leaves were cut" in record["note"]
    forest = bitvec.convert(record["file"]) if command == "update" else bitvec.load(record["file"])
    assert (rises(forest, X, 0) >= 0).all()
    assert (rises(forest, X, 1) <= 0).all()


def _rows(desk: Path) -> object:
    import pandas as pd

    return pd.read_csv(desk / "cancer.csv").to_numpy("float32")[:20]


def test_none_drops_what_is_recorded_and_directions_are_told(run: Run, desk: Path) -> None:
    more = ("--budget", "quick", "-o", "new.safetensors")
    told = run("retrain", "cancer.ubj", *ROWS, "--monotone", "0=1", *more)
    assert "monotone, checked tree by tree: mean radius rising" in told.stdout
    free = run("retrain", "cancer.ubj", *ROWS, "--monotone", "none", *more)
    assert free.exit_code == 0
    assert "monotone" not in free.output


@pytest.mark.parametrize("text", ["age", "0=2", "=1", "0=1,", "nonesuch=1"])
def test_what_is_no_direction_is_refused(run: Run, desk: Path, text: str) -> None:
    found = run("retrain", "cancer.ubj", *ROWS, "--monotone", text, "-o", "new.safetensors")
    assert found.exit_code == 2
    assert "column" in found.output.lower()
    assert not (desk / "new.safetensors").exists()

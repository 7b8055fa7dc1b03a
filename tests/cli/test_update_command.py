"""`bitvec update`: the same format back, whole or not at all, and a report of what was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from click.testing import Result

from bitvec import api

Run = Callable[..., Result]

STUMP = ("update", "stump.safetensors", "stump.csv", "--target", "1", "-o", "new.safetensors")
UPDATE = ("update", "cancer.ubj", "cancer-y.csv", "--target", "y", "--steps", 8)


def test_a_model_is_updated_in_place(run: Run, desk: Path, models: dict[str, Any]) -> None:
    # Classes are turned, so that there is something to learn.
    new = models["cancer"].assign(y=1 - models["cancer_y"], w=1.0)
    new.to_parquet(desk / "new.parquet")
    start = api.convert(desk / "cancer.ubj")
    arguments = ("update", "cancer.ubj", "new.parquet", "--target", "y", "-o", "cancer.ubj")
    result = run(*arguments, "--sample-weight", "w", "--certify", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["updated"]
    assert told["after"]["auc"] > told["before"]["auc"]
    assert told["moved"]["leaves"] > 0
    assert told["certificate"] is not None
    assert (desk / "cancer.ubj.certificate.json").exists()
    after = api.convert(desk / "cancer.ubj")
    assert np.array_equal(after.tests.column, start.tests.column)
    assert not np.array_equal(after.leaves.v, start.leaves.v)
    X = models["cancer"].to_numpy(np.float32)
    booster = xgboost.Booster(model_file=desk / "cancer.ubj")
    margins = booster.inplace_predict(X, predict_type="margin")
    assert np.array_equal(margins, api.compile(after).raw(X)[:, 0])


def test_the_report_is_for_people_too(run: Run, desk: Path) -> None:
    given = ("--replay", "cancer-y.csv", "--class-weight", "balanced", "--trainable", "v")
    result = run(*UPDATE, "-o", "new.json", *given, "--metric", "auc", "--budget", 60)
    assert result.exit_code == 0, result.output
    assert "as it was: auc" in result.stdout
    assert "held-out rows, log_loss: " in result.stdout
    assert "old rows, accuracy: " in result.stdout
    assert "is in new.json" in result.stdout
    assert "leaves 1: validation" in result.stderr
    assert api.convert(desk / "new.json").n_trees == 12


def test_a_model_grows(run: Run, desk: Path, models: dict[str, Any]) -> None:
    rows = models["cancer"]
    wide = rows["mean symmetry"] > rows["mean symmetry"].median()  # old trees hardly read it
    rows.assign(y=wide.astype(int)).to_parquet(desk / "new.parquet")
    given = ("update", "--grow", "cancer.ubj", "new.parquet", "--target", "y", "-o", "grown.ubj")
    given += ("--grow-rounds", 4)
    result = run(*given, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    added = told["growth"]["trees_added"] - told["growth"]["trees_dropped"]
    assert told["growth"]["trees_added"] > 0
    forests = [api.convert(desk / name) for name in ("cancer.ubj", "grown.ubj")]
    assert forests[1].n_trees == forests[0].n_trees + added
    plain = run(*given)
    assert "leaves added; " in plain.stdout
    assert "a blend: " in plain.stdout


def test_rows_are_chosen_by_a_file(run: Run, desk: Path) -> None:
    result = run(*UPDATE, "-o", "new.ubj", "--validation", "cancer-y.csv", "--no-refit", "--json")
    assert not json.loads(result.stdout)["refitted"]


def test_columns_without_names_are_counted_in_the_whole_file(run: Run, desk: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    table = np.column_stack([np.ones(200), X, (X[:, 0] > 1).astype(float)])
    np.save(desk / "rows.npy", table)
    arguments = ("update", "stump.safetensors", "rows.npy", "--sample-weight", "0", "--target", "3")
    result = run(*arguments, "-o", "new.safetensors")
    assert result.exit_code == 0, result.output


BAD = {
    "another format": ((*UPDATE, "-o", "new.txt"), "must end in .ubj or .json"),
    "onto the rows": (
        ("update", "cancer.ubj", "cancer.parquet", "--target", "y", "-o", "cancer.parquet"),
        "must end in .ubj",
    ),
    "no such column": (
        ("update", "cancer.ubj", "cancer-y.csv", "--target", "z", "-o", "new.ubj"),
        "column 'z' must be in the data",
    ),
    "no such weights": ((*UPDATE, "-o", "new.ubj", "--sample-weight", "u"), "column 'u' must be"),
    "another schema": (
        ("update", "cancer.ubj", "iris.csv", "--target", "sepal length (cm)", "-o", "new.ubj"),
        "must have the forest's 30 columns",
    ),
    "what does not move": ((*UPDATE, "-o", "new.ubj", "--trainable", "S"), "an update keeps S"),
    "a forest to certify": (
        (*STUMP, "--certify"),
        "--certify must come with a model of a library",
    ),
    "an empty share": ((*UPDATE, "-o", "new.ubj", "--validation", ""), "or a file, got ''"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_nothing_is_written(run: Run, desk: Path, case: str) -> None:
    arguments, message = BAD[case]
    before = {path.name: path.read_bytes() for path in desk.iterdir() if path.is_file()}
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert {path.name: path.read_bytes() for path in desk.iterdir() if path.is_file()} == before


def test_a_class_never_seen_leaves_the_model_as_it_was(run: Run, desk: Path) -> None:
    rows = pd.read_csv(desk / "cancer-y.csv")
    rows.assign(y=np.where(rows.index == 0, 7, rows.y)).to_csv(desk / "seven.csv", index=False)
    before = (desk / "cancer.ubj").read_bytes()
    result = run("update", "cancer.ubj", "seven.csv", "--target", "y", "-o", "cancer.ubj")
    assert result.exit_code == 2
    assert "must hold the forest's classes, 0, 1, got 7" in result.output
    assert (desk / "cancer.ubj").read_bytes() == before


def test_a_format_that_is_only_read_is_refused_before_rows_are_read(run: Run, desk: Path) -> None:
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=2, depth=2, verbose=0, allow_writing_files=False)
    model.fit(np.arange(20.0)[:, None], np.arange(20) % 2).save_model(str(desk / "model.cbm"))
    result = run("update", "model.cbm", "absent.csv", "--target", "y", "-o", "model.cbm")
    assert result.exit_code == 2
    assert "cannot be written back" in result.output

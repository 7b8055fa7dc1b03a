"""`bitvec calibrate`: a model with calibrated probabilities in a file, and a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import Result
from sklearn.ensemble import HistGradientBoostingClassifier

import bitvec
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest

Run = Callable[..., Result]
CALIBRATE = ("calibrate", "cancer.ubj", "cancer-y.csv", "--target", "y", "-o", "new.safetensors")


def test_a_model_is_calibrated_into_a_file(run: Run, desk: Path) -> None:
    told = json.loads(run(*CALIBRATE, "--json").stdout)
    assert told["calibrated"] == (told["after"] < told["before"])
    assert told["method"] == "temperature"
    new = bitvec.load("new.safetensors")
    given = bitvec.convert("cancer.ubj")
    assert isinstance(new, Forest)
    expected = 1 / told["temperature"] if told["calibrated"] else 1.0
    assert new.output.parameter == expected
    assert (new.leaves.v == given.leaves.v).all()


def test_isotonic_curves_are_saved_as_a_composition(run: Run, desk: Path) -> None:
    given = ("calibrate", "forest.skops", "iris-y.csv", "--target", "species")
    told = run(*given, "--method", "isotonic", "-o", "new.safetensors")
    assert told.exit_code == 0
    assert "by isotonic" in told.stdout
    if "not taken" not in told.stdout:
        assert isinstance(bitvec.files.load_composition("new.safetensors"), Composition)
    else:
        assert isinstance(bitvec.load("new.safetensors"), Forest)


def test_what_has_no_link_for_a_temperature_is_refused(run: Run, desk: Path) -> None:
    given = ("calibrate", "forest.skops", "iris-y.csv", "--target", "species")
    told = run(*given, "-o", "new.safetensors")
    assert told.exit_code == 2
    assert "isotonic" in told.output
    assert not (desk / "new.safetensors").exists()


def test_a_retraining_is_calibrated_too(run: Run, desk: Path) -> None:
    given = ("retrain", *CALIBRATE[1:], "--budget", "quick", "--calibrate", "temperature")
    told = run(*given, "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)["calibration"]
    assert found["calibrated"] == (bitvec.load("new.safetensors").output.parameter != 1)
    assert "calibration: log loss" in run(*given).stdout


def test_a_class_that_is_called_as_missing_values_are_is_a_class(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    frame["y"] = np.where(frame["a"] + rng.normal(size=300) * 0.5 > 0, "yes", "NA")
    model = HistGradientBoostingClassifier(max_iter=5).fit(frame[["a", "b"]], frame["y"])
    path, rows = tmp_path / "na.safetensors", tmp_path / "na.csv"
    bitvec.save(bitvec.convert(model), path)
    frame.to_csv(rows, index=False)
    out = tmp_path / "calibrated.safetensors"
    done = run("calibrate", str(path), str(rows), "--target", "y", "-o", str(out))
    assert done.exit_code == 0
    assert out.exists()

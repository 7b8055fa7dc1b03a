"""Compositions on the command line: what holds several forests is told, run and proved as one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from click.testing import Result
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingRegressor

import bitvec
from bitvec.services.batch_predictor import BatchPredictor

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    return pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.fixture
def calibrated(desk: Path, frame: pd.DataFrame) -> Any:
    forest = RandomForestClassifier(3, max_depth=3, random_state=0)
    labels = np.where(frame.a * frame.b > 0, "yes", "no")
    model = CalibratedClassifierCV(forest, method="isotonic", cv=2).fit(frame, labels)
    skops.io.dump(model, desk / "calibrated.skops")
    frame.assign(key=np.arange(len(frame))).to_parquet(desk / "rows.parquet")
    return model


def test_a_composition_is_converted_told_run_and_proved(
    run: Run, desk: Path, calibrated: Any, frame: pd.DataFrame
) -> None:
    done = run("convert", "calibrated.skops", "-o", "calibrated.safetensors", "--certify", "--json")
    facts = json.loads(done.stdout)
    assert (facts["members"], facts["trees"], facts["outputs"]) == (2, 6, 2)
    assert json.loads((desk / facts["certificate"]).read_text())["passed"] is True
    told = run("info", "calibrated.safetensors").stdout
    assert "composition of 2 members, from CalibratedClassifierCV" in told
    assert "RandomForestClassifier, 3 trees: probabilities, isotonic" in told
    told = json.loads(run("info", "calibrated.skops", "--json").stdout)
    assert [member["curves"] for member in told["members"]] == [["isotonic"]] * 2
    asked = ("rows.parquet", "--outputs", "label,proba", "--keep", "key")
    for name in ("calibrated.safetensors", "calibrated.skops"):
        done = run("predict", name, *asked)
        answers = pd.read_csv(io.StringIO(done.stdout), float_precision="round_trip")
        assert answers.key.tolist() == list(range(200))
        assert answers.prediction.tolist() == calibrated.predict(frame).tolist()
        found = answers[["probability_no", "probability_yes"]].to_numpy()
        np.testing.assert_array_equal(found, calibrated.predict_proba(frame))
    done = run("certify", "calibrated.safetensors", "--model", "calibrated.skops")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("PASSED, proved: composition")


def test_a_composition_of_regressors_is_predicted_in_batches(
    desk: Path, frame: pd.DataFrame
) -> None:
    members = [(str(seed), RandomForestRegressor(2, random_state=seed)) for seed in (0, 1)]
    model = VotingRegressor(members).fit(frame, frame.a - frame.c)
    bitvec.save(bitvec.convert(model), desk / "voting.safetensors")
    predict = BatchPredictor(desk / "voting.safetensors")
    np.testing.assert_array_equal(predict(frame).prediction, model.predict(frame))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("info", "--tree", "0"), "must be left out of a composition"),
        (("export", "-o", "m.onnx"), "must be one forest here, got a CalibratedClassifierCV"),
        (("predict", "rows.parquet", "--outputs", "raw"), "answers label and proba, got 'raw'"),
        (("certify", "--again", "proof.json"), "--again must be left out of a composition"),
        (
            ("update", "rows.parquet", "--target", "key", "-o", "n.skops"),
            "one forest to be written",
        ),
    ],
)
def test_what_a_composition_cannot_do_is_one_sentence(
    run: Run, desk: Path, calibrated: Any, models: Any, arguments: tuple[str, ...], words: str
) -> None:
    if "--again" in arguments:
        assert run("certify", "cancer.ubj", "-o", "proof.json").exit_code == 0
    command, *others = arguments
    done = run(command, "calibrated.skops", *others)
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stderr.count("\n") == 1

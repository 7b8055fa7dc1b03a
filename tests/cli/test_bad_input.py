"""Bad input: one sentence on stderr, nothing on stdout, exit status 2, no file left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from bitvec import api

Run = Callable[..., Result]

STUMP = "stump.safetensors"
RETRAIN = ("retrain", "cancer.ubj", "cancer-y.csv", "-o", "new.safetensors")

BAD: dict[str, tuple[tuple[str, ...], str]] = {
    # what is not there, or is no file
    "no model": (("info", "absent.ubj"), "absent.ubj does not exist"),
    "no forest": (("predict", "absent.safetensors", "stump.csv"), "does not exist"),
    "no rows": (("predict", STUMP, "absent.csv"), "absent.csv does not exist"),
    "no source": (("certify", STUMP, "--model", "absent.ubj"), "absent.ubj does not exist"),
    "a directory": (("convert", "folder"), "got a directory"),
    "rows of a directory": (("predict", STUMP, "folder"), "must be a file, got a directory"),
    "an empty path": (("info", ""), "'FOREST|MODEL' must name a file, got ''"),
    "an empty output": (("predict", STUMP, "stump.csv", "-o", ""), "must name a file, got ''"),
    "an empty validation": ((*RETRAIN, "--target", "y", "--validation", ""), "or a file, got ''"),
    "an empty model": (("info", "empty.ubj"), "must not be empty"),
    # files of another kind
    "a pickle": (("convert", "model.pkl"), "is a pickle, which is never loaded"),
    "a text": (("info", "stump.csv"), "or a model file (scikit-learn"),
    "garbage as a forest": (("info", "garbage.safetensors"), "must be a forest saved by bitvec"),
    "garbage as a model": (("info", "garbage.ubj"), "garbage.ubj"),
    "garbage as JSON": (("info", "garbage.json"), "garbage.json"),
    "garbage as skops": (("info", "garbage.skops"), "garbage.skops"),
    "garbage as ONNX": (("certify", STUMP, "--model", "garbage.onnx"), "garbage.onnx"),
    "half a forest": (("info", "half-forest.safetensors"), "half-forest.safetensors"),
    "half a model": (("convert", "half.ubj"), "half.ubj"),
    "rows as a pickle": (("predict", STUMP, "model.pkl"), "a file of rows must end in"),
    "a linear model": (("convert", "linear.ubj"), "gblinear"),
    # rows that do not fit
    "too few columns": (("predict", STUMP, "narrow.csv"), "must have 2 features, got shape"),
    "other names": (("predict", "cancer.ubj", "iris.csv"), "must have the forest's 30 columns"),
    "ragged rows": (("predict", STUMP, "ragged.csv"), "must have 2 cells"),
    "rows of text": (("predict", STUMP, "text.csv"), "must hold"),
    "a null character": (("predict", STUMP, "nul.csv"), "got a null character in line 2"),
    "a number in hexadecimal": (("predict", STUMP, "hex.csv"), "must hold numbers, got '0x10'"),
    "text below a number": (("predict", STUMP, "below.csv"), "'b' must hold numbers, got 'red'"),
    "names or values": (("predict", "years.ubj", "years-other.csv"), "--header or --no-header"),
    "binary rows": (("predict", STUMP, "garbage.csv"), "must be text in UTF-8"),
    "an empty table": (("predict", STUMP, "empty.csv"), "must not be empty"),
    "no rows in an array": (("predict", STUMP, "none.npy"), "must hold rows, got none"),
    "a pipe": (("predict", STUMP, "pipe.csv"), "got a device or a pipe"),
    "no threads": (("predict", STUMP, "stump.csv", "--n-jobs", "0"), "n_jobs"),
    "a cube": (("predict", STUMP, "cube.npy"), "must hold a matrix of numbers"),
    "an archive of arrays": (("predict", STUMP, "rows.npz"), "must end in"),
    "no parquet": (("predict", STUMP, "garbage.parquet"), "must be a parquet file"),
    "rows to certify": (("certify", "cancer.ubj", "--data", "narrow.csv"), "features"),
    # paths that cannot be written
    "no such folder": (("predict", STUMP, "stump.csv", "-o", "no/out.csv"), "create no first"),
    "into a directory": (("convert", "cancer.ubj", "-o", "d.safetensors"), "got the directory"),
    "another suffix": (("convert", "cancer.ubj", "-o", "out.bin"), "must end in .safetensors"),
    "an unknown table": (("predict", STUMP, "stump.csv", "-o", "a.xlsx"), "must end in .csv or"),
    "a picture": (("export", STUMP, "-o", "out.png"), "must end in .onnx or .ort"),
    "onto the input": (("predict", STUMP, "stump.csv", "-o", "stump.csv"), "another file than"),
    "onto the forest": (("retrain", STUMP, "stump.csv", "--target", "1", "-o", STUMP), "another"),
    "a proof that is no JSON": (("certify", "cancer.ubj", "-o", "proof.txt"), "must end in .json"),
    # what does not go together
    "no oracle": (("certify", STUMP), "name it with --model"),
    "a forest twice": (("convert", STUMP), "is a forest file already"),
    "another model": (
        ("certify", STUMP, "--model", "cancer.ubj"),
        "must have as many features as the forest",
    ),
    "probabilities of values": (
        ("predict", STUMP, "stump.csv", "--outputs", "proba"),
        "the output proba needs a classifier, got a regressor: ask for label, raw or score",
    ),
    "threads of torch": (
        ("predict", STUMP, "stump.csv", "--engine", "torch", "--n-jobs", "2"),
        "`n_jobs` must be None",
    ),
    "no such kernel": (("predict", STUMP, "stump.csv", "--kernel", "x"), "`kernel` must be one of"),
    "no device to predict on": (
        ("predict", STUMP, "stump.csv", "--device", "abacus"),
        "`device` must be one",
    ),
    "no such tree": (("info", STUMP, "--tree", "1"), "--tree must be below 1, got 1"),
    "no target": ((*RETRAIN, "--target", "z"), "the column 'z' must be in the data"),
    "a missing target": ((*RETRAIN[:2], "gap.csv", *RETRAIN[3:], "--target", "y"), "missing"),
    "an infinite target": (
        ("report", "cancer.ubj", "--data", "inf.csv", "--target", "y", "-o", "page.html"),
        "must be finite",
    ),
    "a share of 2": ((*RETRAIN, "--target", "y", "--validation", "2"), "between 0 and 1"),
    "no device": ((*RETRAIN, "--target", "y", "--device", "abacus"), "`device` must be one"),
    "a feature as target": ((*RETRAIN, "--target", "mean area"), "each row must have a value of"),
    "an unknown class": (
        (*RETRAIN[:2], "classes.csv", *RETRAIN[3:], "--target", "y"),
        "must hold the forest's classes",
    ),
}


@pytest.fixture
def spoilt(desk: Path) -> Path:
    """Put damaged files on the desk."""
    import xgboost

    (desk / "folder").mkdir()
    (desk / "d.safetensors").mkdir()
    for name in ("empty.ubj", "empty.csv"):
        (desk / name).touch()
    garbage = bytes(range(255, -1, -1)) * 8
    for suffix in ("safetensors", "ubj", "json", "skops", "onnx", "csv", "parquet"):
        (desk / f"garbage.{suffix}").write_bytes(garbage)
    (desk / "model.pkl").write_bytes(b"\x80\x04N.")
    for name, half in ((STUMP, "half-forest.safetensors"), ("cancer.ubj", "half.ubj")):
        content = (desk / name).read_bytes()
        (desk / half).write_bytes(content[: len(content) // 2])
    linear = xgboost.XGBRegressor(booster="gblinear", n_estimators=1, n_jobs=1)
    linear.fit(np.eye(3), np.arange(3)).save_model(desk / "linear.ubj")
    (desk / "narrow.csv").write_text("1\n2\n")
    (desk / "ragged.csv").write_text("1,2\n3\n")
    (desk / "text.csv").write_text("a,b\nred,1\n")
    (desk / "nul.csv").write_text("1,2\n3,\0\n")
    (desk / "hex.csv").write_text("1.5,2\n0x10,3\n")
    (desk / "below.csv").write_text("a,b\n1, 2 \n1,red\n")
    years = pd.DataFrame({"2019": [0.0, 1.0], "2020": [1.0, 0.0]})
    model = xgboost.XGBRegressor(n_estimators=1, n_jobs=1).fit(years, [0.0, 1.0])
    model.save_model(desk / "years.ubj")
    (desk / "years-other.csv").write_text("2018,2019\n0,1\n")
    lines = (desk / "cancer-y.csv").read_text().splitlines()
    (desk / "gap.csv").write_text("\n".join([*lines[:5], lines[5].rpartition(",")[0] + ",", ""]))
    (desk / "inf.csv").write_text("\n".join([*lines[:5], lines[5].rpartition(",")[0] + ",inf", ""]))
    (desk / "classes.csv").write_text("\n".join([lines[0], lines[1][:-1] + "7", *lines[2:], ""]))
    np.save(desk / "none.npy", np.zeros((0, 2)))
    if os.name != "nt":
        os.mkfifo(desk / "pipe.csv")
    np.save(desk / "cube.npy", np.zeros((2, 2, 2)))
    np.savez(desk / "rows.npz", rows=np.zeros((2, 2)))
    return desk


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {p: p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_leaves_no_file(case: str, run: Run, spoilt: Path) -> None:
    arguments, says = BAD[case]
    before = contents(spoilt)
    result = run(*arguments)
    # A usage warning may come first; the error is one line.
    errors = [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")]
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(errors) == 1, result.stderr
    assert errors[0].startswith("Error: ")
    assert says in errors[0]
    assert contents(spoilt) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("info",),
        ("predict", STUMP, "stump.csv", "--outputs", "colours"),
        (
            "retrain",
            STUMP,
            "stump.csv",
            "--target",
            "0",
            "-o",
            "x.safetensors",
            "--trainable",
            "S,q",
        ),
        ("predict", STUMP, "stump.csv", "--n-jobs", "many"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], run: Run, desk: Path) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert result.stdout == ""


PROC = Path("/proc/self")


@pytest.mark.skipif(not PROC.is_dir(), reason="needs a folder in which nobody may write")
@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "cancer.ubj", "-o", PROC / "a.safetensors"),
        ("predict", STUMP, "stump.csv", "-o", PROC / "a.csv"),
        ("export", STUMP, "-o", PROC / "a.onnx"),
        ("certify", "cancer.ubj", "-o", PROC / "a.json"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_folder_that_takes_no_file_is_one_sentence_before_any_work(
    arguments: tuple[object, ...], run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "convert", pytest.fail)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"Error: {PROC}/a.")


def test_a_file_without_permission_is_one_sentence(run: Run, desk: Path) -> None:
    (desk / "stump.csv").chmod(0)
    if os.access(desk / "stump.csv", os.R_OK):
        pytest.skip("this user may read and write everything")
    result = run("predict", STUMP, "stump.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "permission denied" in result.stderr
    (desk / "stump.csv").chmod(0o600)
    desk.chmod(0o500)
    try:
        result = run("predict", STUMP, "stump.csv", "-o", "out.csv")
    finally:
        desk.chmod(0o700)
    assert result.exit_code == 2
    assert "must be a file that can be written, got: Permission denied" in result.stderr

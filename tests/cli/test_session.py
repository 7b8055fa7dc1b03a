"""A whole session on models of scikit-learn and xgboost: every answer is the source library's."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import xgboost
from click.testing import Result

from bitvec import files
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, axis_aligned, set_bits
from bitvec.core.output import Output
from bitvec.core.structure import from_children
from bitvec.verify import certificates

Run = Callable[..., Result]


def answer(result: Result) -> dict[str, Any]:
    """Return the one JSON object that a command printed on stdout."""
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout, parse_constant=pytest.fail)  # NaN and Infinity are no JSON
    assert isinstance(record, dict)
    return record


def table(result: Result) -> pd.DataFrame:
    """Return the CSV that a command printed on stdout."""
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout), float_precision="round_trip")


def test_convert_certify_predict_export_xgboost(
    run: Run, desk: Path, models: dict[str, Any]
) -> None:
    booster, X = models["booster"], models["cancer"]
    converted = answer(run("convert", "cancer.ubj", "--certify", "--json"))
    assert converted["file"] == "cancer.safetensors"
    assert converted["trees"] == 12
    proof = certificates.load(desk / converted["certificate"])
    assert proof.passed
    assert proof.matches(files.load(desk / "cancer.safetensors"))

    result = run("certify", "cancer.safetensors", "--model", "cancer.json", "--data", "cancer.csv")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("PASSED")
    assert "569 given" in result.stdout
    assert "0 differ" in result.stdout

    for rows in ("cancer.csv", "cancer.parquet"):
        got = table(run("predict", "cancer.safetensors", rows, "--outputs", "raw"))["raw"]
        margin = booster.predict(X, output_margin=True)
        assert np.array_equal(got.to_numpy(np.float32), margin)
    labels = table(run("predict", "cancer.safetensors", "cancer.csv"))["prediction"]
    assert np.array_equal(labels, booster.predict(X))
    leaves = table(run("predict", "cancer.safetensors", "cancer.csv", "--outputs", "leaves"))
    assert np.array_equal(leaves.to_numpy(), booster.apply(X))
    probabilities = table(run("predict", "cancer.ubj", "cancer.csv", "--outputs", "proba"))
    assert list(probabilities) == ["probability_0", "probability_1"]
    # NumPy's float32 exponential differs from libm's in its last places; raw scores are equal.
    np.testing.assert_allclose(probabilities, booster.predict_proba(X), rtol=1e-6)

    exported = answer(
        run("export", "cancer.safetensors", "-o", "cancer.onnx", "--leaves", "--certify", "--json")
    )
    assert exported["passed"] is True
    assert exported["grade"] == "proved"
    assert exported["bytes"] == (desk / "cancer.onnx").stat().st_size
    assert certificates.load(desk / "cancer.onnx.certificate.json").passed
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more of them add the trees in an order of their own
    session = onnxruntime.InferenceSession(desk / "cancer.onnx", options)
    raw = session.run(["raw"], {"X": X.to_numpy(np.float32)})[0]
    assert np.array_equal(raw[:, 0], booster.predict(X, output_margin=True))
    assert run("certify", "cancer.ubj", "--model", "cancer.onnx").exit_code == 0


@pytest.mark.parametrize("name", [pytest.param("tree", marks=pytest.mark.full), "forest"])
def test_convert_certify_predict_scikit_learn(
    run: Run, desk: Path, models: dict[str, Any], name: str
) -> None:
    model, X = models[name], models["iris"]
    assert run("convert", f"{name}.skops", "-o", "f.safetensors").exit_code == 0
    assert run("certify", "f.safetensors", "--model", f"{name}.skops").exit_code == 0
    assert run("certify", f"{name}.skops", "--data", "iris.csv").exit_code == 0
    labels = table(run("predict", "f.safetensors", "iris.csv"))["prediction"]
    assert np.array_equal(labels, model.predict(X))
    for rows in ("iris.csv", "iris-bare.csv"):  # by name, and by position
        got = table(run("predict", "f.safetensors", rows, "--outputs", "proba"))
        assert list(got) == [f"probability_{species}" for species in model.classes_]
        assert np.array_equal(got, model.predict_proba(X))


def test_retrain_never_returns_a_worse_tree(run: Run, desk: Path) -> None:
    arguments = ("retrain", "tree.skops", "iris-y.csv", "--target", "species", "--steps", 60)
    result = answer(run(*arguments, "-o", "new.safetensors", "--json"))
    assert result["after"] >= result["before"]
    assert result["trainable"] == ["S", "b", "v"]
    assert result["history"][0]["score"] == result["before"]
    assert files.load(desk / "new.safetensors").n_leaves > 1
    again = run(
        *arguments, "-o", "again.safetensors", "--trainable", "v", "--validation", "iris-y.csv"
    )
    assert again.exit_code == 0, again.output
    assert "validation accuracy: " in again.stdout
    assert "start 0: validation" in again.stderr
    before, after = files.load(desk / "again.safetensors"), run("info", "tree.skops", "--json")
    assert before.n_nodes == json.loads(after.stdout)["nodes"]


def test_info_states_the_facts(run: Run, desk: Path, models: dict[str, Any]) -> None:
    facts = answer(run("info", "cancer.ubj", "--json"))
    frame = models["booster"].get_booster().trees_to_dataframe()
    assert facts["trees"] == 12
    assert facts["leaves"] == int((frame.Feature == "Leaf").sum())
    assert facts["nodes"] == int((frame.Feature != "Leaf").sum())
    assert facts["file_bytes"] == (desk / "cancer.ubj").stat().st_size
    assert facts["feature_names"] == list(models["cancer"])
    uses = frame[frame.Feature != "Leaf"].Feature.value_counts()
    assert {use["name"]: use["entries"] for use in facts["feature_uses"]} == uses.to_dict()
    assert facts["depth_max"] == 3
    assert facts["classes"] == [[0, 1]]
    assert facts["source"]["library"] == "xgboost"
    text = run("info", "cancer.ubj").stdout
    for expected in ("trees       12", "30, compared in float32", "sigmoid", "binary:logistic"):
        assert expected in text


def test_info_draws_a_tree_with_names(run: Run, desk: Path, models: dict[str, Any]) -> None:
    text = run("info", "tree.skops", "--tree", 0).stdout
    assert text.startswith("tree 0 of 1: ")
    assert "petal" in text
    assert "setosa 1" in text
    # One line per node and leaf of the source.
    drawing = text.split("\n\n")[1].splitlines()
    assert len(drawing) == models["tree"].tree_.node_count
    for array in ("S (", "b (", "B (", "v ("):
        assert f"\n{array}" in text


def test_a_drawing_asks_what_the_rows_answer(run: Run, desk: Path) -> None:
    assert run("info", "stump.safetensors", "--tree", -1).stdout == (
        "tree 0 of 1: 1 node, 2 leaves; no goes left, yes goes right\n"
        "\n"
        "x0 > 0.5 ?  [missing: no]\n"
        "├─ no:  leaf 0: 10\n"
        "└─ yes: leaf 1: 20\n"
        "\n"
        "S (1 x 2):\n"
        "  1  0\n"
        "b (1):\n"
        "  0.5\n"
        "B (2 x 1):\n"
        "  0\n"
        "  1\n"
        "v (2 x 1):\n"
        "  10\n"
        "  20\n"
    )
    record = answer(run("info", "stump.safetensors", "--tree", 0, "--json"))
    assert record["B"] == {"lo": [0], "mid": [1], "hi": [2]}
    assert record["v"] == [[10.0], [20.0]]


@pytest.mark.parametrize(
    "options",
    [
        ("--engine", "numba"),
        ("--engine", "torch"),
        ("--engine", "reference"),
        ("--kernel", "single"),
        ("--device", "cpu"),
    ],
)
def test_engines_answer_alike(run: Run, options: tuple[str, ...], desk: Path) -> None:
    result = run("predict", "stump.safetensors", "stump.csv", *options)
    assert result.stdout == "prediction\n10.0\n20.0\n"


def test_nan_is_null_in_json(run: Run, desk: Path) -> None:
    files.save(
        Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [np.nan, np.inf]),
        desk / "nan.safetensors",
    )
    record = answer(run("predict", "nan.safetensors", "stump.csv", "--json"))
    assert record["columns"]["prediction"] == [None, "inf"]


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.npy", "out.parquet"])
def test_predictions_go_to_any_kind_of_file(run: Run, desk: Path, name: str) -> None:
    from bitvec.runtime.predict.datafiles import read

    result = run("predict", "stump.safetensors", "stump.csv", "-o", name, "--outputs", "leaves")
    assert result.stdout == f"2 rows of leaves -> {name}\n"
    if name == "out.npy":
        assert np.load(name).tolist() == [0, 1]
    else:
        _, leaves = read(desk / name).split("tree_0")
        assert leaves.tolist() == [0, 1]


def test_extra_columns_are_passed_over_with_a_warning(run: Run) -> None:
    result = run("predict", "cancer.ubj", "cancer-y.csv")
    assert result.exit_code == 0
    assert result.stderr == "Warning: `X` has columns that the forest does not read: 'y'.\n"
    assert result.stdout == run("predict", "cancer.ubj", "cancer.csv").stdout


def test_convert_replaces_a_file_only_by_force(run: Run, desk: Path) -> None:
    assert run("convert", "cancer.ubj").exit_code == 0
    before = (desk / "cancer.safetensors").read_bytes()
    (desk / "cancer.safetensors").write_bytes(b"mine")
    refused = run("convert", "cancer.ubj")
    assert refused.exit_code == 2
    assert "cancer.safetensors exists" in refused.stderr
    assert (desk / "cancer.safetensors").read_bytes() == b"mine"
    assert run("convert", "cancer.ubj", "--force").exit_code == 0
    assert (desk / "cancer.safetensors").read_bytes() == before


def test_a_certificate_that_fails_exits_with_1(run: Run, desk: Path) -> None:
    import dataclasses

    assert run("convert", "cancer.ubj").exit_code == 0
    forest = files.load(desk / "cancer.safetensors")
    moved = dataclasses.replace(forest.leaves, v=np.nextafter(forest.leaves.v, np.float32(9)))
    files.save(dataclasses.replace(forest, leaves=moved), desk / "moved.safetensors")
    result = run("certify", "moved.safetensors", "--model", "cancer.ubj", "-o", "proof.json")
    assert result.exit_code == 1
    assert result.stdout.startswith("FAILED")
    assert certificates.load(desk / "proof.json").passed is False
    result = run("certify", "moved.safetensors", "--model", "cancer.ubj", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["passed"] is False


def test_a_model_is_converted_once_to_be_certified(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitvec import api

    convert, converted = api.convert, []
    monkeypatch.setattr(
        api, "convert", lambda model, **how: converted.append(model) or convert(model, **how)
    )
    assert run("certify", "cancer.ubj").exit_code == 0
    assert run("convert", "cancer.ubj", "--certify").exit_code == 0
    assert converted == [Path("cancer.ubj")] * 2


def test_convert_writes_nothing_whose_certificate_fails(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from bitvec import api

    convert = api.convert

    def slips(model: Any, **how: Any) -> Any:
        forest = convert(model, **how)
        moved = dataclasses.replace(forest.leaves, v=forest.leaves.v + np.float32(1))
        return dataclasses.replace(forest, leaves=moved)

    monkeypatch.setattr(api, "convert", slips)
    before = sorted(desk.iterdir())
    result = run("convert", "cancer.ubj", "--certify")
    assert result.exit_code == 1
    assert result.stdout.startswith("FAILED")
    assert sorted(desk.iterdir()) == before


def test_quickstart_runs_with_its_options(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from bitvec.cli import quickstart_run

    calls = []
    monkeypatch.setattr(
        quickstart_run, "run", lambda directory, *, seed: calls.append((directory, seed))
    )
    assert run("quickstart").exit_code == 0
    assert run("quickstart", "-o", "first", "--seed", 3).exit_code == 0
    assert calls == [(Path("quickstart"), 0), (Path("first"), 3)]


def test_categories_that_look_like_numbers_are_read_as_names(run: Run, desk: Path) -> None:
    """The code book holds "10" and "20": a cell 20 is the category "20", not the code 20."""
    ptr, words = set_bits([np.array([1])])
    forest = Forest(
        axis_aligned([0], np.zeros(1), kind=Kind.SET, set_ptr=ptr, set_words=words),
        from_children([-1], [-2], [0]),
        Leaves(np.array([[1.0], [2.0]])),
        Output(1, np.dtype(np.float64)),
        Inputs(1, ("shelf",), (("10", "20"),)),
    )
    files.save(forest, desk / "shelf.safetensors")
    (desk / "shelf.csv").write_text("shelf\n20\n10\n30\n")
    result = run("predict", "shelf.safetensors", "shelf.csv")
    assert result.stdout == "prediction\n2.0\n1.0\n1.0\n"


def test_progress_is_a_bar_on_a_terminal_and_a_line_now_and_then_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bitvec.verify import progress_bar as progress

    assert "comparing" not in run("certify", "cancer.ubj").stderr
    clock = iter((0.0, 1.0, 29.0, 30.0, 31.0, 61.0))
    with monkeypatch.context() as patch:
        patch.setattr(progress.time, "monotonic", lambda: next(clock))
        with progress.progress("x") as advance:
            assert advance is not None
            for fraction in (0.01, 0.29, 0.3, 0.31):
                advance(fraction)
            advance(0.61, "y")
    assert capsys.readouterr().err == "x: 30%\ny: 61%\n"
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with progress.progress("x") as advance:
        assert advance is not None
        advance(0.5)
        advance(1.0, "[red]no markup")
    with progress.progress("x", quiet=True) as advance:
        assert advance is None


def test_columns_named_by_numbers_are_found_by_name_in_text(run: Run, desk: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["2019", "2020"])
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, X["2019"] - 2 * X["2020"])
    model.save_model(desk / "years.ubj")
    X[["2020", "2019"]].to_csv(desk / "years.csv", index=False)
    got = table(run("predict", "years.ubj", "years.csv"))["prediction"]
    assert np.array_equal(got.to_numpy(np.float32), model.predict(X))


def test_a_certificate_is_made_again(run: Run, desk: Path) -> None:
    forest, of = "cancer.safetensors", ("--model", "cancer.ubj")
    assert run("convert", "cancer.ubj").exit_code == 0
    assert run("certify", forest, *of, "--seed", 3, "-o", "proof.json").exit_code == 0
    same = run("certify", forest, *of, "--again", "proof.json")
    assert same.exit_code == 0
    assert "the same as proof.json" in same.output
    text = (desk / "proof.json").read_text()
    digest = json.loads(text)["digest"]
    (desk / "proof.json").write_text(text.replace(digest, "0" * 64))
    other = run("certify", forest, *of, "--again", "proof.json")
    assert other.exit_code == 1
    assert "differs from proof.json in digest" in other.output


def test_a_retraining_is_drawn_pruned_and_told_apart(run: Run, desk: Path) -> None:
    assert run("convert", "tree.skops", "-o", "tree.safetensors").exit_code == 0
    arguments = (
        "retrain", "tree.safetensors", "iris-y.csv", "--target", "species", "--steps", 60,
        "--gamma", "1,4", "--prune-dead", "--validation", "iris-y.csv", "-o", "new.safetensors",
        "--checkpoint-path", "run.safetensors", "--plot", "history.png",
        "--metric", "log_loss", "--optimizer", "adam", "--rate-schedule", "linear", "--warmup", 5,
        "--gamma-schedule", "cosine", "--evaluations", 4, "--weight-decay", 0.01, "--l2", 0.001,
    )  # fmt: skip
    first = answer(run(*arguments, "--json"))
    assert (desk / "history.png").stat().st_size > 5_000
    assert (desk / "run.safetensors").exists()
    assert first["leaves"][1] <= first["leaves"][0]
    # The checkpoint is of a run that is done: the same answer, without training again.
    assert answer(run(*arguments, "--json"))["after"] == first["after"]
    told = run("diff", "tree.safetensors", "new.safetensors", "--data", "iris.csv")
    assert told.exit_code == 0, told.output
    assert "S" in told.stdout
    facts = answer(run("diff", "tree.safetensors", "tree.safetensors", "--json"))
    assert facts
    pruned = answer(run("prune", "tree.safetensors", "-o", "p.safetensors", "--json",
                        "--data", "iris.csv"))  # fmt: skip
    assert pruned["certified"] is True
    assert files.load(desk / "p.safetensors").n_nodes == pruned["nodes"][1]
    same = answer(run("prune", "tree.safetensors", "-o", "p.safetensors", "--no-empty",
                      "--no-equal", "--no-unreachable", "--json"))  # fmt: skip
    assert same["nodes"] == [pruned["nodes"][0]] * 2

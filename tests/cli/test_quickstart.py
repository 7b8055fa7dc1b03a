"""The quickstart does what it says, on the models that it trains itself."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import bitvec
from bitvec.errors import MissingLibraryError

pytest.importorskip("torch")
pytest.importorskip("xgboost")
pytest.importorskip("matplotlib")


@pytest.mark.parametrize("budget", ["quick", pytest.param("normal", marks=pytest.mark.full)])
def test_the_quickstart_certifies_improves_and_leaves_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: str
) -> None:
    from bitvec.cli.quickstart_run import run

    monkeypatch.setattr(bitvec, "retrain", partial(bitvec.retrain, budget=budget))
    report = run(tmp_path / "quickstart", n_trees=20)
    assert [row.coverage for row in report.rows] == [1.0] * 4
    assert [row.leaves_differ for row in report.rows] == [0] * 4
    assert [row.ulp for row in report.rows] == [0] * 4
    assert all(row.onnx_agrees for row in report.rows)
    assert report.accuracy_after > report.accuracy_before + 0.05
    for row in report.rows:
        forest, certificate, exported = (tmp_path / "quickstart" / name for name in row.files)
        assert bitvec.load(forest).n_trees == row.trees
        assert json.loads(certificate.read_text())["passed"] is True
        assert exported.stat().st_size > 0
    for name in report.plots:
        assert (tmp_path / "quickstart" / name).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "quickstart" / "report.json").read_text())["rows"]


def test_without_a_wheel_of_onnxruntime_the_files_are_written_and_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bitvec.cli import quickstart_run

    certify = quickstart_run.api.certify

    def without_onnxruntime(forest: Any, source: Any, *given: Any, **options: Any) -> Any:
        if isinstance(source, Path) and source.suffix == ".onnx":
            raise MissingLibraryError("onnxruntime", "onnx", "Running ONNX files")
        return certify(forest, source, *given, **options)

    monkeypatch.setattr(quickstart_run.api, "certify", without_onnxruntime)
    monkeypatch.setattr(quickstart_run, "left_out", lambda library: library == "onnxruntime")
    case = quickstart_run.cases(0, 1)[0]
    row, _ = quickstart_run.visit(case, tmp_path)
    assert row.onnx_agrees is None
    assert (tmp_path / row.files[2]).stat().st_size
    quickstart_run.show(Console(), quickstart_run.Report([row]), tmp_path)
    assert "not run, since onnxruntime had no wheel" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(quickstart_run, "left_out", lambda library: False)
    with pytest.raises(MissingLibraryError, match="onnxruntime"):
        quickstart_run.visit(case, tmp_path)

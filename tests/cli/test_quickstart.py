"""The quickstart does what it says, on the models that it trains itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bitvec

pytest.importorskip("torch")
pytest.importorskip("xgboost")
pytest.importorskip("matplotlib")


def test_the_quickstart_certifies_improves_and_leaves_files(tmp_path: Path) -> None:
    from bitvec.cli.quickstart_run import run

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

"""What README says was measured is what the kept runs say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KEPT = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def test_the_readme_shows_the_kept_runs():
    command = [sys.executable, "-m", "benchmarks.render", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_run_says_how_it_was_made_and_whether_it_met_its_goals(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report.keys() == {"machine", "versions", "command", "rows", "targets"}
    assert report["rows"]
    for target in report["targets"]:
        assert target.keys() == {"name", "goal", "value", "met"}
    assert "--quick" not in report["command"], "the kept run is the full one"


@pytest.mark.full
def test_the_circle_benchmark_runs_quickly():
    command = [sys.executable, "-m", "benchmarks.circle", "--quick", "--json"]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180
    )
    report = json.loads(result.stdout)
    exact = ("least coverage of a certificate", "leaves that differ")
    assert all(target["met"] for target in report["targets"] if target["name"] in exact)

"""What README says was measured is what the kept runs say."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
KEPT = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


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


def _row(workload, batch, threads, engine, seconds, **told):
    from benchmarks.engine.measure import timed

    turn = {"seconds": seconds, "cpu_seconds": seconds, "calls": 1, "idle_cpu": 0.0}
    turns = [turn | {"seconds": seconds * factor} for factor in (1.1, 1.0, 0.9)]
    same = {"same_model": True, "raw_bits_differ": 0, "largest_difference": 0.0}
    return timed(workload, batch, threads, engine, turns) | same | told


def test_the_ratio_of_an_engine_is_to_the_best_peer_that_runs_the_same_model():
    from benchmarks.engine.summary import with_ratios

    rows = with_ratios(
        [
            _row("W1", 100, 1, "bitvec", 2.0),
            _row("W1", 100, 1, "bitvec torch", 0.5),
            _row("W1", 100, 1, "xgboost", 8.0),
            _row("W1", 100, 1, "other", 1.0, same_model=False),
            _row("W1", 100, 2, "xgboost", 1.0),
            {"workload": "W1", "batch": None, "threads": None, "engine": "x", "reason": "absent"},
        ]
    )
    ratios = {(row["engine"], row["threads"]): row.get("ratio") for row in rows}
    assert ratios == {
        ("bitvec", 1): 4.0,
        ("bitvec torch", 1): 16.0,
        ("xgboost", 1): 1.0,
        ("other", 1): 8.0,
        ("xgboost", 2): 1.0,
        ("x", None): None,
    }
    assert {row["best_peer"] for row in rows if "seconds" in row} == {"xgboost"}
    assert rows[0]["spread"] == pytest.approx(0.1)


def test_a_target_of_the_engine_is_judged_by_its_own_cell_only():
    from benchmarks.engine.summary import targets, with_ratios

    rows = with_ratios(
        [
            _row("W4", 20_000, 1, "bitvec", 1.0),
            _row("W4", 20_000, 1, "xgboost", 2.0),
            _row("W4", 10_000, 2, "bitvec", 1.0),
            _row("W4", 10_000, 2, "xgboost", 4.5),
            _row("W4", 10_000, 2, "bitvec torch", 2.0, raw_bits_differ=3),
            _row("W4", 10_000, 2, "hummingbird gemm", 8.0),
            _row("W4", 10_000, 2, "hummingbird tree_trav", 1.5),
            {"workload": "W1", "figure": "nan", "ratio": 1.02, "low": 1.0, "high": 1.06},
            {"workload": "W1", "figure": "cycles", "reason": "failed"},
        ]
    )
    found = {target.name: target for target in targets(rows)}
    judged = {name: target.met for name, target in found.items() if target.met is not None}
    assert judged == {
        "floor: W4, largest batch, 1 thread": False,
        "floor: W4, 10,000 rows, 2 threads": False,
        "aim: W4, 10,000 rows, 2 threads": False,
        "torch: hummingbird's best strategy's time over ours, worst cell (W4, 10,000, 2)": False,
        "raw scores that differ from the library's own": True,
        "raw scores that differ from the library's own, torch": False,
        "NaN present, time over that without (95 % interval)": True,
    }
    assert found["floor: W4, largest batch, 1 thread"].value == 2.0
    # The best peer at two threads is hummingbird, not xgboost.
    assert found["aim: W4, 10,000 rows, 2 threads"].value == 1.5
    assert found["cycles a row, W1, 10,000 rows"].value is None


def test_an_answer_is_compared_with_the_librarys_own():
    from benchmarks.engine.measure import difference

    asked = np.arange(100) % 2
    native = {"asked": asked, "scores": np.eye(2)[asked], "raw": np.eye(2)[asked]}
    one_column = {"asked": np.eye(2)[asked][:, 1], "scores": np.eye(2)[asked][:, 1:]}
    assert difference(native, native) == {
        "largest_difference": 0.0,
        "raw_bits_differ": 0,
        "labels_differ": 0,
        "same_model": True,
    }
    assert difference(one_column, native)["largest_difference"] == 0
    other = native | {"asked": 1 - asked, "raw": np.nextafter(native["raw"], 2)}
    assert difference(other, native)["labels_differ"] == 100
    assert difference(other, native)["raw_bits_differ"] == 200
    assert difference(other, native)["same_model"] is False
    assert difference(native, None)["same_model"] is None


def test_the_interval_of_a_ratio_holds_the_ratio():
    from benchmarks.engine.figures import interval

    noise = np.random.default_rng(0).normal(1, 0.02, (41, 2))
    ratio, low, high = interval(noise * [1.5, 1.0])
    assert low <= ratio <= high
    assert low < 1.5 < high
    assert interval(np.ones((5, 2))) == (1, 1, 1)


def test_the_tables_and_the_picture_of_the_engine_are_made_of_any_rows(tmp_path):
    from benchmarks.engine.picture import draw
    from benchmarks.engine.summary import targets, with_ratios
    from benchmarks.engine.tables import everything

    pytest.importorskip("matplotlib")
    cell = {"largest_difference": 0.5, "warm_up_seconds": 1.5}
    reason = {"workload": "W1", "batch": 100, "threads": 1, "engine": "other", "reason": "a|b"}
    for rows in (
        [],
        [reason],
        [_row("W1", 10_000, 1, "bitvec", 1e-6, **cell)],
        [_row("W1", 10_000, 1, e, 1.0, **cell) for e in ("bitvec", "xgboost")] + [reason],
    ):
        rows = with_ratios(rows)
        report = {
            "machine": {"processor": "a processor", "cores": 2},
            "command": "python",
            "rows": rows,
            "targets": [asdict(target) for target in targets(rows)],
        }
        text = everything(report)
        assert ("a\\|b" in text) == (reason in rows)
        draw(report, tmp_path / "engine.svg")
        assert "</svg>" in (tmp_path / "engine.svg").read_text(encoding="utf-8")

"""What README says was measured is what the kept runs say."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
KEPT = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def test_the_readme_shows_the_kept_runs(monkeypatch):
    from benchmarks import render

    monkeypatch.setattr(sys, "argv", ["render", "--check"])
    render.main()  # exits with a sentence if a page differs


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_run_says_how_it_was_made_and_whether_it_met_its_goals(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report.keys() == {"machine", "versions", "command", "rows", "targets"}
    assert report["rows"]
    for target in report["targets"]:
        assert target.keys() == {"name", "goal", "value", "met"}
    assert "--quick" not in report["command"], "the kept run is the full one"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_targets_of_a_kept_run_are_those_of_its_figures(path):
    from benchmarks.runner import load

    report = json.loads(path.read_text(encoding="utf-8"))
    try:
        benchmark = load(path.stem)
    except ModuleNotFoundError as error:  # benchmarks need what they measure
        pytest.skip(str(error))
    assert benchmark.figures(report["rows"]) == report["rows"]
    assert benchmark.targets(report["rows"], whole=True) == report["targets"]


@pytest.mark.full
def test_the_quickstart_benchmark_runs_quickly():
    command = [sys.executable, "-m", "benchmarks.quickstart", "--quick", "--json"]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180
    )
    report = json.loads(result.stdout)
    exact = ("least coverage of a certificate", "leaves that differ")
    assert [target["met"] for target in report["targets"] if target["name"] in exact] == [True] * 2


WORKER = """
import os, subprocess, sys
from benchmarks.worker import CannotRunError

os.write(2, b"a library's own words")

class Served:
    def __init__(self, given):
        print("noise")
        self.ready = {"ready": given}

    def end(self):
        os._exit(3)

    def refuse(self):
        raise CannotRunError("too many rows")

    def start(self):
        subprocess.Popen("exec sleep 600 > held", shell=True)
        return {}

    def fail(self):
        raise KeyError("x")
"""


@pytest.mark.parametrize(
    ("do", "reason"),
    [("refuse", "too many rows"), ("fail", "KeyError: 'x'"), ("end", "its process ended with 3")],
)
def test_a_worker_answers_or_says_why_not(tmp_path, monkeypatch, do, reason):
    from benchmarks.worker import CannotRunError
    from benchmarks.workers import Worker, alone

    (tmp_path / "a_worker.py").write_text(WORKER, encoding="utf-8")
    worker = Worker("a_worker:Served", ["an argument"], folder=tmp_path)
    assert worker.answer(60) == {"ready": ["an argument"]}
    with pytest.raises(CannotRunError, match=reason):
        worker.ask(do, within=60)
    with pytest.raises(CannotRunError, match="no_such_module"):
        alone("no_such_module:main")


@pytest.mark.skipif(os.name == "nt", reason="it has no groups of processes")
def test_what_a_worker_has_started_ends_with_it(tmp_path):
    from benchmarks.workers import Worker

    (tmp_path / "a_worker.py").write_text(WORKER, encoding="utf-8")
    os.mkfifo(tmp_path / "held")
    worker = Worker("a_worker:Served", [], folder=tmp_path)
    worker.answer(60)
    assert worker.ask("start", within=60) == {}
    with (tmp_path / "held").open("rb") as held:  # as soon as the process has opened it
        worker.close()
        assert select.select([held], [], [], 30)[0]
        assert held.read() == b""


def _judged(benchmark, rows):
    """Return which of the goals that these rows can judge are met; none are in part of a run."""
    figures = benchmark.figures(rows)
    assert {target["met"] for target in benchmark.targets(figures, whole=False)} <= {None}
    found = {target["name"]: target["met"] for target in benchmark.targets(figures, whole=True)}
    return {name: met for name, met in found.items() if met is not None}


def _texts(benchmark, rows):
    """Return all tables, of figures that were kept as JSON."""
    figures = json.loads(json.dumps(benchmark.figures(rows)))
    report = {
        "machine": {"processor": "a processor", "cores": 2},
        "command": "python",
        "rows": figures,
        "targets": benchmark.targets(figures, whole=True),
    }
    from benchmarks.report import asked

    return "\n\n".join(table(report) for table in (*benchmark.tables.values(), asked))


def test_a_report_is_kept_a_row_a_line_and_reads_as_it_was():
    from benchmarks.report import command, machine, versions
    from benchmarks.runner import in_json

    report = {
        "machine": machine(),
        "versions": versions(),
        "command": command("engine"),
        "rows": [{"a": 1, "b": [1.5, None]}, {"a": "é"}],
        "targets": [],
    }
    text = in_json(report)
    assert json.loads(text) == report
    assert '\n{"a": 1, "b": [1.5, null]},\n' in text
    assert report["machine"]["vectors"] in ("AVX-512", "AVX2 only", "neither AVX-512 nor AVX2")


def test_the_figures_of_a_format_are_those_of_all_its_models():
    from benchmarks.exactness import BENCHMARK

    one = {
        "format": "scikit-learn", "options": ["trees"], "coverage": 1.0, "rows_probed": 1000,
        "leaves_differ": 0, "labels_differ": 0, "exact": True, "raw_ulp": 0, "score_ulp": 1,
        "score_ulp_allowed": 8, "passed": True, "stored_difference": None, "write_back": "passed",
        "write_back_ulp": 0, "seconds": 1.5, "frames_compared": ["pandas"], "frames_differ": 0,
    }  # fmt: skip
    other = one | {
        "rows_probed": 500, "leaves_differ": 2, "coverage": 0.5, "write_back": "no writer",
        "write_back_ulp": None, "stored_difference": 1e-12, "frames_compared": ["polars"],
        "raw_ulp": 3, "exact": False, "score_ulp": 100, "score_ulp_allowed": 512,
    }  # fmt: skip
    verdicts = ("caught", "equivalent", "within ulps", "wrongly passed", "not asked", "no forest")
    mutants = {"format": "xgboost", "mutants": 5, "verdicts": dict.fromkeys(verdicts, 1)}
    rows = BENCHMARK.figures([one, mutants, other])
    assert rows[1:] == [mutants]
    assert rows[0]["stored_difference"] == 1e-12
    found = {target["name"]: target["met"] for target in BENCHMARK.targets(rows, whole=False)}
    assert [name for name, met in found.items() if met is False] == [
        "least coverage",
        "leaves that differ",
        "mutants that passed wrongly",
    ]
    assert [name for name, met in found.items() if met is None] == [
        "mutants",
        "models",
        "options in fewer than 2 models",
        "LightGBM texts before v2 that are refused",
    ]
    text = _texts(BENCHMARK, rows)
    assert "| scikit-learn | 2 | 1,500 | 0.5 | 2 | 3 | 100 | 1 of 1 |" in text
    assert "| scikit-learn | 2 | 0 |" in text


def _row(workload, batch, threads, engine, seconds, *, answer="values", **told):
    from benchmarks.engine.cells import Cell
    from benchmarks.engine.measure import timed

    turn = {"seconds": seconds, "cpu_seconds": seconds, "calls": 1, "idle_cpu": 0.0}
    turns = [turn | {"seconds": seconds * factor} for factor in (1.1, 1.0, 0.9)]
    same = {"same_model": True, "raw_bits_differ": 0, "largest_difference": 0.0}
    return timed(Cell(workload, batch, threads), answer, engine, turns) | same | told


def test_the_ratio_of_an_engine_is_to_the_best_baseline_that_runs_the_same_model():
    from benchmarks.engine import BENCHMARK
    from benchmarks.engine.cells import by_cell

    rows = BENCHMARK.figures(
        [
            _row("W1", 100, 1, "bitvec", 2.0),
            _row("W1", 100, 1, "bitvec torch", 0.5),
            _row("W1", 100, 1, "xgboost", 8.0),
            _row("W1", 100, 1, "other", 1.0, same_model=False),
            _row("W1", 100, 2, "xgboost", 1.0),
            _row("W1", 100, 1, "bitvec", 1.0, answer="raw"),
            _row("W1", 100, 1, "xgboost", 3.0, answer="raw"),
            {"workload": "W1", "batch": None, "threads": None, "engine": "x", "reason": "absent"},
        ]
    )
    cells = by_cell(rows)
    ratios = {(e, str(cell)): row["ratio"] for cell, t in cells.items() for e, row in t.items()}
    assert ratios == {
        ("bitvec", "W1, 100, 1"): 4.0,
        ("bitvec torch", "W1, 100, 1"): 16.0,
        ("xgboost", "W1, 100, 1"): 1.0,
        ("other", "W1, 100, 1"): 8.0,
        ("xgboost", "W1, 100, 2"): 1.0,
        ("bitvec", "W1, 100, 1, raw"): 3.0,
        ("xgboost", "W1, 100, 1, raw"): 1.0,
    }
    assert {(row["engine"], row["answer"]) for row in rows if "answer" in row} >= {
        ("bitvec", "values"),
        ("bitvec", "raw"),
    }
    # Runs that were kept before raw scores were timed tell of no answer.
    assert {*by_cell([{k: v for k, v in rows[0].items() if k != "answer"}])} == {("W1", 100, 1, 0)}
    best = {row["best_baseline"] for told in cells.values() for row in told.values()}
    assert best == {"xgboost"}
    assert _row("W1", 100, 1, "bitvec", 2.0)["spread"] == pytest.approx(0.1)


def test_cells_that_are_not_won_are_told_with_floors_and_counts():
    import bitvec
    from benchmarks.engine import BENCHMARK
    from benchmarks.engine.floors import counts, least_seconds, told

    forest = bitvec.Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    predictor = bitvec.compile(forest)
    X = np.zeros((5, 2), np.float32)
    counted = counts(forest, predictor, predictor.predict, X)
    told_of = ("comparisons", "trees", "sums", "exponentials", "read_bytes", "written_bytes")
    assert [counted[name] for name in told_of] == [1, 1, 1, 0, 4, 8]
    rates = {
        "figure": "floors",
        "call_seconds": 1e-7,
        "read_seconds": 1e-9,
        "write_seconds": 2e-9,
        "sum_seconds": 1e-10,
        "chained_sum_seconds": 1e-9,
        "exponential_seconds": 1e-9,
    }
    assert least_seconds(rates, counted, 10, raw=False)["memory"] == pytest.approx(10 * 20e-9)
    times = {("W1", 1): (2e-6, 2.2e-6), ("W1", 10): (2e-6, 8e-6), ("W2", 1): (2e-6, 1e-6)}
    rows = [
        _row(workload, batch, 1, engine, seconds)
        for (workload, batch), both in times.items()
        for engine, seconds in zip(("bitvec", "daal4py"), both, strict=True)
    ]
    rows += [{"workload": name, "figure": "counts"} | counted for name in ("W1", "W2")]
    lines = told({"rows": BENCHMARK.figures([*rows, rates])}).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| W2, 1, 1", "| W1, 1, 1"]


def test_a_target_of_the_engine_is_judged_by_its_own_cell_only():
    from benchmarks.engine import BENCHMARK

    rows = [
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
    assert _judged(BENCHMARK, rows) == {
        "floor: W4, largest batch, 1 thread": False,
        "floor: W4, 10,000 rows, 2 threads": False,
        "every cell from 10 rows on, 1 thread (least: W4, 20,000, 1)": True,
        "every cell of 2 threads (least: W4, 10,000, 2)": True,
        "geometric mean of all cells": False,
        "torch: hummingbird's best strategy's time over ours, every cell "
        "(least: W4, 10,000, 2)": False,
        "raw scores that differ from the library's own": True,
        "raw scores that differ from the library's own, torch": False,
        "NaN present, time over that without (95 % interval)": True,
    }
    found = {t["name"]: t["value"] for t in BENCHMARK.targets(BENCHMARK.figures(rows), whole=True)}
    assert found["floor: W4, largest batch, 1 thread"] == 2.0
    # The best baseline at two threads is hummingbird, not xgboost.
    assert found["every cell of 2 threads (least: W4, 10,000, 2)"] == 1.5
    assert found["cycles a row, W1, 10,000 rows"] is None


def test_cells_of_raw_scores_of_few_rows_and_of_avx2_have_targets_of_their_own_and_count():
    from benchmarks.engine import BENCHMARK
    from benchmarks.engine.comparison_tables import avx2, raw

    rows = [
        _row("binary", 2, 1, "bitvec", 1.0),
        _row("binary", 2, 1, "bitvec AVX2", 1.0),
        _row("binary", 2, 1, "other", 4.0),
        _row("binary", 10, 1, "bitvec", 1.0, answer="raw"),
        _row("binary", 10, 1, "bitvec AVX2", 2.0, answer="raw"),
        _row("binary", 10, 1, "other", 1.0, answer="raw"),
        _row("W1", 1, 1, "bitvec AVX2", 1.0),
        _row("W1", 1, 1, "other", 2.0),
        _row("drawn 1", 1, 1, "bitvec", 1.0, answer="raw"),
        _row("drawn 1", 1, 1, "other", 3.0, answer="raw"),
    ]
    figures = BENCHMARK.figures(rows)
    found = {t["name"]: t["value"] for t in BENCHMARK.targets(figures, whole=True)}
    assert {name: value for name, value in found.items() if value is not None} == {
        "every cell from 10 rows on, 1 thread (least: binary, 10, 1, raw)": 1.0,
        "every cell below 10 rows, 1 thread (least: binary, 2, 1)": 4.0,
        "geometric mean of all cells": 2.0,
        "AVX2: every cell from 10 rows on, 1 thread (least: binary, 10, 1, raw)": 0.5,
        "AVX2: every cell below 10 rows, 1 thread (least: W1, 1, 1)": 2.0,
        "AVX2: geometric mean of all cells": 1.0,
        "models drawn at random, every cell (least: drawn 1, 1, 1, raw)": 3.0,
        "models drawn at random, geometric mean": 3.0,
        "raw scores that differ from the library's own": 0,
    }
    assert "| 10 | 1 | 0.50 | 0.5 | 0.5 | 0 | 1 | other |" in avx2({"rows": figures})
    assert raw({"rows": figures}).splitlines()[2:] == ["| binary | **1.0** other, 1 s |"]


@pytest.mark.parametrize(
    ("cell", "limited", "takes"),
    [
        (("W1", 30, 1), False, True),
        (("W1", 30, 1), True, False),
        (("W1", 30, 2), False, False),
        (("W1", 100, 2), False, True),
        (("W1", 100, 2), True, False),
        (("W1", 20_000, 1), True, False),
        (("W1", 10, 1, True), False, True),
        (("W1", 30, 1, True), False, False),
        (("W1", 10, 2, True), False, False),
    ],
)
def test_few_cells_are_timed_of_raw_scores_and_of_engines_for_one_comparison(cell, limited, takes):
    from benchmarks.engine.cells import Cell

    assert Cell(*cell).takes(limited=limited) == takes


class _Calls:
    """Answers of a worker's engine, and what was asked of it, by call."""

    def __init__(self, X):
        from benchmarks.engine.engines.calls import Calls

        self.X, self.asked = X, []
        names = ("predict", "scores", "raw")
        self.made = Calls(*(self.call(name, n) for n, name in enumerate(names)))

    def call(self, name, n):
        return lambda X: self.asked.append(name) or X[:, 0] + n

    def calls(self, threads):
        return self.made


def test_a_worker_times_what_is_asked_for_or_raw_scores_and_tells_each(tmp_path):
    from benchmarks.engine.worker import Process

    X = np.arange(200.0).reshape(100, 2)
    engine = _Calls(X)
    process = object.__new__(Process)
    process.engine, process.X = engine, X
    process.rest()
    process.prepare(1)
    process.answer(10, str(tmp_path / "answers.npz"))
    with np.load(tmp_path / "answers.npz") as kept:
        for n, name in enumerate(("asked", "scores", "raw")):
            assert np.array_equal(kept[name], X[:10, 0] + n)
    for raw, name in ((False, "predict"), (True, "raw")):
        engine.asked.clear()
        assert process.time(10, 1e-4, raw=raw)["calls"] >= 1
        assert {*engine.asked} == {name}


class _Worker:
    """A worker whose turns take the seconds of a list, the last again and again."""

    def __init__(self, *seconds):
        self.seconds, self.asked = [*seconds], 0

    def ask(self, do, *, within, **request):
        from benchmarks.worker import CannotRunError

        self.asked += 1
        seconds = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        if seconds is None:
            raise CannotRunError("it ended")
        return {"seconds": seconds, "cpu_seconds": seconds, "calls": 1, "idle_cpu": 0.0}


def _turns_of(threads=1, refused=(), **workers):
    from benchmarks.engine.cells import Cell
    from benchmarks.engine.measure import Plan, _Running, _turns
    from benchmarks.engine.workloads import WORKLOADS

    plan = Plan(repeats=3, seconds=0.04, threads=(1,), batches=(1,), baselines=None, cold=False)
    running = _Running(WORKLOADS[0], ROOT, plan, {**workers})
    said = {name: {"most_rows": 1 if name in refused else None} for name in workers}
    turns = _turns(running, said, Cell("W1", 10, threads))
    reasons = {row["engine"]: row["reason"] for row in running.rows}
    return {name: [turn["seconds"] for turn in found] for name, found in turns.items()}, reasons


def test_turns_are_repeated_until_ours_and_the_best_baselines_are_steady():
    steady = {"bitvec": _Worker(1.0), "best": _Worker(2.0), "other": _Worker(5.0, 3.0, 4.0)}
    assert _turns_of(**steady)[0] == {"bitvec": [1, 1], "best": [2, 2], "other": [5, 3]}
    found, _ = _turns_of(bitvec=_Worker(1.0), best=_Worker(2.0, 4.0, 1.0, 1.01, 7.0))
    assert found == {"bitvec": [1] * 4, "best": [2, 4, 1, 1.01]}
    assert _turns_of(bitvec=_Worker(9.0, 1.0, 1.0), best=_Worker(1.0))[0]["bitvec"] == [9, 1, 1]


def test_engines_that_are_slow_are_timed_once_and_those_that_fail_leave():
    slow, fails = _Worker(9.0), _Worker(2.0, None)
    workers = {"bitvec": _Worker(30.0), "best": _Worker(2.0), "bitvec torch": _Worker(9.0)}
    found, reasons = _turns_of(
        **workers, slow=slow, fails=fails, big=_Worker(1.0), refused=("big",)
    )
    assert found == {"bitvec": [30, 30], "best": [2, 2], "bitvec torch": [9], "slow": [9]}
    assert reasons["fails"] == "it ended (at 10 rows)"
    assert reasons["big"] == "needs too much memory for so many rows"
    assert _turns_of(fails=_Worker(None))[0] == {}


def test_an_engine_that_waits_for_a_core_once_is_not_taken_for_slow():
    waits, slow = _Worker(0.03, 0.003), _Worker(0.02)
    found, _ = _turns_of(2, bitvec=_Worker(0.001), best=_Worker(0.002), waits=waits, slow=slow)
    assert found["waits"] == [0.03, 0.003, 0.003]
    assert found["slow"] == [0.02, 0.02]


def test_a_baseline_that_gave_no_answer_is_not_waited_for_again(tmp_path):
    from benchmarks.engine.engines import ENGINES
    from benchmarks.engine.measure import Plan, _Running
    from benchmarks.engine.workloads import WORKLOADS

    plan = Plan(repeats=1, seconds=0.01, threads=(1,), batches=(1,), baselines=None, cold=False)
    known = {engine.name: engine for engine in ENGINES}
    first = _Running(WORKLOADS[0], tmp_path, plan)
    for name in ("tl2cgen", "bitvec"):
        first.lost(name, "no answer in 240 s")
    first.lost("xgboost", "ImportError")
    assert [path.name for path in tmp_path.iterdir()] == ["tl2cgen.unready"]
    second = _Running(WORKLOADS[0], tmp_path, plan)
    second.start(known["tl2cgen"])
    assert [row["reason"] for row in second.rows] == ["no answer in 240 s (in an earlier run)"]
    assert not second.workers


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
    from benchmarks.engine.alone import interval

    noise = np.random.default_rng(0).normal(1, 0.02, (41, 2))
    ratio, low, high = interval(noise * [1.5, 1.0])
    assert low <= ratio <= high
    assert low < 1.5 < high
    assert interval(np.ones((5, 2))) == (1, 1, 1)


def test_the_tables_and_the_plot_of_the_engine_are_made_of_any_rows(tmp_path):
    from benchmarks.engine import BENCHMARK
    from benchmarks.engine.plot import draw

    pytest.importorskip("matplotlib")
    cell = {"largest_difference": 0.5, "warm_up_seconds": 1.5}
    reason = {"workload": "W1", "batch": 100, "threads": 1, "engine": "other", "reason": "a|b"}
    for rows in (
        [],
        [reason],
        [_row("W1", 10_000, 1, "bitvec", 1e-6, **cell)],
        [_row("W1", 10_000, 1, e, 1.0, **cell) for e in ("bitvec", "xgboost")] + [reason],
    ):
        assert ("a\\|b" in _texts(BENCHMARK, rows)) == (reason in rows)
        draw({"rows": BENCHMARK.figures(rows)}, tmp_path / "engine.svg")
        assert "</svg>" in (tmp_path / "engine.svg").read_text(encoding="utf-8")


def _folder_of_data(folder, n_rows=200):
    """Write small data sets in the formats of the real ones."""
    import lzma
    import tarfile

    drawn = np.random.default_rng(0)
    X = drawn.normal(size=(n_rows, 4)).round(3)
    label = (X[:, 0] + X[:, 1] > 0).astype(int)
    lines = [",".join(map(str, [*row, y])) for row, y in zip(X, label, strict=True)]
    for name, file in (
        ("banknote", "data_banknote_authentication.txt"),
        ("pendigits", "pendigits.tra"),
        ("pendigits", "pendigits.tes"),
    ):
        (folder / name).mkdir(exist_ok=True)
        rows = lines[: n_rows // 4] if file.endswith("tes") else lines
        (folder / name / file).write_text("\n".join(rows) + "\n")
    (folder / "adult").mkdir()
    person = "39, State-gov, 77516, Bachelors, 13, x, y, z, White, Male, 2174, 0, 40, Cuba, {}\n"
    missing = person.replace("State-gov", "?").replace("Cuba", "Peru")
    for part, end in (("data", ""), ("test", ".")):
        text = person.format(f"<=50K{end}") * 10 + missing.format(f">50K{end}") * 10
        (folder / "adult" / f"adult.{part}.xz").write_bytes(lzma.compress(text.encode()))
    (folder / "california").mkdir()
    header = "a,b,c,d,e,f,g,h,value,ocean\n"
    house = "1,2,3,4,5,6,7,8,452600.0,INLAND\n1,2,3,4,,6,7,8,52600.0,NEAR BAY\n"
    (folder / "housing.csv").write_text(header + house * 20)
    with tarfile.open(folder / "california" / "housing.tgz", "w:gz") as archive:
        archive.add(folder / "housing.csv", "housing.csv")
    return folder


def test_a_split_keeps_its_rows_apart_and_the_test_set_of_its_source(tmp_path):
    from benchmarks.retrain.data import split

    data = _folder_of_data(tmp_path)
    drawn = split(data, "banknote", 0)
    parts = [drawn.fit[0], drawn.held_out[0], drawn.test[0]]
    assert [len(part) for part in parts] == [136, 24, 40]
    assert len(np.unique(np.concatenate(parts), axis=0)) == 200
    assert not np.array_equal(drawn.test[0], split(data, "banknote", 1).test[0])
    assert np.array_equal(drawn.test[0], split(data, "banknote", 0).test[0])
    official, other = (split(data, "pendigits", seed) for seed in (0, 1))
    assert len(official.test[1]) == 50
    assert np.array_equal(official.test[0], other.test[0])
    assert not np.array_equal(official.held_out[0], other.held_out[0])


def test_missing_values_and_categories_are_read_as_such(tmp_path):
    from benchmarks.retrain.data import split

    data = _folder_of_data(tmp_path)
    people = split(data, "adult", 0)
    assert people.is_classifier
    assert people.categorical == (1, 3, 5, 6, 7, 8, 9, 13)
    X, y = people.test
    assert np.array_equal(np.isnan(X[:, 1]), y == 1)
    assert set(X[y == 0, 1]) == {0.0}
    assert np.array_equal(X[:, 13], y)
    assert set(people.ordinal().test[0][y == 1, 1]) == {-1.0}
    houses = split(data, "california", 0)
    assert not houses.is_classifier
    X, y = houses.test
    assert np.array_equal(np.isnan(X[:, 4]), y < 1)
    assert set(y) == {4.526, 0.526}


def _retrained(part, case, moved, seed, start, score, **told):
    """A row of one seed, of an accuracy unless it says otherwise."""
    return {
        "part": part,
        "case": case,
        "source": "a forest",
        "moved": moved,
        "measure": "accuracy",
        "seed": seed,
        "start": start,
        "score": score,
        "gain": round(score - start, 6),
        "held_out_gain": 0.1,
        "improved": True,
        "leaves": 64,
        "seconds": 1.0,
    } | told


def test_a_mean_of_retrained_models_is_over_the_seeds_of_its_own_case():
    from benchmarks.retrain import BENCHMARK

    rows = BENCHMARK.figures(
        [
            _retrained("trees", "letter, depth 8", "S, b, v", 0, 0.70, 0.86),
            _retrained("trees", "letter, depth 8", "S, b, v", 1, 0.70, 0.90),
            _retrained("trees", "letter, depth 6", "S, b, v", 0, 0.50, 0.60),
        ]
    )
    found = {row["case"]: row for row in rows if row.get("seeds")}
    assert found["letter, depth 8"]["seeds"] == 2
    assert found["letter, depth 8"]["score"] == pytest.approx(0.88)
    # Half the distance of two numbers, times the root of two; six digits are kept.
    assert found["letter, depth 8"]["score_deviation"] == pytest.approx(0.02 * 2**0.5, rel=1e-5)
    assert found["letter, depth 6"]["score_deviation"] == 0


def test_a_target_of_retraining_is_judged_by_its_own_case_only():
    from benchmarks.retrain import BENCHMARK

    leaves = "v, then b and v"
    rows = [
        _retrained("trees", "letter, depth 10", "S, b, v", 0, 0.79, 0.93, leaves=463),
        _retrained("trees", "letter, depth 10", "S, b, v", 1, 0.79, 0.93, leaves=464),
        _retrained("trees", "letter, depth 8", "S, b, v", 0, 0.70, 0.86),
        _retrained("trees", "segmentation, depth 8", "S, b, v", 0, 0.88, 0.90),
        _retrained("trees", "segmentation, depth 8", "S, b, v", 1, 0.90, 0.89),
        _retrained("forests", "satimage, xgboost", leaves, 0, 0.90, 0.90, file_differences=0),
        _retrained("forests", "satimage, RandomForest", "v", 0, 0.88, 0.90),
        _retrained("baselines", "adult, treegrad", leaves, 0, 0.86, 0.87, ahead=0.0),
        {"part": "baselines", "case": "adult, ydf", "seed": 0, "reason": "a|b"},
    ]
    assert _judged(BENCHMARK, rows) == {
        "letter, depth 10: test accuracy": True,
        "letter, depth 10: most leaves": False,
        "letter, depth 8: test accuracy": False,
        "segmentation, depth 8: least gain on test": False,
        "satimage, xgboost: mean gain on test": False,
        "satimage, xgboost: least gain in validation": True,
        "satimage, xgboost: rows that the library answers otherwise from the written file": True,
        "adult, treegrad: ours ahead of theirs, both hard": True,
    }
    found = {t["name"]: t["value"] for t in BENCHMARK.targets(BENCHMARK.figures(rows), whole=True)}
    # What moved the leaves only is another row than the one that is asked for.
    assert found["satimage, RandomForest: mean gain on test"] is None
    assert found["accepted retrainings that were worse on test"] == "1 of 8"


def test_the_tables_of_retraining_are_made_of_any_rows():
    from benchmarks.retrain import BENCHMARK

    reason = {"part": "baselines", "case": "adult, ydf", "seed": 0, "reason": "a|b"}
    one = _retrained("trees", "letter, depth 8", "S, b, v", 0, 0.7, 0.86, published=0.9)
    worse = _retrained("baselines", "adult, ydf", "v, then b and v", 1, 0.8, 0.7, theirs=0.75)
    for rows in ([], [reason], [one, reason], [one, worse]):
        text = _texts(BENCHMARK, rows)
        assert ("a\\|b" in text) == (reason in rows)
        assert ("0.8600 ± 0.0000 | 0.9000" in text) == (one in rows)
        assert ("1 of these were worse" in text) == (worse in rows)


def test_a_job_of_another_library_reads_as_it_was_written(tmp_path):
    from benchmarks.foreign.held_out import held_out_score
    from benchmarks.jobs import read
    from benchmarks.retrain.baselines import write_job
    from benchmarks.retrain.data import Split

    X, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    rows = Split("a table", (X[:3], y[:3]), (X[3:5], y[3:5]), (X[5:], y[5:]))
    job = write_job(tmp_path, rows, seed=3)
    found = read(tmp_path)
    assert found.facts == job.facts == {"model": "model", "is_classifier": True, "seed": 3}
    assert np.array_equal(found.rows["X"], X[:3])
    assert np.array_equal(found.rows["held_out_y"], y[3:5])
    assert np.array_equal(found.rows["test_X"], X[5:])
    assert "test_y" not in found.rows
    assert found.path == tmp_path / "model"
    assert held_out_score(found, np.array([3, 0])) == 0.5
    assert found.answers == {}
    found.answer(hard=y)
    assert np.array_equal(job.answers["hard"], y)


@pytest.mark.parametrize("is_classifier", [True, False])
@pytest.mark.parametrize("name", ["RandomForest", "xgboost", "LightGBM"])
def test_a_forest_written_for_its_library_is_answered_alike_by_it(name, is_classifier):
    if name == "LightGBM":
        pytest.importorskip("lightgbm")
    import bitvec
    from benchmarks.retrain.data import Split
    from benchmarks.retrain.forests import written_back
    from benchmarks.retrain.libraries import LIBRARIES

    drawn = np.random.default_rng(1)
    X = drawn.normal(size=(300, 3))
    X[:, 2] = drawn.integers(0, 5, 300)
    y = X[:, 0] + (X[:, 2] == 3)
    X[drawn.random(X.shape) < 0.1] = np.nan
    y = (y > 0).astype(np.int64) if is_classifier else y
    parts = [(X[at], y[at]) for at in (slice(200), slice(200, 250), slice(250, 300))]
    rows = Split("a table", *parts, categorical=(2,))
    library = next(library for library in LIBRARIES if library.name == name)
    forest = bitvec.convert(library.grow(rows, 0, library.size | {"n_estimators": 5}))
    found = written_back(forest, library, rows)
    assert found["file_differences"] == 0
    assert np.isfinite(found["file_score"])


@pytest.mark.full
def test_the_benchmark_of_retraining_runs_quickly(tmp_path):
    command = [sys.executable, "-m", "benchmarks.retrain", "--quick", "--json"]
    command += ["--only", "banknote", "--data", str(_folder_of_data(tmp_path))]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180
    )
    report = json.loads(result.stdout)
    (row,) = (row for row in report["rows"] if row["seed"] == 0)
    assert row["held_out_gain"] >= 0
    assert {target["met"] for target in report["targets"]} == {None}


def test_forms_that_are_timed_against_each_other_give_one_answer_and_one_gradient():
    pytest.importorskip("torch")
    from benchmarks import relaxed

    forest, X = relaxed.complete(3, 4), relaxed.rows()
    ours, dense = relaxed.ours(forest, X, "sigmoid"), relaxed.dense(forest, X)
    assert relaxed.require_equal(ours, dense) < 1e-4

    def wrong():
        raw, *gradients = dense()
        return raw, gradients[0] * 1.001, *gradients[1:]

    with pytest.raises(ArithmeticError, match="gradients of S differ"):
        relaxed.require_equal(wrong, dense)


def test_a_target_of_relaxing_is_judged_by_its_own_depth_only():
    from benchmarks.relaxed import BENCHMARK

    def step(depth, seconds, mb, dense=None, dense_mb=None):
        return {
            "what": "step", "form": "sigmoid", "trees": 100, "depth": depth, "seconds": seconds,
            "mb": mb, "dense_seconds": dense, "dense_mb": dense_mb,
            "times_faster": None if dense is None else dense / seconds,
        }  # fmt: skip

    maps = [
        {"what": "map", "form": form, "leaves": 1024, "seconds": times, "of_softmax": times}
        for form, times in (("softmax", 1.0), ("sparsemax", 5.0), ("entmax15", 7.0))
    ]
    rows = [step(6, 1.0, 10, 0.9, 20), step(10, 1.0, 10, 3.0, 9), step(14, 9.0, 2048), *maps]
    assert _judged(BENCHMARK, rows) == {
        "depth 6, dense seconds / ours": False,
        "depth 10, dense seconds / ours": True,
        "depth 10, our memory / dense": False,
        "depth 14, memory in GiB": True,
        "sparsemax / softmax at 1024 leaves, forward and backward": True,
        "entmax15 / softmax at 1024 leaves, forward and backward": False,
    }
    text = _texts(BENCHMARK, rows)
    assert "| sigmoid | 1 s, 10 MB | 1 s, 10 MB | 9 s, 2,048 MB |" in text


@pytest.mark.full
def test_the_benchmark_of_relaxing_runs_quickly():
    command = [sys.executable, "-m", "benchmarks.relaxed", "--quick", "--json"]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180
    )
    report = json.loads(result.stdout)
    assert {row.get("depth") for row in report["rows"]} == {4, 6, None}
    assert all(row.get("seconds", row.get("of_softmax")) > 0 for row in report["rows"])


def _expected_of(n=4, **changed):
    """What a forest of 10 trees and one output answers of rows, each within 1 / 4."""
    from benchmarks.export.rows import Expected

    one = np.ones((n, 1))
    answers = {
        "X": np.zeros((n, 2), np.float32),
        "leaves": np.ones((n, 10), int),
        "raw": one,
        "raw_bound": one / 4,
        "scores": one,
        "bound": one / 4,
        "label": np.zeros(n, int),
    }
    return Expected(**answers | changed)


def test_a_row_of_an_exported_file_differs_by_a_leaf_or_beyond_its_bound():
    from benchmarks.export.rows import difference

    of = _expected_of(X=np.array([[0, np.nan], [0, 0], [0, 0], [0, 0]], np.float32))
    same = {"leaves": of.leaves, "raw": of.raw, "scores": of.scores, "label": of.label}
    assert difference(same, of, exactly=True).differ == 0
    leaves = of.leaves.copy()
    leaves[:2, 3] = 2
    found = difference(same | {"leaves": leaves}, of)
    assert (found.rows, found.differ, found.present_differ, found.leaves_differ) == (4, 2, 1, 2)
    near = {"raw": of.raw + np.array([[0], [0.25], [0.5], [np.nan]])}
    assert difference(near, of).differ == 2
    assert difference(near, of).largest == np.inf
    assert difference(near, of, exactly=True).differ == 3
    # Labels are counted apart: two scores that tie may give either.
    found = difference(same | {"label": 1 - of.label}, of)
    assert (found.differ, found.labels_differ) == (0, 4)
    assert (found | found).labels_differ == 8
    missing = _expected_of(scores=np.full((4, 1), np.nan))
    assert difference({"scores": missing.scores}, missing).differ == 0


def test_the_bound_of_an_exported_score_is_that_of_a_sum_of_magnitudes_in_float32():
    import bitvec
    from benchmarks.export.rows import expected
    from bitvec.core.forest import Forest

    stump = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [-3.0, 5.0])
    X = np.array([[0.0], [1.0]], np.float32)
    assert expected(stump, X).raw_bound.tolist() == [[3 * 2.0**-24], [5 * 2.0**-24]]
    from sklearn.ensemble import RandomForestRegressor

    rows = np.random.default_rng(0).normal(size=(50, 2))
    model = RandomForestRegressor(7, max_depth=3, random_state=0).fit(rows, 1 + rows[:, 0] ** 2)
    of = expected(bitvec.convert(model), rows.astype(np.float32))
    np.testing.assert_allclose(of.raw_bound, 7 * 2.0**-24 * of.raw)


def _small_export():
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    import bitvec

    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    return model, bitvec.convert(model), X.astype(np.float32)


def test_rows_to_probe_an_export_with_are_enough_and_of_the_kind_that_is_asked_for():
    from benchmarks.export.rows import probing

    model, forest, X = _small_export()
    probes = probing(forest, model, X, 500)
    taken, other = probes.taken.X, probes.other.X
    assert (len(taken), len(other)) == (500, 100)
    assert np.isnan(taken).any()
    assert not np.isinf(taken).any(), "scikit-learn's forests refuse infinities"
    assert np.isinf(other).any()
    np.testing.assert_array_equal(probes.taken.scores, model.predict_proba(taken))
    assert np.array_equal(probes.taken.label, model.predict(taken))
    some = probes.taken.of(slice(7))
    assert np.array_equal(some.leaves, probes.taken.leaves[:7])


def test_every_exported_form_that_is_measured_answers_as_the_forest(tmp_path):
    from benchmarks.export import forms
    from benchmarks.export.rows import difference, in_blocks, probing
    from bitvec.runtime.export.c.compiled import MissingCompilerError

    pytest.importorskip("onnxruntime")
    model, forest, X = _small_export()
    taken = probing(forest, model, X, 500).taken
    exactly = set()
    for form in forms.FORMS:
        try:
            made = forms.make(form, forest, tmp_path)
        except (ImportError, MissingCompilerError):
            continue
        assert made.told["bytes"] > 0
        twin = difference(in_blocks(made.twin.answers, taken.X), taken, exactly=made.exactly)
        shipped = difference(in_blocks(made.shipped.answers, taken.X), taken)
        assert (twin.differ, twin.leaves_differ, shipped.differ) == (0, 0, 0)
        if made.exactly:
            exactly.add((form.name, form.runtime))
    assert {(forms.TREES, "onnxruntime"), ("tensor", "onnxruntime")} <= exactly
    assert (forms.TREES_3, "onnxruntime") not in exactly


def test_files_that_are_timed_take_turns_and_slow_ones_fewer():
    from benchmarks.export.clock import CALLS, SELDOM, milliseconds, ratio

    asked = []

    class File:
        def __init__(self, name):
            self.name = name

        def call(self, X):
            return lambda: asked.append((self.name, len(X)))

    files = {"a": File("a"), "b": File("b")}
    taken = milliseconds(files, np.zeros((2000, 3)), 1000, turns=5, seldom=["b"])
    assert np.isnan(taken["b"]).tolist() == [turn % SELDOM != 0 for turn in range(5)]
    assert np.all(taken["a"] > 0)
    assert set(asked) == {("a", 1000), ("b", 1000)}
    timed = [name for name, _ in asked[-CALLS[1000] * 7 :]]
    assert timed == ["a", "b", "a", "a", "a", "a", "b"]
    noise = np.random.default_rng(0).normal(1, 0.02, (2, 41))
    middle, low, high = ratio(1.5 * noise[0], noise[1])
    assert low <= middle <= high
    assert low < 1.5 < high


def _exported_row(model, file, form, runtime="onnxruntime", **told):
    facts = {"what": "file", "model": model, "file": file, "form": form, "runtime": runtime}
    return facts | {"ours": True, "bytes": 1000, "rows_differ": 0, "rows_compared": 9} | told


def _exported_rows():
    from benchmarks.export.models import TEN, XGBOOST

    files = [
        _exported_row(
            TEN, "tree_ensemble 3, onnxruntime", "tree_ensemble 3", is_compared=True,
            ratio_1=1.0, ratio_low_1=0.9, ratio_high_1=1.1, bytes_ratio=0.95,
        ),
        _exported_row(
            TEN, "tree_ensemble 5, onnxruntime", "tree_ensemble 5", is_compared=False,
            ratio_1=2.0, ratio_low_1=1.9, ratio_high_1=2.1, bytes_ratio=0.5, rows_differ=2,
        ),
        _exported_row(TEN, "skl2onnx", "skl2onnx", ours=False, ms_1=1.0, ms_1_least=0.5,
                      ms_1_most=2.0, rows_differ=5, present_rows_differ=0, labels_differ=1),
        _exported_row(TEN, "tables, exact, C99", "tables, exact", "C99", bytes_per_node=24.0),
        _exported_row(XGBOOST, "tensor, onnxruntime", "tensor", bytes=160_001),
        {"what": "file", "model": TEN, "file": "emlearn", "form": "emlearn", "runtime": "C99",
         "ours": False, "reason": "a|b"},
    ]  # fmt: skip
    facts = {"what": "model", "model": TEN, "trees": 50, "nodes": 9, "leaves": 59}
    big = {
        "what": "big", "form": "tree_ensemble 5", "trees": 1000, "nodes": 10**6, "bytes": 10**7,
        "export_seconds": 10.0, "export_peak_bytes": 2**30, "load_seconds": 1.5,
        "load_bytes": 2 * 10**7, "times_file": 2.0,
    }  # fmt: skip
    emulators = [
        {"what": "emulator", "processor": "qemu-aarch64", "passed": 1, "failed": 0},
        {"what": "emulator", "processor": "Cortex-M", "reason": "gcc is not installed"},
    ]
    return [facts, *files, big, *emulators]


def test_a_target_of_exporting_is_judged_by_its_own_file_only():
    from benchmarks.export import BENCHMARK

    versus = "RandomForest, 10 classes: tree_ensemble 3 / skl2onnx"
    assert _judged(BENCHMARK, _exported_rows()) == {
        f"{versus}, latency at 1 row": True,
        f"{versus}, bytes": False,
        "tree_ensemble 5, onnxruntime: rows that differ, all models": False,
        "tree_ensemble 3, onnxruntime: rows that differ, all models": True,
        "tensor, onnxruntime: rows that differ, all models": True,
        "tables, exact, C99: rows that differ, all models": True,
        "xgboost, 2 classes: bytes of tensor": False,
        "RandomForest, 10 classes: tables, exact, C99, bytes a node": True,
        "RandomForest, 10 classes: tables, exact, C99, rows not bit-identical": True,
        "C99 on qemu-aarch64: emulator tests that fail": True,
        "1,000 trees of depth 10, tree_ensemble 5: export s": False,
        "1,000 trees of depth 10, tree_ensemble 5: export peak GiB": True,
        "1,000 trees of depth 10, tree_ensemble 5: load s": True,
        "1,000 trees of depth 10, tree_ensemble 5: memory / file": True,
    }
    found = {goal.name: goal.value for goal in BENCHMARK.goals(_exported_rows())}
    assert found["C99 on Cortex-M: emulator tests that fail"] == "gcc is not installed"


def test_the_tables_of_exporting_are_made_of_any_rows():
    from benchmarks.export import BENCHMARK

    for rows in ([], _exported_rows()):
        text = _texts(BENCHMARK, rows)
        assert ("| emlearn | a\\|b |" in text) == bool(rows)
        assert ("1.00 (0.90 to 1.10)" in text) == bool(rows)


@pytest.mark.full
def test_the_benchmark_of_exporting_runs_quickly():
    command = [sys.executable, "-m", "benchmarks.export", "--quick", "--json"]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180
    )
    report = json.loads(result.stdout)
    ours = [row for row in report["rows"] if row.get("ours") and "reason" not in row]
    assert ours
    assert {row["rows_differ"] for row in ours} == {0}
    assert {target["met"] for target in report["targets"]} == {None}

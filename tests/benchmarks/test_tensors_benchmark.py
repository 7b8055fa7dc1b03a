"""The benchmark of torch modules and programs: what it runs, what it judges and what it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

import bitvec
from bitvec.core.forest import Forest

pytest.importorskip("torch")
from benchmarks.tensors import BENCHMARK, training_steps, ways

ROOT = Path(__file__).parents[2]
QUICK = [way for way in ways.WAYS.values() if way.quick]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    forest = Forest.from_matrices(np.eye(3), rng.normal(size=3), 1 - np.eye(4, 3), [1, 2, 3, 4])
    place, X = tmp_path_factory.mktemp("forest"), rng.normal(size=(50, 3))
    bitvec.save(forest, place / ways.FOREST)
    np.save(place / "X.npy", X)
    np.save(place / "raw.npy", bitvec.compile(forest, engine="reference").raw(X))
    return place


@pytest.mark.parametrize("way", QUICK, ids=lambda way: way.name)
def test_a_way_answers_with_the_bits_of_the_reference(way, folder, monkeypatch):
    import torch

    monkeypatch.setattr(ways, "ROWS", (1, 50))
    monkeypatch.setattr(ways, "SECONDS", 0.0)
    threads = torch.get_num_threads()
    with torch.enable_grad():  # a way is of a process of its own, and turns it off
        if way.write is not None:
            assert ways.written(str(folder), way.name)["bytes"] > 1000
        told = ways.measured(str(folder), way.name)
    torch.set_num_threads(threads)
    assert told["equal"]
    assert told["rounded"]
    assert told["ms_50"] > 0


def test_rows_go_in_calls_of_the_size_that_a_way_takes():
    X = np.zeros((2_500, 3), np.float32)
    sizes = {
        way.name: [len(part) for part in ways._parts(X, way)]
        for way in ways.WAYS.values()
        if way.file.endswith(("xnnpack.pte", "of_1000.tflite", ".onnx"))
    }
    assert sizes[".pte, ExecuTorch xnnpack, perfect"] == [1000, 1000, 500]
    assert sizes[".onnx, OpenVINO, traversal"] == [2500]
    assert [len(part) for part in ways._parts(X[:3], ways.WAYS[QUICK[0].name])] == [3]


def test_steps_on_all_kinds_of_rows_are_timed_after_their_scores_are_equal(folder):
    forest, X = bitvec.load(folder / ways.FOREST), np.load(folder / "X.npy")
    rows = list(training_steps.measure("a forest", forest, X, Namespace(quick=True)))
    assert [row["step"] for row in rows] == [128, 1024]
    assert all(row[kind] > 0 for row in rows for kind in training_steps.KINDS)


def _way(target, ms, **told):
    row = {"model": "m", "target": target, "form": "auto", "equal": True, "rounded": True}
    return row | {f"ms_{n}": ms for n in ways.ROWS} | told


def _module(engine, batch, seconds, **told):
    row = {"workload": "W1", "batch": batch, "engine": engine, "seconds": seconds}
    return row | {"same_model": True, "raw_bits_differ": None, "labels_differ": None} | told


ROWS = [
    _way("engine torch", 1.0),
    _way("compiled in place", 1.25, bytes=None, grown=2**20),
    _way(".pt2, AOTInductor", 1.05),
    _way(".onnx, OpenVINO", 2.0, form="traversal", equal=False),
    {"model": "m", "target": "Core ML", "form": "perfect", "reason": "not run"},
    {
        "model": "m",
        "step": 128,
        "prepared": 1.0,
        "plain tensor": 1.5,
        "tensor with a gradient": 2.0,
    },
    _module("bitvec eager", 1, 3e-3, raw_bits_differ=0),
    _module("bitvec compiled", 1, 2e-3, raw_bits_differ=0),
    _module("TreeTrav eager", 1, 4e-3),
    _module("Gemm compiled", 1, 1e-4, same_model=False),
    {"workload": "W1", "batch": None, "engine": "Gemm eager", "reason": "too large"},
]


def test_goals_are_judged_by_ways_steps_and_the_best_forms():
    figures = BENCHMARK.figures(ROWS)
    assert BENCHMARK.figures(figures) == figures
    found = {t["name"]: (t["value"], t["met"]) for t in BENCHMARK.targets(figures, whole=True)}
    assert found == {
        "ways of all bits whose raw scores differ": (0, True),
        "compiled by Inductor, in place or ahead / engine torch, worst cell": (1.05, True),
        "compiled in place / engine torch, worst cell": (1.25, None),
        "eager / engine torch, worst cell": (None, None),
        "raw scores and labels of W1 to W5 that are not the library's": (0, True),
        "hummingbird's best form's time / ours, worst cell (W1, 1)": (2.0, True),
        "the same, geometric mean": (2.0, True),
        "step on plain tensors / on prepared rows, worst": (1.5, False),
    }
    assert {t["met"] for t in BENCHMARK.targets([], whole=True)} == {None}


def test_tables_tell_each_way_and_why_others_are_missing():
    report = {
        "machine": {"processor": "a processor", "cores": 2},
        "command": "python",
        "rows": json.loads(json.dumps(BENCHMARK.figures(ROWS))),
    }
    text = "\n".join(table(report) for table in BENCHMARK.tables.values())
    assert "| m | compiled in place | auto | equal |  | 1 | 1.25 |" in text
    assert "| m | .onnx, OpenVINO | traversal | rounded |" in text
    assert "| Core ML | not run |" in text
    assert "| W1 | 1 | 3 | 2 |  | 4 | TreeTrav eager | 2 |" in text
    assert "| Gemm eager, W1 | too large |" in text
    assert "| m | 128 | 1 | 1.5 | 2 | 1.50 |" in text


@pytest.mark.full
def test_the_benchmark_runs_quickly():
    command = [sys.executable, "-m", "benchmarks.tensors", "--quick", "--json"]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180
    )
    report = json.loads(result.stdout)
    assert len([row for row in report["rows"] if row.get("equal")]) == 2 * len(QUICK)
    assert [row["batch"] for row in report["rows"] if "batch" in row] == [1, 1_000, 10_000]

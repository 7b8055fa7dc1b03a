"""The benchmark of GPUs runs dry on a CPU: its cases, its rows and its goals."""

from __future__ import annotations

import time
from argparse import Namespace
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("torch")
DRY = Namespace(device="cpu", quick=True, minutes=9.0, models=None)


@pytest.fixture(autouse=True)
def _begins_now(monkeypatch):
    """The minutes of a run count from the import, which may have been an hour ago."""
    monkeypatch.setattr("benchmarks.gpu._START", time.monotonic())


def test_the_grid_is_the_same_in_every_run_and_within_its_caps():
    from benchmarks import gpu
    from benchmarks.gpu import generated

    points = gpu.grid()
    assert points == gpu.grid()
    assert len(set(points)) == 48
    assert {depth > 8 for _, depth, _, _ in points} == {False, True}
    for n_features, depth, n_trees, batch in points:
        assert generated.n_nodes(depth, n_trees) <= gpu.MOST_NODES
        assert 4 * n_features * batch <= gpu.MOST_ROW_BYTES


@pytest.mark.parametrize("depth", [1, 3, 12])
def test_generated_trees_have_the_depth_that_is_asked(depth):
    from benchmarks.gpu import generated
    from bitvec.core import tree_paths

    forest = generated.forest(5, depth, 4)
    B = forest.bitvectors
    deepest = np.maximum.reduceat(tree_paths.leaf_depth(B), B.leaf_ptr[:-1])
    assert deepest.tolist() == [depth] * 4
    again = generated.forest(5, depth, 4)
    assert np.array_equal(forest.tests.b, again.tests.b)
    assert abs(generated.n_nodes(depth, 4) / forest.n_nodes - 1) < 0.3


@pytest.mark.full
def test_a_dry_run_measures_every_case_that_the_device_allows():
    from benchmarks.gpu import BENCHMARK, cases, measure

    rows = [row for case in cases(DRY)[:3] for row in measure(case, DRY)]
    for row in rows:
        assert row["torch_ms"] > 0
        assert "nvforest_ms" in row or row["nvforest_reason"]
        if find_spec("triton") is None:
            assert "Triton" in row["triton_reason"] or "triton" in row["triton_reason"]
        else:
            assert row["same_bits"] is True
    goals = BENCHMARK.targets(rows, whole=True)
    assert [goal["met"] for goal in goals[2:]] == [None] * 5  # of which a dry run says nothing


def test_a_run_ends_after_its_minutes_and_the_next_goes_on(tmp_path):
    from benchmarks.gpu import BENCHMARK
    from benchmarks.runner import _measured

    def run(**given):
        chosen = {"only": ["oblivious"], "work": tmp_path, "done": False, "whole": True}
        return _measured(BENCHMARK, Namespace(**{**vars(DRY), **chosen, **given}))

    assert run(minutes=-1.0) == []
    (row,) = run()
    assert run(minutes=-1.0) == [row]


def test_a_run_without_a_gpu_must_be_quick():
    from benchmarks.gpu import cases
    from benchmarks.runner import UsageError

    with pytest.raises(UsageError, match="dry run only"):
        cases(Namespace(device="cpu", quick=False))

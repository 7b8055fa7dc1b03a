"""`bitvec bench` and `bitvec warm`: times beside other engines, and kernels made ahead."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import bitvec
from bitvec.cli import bench_run
from bitvec.cli.program import program
from bitvec.core.forest import Forest
from bitvec.verify import timing


def run(*arguments: object) -> str:
    found = CliRunner().invoke(program, [str(one) for one in arguments])
    assert found.exit_code == 0, found.output
    return found.stdout


def refused(*arguments: object) -> str:
    found = CliRunner().invoke(program, [str(one) for one in arguments])
    assert found.exit_code == 2, found.output
    return found.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A file of LightGBM's."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    path = tmp_path_factory.mktemp("bench") / "model.txt"
    lightgbm.train(
        {"objective": "binary", "num_leaves": 8, "verbose": -1}, lightgbm.Dataset(X, y), 5
    ).save_model(path)
    return path


def test_times_ours_and_the_library_and_onnxruntime_and_tells_how_far_they_differ(model):
    pytest.importorskip("onnxruntime")
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    said = json.loads(run("bench", model, "--batch", 1, "--batch", 50, "--seconds", 0.02, "--json"))
    assert said["rows"] == 50
    assert said["timed"] == "probabilities"
    names = [one["engine"].split()[0] for one in said["engines"]]
    assert names == ["bitvec,", "bitvec,", "lightgbm", "onnxruntime"]
    for one in said["engines"]:
        assert one["why_not"] is None
        assert list(one["seconds"]) == ["1", "50"]
        assert all(0 < value < 5 for value in one["seconds"].values())
        assert one["largest_difference"] < 1e-6
    if before is not None:
        assert said["one_core"] is True
        assert os.sched_getaffinity(0) == before


def test_a_person_gets_a_table_and_what_was_not_timed_is_told(tmp_path):
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    bitvec.save(forest, tmp_path / "stump.safetensors")
    shown = run("bench", tmp_path / "stump.safetensors", "--batch", 3, "--seconds", 0.01)
    assert "3 rows" in shown
    assert "bitvec, numba" in shown
    assert "lightgbm" not in shown


def test_an_engine_that_cannot_hold_the_model_is_a_line(tmp_path, monkeypatch, model):
    def refuse(forest, path):
        raise bitvec.errors.UnsupportedModelError("nothing holds it.")

    monkeypatch.setattr(bench_run, "export", refuse)
    said = json.loads(run("bench", model, "--batch", 2, "--seconds", 0.01, "--json"))
    last = said["engines"][-1]
    assert last == {
        "engine": "onnxruntime", "seconds": {}, "largest_difference": None,
        "why_not": "nothing holds it.",
    }  # fmt: skip


def test_rows_of_a_file_are_timed_and_none_are_refused(tmp_path, model):
    header = "Column_0,Column_1,Column_2,Column_3\n"
    (tmp_path / "rows.csv").write_text(f"{header}1,2,3,4\n5,6,7,8\n9,8,7,6\n")
    asked = ("bench", model, "--batch", 2, "--seconds", 0.01, "--json")
    assert json.loads(run(*asked, "--data", tmp_path / "rows.csv"))["rows"] == 3
    (tmp_path / "none.csv").write_text(header)
    assert "rows" in refused(*asked, "--data", tmp_path / "none.csv")


def test_each_timed_call_gets_other_rows():
    X, seen = np.arange(7.0)[:, None], []
    taken = timing.seconds(lambda rows: seen.append(rows[:, 0].tolist()), X, 2, 0.01)
    assert len(taken) == len(seen) - 1
    assert seen[:5] == [[4, 5], [0, 1], [2, 3], [4, 5], [0, 1]]


def test_a_function_of_another_process_is_timed_there(model):
    oracle = bitvec.certification.oracle_of(model)
    assert isinstance(oracle.raw, timing.Timed)
    X = np.zeros((5, 4))
    taken = timing.seconds(oracle.raw, X, 5, 0.05)
    assert len(taken) > 1
    assert 0.02 < sum(taken) < 1
    assert np.array_equal(oracle.raw(X), bitvec.compile(bitvec.convert(model)).raw(X))


PREDICT = """
import sys
import numpy as np
import bitvec
forest = bitvec.convert(sys.argv[1])
print(bitvec.__file__)
print(bitvec.compile(forest, n_jobs=1).predict_proba(np.ones((3, 4))).tolist())
"""


@pytest.mark.full
def test_kernels_made_ahead_serve_another_copy_of_the_package_without_compiling(tmp_path, model):
    package = Path(bitvec.__file__).parent
    kernels, cache = tmp_path / "kernels", tmp_path / "cache"

    def ask(home: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(home), "NUMBA_CACHE_DIR": str(cache), **variables}
        return subprocess.run(
            [sys.executable, *command],
            env=env,
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )

    warmed = ask(package.parent, "-m", "bitvec", "warm", str(model), "--to", str(kernels), "--json")
    said = json.loads(warmed.stdout)
    assert said["bytes"] == sum(kept.stat().st_size for kept in kernels.glob("*.nb[ic]")) > 0
    shutil.copytree(package, tmp_path / "other" / "bitvec", copy_function=shutil.copyfile)
    moved = kernels.rename(tmp_path / "moved")
    moved.chmod(0o555)
    asked = ("-c", PREDICT, str(model))
    there = ask(tmp_path / "other", *asked, BITVEC_KERNELS=str(moved))
    file, answer = there.stdout.splitlines()
    assert file.startswith(str(tmp_path / "other"))
    assert there.stderr == ""  # nothing was compiled
    assert not cache.exists() or not list(cache.rglob("*.nbc"))
    expected = bitvec.compile(bitvec.convert(model), n_jobs=1).predict_proba(np.ones((3, 4)))
    assert json.loads(answer) == expected.tolist()

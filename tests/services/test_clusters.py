"""Programs of the page on other engines, run as they stand there, and with a dead worker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bitvec

pytestmark = pytest.mark.full
PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
FILES, ROWS = 16, 100_000
NEEDED = {
    "Polars": "polars",
    "DuckDB": "duckdb",
    "Dask": "dask.distributed",
    "Ray Data": "ray",
    "Spark": "pyspark",
}
RUNS = [(engine, False) for engine in NEEDED]
RUNS += [(engine, True) for engine in ("Dask", "Ray Data", "Spark")]  # of several processes
KILLED = """
import os, signal
from pathlib import Path
import bitvec


class Dying(bitvec.BatchPredictor):
    '''A predictor whose first process dies over its third batch.'''

    count = 0

    def __call__(self, batch):
        Dying.count += len(batch) > 0
        try:
            if Dying.count == 3:
                Path({marker!r}).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
        return super().__call__(batch)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model, rows in many files, and what its predictor answers to them."""
    xgboost, pa = pytest.importorskip("xgboost"), pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder, rng = tmp_path_factory.mktemp("clusters"), np.random.default_rng(0)
    X = rng.normal(size=(2000, 8)).astype(np.float32)
    names = [f"x{at}" for at in range(8)]
    rows = xgboost.DMatrix(X, X[:, 0] * X[:, 1] > 0, feature_names=names)
    xgboost.train({"objective": "binary:logistic", "nthread": 1}, rows, 10).save_model(
        folder / "model.ubj"
    )
    (folder / "rows").mkdir()
    predictor = bitvec.compile(bitvec.convert(folder / "model.ubj"))
    expected = []
    for at in range(FILES):
        X = rng.normal(size=(ROWS, 8)).astype(np.float32)
        X[rng.random(X.shape) < 0.01] = np.nan
        key = np.arange(at * ROWS, (at + 1) * ROWS)
        table = pa.table({"id": key, **dict(zip(names, X.T, strict=True))})
        parquet.write_table(table, folder / "rows" / f"part-{at:02}.parquet")
        expected.append(predictor.predict_proba(X))
    np.save(folder / "expected.npy", np.concatenate(expected))
    return folder


@pytest.mark.parametrize(
    ("engine", "killed"),
    RUNS,
    ids=[f"{engine}, a worker is killed" if killed else engine for engine, killed in RUNS],
)
def test_a_program_of_the_page_answers_for_every_row_once(engine, killed, folder, tmp_path):
    pytest.importorskip(NEEDED[engine])
    if engine == "Spark" and shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime")
    [program] = re.findall(
        rf"## {engine}\n\n.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    if killed:
        (tmp_path / "dying.py").write_text(KILLED.format(marker=str(tmp_path / "died")))
        program = program.replace("from bitvec import Batch", "from dying import Dying as Batch")
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "rows").symlink_to(folder / "rows")
    shutil.copy(folder / "model.ubj", tmp_path)
    path = os.pathsep.join([str(tmp_path), str(Path(bitvec.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        env={
            **os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1", "RAY_DEDUP_LOGS": "0",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "died").exists() is killed
    from pyarrow import parquet

    parts = sorted([*tmp_path.glob("answers.parquet"), *tmp_path.glob("answers/*.parquet")])
    table = parquet.ParquetDataset(parts).read().sort_by("id")
    assert np.array_equal(table["id"], np.arange(FILES * ROWS))
    found = np.stack([table["probability_0"], table["probability_1"]], axis=1)
    expected = np.load(folder / "expected.npy")
    assert np.array_equal(found, expected)
    assert np.array_equal(table["prediction"], expected[:, 1] > 0.5)


def test_a_pool_that_leaves_no_cpu_to_read_with_is_refused():
    ray = pytest.importorskip("ray")
    from bitvec.services.ray import actor_pool

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert actor_pool(1).min_size == actor_pool(1).max_size == 1
        assert actor_pool(2, num_cpus=0.5).max_size == 2
        # Each of these waits for ever when it is handed to Ray.
        for size, num_cpus, most in [(2, 1, 1), (3, 1, 1), (3, 0.5, 2), (4, 0.5, 2)]:
            says = rf"got {size} of {num_cpus:g} CPU .* a cluster of 2, .* at most {most}[.]"
            with pytest.raises(bitvec.BitvecError, match=says):
                actor_pool(size, num_cpus=num_cpus)
        with pytest.raises(bitvec.BitvecError, match="start Ray with more CPUs"):
            actor_pool(1, num_cpus=2)
        for size in (0, -1, 1.5, True):
            with pytest.raises(bitvec.BitvecError, match="must be a whole number of actors"):
                actor_pool(size)
        with pytest.raises(bitvec.BitvecError, match="must be above 0"):
            actor_pool(1, num_cpus=0)
    finally:
        ray.shutdown()

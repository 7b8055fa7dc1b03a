"""Laws of `--dtypes`: a pipeline's file is converted and certified for rows of either float."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import skops.io
from click.testing import Result
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bitvec import files

Run = Callable[..., Result]


@pytest.fixture
def pipeline(desk: Path) -> Pipeline:
    """Leave a pipeline and its rows, of float32, on the desk."""
    X = np.random.default_rng(0).normal(3, 7, (200, 3)).astype(np.float32)
    np.save(desk / "rows.npy", X)
    steps = StandardScaler(), RandomForestClassifier(3, max_depth=4, random_state=0)
    pipeline = make_pipeline(*steps).fit(X, X[:, 0] + X[:, 1] > 6)
    skops.io.dump(pipeline, desk / "pipeline.skops")
    return pipeline


@pytest.mark.full
def test_a_pipeline_takes_rows_of_the_dtype_that_was_asked_for(
    run: Run, desk: Path, pipeline: Pipeline
) -> None:
    given = ("pipeline.skops", "--dtypes", "float32")
    told = run("convert", *given, "--certify")
    assert told.exit_code == 0, told.output
    forest = files.load(desk / "pipeline.safetensors")
    assert [domain.dtype for domain in forest.inputs.domains or ()] == ["float32"] * 3
    answers = run("predict", "pipeline.safetensors", "rows.npy").stdout.split()[1:]
    assert answers == [str(label) for label in pipeline.predict(np.load(desk / "rows.npy"))]
    assert run("certify", *given, "--data", "rows.npy").exit_code == 0
    other = run("certify", "pipeline.skops", "--data", "rows.npy")
    assert other.exit_code == 2
    assert "must have dtype float64" in other.stderr


def test_dtypes_are_refused_of_what_computes_nothing(
    run: Run, desk: Path, pipeline: Pipeline
) -> None:
    for command in ("convert", "certify"):
        told = run(command, "tree.skops", "--dtypes", "float32")
        assert told.exit_code == 2
        assert "`dtypes` must be left out" in told.stderr
        assert run(command, "pipeline.skops", "--dtypes", "float16").exit_code == 2
    assert not (desk / "tree.safetensors").exists()
    told = run("certify", "stump.safetensors", "--model", "pipeline.skops", "--dtypes", "float32")
    assert told.exit_code == 2
    assert "of the saved forest stump.safetensors" in told.stderr

"""Exports of folded pipelines: files without the steps, that answer raw rows as the pipeline."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

for library in ("lightgbm", "onnxruntime", "pandas", "sklearn", "xgboost"):
    pytest.importorskip(library)

import onnxruntime  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402

import bitvec  # noqa: E402
from bitvec.runtime.export.c.compiled import oracle_of  # noqa: E402
from tests.models.pipelines import OF_FRAMES, OF_NUMBERS, TREES, frame, numbers  # noqa: E402


def test_one_onnx_file_answers_raw_rows_bit_for_bit(tmp_path: Path) -> None:
    X, y = frame()
    pipeline = make_pipeline(OF_FRAMES["one-hot, dense"](), TREES["forest"]()).fit(X, y)
    forest = bitvec.convert(pipeline)
    path = bitvec.export(forest, tmp_path / "forest.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [one.type for one in session.get_inputs()] == ["tensor(double)"]
    rows = bitvec.compile(forest).rows(X)
    (got,) = session.run(["probabilities"], {session.get_inputs()[0].name: rows})
    np.testing.assert_array_equal(got, pipeline.predict_proba(X))
    assert bitvec.certify(forest, path, X, progress=False).grade == "proved"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_one_c_header_answers_raw_rows_bit_for_bit(tmp_path: Path) -> None:
    X, y = numbers("float32")
    pipeline = make_pipeline(OF_NUMBERS["min-max, clipped"](), TREES["xgboost"]()).fit(X, y)
    forest = bitvec.convert(pipeline, dtypes="float32")
    path = bitvec.export(forest, tmp_path / "forest.h")
    header = oracle_of(path, classes=forest.output.classes)
    assert bitvec.certify(forest, header, X, progress=False).passed
    np.testing.assert_array_equal(header.predict(X).ravel(), pipeline.predict(X))

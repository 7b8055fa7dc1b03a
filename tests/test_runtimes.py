"""The comparison of small runtimes has a function for each, and tells wrong answers from right."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from bitvec.runtime.export.edge_targets import EDGE_TARGETS

FOLDER = Path(__file__).resolve().parent / "runtimes"


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(FOLDER))
    try:
        yield import_module("compare"), import_module("answers")
    finally:
        sys.path.remove(str(FOLDER))


def test_every_small_runtime_is_compared(scripts):
    compare, answers = scripts
    assert list(compare.RUNTIMES) == [target.name for target in EDGE_TARGETS[1:]]
    assert all(callable(getattr(answers, name)) for name in compare.RUNTIMES)
    assert set(answers.PACKAGES) < set(compare.RUNTIMES)


def test_wrong_answers_are_told_from_right_ones(scripts, tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")  # that some of the models are of
    compare, _ = scripts
    one = next(model for model in compare.models() if model[0] == "one tree")
    monkeypatch.setattr(compare, "models", lambda: iter([one]))
    jobs = compare.write(tmp_path, "ncnn")
    forms = ("ncnn", *compare.FORMS, "operator")
    assert {job["form"]: job["batch"] for job in jobs} == dict.fromkeys(forms, 1)
    job = jobs[0]
    path = Path(job["file"])
    expected = dict(np.load(path.with_suffix(".expected.npz")))
    assert len(expected["leaves"]) == len(np.load(path.with_suffix(".npz"))["X"]) == 80
    np.savez(path.with_suffix(".found.npz"), **expected)
    assert compare.compared(job) == "equal"
    expected["raw"][3] = np.nextafter(expected["raw"][3], np.float32(9))
    np.savez(path.with_suffix(".found.npz"), **expected)
    assert compare.compared(job) == "raw wrong in 1 of 80 rows"
    assert compare.compared(job | {"refused": "an error"}) == "refused"

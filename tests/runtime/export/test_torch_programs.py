"""A .pt2 file gives in torch alone what the forest gives, for any batch."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import bitvec
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import box
from bitvec.core.node_tests import Kind
from bitvec.core.output import Output, PostTransform
from bitvec.errors import UnsupportedModelError

torch = pytest.importorskip("torch")

STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [-1.0, 2.0])


def test_a_program_holds_all_answers_and_the_names_of_features_and_classes(tmp_path):
    output = Output(
        1, np.float64, post_transform=PostTransform.SIGMOID, classes=(np.array(["no", "yes"]),)
    )
    forest = replace(STUMP, output=output, inputs=Inputs(2, ("a", "b")))
    path = bitvec.export(forest, tmp_path / "model.pt2")
    extra = {"bitvec.json": ""}
    run = torch.export.load(path, extra_files=extra).module()
    assert json.loads(extra["bitvec.json"]) == {
        "n_features": 2,
        "feature_names": ["a", "b"],
        "dtype": "float64",
        "outputs": ["raw", "leaves", "probabilities", "label"],
        "classes": ["no", "yes"],
    }
    X = np.array([[0.5, 0.0], [np.nan, 1.0], [0.75, 2.0]])
    predictor = bitvec.compile(forest)
    for n in (3, 1, 0):
        answers = run(torch.tensor(X[:n]))
        assert np.array_equal(answers["raw"].numpy(), predictor.raw(X[:n]))
        assert answers["leaves"].tolist() == [[0], [0], [1]][:n]
        assert answers["label"].tolist() == [0, 0, 1][:n]
        # One exponential, which is a unit or two in the last place from the C library's.
        np.testing.assert_allclose(
            answers["probabilities"].numpy(), predictor.predict_proba(X[:n]), rtol=1e-15
        )


def test_the_command_line_writes_a_program_and_certifies_its_leaves(tmp_path):
    from bitvec.cli.program import program

    source, out = tmp_path / "f.safetensors", tmp_path / "f.pt2"
    bitvec.save(STUMP, source)
    result = CliRunner().invoke(program, ["export", str(source), "-o", str(out), "--certify"])
    assert result.exit_code == 0, result.output
    certificate = json.loads((tmp_path / "f.pt2.certificate.json").read_text())
    assert certificate["grade"] == "two-sided"


def test_what_a_program_cannot_hold_leaves_no_file(tmp_path):
    tests = replace(STUMP.tests, kind=np.array([Kind.KERNEL], np.uint8))
    soft = replace(STUMP, tests=tests, kernel=(box(0.5), None))
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        bitvec.export(soft, tmp_path / "soft.pt2")
    assert not list(tmp_path.iterdir())

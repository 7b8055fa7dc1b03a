"""A .pt2 file gives in torch alone what the forest gives, for any batch."""

from __future__ import annotations

import json
import shutil
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
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.predict.torch.call_modes import compiled_ahead  # noqa: E402

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


@pytest.mark.parametrize("output", ["raw", "leaves"])
def test_a_lone_tree_is_traced_for_any_batch_where_it_is_to_be_compiled(output):
    module, x = bitvec.to_torch(STUMP, output=output), torch.zeros((2, 2), dtype=torch.float64)
    with compiled_ahead(), torch.no_grad():
        traced = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    rows = torch.tensor([[0.5, 0.0], [0.75, 2.0], [-0.0, 1.0]], dtype=torch.float64)
    assert torch.equal(traced.module()(rows), module(rows))


def has_compiler():
    return any(shutil.which(name) for name in ("c++", "g++", "clang++"))


@pytest.mark.full
@pytest.mark.skipif(not has_compiler(), reason="AOTInductor needs a C++ compiler")
def test_a_compiled_program_gives_the_same_bits_and_is_never_certified(tmp_path):
    path = bitvec.export(STUMP, tmp_path / "model.pt2", compiled=True)
    run = torch._inductor.aoti_load_package(str(path))
    X = np.array([[0.5, 0.0], [np.nan, 1.0], [0.75, 2.0], [-0.0, np.inf], [np.inf, 1.0]])
    for n in (5, 2):
        answers = run(torch.tensor(X[:n]))
        assert np.array_equal(answers["raw"].numpy(), bitvec.compile(STUMP).raw(X[:n]))
        assert answers["leaves"].tolist() == [[0], [0], [1], [0], [1]][:n]
    for n in (0, 1):
        assert torch.equal(
            run(torch.tensor(X[:n]))["raw"], torch.tensor(bitvec.compile(STUMP).raw(X[:n]))
        )
    wide = torch.tensor(np.c_[X, X])
    misread = (
        torch.tensor(X).T.contiguous().T,
        wide[:, :2],
        wide[::2, :2],
        torch.tensor(X).float(),
        torch.tensor(X[:, :1].copy()),
    )
    for rows in misread:
        with pytest.raises(RuntimeError):
            run(rows)
    with pytest.raises(UnsupportedModelError, match="must be a program that bitvec exported, got"):
        bitvec.certify(STUMP, path, progress=False)


def test_compiled_code_is_not_certified_and_is_an_option_of_programs_alone(tmp_path):
    from bitvec.cli.program import program

    source, out = tmp_path / "f.safetensors", tmp_path / "f.pt2"
    bitvec.save(STUMP, source)
    given = ["export", str(source), "-o", str(out), "--compiled", "--certify"]
    result = CliRunner().invoke(program, given)
    assert result.exit_code == 2
    assert "--certify must come without --compiled" in result.output
    assert not out.exists()
    with pytest.raises(InputError, match="`compiled` must be left out where c is written"):
        bitvec.export(STUMP, tmp_path / "model.h", compiled=True)


def test_what_a_program_cannot_hold_leaves_no_file(tmp_path):
    tests = replace(STUMP.tests, kind=np.array([Kind.KERNEL], np.uint8))
    soft = replace(STUMP, tests=tests, kernel=(box(0.5), None))
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        bitvec.export(soft, tmp_path / "soft.pt2")
    assert not list(tmp_path.iterdir())

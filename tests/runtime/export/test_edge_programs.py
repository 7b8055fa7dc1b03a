"""Programs for ExecuTorch and LiteRT: certified there, or refused in one sentence."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.output import Output, PostTransform
from bitvec.errors import (
    FileFormatError,
    InputError,
    MissingLibraryError,
    UnsupportedModelError,
)

torch = pytest.importorskip("torch")

STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [-1.0, 2.0])
CLASSIFIER = replace(
    STUMP,
    output=Output(
        1, np.float64, post_transform=PostTransform.SIGMOID, classes=(np.array(["no", "yes"]),)
    ),
    inputs=Inputs(2, ("a", "b")),
)
LIBRARY = {".pte": "executorch", ".tflite": "litert_torch"}
MAGIC = {".pte": b"ET12", ".tflite": b"TFL3"}
ENDINGS = pytest.mark.parametrize("ending", LIBRARY)


def needs(ending):
    if find_spec(LIBRARY[ending]) is None:
        pytest.skip(f"{LIBRARY[ending]} is not installed")


@ENDINGS
@pytest.mark.parametrize("batch", [1, 8])
def test_a_file_is_certified_in_its_own_runtime_and_another_forests_fails(ending, batch, tmp_path):
    needs(ending)
    path = bitvec.export(CLASSIFIER, tmp_path / f"model{ending}", batch=batch)
    certificate = bitvec.certify(CLASSIFIER, path, progress=False)
    assert certificate.passed
    assert certificate.grade == "two-sided"
    leaves = replace(CLASSIFIER.leaves, v=-CLASSIFIER.leaves.v)
    assert not bitvec.certify(replace(CLASSIFIER, leaves=leaves), path, progress=False).passed


@ENDINGS
def test_a_deep_tree_and_a_module_are_held(ending, tmp_path):
    needs(ending)
    n = 20
    deep = Forest.from_matrices(
        np.ones((n, 1)), np.arange(n), 1 - np.eye(n + 1, n), np.arange(n + 1)
    )
    path = bitvec.export(deep, tmp_path / f"deep{ending}")
    assert bitvec.certify(deep, path, progress=False).passed
    soft = bitvec.to_torch(STUMP, "sigmoid")
    assert bitvec.export(soft, tmp_path / f"soft{ending}").stat().st_size > 0


@ENDINGS
def test_a_missing_library_is_named_with_its_extra_and_leaves_no_file(ending, tmp_path):
    if find_spec(LIBRARY[ending]) is not None:
        pytest.skip("it is there")
    extra = {".pte": "executorch", ".tflite": "litert"}[ending]
    with pytest.raises(MissingLibraryError, match=rf"Writing {ending} files .*\[{extra}\]"):
        bitvec.export(STUMP, tmp_path / f"model{ending}")
    assert not list(tmp_path.iterdir())


@ENDINGS
def test_files_of_strangers_are_no_models_and_are_refused(ending, tmp_path):
    path = tmp_path / f"strange{ending}"
    path.write_bytes(b"\x1c\0\0\0" + MAGIC[ending] + bytes(100))
    with pytest.raises(UnsupportedModelError, match="a model must show its trees"):
        bitvec.convert(path)
    with pytest.raises((FileFormatError, MissingLibraryError, UnsupportedModelError)) as caught:
        bitvec.certify(STUMP, path, progress=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "must"),
    [
        ({"target": "vulkan"}, "`target` must be one of 'portable', 'xnnpack', got 'vulkan'"),
        ({"batch": 0}, "`batch` must be a number of rows"),
        ({"compiled": True}, "`compiled` must be left out where executorch is written"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_sentence(options, must, tmp_path):
    with pytest.raises(InputError, match=must):
        bitvec.export(STUMP, tmp_path / "model.pte", **options)


@pytest.mark.full
def test_a_module_becomes_a_program_with_its_one_answer(tmp_path):
    X = np.array([[0.5, 0.0], [np.nan, 1.0], [0.75, 2.0]])
    hard = bitvec.to_torch(STUMP, output="leaves")
    path = bitvec.export(hard, tmp_path / "hard.pt2")
    answers = torch.export.load(path).module()(torch.tensor(X))
    assert {name: one.tolist() for name, one in answers.items()} == {"leaves": [[0], [0], [1]]}
    with pytest.raises(InputError, match='an output "raw" to be certified'):
        bitvec.certify(STUMP, path, progress=False)
    path = bitvec.export(bitvec.to_torch(STUMP), tmp_path / "raw.pt2")
    assert bitvec.certify(STUMP, path, progress=False, allow_values_only=True).passed
    soft = bitvec.to_torch(STUMP, "sigmoid", gamma=3.0)
    path = bitvec.export(soft, tmp_path / "soft.pt2")
    x = torch.tensor(X, dtype=torch.float32)
    assert torch.equal(torch.export.load(path).module()(x)["raw"], soft(x))
    with pytest.raises(InputError, match=r"a HardForest must be exported as \.pt2 or \.pte"):
        bitvec.export(hard, tmp_path / "hard.onnx")

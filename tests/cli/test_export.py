"""`bitvec export` to every kind of file: what is written, what is told, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bitvec
from bitvec.cli import export as command
from bitvec.onnx_files import FORMS
from bitvec.targets import TARGETS

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.fixture
def stump(tmp_path):
    path = tmp_path / "stump.safetensors"
    bitvec.save(bitvec.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10.0, 20.0]), path)
    return path


def test_the_choices_are_those_of_the_tables():
    assert tuple(TARGETS) == command.TARGETS
    assert command.ONNX_FORMS == FORMS


def test_a_target_is_written_certified_and_told(run, stump, tmp_path):
    out = tmp_path / "stump.onnx"
    result = run("export", stump, "-o", out, "--target", "coreml", "--batch", 2, "--certify")
    assert result.exit_code == 0, result.output
    assert "settings: Set ModelFormat MLProgram" in result.stdout
    assert "PASSED" in result.stdout
    assert (tmp_path / "stump.onnx.certificate.json").exists()
    assert onnx.load(out).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_outputs_version_and_input_dtype_are_handed_on(run, stump, tmp_path):
    out = tmp_path / "stump.onnx"
    options = ("--version", "3", "--outputs", "prediction, raw", "--input-dtype", "float64")
    result = run("export", stump, "-o", out, *options)
    assert result.exit_code == 0, result.output
    model = onnx.load(out)
    assert {output.name for output in model.graph.output} == {"prediction", "raw"}
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert {d.version for d in model.opset_import if d.domain} == {3}


def test_a_c_header_is_written_with_its_estimate(run, stump, tmp_path):
    out = tmp_path / "stump.h"
    result = run("export", stump, "-o", out, "--name", "tiny", "--thresholds", "ranks")
    assert result.exit_code == 0, result.output
    assert "estimate: " in result.stdout
    assert "bytes of constants" in result.stdout
    assert "tiny_predict" in out.read_text()
    facts = json.loads(run("export", stump, "-o", out, "--form", "unrolled", "--json").stdout)
    assert facts["bytes"] == out.stat().st_size
    assert "comparisons" in facts["estimate"]


def test_a_c_header_is_compiled_and_certified(run, stump, tmp_path):
    import shutil

    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    result = run("export", stump, "-o", tmp_path / "stump.h", "--certify", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["passed"] is True


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-o", "a.onnx", "--thresholds", "ranks"), "--thresholds must be left out"),
        (("-o", "a.h", "--target", "openvino"), "--target must be left out where c is written"),
        (("-o", "a.h", "--form", "tensor"), "--form must be one of tables, unrolled"),
        (("-o", "a.onnx", "--form", "tables"), "--form must be one of tree_ensemble"),
        (("-o", "page", "--to", "web"), "run `npm install onnxruntime-web`"),
        (("-o", "page", "--to", "web", "--onnxruntime-web", "nowhere"), "nowhere"),
        (("-o", "a.ubj", "--leaves"), "--leaves must be left out where xgboost is written"),
        (("-o", "a.onnx", "--outputs", "score"), "must be among raw, prediction, got 'score'"),
        (("-o", "a.onnx", "--target", "coreml", "--form", "tensor"), "one of the forms portable"),
    ],
)
def test_options_that_do_not_go_together_are_one_sentence(run, stump, arguments, says, tmp_path):
    arguments = [tmp_path / a if a in ("a.onnx", "a.h", "a.ubj", "page") else a for a in arguments]
    before = {path.name for path in tmp_path.iterdir()}
    result = run("export", stump, *arguments)
    assert result.exit_code == 2, result.output
    assert says in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_page_is_written_from_a_package(run, stump, tmp_path):
    package = tmp_path / "onnxruntime-web"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "onnxruntime-web", "version": "1.30.0"}')
    for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        (package / "dist" / name).write_bytes(np.zeros(10, np.uint8).tobytes())
    page = tmp_path / "page"
    result = run("export", stump, "-o", page, "--to", "web", "--onnxruntime-web", package)
    assert result.exit_code == 0, result.output
    assert (page / "index.html").exists()
    assert "http.server" in result.stdout

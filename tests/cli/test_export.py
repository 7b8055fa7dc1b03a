"""`bitvec export` to every kind of file: what is written, what is told, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bitvec
from bitvec.cli import export as command
from bitvec.runtime.export.onnx_files import FORMS
from bitvec.runtime.export.onnx_targets import TARGETS

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.fixture
def stump(tmp_path):
    path = tmp_path / "stump.safetensors"
    bitvec.save(bitvec.Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10.0, 20.0]), path)
    return path


def test_the_choices_are_those_of_the_tables():
    assert tuple(TARGETS) == command.TARGETS
    assert command.ONNX_FORMS == FORMS


VALUES = "--allow-values-only"


def test_a_target_is_written_certified_and_told(run, stump, tmp_path):
    out = tmp_path / "stump.onnx"
    result = run(
        "export", stump, "-o", out, "--target", "coreml", "--batch", 2, "--certify", VALUES
    )
    assert result.exit_code == 0, result.output
    assert "settings: Set ModelFormat MLProgram" in result.stdout
    assert "PASSED, values only: " in result.stdout
    assert "forest against onnxruntime in place of coreml" in result.stdout
    assert "  form portable; X, present -> raw; opset 18; batch 2\n" in result.stdout
    proof = json.loads((tmp_path / "stump.onnx.certificate.json").read_text())
    says = "coreml, which the file is for, was not run: onnxruntime answered in its place"
    assert says in proof["exclusions"]
    assert says in result.stdout
    assert onnx.load(out).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_outputs_version_and_input_dtype_are_handed_on(run, stump, tmp_path):
    out = tmp_path / "stump.onnx"
    options = ("--version", "3", "--outputs", "prediction, raw", "--input-dtype", "float16")
    result = run("export", stump, "-o", out, *options)
    assert result.exit_code == 0, result.output
    model = onnx.load(out)
    assert {output.name for output in model.graph.output} == {"prediction", "raw"}
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert {d.version for d in model.opset_import if d.domain} == {3}


def test_what_was_written_is_told_and_why(run, tmp_path):
    oblique = bitvec.Forest.from_matrices([[0.3, 0.7]], [0.1], [[0], [1]], [0, 1])
    path = tmp_path / "oblique.safetensors"
    bitvec.save(oblique, path)
    result = run("export", path, "-o", tmp_path / "a.onnx")
    assert "  form tensor; X -> raw, prediction; opset 21; any batch\n" in result.stdout
    assert "  not tree_ensemble: the ONNX form `tree_ensemble` needs nodes that" in result.stdout
    facts = json.loads(run("export", path, "-o", tmp_path / "a.onnx", "--json").stdout)
    assert (facts["form"], facts["batch"], facts["opset"]) == ("tensor", None, 21)
    assert facts["inputs"] == {"X": {"dtype": "float64", "shape": ["batch", 2]}}
    assert facts["outputs"]["raw"] == {"dtype": "float64", "shape": ["batch", 1]}
    assert "lines" not in facts
    result = run("export", path, "-o", tmp_path / "a.ort", "--outputs", "prediction")
    assert "  form tensor; X -> prediction; any batch\n" in result.stdout


@pytest.mark.parametrize("name", ["a.onnx", "a.ort"])
def test_a_file_that_cannot_be_converted_describes_itself(run, stump, name, tmp_path):
    out = tmp_path / name
    options = ("--form", "portable", "--target", "onnxruntime-mobile", "--batch", 2)
    assert run("export", stump, "-o", out, *options).exit_code == 0
    result = run("info", out)
    assert result.exit_code == 0, result.output
    assert "form portable; X, present -> raw" in result.stdout
    assert "onnxruntime-mobile" in result.stdout
    facts = json.loads(run("info", out, "--json").stdout)
    assert facts["metadata"]["compares"] == "float64"
    assert facts["inputs"]["present"] == {"dtype": "float64", "shape": [2, 2]}
    assert run("info", out, "--tree", 0).exit_code == 2
    (tmp_path / "no.ort").write_bytes(b"\0\0\0\0ORTM")
    assert run("info", tmp_path / "no.ort").exit_code == 2


def test_values_only_pass_where_they_are_allowed(run, stump, tmp_path):
    out = tmp_path / "stump.onnx"
    result = run("export", stump, "-o", out, "--form", "portable", "--certify")
    assert result.exit_code == 1
    assert "FAILED, values only: " in result.stdout
    assert VALUES in result.stdout
    assert run("certify", stump, "--model", out).exit_code == 1
    assert run("certify", stump, "--model", out, VALUES).exit_code == 0


def test_complete_rows_need_no_second_input(run, stump, tmp_path):
    out = tmp_path / "stump.onnx"
    options = ("--form", "portable", "--finite", "--certify", "--leaves")
    result = run("export", stump, "-o", out, *options)
    assert result.exit_code == 0, result.output
    assert "form portable; X -> raw, leaves" in result.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--input-dtype", "float16"), "rows of float32 or float64, got --input-dtype float16"),
        (("--outputs", "prediction"), "--certify must come with the output raw, got --outputs"),
    ],
)
def test_what_cannot_be_certified_is_refused_before_it_is_written(
    run, stump, options, says, tmp_path
):
    out = tmp_path / "stump.onnx"
    out.write_bytes(b"an older file")
    result = run("export", stump, "-o", out, "--certify", *options)
    assert result.exit_code == 2
    assert says in result.stderr.replace("\n", " ")
    assert out.read_bytes() == b"an older file"


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
        (("-o", "a.h", "--form", "tensor"), "--form must be one of tables, levels, unrolled"),
        (("-o", "a.onnx", "--form", "tables"), "--form must be one of tree_ensemble"),
        (("-o", "page", "--to", "web"), "run `npm install onnxruntime-web`"),
        (("-o", "page", "--to", "web", "--onnxruntime-web", "nowhere"), "nowhere"),
        (("-o", "a.ubj", "--leaves"), "--leaves must be left out where xgboost is written"),
        (("-o", "a.onnx", "--outputs", "score"), "must be among raw, prediction, got 'score'"),
        (("-o", "a.onnx", "--target", "coreml", "--form", "tensor"), "one of the forms portable"),
        (("-o", "a.onnx", "--outputs", ""), "must be among raw, prediction, got ''"),
        (("-o", "a.h", "--name", ""), "got ''"),
        (("-o", "a.onnx", "--batch", "9999999999999999999"), "`batch` must be a number of rows"),
        (("-o", "a.onnx", "--version", "3", "--form", "tensor"), "`version` must be left out"),
        (("-o", "a.bak", "--to", "onnx"), "a file for onnx must end in .onnx or .ort"),
    ],
)
def test_options_that_do_not_go_together_are_one_sentence(run, stump, arguments, says, tmp_path):
    files = ("a.onnx", "a.h", "a.ubj", "a.bak", "page")
    arguments = [tmp_path / a if a in files else a for a in arguments]
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
    again = run("export", stump, "-o", page, "--to", "web", "--onnxruntime-web", package, "--json")
    facts = json.loads(again.stdout)
    files = [path for path in page.rglob("*") if path.is_file()]
    assert facts == {
        "certificate": None,
        "directory": str(page),
        "title": "Forest",
        "trees": 1,
        "trees_shown": 1,
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
    }


def test_an_artefact_of_c_is_sent_to_export(run, stump, tmp_path):
    header = tmp_path / "model.h"
    assert run("export", stump, "-o", header).exit_code == 0
    result = run("certify", stump, "--model", header)
    assert result.exit_code == 2
    assert "bitvec export" in result.stderr.replace("\n", " ")
    assert "--certify" in result.stderr
    assert "treelite" not in result.stderr


def test_rules_of_one_tree_or_all_are_printed(run, stump):
    forest = bitvec.load(stump)
    assert run("info", stump, "--rules").stdout == f"{forest.to_rules()}\n"
    records = json.loads(run("info", stump, "--rules", "--merged", "--tree", 0, "--json").stdout)
    rules = forest[0].to_rules(merged=True)
    assert [one["rule"] for one in records["rules"]] == [rule.text for rule in rules]
    assert run("info", stump, "--merged").exit_code == 2


def test_sql_is_certified_where_it_can_be_run(run, stump, tmp_path):
    out = tmp_path / "a.sql"
    options = ("--dialect", "sqlite", "--key", "id,day", "--leaves", "--outputs", "raw")
    result = run("export", stump, "-o", out, *options, "--certify")
    assert result.exit_code == 0, result.output
    assert '"key": ["id", "day"]' in out.read_text()
    assert (tmp_path / "a.sql.certificate.json").exists()
    assert "--dialect" in run("export", stump, "-o", out).stderr
    for wrong in (("spark",), ("sqlite", "--categories", "texts")):
        assert run("export", stump, "-o", out, "--dialect", *wrong, "--certify").exit_code == 2

"""Exported models as engines, oracles and files."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from bitvec.converters.onnx.session import OnnxEngine, any_batch, oracle_of
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.errors import FileFormatError, InputError
from bitvec.runtime.export.onnx.files import save
from bitvec.runtime.export.onnx.tensor import to_onnx
from bitvec.runtime.export.onnx_files import OnnxOptions, onnx_model
from bitvec.runtime.predict.engine import Engine


@pytest.fixture
def stump():
    return Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])


def test_an_exported_model_is_an_engine(stump):
    engine = OnnxEngine(to_onnx(stump, leaves=True))
    assert isinstance(engine, Engine)
    assert engine.name == "onnx"
    X = np.array([[0.5, 0.0], [0.75, 0.0], [np.nan, 0.0]])
    exits = engine.exit_leaves(X)
    assert exits.dtype == np.int32
    assert np.array_equal(exits, reference.exit_leaves(stump, X))
    assert engine.metadata["bitvec.form"] == "tensor"


def test_a_file_is_the_oracle_of_a_comparison(stump, tmp_path):
    path = save(to_onnx(stump, leaves=True), tmp_path / "stump.onnx")
    other = oracle_of(path)
    X = np.array([[0.0, 1.0], [1.0, 1.0]])
    assert other.name == "onnxruntime"
    assert other.exact
    assert np.array_equal(other.raw(X), reference.raw(stump, X))
    assert other.leaf_ids(X).tolist() == [[0], [1]]
    assert oracle_of(to_onnx(stump)).leaf_ids is None


def test_a_file_of_a_fixed_batch_is_compared_with_it_left_open(stump, tmp_path):
    path = save(to_onnx(stump, interface=Interface(batch=2**31 - 1)), tmp_path / "stump.onnx")
    other = oracle_of(path)
    X = np.random.default_rng(0).normal(size=(7, 2))
    assert np.array_equal(other.raw(X), reference.raw(stump, X))
    assert any("takes 2147483647 rows at a time" in note for note in other.notes)
    assert any_batch(to_onnx(stump)).graph.input[0].type.tensor_type.shape.dim[0].dim_param
    small = save(to_onnx(stump, interface=Interface(batch=3)), tmp_path / "stump.ort")
    assert any_batch(small) is small
    assert np.array_equal(oracle_of(small).raw(X), reference.raw(stump, X))


@pytest.mark.parametrize("target", ["openvino", "coreml", "onnxruntime-mobile"])
def test_a_certificate_says_that_another_runtime_answered(target):
    forest = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])
    notes = oracle_of(onnx_model(forest, OnnxOptions(target=target))).notes
    assert any(note.startswith(f"{target}, which the file is for, was not run") for note in notes)
    plain = oracle_of(onnx_model(forest, OnnxOptions(target="onnxruntime"))).notes
    assert not any("was not run" in note for note in plain)


def test_only_a_portable_file_with_a_second_input_takes_missing_values(stump):
    for finite in (False, True):
        options = OnnxOptions("portable", finite=finite)
        assert oracle_of(onnx_model(stump, options)).accepts_missing is not finite
    assert oracle_of(onnx_model(stump, OnnxOptions())).accepts_missing


@pytest.mark.skipif(os.name == "nt", reason="its file names are text")
def test_a_path_that_is_no_text_is_read(stump, tmp_path):
    for suffix in ("onnx", "ort"):
        path = tmp_path / os.fsdecode(b"stump\xff." + suffix.encode())
        save(to_onnx(stump), path)
        assert OnnxEngine(path).raw(np.zeros((1, 2))).tolist() == [[10.0]]


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limits of file sizes")
def test_a_full_disk_is_one_sentence(stump, tmp_path):
    code = """
import resource, sys, tempfile
from bitvec.core.forest import Forest
from bitvec.runtime.export.onnx.files import save
from bitvec.runtime.export.onnx.tensor import to_onnx
model = to_onnx(Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1, 2]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    save(model, sys.argv[1])
except OSError as error:
    print(error)
"""
    path = tmp_path / "stump.ort"
    ran = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert "stump.ort must be a file that can be written, got: onnxruntime could not" in ran.stdout
    assert not path.exists()


def test_a_model_without_leaves_says_how_to_get_them(stump):
    with pytest.raises(InputError, match="leaves=True"):
        OnnxEngine(to_onnx(stump)).exit_leaves(np.zeros((1, 2)))


@pytest.mark.parametrize("X", [np.zeros((2, 3)), np.zeros(2), np.zeros((1, 1, 2))])
def test_rows_of_another_shape_are_refused(stump, X):
    with pytest.raises(InputError, match="shape"):
        OnnxEngine(to_onnx(stump)).raw(X)


def test_rows_that_are_no_numbers_are_refused(stump):
    with pytest.raises(InputError, match="must hold numbers"):
        OnnxEngine(to_onnx(stump)).raw(np.array([["a", "b"]]))


def test_a_model_of_another_type_is_refused(stump):
    with pytest.raises(InputError, match=r"path, bytes or an onnx\.ModelProto, got Forest"):
        OnnxEngine(stump)


def test_an_unknown_output_is_refused(stump):
    with pytest.raises(InputError, match="one of"):
        OnnxEngine(to_onnx(stump)).run("probability", np.zeros((1, 2)))


def test_subnormal_values_are_not_flushed():
    tiny = np.finfo(np.float64).smallest_subnormal
    forest = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0, 1])
    X = np.array([[tiny], [0.0], [-tiny], [-0.0]])
    assert OnnxEngine(to_onnx(forest)).raw(X).ravel().tolist() == [1, 0, 0, 0]


def test_no_onnx_file_is_refused(tmp_path):
    path = tmp_path / "no.onnx"
    with pytest.raises(FileNotFoundError, match="got no file there"):
        OnnxEngine(path)
    path.write_bytes(b"\x00garbage")
    with pytest.raises(FileFormatError, match="onnxruntime"):
        OnnxEngine(path)
    with pytest.raises(FileFormatError, match="onnxruntime"):
        OnnxEngine(b"")


def test_a_strangers_model_is_refused():
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Neg", ["a"], ["b"])],
        "stranger",
        [value("a", TensorProto.FLOAT, ["n", 2])],
        [value("b", TensorProto.FLOAT, ["n", 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(FileFormatError, match="the input `X`"):
        OnnxEngine(model)


def test_a_saved_model_is_whole_and_nothing_else_is_left(stump, tmp_path):
    path = tmp_path / "stump.onnx"
    path.write_bytes(b"an older file")
    model = to_onnx(stump)
    assert save(model, path) == path
    assert path.read_bytes() == model.SerializeToString()
    assert [entry.name for entry in tmp_path.iterdir()] == ["stump.onnx"]


def test_a_path_that_cannot_be_written_gives_one_sentence(stump, tmp_path):
    model = to_onnx(stump)
    with pytest.raises(FileNotFoundError, match=r"must be a file that can be written"):
        save(model, tmp_path / "none" / "stump.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(OSError, match="must be a file that can be written"):
        save(model, tmp_path / "folder.onnx")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.onnx"]
    with pytest.raises(FileFormatError, match=r"end in \.onnx"):
        save(model, tmp_path / "stump.pb")


def test_a_model_of_two_gibibytes_is_refused(tmp_path):
    class Large:
        def ByteSize(self) -> int:
            return 2**31

    with pytest.raises(FileFormatError, match="2 GiB"):
        save(Large(), tmp_path / "large.onnx")


@pytest.mark.parametrize(
    ("library", "module"),
    [
        ("onnx", "bitvec.runtime.export.onnx.tensor"),
        ("onnx", "bitvec.converters.onnx.read"),
        ("onnx", "bitvec.converters.onnx.write"),
        ("onnx", "bitvec.converters.onnx.model_oracle"),
        ("onnxruntime", "bitvec.converters.onnx.oracle"),
        ("onnxruntime", "bitvec.converters.onnx.model_oracle"),
        ("onnxruntime", "bitvec.converters.onnx.session"),
    ],
)
def test_a_missing_library_is_named_with_its_command(library, module):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from bitvec.errors import MissingLibraryError\n"
        f"try:\n    import {module}\n"
        "except MissingLibraryError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"needs the library {library}," in done.stdout
    assert 'pip install "bitvec-trees[onnx]"' in done.stdout

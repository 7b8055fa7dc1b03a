"""Files in onnxruntime's own format, for its reduced builds: the same answers, bit for bit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from strategies import AXIS, EQUAL, OBLIQUE, SET, forests_with_rows

import bitvec
from bitvec.converters.onnx.session import OnnxEngine
from bitvec.converters.onnx.write import to_onnx as tree_ensemble
from bitvec.core import reference
from bitvec.runtime.export.export_target import STANDARD, TREES
from bitvec.runtime.export.onnx.tensor import to_onnx as tensor

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("flatbuffers")
OLD_RUNTIME = ort.__version__.split(".") < ["1", "26"]
FORMS = {"tensor": tensor, "tree_ensemble": tree_ensemble}


def converted(model, path, level="ORT_ENABLE_ALL"):
    """Save a model in onnxruntime's format and return its bytes."""
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.log_severity_level = 3
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return path.read_bytes()


@pytest.fixture(scope="module")
def forest():
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier

    X, y = load_breast_cancer(return_X_y=True)
    return bitvec.convert(RandomForestClassifier(20, max_depth=8, random_state=0).fit(X, y))


@pytest.fixture(scope="module")
def X(forest):
    rows = np.random.default_rng(0).normal(size=(300, forest.n_features)) * 100
    rows[0], rows[1], rows[2], rows[3] = np.inf, -np.inf, 1e-42, -0.0
    return rows.astype(forest.dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_a_converted_file_answers_as_the_reference(form, level, forest, X, tmp_path):
    model = FORMS[form](forest, leaves=True)
    engine = OnnxEngine(converted(model, tmp_path / "forest.ort", level))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    assert np.array_equal(engine.raw(X), reference.raw(forest, X))


@settings(max_examples=25, deadline=None)
@given(forests_with_rows(kinds=(AXIS, OBLIQUE, SET, EQUAL)))
def test_converted_forests_of_any_kind_answer_as_the_reference(tmp_path_factory, drawn):
    forest, X = drawn
    labels = [c for c in forest.output.classes or () if c is not None]
    # Before 1.26 onnxruntime writes texts into this format that it cannot read.
    assume(not OLD_RUNTIME or all(np.asarray(c).dtype.kind not in "UO" for c in labels))
    path = tmp_path_factory.mktemp("ort") / "forest.ort"
    engine = OnnxEngine(converted(tensor(forest, leaves=True), path))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    with np.errstate(all="ignore"):
        assert np.array_equal(engine.raw(X), reference.raw(forest, X), equal_nan=True)


def test_only_optimising_expands_the_matrix_of_the_form_tensor(forest, tmp_path):
    model = tensor(forest)
    plain = converted(model, tmp_path / "plain.ort", "ORT_DISABLE_ALL")
    folded = converted(model, tmp_path / "folded.ort")
    # B is one float32 per leaf and node of a tree: 4 x 20 x about 22 x 21 bytes and more.
    assert len(plain) < 1.5 * model.ByteSize() + 2**15
    assert len(folded) - len(plain) > 2**15


def test_the_converter_writes_the_operators_that_a_reduced_build_needs(forest, X, tmp_path):
    from pathlib import Path

    convert = pytest.importorskip("onnxruntime.tools.convert_onnx_models_to_ort")
    for form, to_onnx in FORMS.items():
        onnx.save(to_onnx(forest), tmp_path / f"{form}.onnx")
    convert.convert_onnx_models_to_ort(
        Path(tmp_path),
        optimization_styles=[convert.OptimizationStyle.Fixed],
        enable_type_reduction=True,
    )
    for form in FORMS:
        engine = OnnxEngine(tmp_path / f"{form}.ort")
        assert np.array_equal(engine.raw(X), reference.raw(forest, X))
    config = (tmp_path / "required_operators_and_types.config").read_text()
    lines = [line.split(";") for line in config.splitlines() if not line.startswith("#")]
    assert {domain for domain, *_ in lines} == {"ai.onnx", "ai.onnx.ml"}
    assert ["ai.onnx.ml", "5", "TreeEnsemble"] in lines
    assert all(kind in config for kind in ("MatMul", "ArgMax", "CumSum"))
    used = {kind for to_onnx in FORMS.values() for kind in kinds(to_onnx(forest))}
    assert used <= STANDARD | TREES


def kinds(model):
    """The operator types of a model."""
    return {node.op_type for node in model.graph.node}

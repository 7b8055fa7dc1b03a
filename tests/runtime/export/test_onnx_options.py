"""What an ONNX file is refused for, and what it tells of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.source import Source
from bitvec.core.to_float32 import narrow_scores, narrow_tests
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.onnx_files import FORMS, OnnxOptions, onnx_model, page_model

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bitvec.converters.onnx.session import OnnxEngine  # noqa: E402

F32 = np.float32


def metadata(model):
    return {entry.key: entry.value for entry in model.metadata_props}


def stump(b=0.1):
    return Forest.from_matrices([[1.0]], [b], [[0], [1]], [10.0, 20.0])


@pytest.fixture(scope="module")
def booster():
    xgboost = pytest.importorskip("xgboost")
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return bitvec.convert(xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(X, y))


@pytest.mark.parametrize("options", [{"version": 3}, {"target": "openvino"}, {"target": "coreml"}])
@pytest.mark.parametrize("v", [[1e300, 2e300], [1e-50, 2e-50]])
def test_leaves_that_float32_cannot_hold_are_refused(v, options, tmp_path):
    forest = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], v)
    with pytest.raises(UnsupportedModelError, match="must be 0 or from"):
        bitvec.export(forest, tmp_path / "no.onnx", **options)


def test_subnormal_leaves_are_refused_where_the_target_takes_them_for_zero(tmp_path):
    forest = narrow_scores(stump())
    small = replace(forest, leaves=replace(forest.leaves, v=forest.leaves.v * F32(1e-41)))
    with pytest.raises(UnsupportedModelError, match="must have no leaf between 0 and"):
        bitvec.export(small, tmp_path / "no.onnx", target="openvino")


def test_rows_that_would_change_sides_are_refused(tmp_path):
    """float64 0.1 goes left of the threshold 0.1; as float32 it lies above it."""
    path = tmp_path / "no.onnx"
    with pytest.raises(UnsupportedModelError, match="must read rows of float32, got"):
        bitvec.export(stump(), path, version=3, input_dtype="float64")
    for target in ("openvino", "tensorrt", "coreml", "nnapi", "qnn"):
        with pytest.raises(UnsupportedModelError, match="must read X of a dtype"):
            bitvec.export(stump(), path, target=target, input_dtype="float64")
    with pytest.raises(UnsupportedModelError, match="must read X of a dtype"):
        bitvec.export(stump(), path, target="coreml", input_dtype="float16")
    narrow = narrow_tests(stump())
    assert bitvec.export(narrow, path, version=3, input_dtype="float64") == path


def test_the_dtype_of_comparisons_is_told(tmp_path):
    for options, dtype in (({}, "float64"), ({"version": 3}, "float32")):
        path = bitvec.export(stump(), tmp_path / "stump.onnx", **options)
        assert metadata(onnx.load(path))["bitvec.compares"] == dtype


@pytest.mark.parametrize(("largest", "held"), [(2**31 - 1, True), (2**31, False)])
def test_labels_beyond_the_whole_numbers_of_a_target_are_left_out(largest, held):
    forest = labelled(np.array([-5, largest]))
    model = onnx_model(forest, OnnxOptions(target="openvino"))
    assert ("label" in [output.name for output in model.graph.output]) == held
    model = onnx_model(forest, OnnxOptions(target="tensorrt"))
    assert "label" in [output.name for output in model.graph.output]
    if not held:
        wants = OnnxOptions(target="openvino", interface=Interface(outputs=("label",)))
        with pytest.raises(UnsupportedModelError, match="must be whole numbers of int32"):
            onnx_model(forest, wants)


def labelled(labels):
    """A stump that answers with one of two labels."""
    forest = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [[1.0, 0.0], [0.0, 1.0]])
    return replace(forest, output=replace(forest.output, classes=(labels,)))


def test_the_page_tells_why_a_forest_has_no_labels_in_onnx():
    forest = labelled(np.array([1, 2**63], np.uint64))
    with pytest.raises(UnsupportedModelError, match="class labels must fit in int64"):
        page_model(forest)
    assert metadata(page_model(stump()))["bitvec.form"] == "tree_ensemble"


def test_text_that_no_file_can_hold_is_refused_or_escaped():
    lone = chr(0xD800)
    with pytest.raises(UnsupportedModelError, match="must be text that UTF-8 can hold"):
        onnx_model(labelled(np.array(["a", lone])), OnnxOptions())
    named = replace(stump(), source=Source("library", "1", f"model {lone}"))
    assert metadata(onnx_model(named, OnnxOptions()))["bitvec.source"].endswith("model \\ud800")


def test_a_boundary_that_float32_does_not_hold_is_refused_with_a_remedy():
    forest = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [0.0, 1.0])
    split = replace(forest.output, classes=(np.array([1, 2]),), labels_from_raw=True, boundary=0.1)
    with pytest.raises(UnsupportedModelError, match="keep the forest in float64"):
        onnx_model(replace(forest, output=split), OnnxOptions(target="openvino"))


def test_options_that_do_not_go_together_are_refused():
    for options, says in (
        ({"form": "tensor", "version": 3}, "unless the form is tree_ensemble, got 3 for tensor"),
        ({"target": "openvino", "version": 3}, "unless the form is tree_ensemble, got 3 for openv"),
        ({"finite": True}, "traversal or tensor, got tree_ensemble"),
        ({"leaves": True, "interface": Interface(outputs=("raw",))}, "must name leaves where"),
    ):
        with pytest.raises(InputError, match=says):
            OnnxOptions(**options)


def test_version_3_is_never_silently_another_version():
    splits = Forest.from_matrices([[0.3, 0.7]], [0.1], [[0], [1]], [0, 1])
    with pytest.raises(UnsupportedModelError, match="`tree_ensemble` needs nodes that test one"):
        onnx_model(splits, OnnxOptions(version=3))


@pytest.mark.parametrize("form", FORMS)
def test_leaves_are_there_where_outputs_name_them(form):
    for outputs in (("leaves",), ("raw", "leaves")):
        model = onnx_model(stump(), OnnxOptions(form, interface=Interface(outputs=outputs)))
        assert {output.name for output in model.graph.output} == set(outputs)


def test_a_portable_file_of_complete_rows_has_no_second_input(booster, tmp_path):
    forest = booster
    path = bitvec.export(forest, tmp_path / "f.onnx", form="portable", finite=True, leaves=True)
    assert [value.name for value in onnx.load(path).graph.input] == ["X"]
    X = np.random.default_rng(0).normal(size=(50, forest.n_features)).astype(F32) * 20
    assert np.array_equal(OnnxEngine(path).exit_leaves(X), reference.exit_leaves(forest, X))
    assert bitvec.certify(forest, path).passed


def test_a_remedy_names_no_form_that_the_target_lacks():
    oblique = Forest.from_matrices([[0.25, 0.75]], [0.5], [[0], [1]], [0, 1])
    fields = ("b", "weight", "offset", "r")
    tests = {name: getattr(oblique.tests, name).astype(F32) for name in fields}
    oblique = replace(oblique, tests=replace(oblique.tests, **tests))
    with pytest.raises(UnsupportedModelError, match="coreml runs no other form"):
        onnx_model(oblique, OnnxOptions(target="coreml"))
    with pytest.raises(UnsupportedModelError, match="use the form `traversal` or `tensor`"):
        onnx_model(oblique, OnnxOptions("portable"))


def test_a_file_says_why_an_earlier_form_was_not_taken():
    oblique = Forest.from_matrices([[0.3, 0.7]], [0.1], [[0], [1]], [0, 1])
    facts = metadata(onnx_model(oblique, OnnxOptions()))
    assert facts["bitvec.form"] == "tensor"
    assert facts["bitvec.instead_of"].startswith("tree_ensemble: the ONNX form `tree_ensemble`")
    assert "bitvec.instead_of" not in metadata(onnx_model(stump(), OnnxOptions()))


def test_a_viewer_is_told_what_inputs_and_outputs_are(booster):
    forest = booster
    names = tuple(f"column {i}" for i in range(forest.n_features))
    named = replace(forest, inputs=replace(forest.inputs, feature_names=names))
    graph = onnx_model(named, OnnxOptions("portable")).graph
    told = {value.name: value.doc_string for value in [*graph.input, *graph.output]}
    assert "column 0, column 1" in told["X"]
    assert "0 where it is missing" in told["present"]
    assert told["raw"]
    assert "30 columns" in onnx_model(forest, OnnxOptions()).graph.input[0].doc_string


def test_onnxruntimes_own_format_is_refused_where_it_is_not_read(tmp_path):
    for target in ("openvino", "tensorrt"):
        with pytest.raises(InputError, match=rf"a file for {target} must end in \.onnx"):
            bitvec.export(stump(), tmp_path / "no.ort", target=target)
    assert bitvec.export(stump(), tmp_path / "a.ort", target="onnxruntime-mobile").exists()


@pytest.mark.parametrize("form", ["traversal", "tensor"])
def test_rows_without_missing_values_need_no_operator_for_them(form, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 4)) < 0.2, np.nan, rng.normal(size=(200, 4)))
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=4)
    forest = bitvec.convert(model.fit(X, np.nan_to_num(X, nan=2.0).sum(axis=1)))
    kinds = {}
    for finite in (False, True):
        path = tmp_path / f"{finite}.onnx"
        bitvec.export(forest, path, form=form, finite=finite, leaves=True)
        kinds[finite] = {node.op_type for node in onnx.load(path).graph.node}
        assert bitvec.certify(forest, path).grade == "two-sided"
    assert "IsNaN" in kinds[False] - kinds[True]

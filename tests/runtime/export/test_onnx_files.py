"""What is written for a target: the form that it runs, what is narrowed, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import ONE_HOT, forests_with_rows

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.inputs import Inputs
from bitvec.core.to_float32 import narrow_tests
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError
from bitvec.runtime.export.onnx_files import FORMS, OnnxOptions, onnx_model
from bitvec.runtime.export.onnx_targets import TARGETS

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bitvec.converters.onnx.session import OnnxEngine  # noqa: E402

F32, F64 = np.float32, np.float64


def metadata(model):
    return {entry.key: entry.value for entry in model.metadata_props}


def stump(b=0.1, dtype=F64):
    return Forest.from_matrices(
        np.ones((1, 1), dtype), np.array([b], dtype), [[0], [1]], [10.0, 20.0]
    )


def machine_of(forest):
    """The forest as a decision machine, whose B is real."""
    from bitvec.core.machine import from_forest

    return from_forest(forest)


@pytest.fixture(scope="module")
def boosters():
    """One forest that compares in float32, one in float64."""
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X[::5, 2] = np.nan
    small = {"n_estimators": 8, "n_jobs": 1}
    return {
        "float32": bitvec.convert(xgboost.XGBClassifier(max_depth=3, **small).fit(X, y)),
        "float64": bitvec.convert(lightgbm.LGBMClassifier(verbose=-1, **small).fit(X, y)),
    }


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.full)])
@pytest.mark.parametrize("target", TARGETS)
def test_a_file_for_each_target_is_certified(target, dtype, boosters, tmp_path):
    forest = boosters[dtype]
    path = bitvec.export(forest, tmp_path / "forest.onnx", target=target, leaves=True)
    model, written = onnx.load(path), TARGETS[target]
    facts = metadata(model)
    assert facts["bitvec.form"] == written.forms[0]
    assert facts["bitvec.target"] == target
    assert {d.version for d in model.opset_import if not d.domain} == {written.opset}
    assert model.ir_version == written.ir_version
    if not written.float64:
        element = model.graph.input[0].type.tensor_type.elem_type
        assert element == onnx.TensorProto.FLOAT
    rows = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert bool(rows.dim_value) == written.fixed_batch
    certificate = bitvec.certify(forest, path, allow_values_only=True)
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1


@settings(max_examples=25)
@given(forests_with_rows(kinds=ONE_HOT))
def test_routes_survive_for_a_target_without_float64(drawn):
    forest, X = drawn
    options = OnnxOptions(target="tensorrt", leaves=True)
    try:
        model = onnx_model(forest, options)
    except UnsupportedModelError:
        return
    with np.errstate(over="ignore"):
        X = X.astype(F32)
    found = OnnxEngine(model).exit_leaves(X)
    assert np.array_equal(found, reference.exit_leaves(forest, X.astype(forest.dtype)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_form_reads_rows_of_every_dtype(form, dtype, boosters):
    forest = boosters["float32"]
    interface = Interface(input_dtype=np.dtype(dtype), batch=4)
    options = OnnxOptions(form, leaves=True, interface=interface)
    if (form, dtype) == ("portable", "float64"):  # 1e300 would become infinite, and NaN in sums
        with pytest.raises(UnsupportedModelError, match="rows no wider than float32"):
            onnx_model(forest, options)
        return
    engine = OnnxEngine(onnx_model(forest, options))
    X = np.random.default_rng(0).normal(size=(11, forest.n_features)).astype(dtype) * 20
    X[::3, 2] = np.nan
    expected = X.astype(F32)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, expected))
    assert np.array_equal(engine.raw(X), reference.raw(forest, expected))


def test_the_metadata_tells_what_a_person_and_a_certificate_need(boosters, tmp_path):
    forest = boosters["float64"]
    named = replace(
        forest, inputs=replace(forest.inputs, feature_names=tuple(f"f {i}" for i in range(30)))
    )
    path = bitvec.export(named, tmp_path / "forest.onnx", leaves=True)
    facts = metadata(onnx.load(path))
    assert facts["bitvec.forest"] == bitvec.certify(named, path).digest
    assert facts["bitvec.classes.json"] == "[[0, 1]]"
    assert facts["bitvec.source"].startswith("lightgbm")
    assert '"f 29"' in facts["bitvec.feature_names.json"]
    assert facts["bitvec.adds"] == "exactly"
    assert "quantise" in facts["bitvec.note"]


def test_only_the_outputs_that_are_asked_for_are_computed(boosters):
    forest = boosters["float32"]
    interface = Interface(outputs=("label",))
    model = onnx_model(forest, OnnxOptions("tree_ensemble", interface=interface))
    assert [output.name for output in model.graph.output] == ["label"]
    whole = onnx_model(forest, OnnxOptions("tree_ensemble"))
    assert len(model.graph.node) < len(whole.graph.node)
    with pytest.raises(InputError, match="among raw, probabilities, label, got 'score'"):
        onnx_model(forest, OnnxOptions(interface=Interface(outputs=("score",))))


@pytest.mark.parametrize("form", ["tensor", "traversal", "portable"])
def test_generic_quantisation_is_found_out_by_the_certificate(form, boosters, tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    forest = boosters["float32"]
    path = bitvec.export(forest, tmp_path / "forest.onnx", form=form, leaves=True)
    spoilt = tmp_path / "quantised.onnx"
    try:
        quantization.quantize_dynamic(path, spoilt)
    except ValueError:  # it finds no scale for what is not finite
        return
    assert not bitvec.certify(forest, spoilt, allow_values_only=True).passed


def test_a_file_of_onnxruntimes_own_format_is_certified(boosters, tmp_path):
    forest = boosters["float32"]
    path = bitvec.export(forest, tmp_path / "forest.ort", leaves=True)
    assert path.read_bytes()[4:8] == b"ORTM"
    path = path.rename(tmp_path / "forest")  # it is recognised by its content
    assert bitvec.certify(forest, path, allow_values_only=True).passed
    with pytest.raises(UnsupportedModelError, match=r"onnxruntime's own \(\.ort\)"):
        bitvec.convert(path)
    path.write_bytes(path.read_bytes()[:99])
    with pytest.raises(FileFormatError, match=r"one that onnxruntime .* loads"):
        bitvec.certify(forest, path)


def test_a_file_that_reads_float16_is_not_certified(boosters, tmp_path):
    forest = boosters["float32"]
    path = bitvec.export(forest, tmp_path / "forest.onnx", input_dtype="float16")
    with pytest.raises(InputError, match="float32 or float64 to be certified, got float16"):
        bitvec.certify(forest, path)


def test_what_a_target_cannot_run_is_said(tmp_path):
    path = tmp_path / "forest.onnx"
    with pytest.raises(UnsupportedModelError, match="coreml must have one of the forms portable"):
        bitvec.export(stump(), path, target="coreml", form="tree_ensemble")
    oblique = Forest.from_matrices([[0.3, 0.7]], [0.1], [[0], [1]], [0, 1])
    with pytest.raises(UnsupportedModelError, match="must test single columns of X"):
        bitvec.export(oblique, path, target="openvino")
    with pytest.raises(UnsupportedModelError, match="no threshold between 0 and"):
        bitvec.export(stump(1e-40, F32), path, target="openvino")
    with pytest.raises(InputError, match="the target must be one of"):
        bitvec.export(stump(), path, target="toaster")
    with pytest.raises(InputError, match="`batch` must be a number of rows"):
        bitvec.export(stump(), path, batch=0)
    with pytest.raises(InputError, match="float16, float32 or float64, got int32"):
        bitvec.export(stump(), path, input_dtype="int32")
    with pytest.raises(InputError, match="`form` must be left out where xgboost is written"):
        bitvec.export(stump(), tmp_path / "forest.ubj", form="tensor")
    assert not path.exists()


def test_a_scale_that_onnxruntime_would_drop_is_refused():
    forest = stump()
    scaled = replace(forest, output=replace(forest.output, scale=np.array([1 + 1e-12])))
    for form in ("tree_ensemble", "traversal", "tensor"):
        with pytest.raises(UnsupportedModelError, match="must not round to 1 in float32"):
            onnx_model(scaled, OnnxOptions(form))


def test_a_narrow_file_is_compared_on_the_rows_that_it_reads(boosters, tmp_path):
    forest = boosters["float64"]
    path = bitvec.export(forest, tmp_path / "narrow.onnx", input_dtype=F32, leaves=True)
    certificate = bitvec.certify(forest, path)
    assert certificate.passed
    assert certificate.matches(narrow_tests(forest))
    assert "rows of float32 were compared" in certificate.summary()


def test_soft_models_and_machines_are_exported_too(tmp_path, boosters):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    forest = boosters["float32"]
    X = np.random.default_rng(0).normal(size=(5, forest.n_features)).astype(F32) * 20
    soft = bitvec.to_torch(forest, "sigmoid", gamma=2.0).calibrate(X)
    path = bitvec.export(soft, tmp_path / "soft.onnx", outputs=["raw"])
    facts = metadata(onnx.load(path))
    assert (facts["bitvec.form"], facts["bitvec.gamma"]) == ("soft", "2.0")
    with torch.no_grad():
        expected = soft(X).numpy()
    np.testing.assert_allclose(OnnxEngine(path).raw(X), expected, rtol=1e-5, atol=1e-6)
    machine = machine_of(forest)
    path = bitvec.export(machine, tmp_path / "machine.onnx", leaves=True)
    assert np.array_equal(OnnxEngine(path).raw(X), reference.raw(forest, X))
    told = metadata(onnx.load(path))
    assert told["bitvec.adds"] == "exactly"
    assert "quantise" in told["bitvec.note"]
    assert "bitvec.forest" not in facts | told  # they are not the forest that they came from
    with pytest.raises(InputError, match="a SoftForest must be exported without `form`, `leaves`"):
        bitvec.export(soft, tmp_path / "soft.onnx", form="tensor", leaves=True)
    with pytest.raises(InputError, match="a DecisionMachine must be exported without `target`"):
        bitvec.export(machine, tmp_path / "machine.onnx", target="openvino")
    with pytest.raises(InputError, match=r"a DecisionMachine must be exported as \.onnx, got `to`"):
        bitvec.export(machine, tmp_path / "machine.h")


def test_labels_that_a_target_has_no_type_for_are_left_out(tmp_path):
    from sklearn.datasets import load_iris
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_iris(return_X_y=True)
    forest = bitvec.convert(
        DecisionTreeClassifier(max_depth=3).fit(X, np.array(["a", "b", "c"])[y])
    )
    path = bitvec.export(forest, tmp_path / "tree.onnx", target="tensorrt", leaves=True)
    names = [output.name for output in onnx.load(path).graph.output]
    assert sorted(names) == ["leaves", "probabilities", "raw"]
    assert bitvec.certify(forest, path, allow_values_only=True).passed
    with pytest.raises(UnsupportedModelError, match="must be whole numbers of int64, got"):
        bitvec.export(forest, tmp_path / "no.onnx", target="tensorrt", outputs=["label"])


def test_linear_leaves_are_refused_where_there_is_no_float64(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    model = lightgbm.LGBMRegressor(n_estimators=2, linear_tree=True, verbose=-1, n_jobs=1)
    forest = bitvec.convert(model.fit(X, y))
    with pytest.raises(UnsupportedModelError, match="must have constant leaves"):
        bitvec.export(forest, tmp_path / "no.onnx", target="openvino")


def test_a_torch_module_in_front_is_exported(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from bitvec.runtime.train.relax.torch_map import TorchMap

    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    forest = Forest.from_matrices(
        [[1, 0, 0], [0, 1, 0]], [0, 0], [[0, 0], [0, 1], [1, 1]], [0.0, 1.0, 2.0]
    )
    forest = replace(forest, feature_map=TorchMap(body, 2, 3), inputs=Inputs(2))
    path = bitvec.export(forest, tmp_path / "mapped.onnx")
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert np.array_equal(OnnxEngine(path).raw(X), reference.raw(forest, X))

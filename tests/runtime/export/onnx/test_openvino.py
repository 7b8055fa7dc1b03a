"""What OpenVINO answers on a CPU: exactly the reference where its entry in the table says so.

The laws of wrong answers fail once OpenVINO mends them: then the table has to follow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from strategies import AXIS, EQUAL, OBLIQUE, SET, forests_with_rows

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.runtime.export.onnx.tensor import to_onnx
from bitvec.runtime.export.onnx_targets import find, require_runs

openvino = pytest.importorskip("openvino")
ort = pytest.importorskip("onnxruntime")

EXACT = {"INFERENCE_PRECISION_HINT": openvino.Type.f32, "EXECUTION_MODE_HINT": "ACCURACY"}
TINY = np.finfo(np.float32).smallest_subnormal
SPECIAL = np.array(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3, 1 + 2**-23, np.finfo(np.float32).tiny], np.float32
)


def run(model, **inputs):
    """Run a model in OpenVINO, one thread."""
    core = openvino.Core()
    options = {**EXACT, "INFERENCE_NUM_THREADS": 1}
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", options)
    answers = compiled(inputs)
    return {output.get_any_name(): answers[output] for output in compiled.outputs}


def without_subnormals(forest):
    """Make thresholds 0 that OpenVINO would flush."""
    b = forest.tests.b
    flushed = np.where(np.abs(b) < np.finfo(np.float32).tiny, b.dtype.type(0), b)
    return replace(forest, tests=replace(forest.tests, b=flushed))


def only_sums(forest):
    """Whether the raw score is a float32 sum that no merged constants can move."""
    output = forest.output
    return (
        output.aggregate is Aggregate.SUM
        and output.scale is None
        and (forest.leaves.linear is None or output.tree_weight is None)
        and output.dtype == output.base_score.dtype == np.float32
    )


@settings(max_examples=15, deadline=None)
@given(forests_with_rows(kinds=(AXIS, OBLIQUE, SET, EQUAL), dtypes=(np.float32,)))
def test_leaves_and_sums_are_the_references(drawn):
    forest, X = without_subnormals(drawn[0]), drawn[1]
    answers = run(to_onnx(forest, leaves=True), X=X)
    assert np.array_equal(answers["leaves"], reference.exit_leaves(forest, X))
    if only_sums(forest):
        with np.errstate(all="ignore"):
            expected = reference.raw(forest, X)
        assert np.array_equal(answers["raw"], expected, equal_nan=True)


def real_models():
    """Pairs of a name and a function that trains, on rows with NaN where the library takes them."""
    xgboost = pytest.importorskip("xgboost")
    from sklearn.datasets import load_breast_cancer, load_diabetes
    from sklearn.ensemble import RandomForestRegressor

    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(np.float32)
    X[::7, 3] = np.nan
    R, t = load_diabetes(return_X_y=True)
    R = R.astype(np.float32)
    return {
        "xgboost classifier": (xgboost.XGBClassifier(n_estimators=20).fit(X, y), X),
        "xgboost regressor": (xgboost.XGBRegressor(n_estimators=20).fit(R, t), R),
        "random forest": (RandomForestRegressor(10, random_state=0).fit(R, t), R),
    }


@pytest.mark.parametrize("name", ["xgboost classifier", "xgboost regressor", "random forest"])
def test_real_models_are_the_reference(name):
    model, X = real_models()[name]
    forest = bitvec.convert(model)
    edges = np.array([np.nan, np.inf, -np.inf, 1e-42, -0.0], np.float32)
    X = np.concatenate([X[:200], np.repeat(edges[:, None], X.shape[1], axis=1)])
    answers = run(to_onnx(forest, leaves=True), X=X)
    assert np.array_equal(answers["leaves"], reference.exit_leaves(forest, X))
    expected = reference.raw(forest, X)
    if only_sums(forest):
        assert np.array_equal(answers["raw"], expected)
    else:  # its float64 scores are summed and divided as float32: 10 additions and a division
        np.testing.assert_allclose(answers["raw"], expected, rtol=16 * np.finfo(np.float32).eps)
        assert not np.array_equal(answers["raw"], expected)


@pytest.mark.parametrize("name", ["xgboost classifier", "random forest"])
def test_an_export_for_openvino_is_certified_in_it(name, tmp_path):
    from bitvec.runtime.export.onnx.openvino import certified

    forest = bitvec.convert(real_models()[name][0])
    path = bitvec.export(forest, tmp_path / "forest.onnx", target="openvino", leaves=True)
    certificate = bitvec.certify(forest, certified(path), allow_values_only=True)
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1
    assert "openvino" in certificate.summary()


def operator(kind, *inputs, constants=None, output=onnx.TensorProto.FLOAT, **attributes):
    """A model of one operator of inputs a, b ..., and the answers of OpenVINO and onnxruntime."""
    helper, constants = onnx.helper, constants or {}
    named = dict(zip("abc", inputs, strict=False))
    element = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node(kind, [*named, *constants], ["y"], **attributes)],
        "operator",
        [helper.make_tensor_value_info(k, element(v.dtype), v.shape) for k, v in named.items()],
        [helper.make_tensor_value_info("y", output, None)],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return run(model, **named)["y"], session.run(None, named)[0]


PAIRS = (np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL)))
BOOL = onnx.TensorProto.BOOL


def require_known(kind, is_right):
    """Require that an operator is right, unless the table says that somewhere it is not."""
    if is_right and kind in dict(find("openvino").wrong):
        pytest.skip(f"on this processor {kind} is right")
    assert is_right or kind in dict(find("openvino").wrong)


@pytest.mark.parametrize("kind", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
def test_comparisons_with_nan_are_right_unless_the_table_says_otherwise(kind):
    found, expected = operator(kind, *PAIRS, output=BOOL)
    present = ~np.isnan(PAIRS).any(axis=0)
    assert np.array_equal(found[present], expected[present])
    require_known(kind, np.array_equal(found, expected))


@pytest.mark.parametrize("kind", ["Min", "Max", "Add", "Sub", "Mul"])
def test_arithmetic_of_nan_is_right_unless_the_table_says_otherwise(kind):
    found, expected = operator(kind, *PAIRS)
    require_known(kind, np.array_equal(found, expected, equal_nan=True))


@pytest.mark.parametrize("kind", ["Relu", "Clip", "Floor", "Ceil", "Abs", "Neg", "Identity"])
def test_functions_of_nan_are_right_unless_the_table_says_otherwise(kind):
    bounds = {"low": np.float32(0), "high": np.float32(1)} if kind == "Clip" else {}
    found, expected = operator(kind, SPECIAL, constants=bounds)
    require_known(kind, np.array_equal(found, expected, equal_nan=True))


def test_a_constant_divisor_becomes_a_rounded_product():
    x = np.random.default_rng(0).normal(size=200).astype(np.float32)
    found, expected = operator("Div", x, constants={"by": np.float32(3)})
    assert not np.array_equal(found, expected)
    assert np.array_equal(found, x * (np.float32(1) / np.float32(3)))


def test_subnormal_constants_become_zero_and_subnormal_rows_stay():
    X = np.array([TINY, 0, -TINY], np.float32)
    stays, expected = operator("Less", X, constants={"by": np.float32(0)}, output=BOOL)
    assert np.array_equal(stays, expected)
    bounds = np.full(3, TINY)
    flushed, expected = operator("LessOrEqual", X, constants={"by": -bounds}, output=BOOL)
    assert expected.tolist() == [False, False, True]
    assert flushed.tolist() == [False, True, True]


def test_float64_becomes_float32_and_large_whole_numbers_lose_bits():
    fine = np.array([1 + 2.0**-40, 1.0])
    found, expected = operator("Less", fine, constants={"by": 1 + 2.0**-50}, output=BOOL)
    assert not np.array_equal(found, expected)
    whole = np.array([2**24 + 1, 2**24])
    found, expected = operator("Equal", whole, constants={"by": 2**24}, output=BOOL)
    assert not np.array_equal(found, expected)
    small = np.array([2**24 - 1, 2**24 - 2])
    found, expected = operator("Equal", small, constants={"by": 2**24 - 1}, output=BOOL)
    assert np.array_equal(found, expected)


def test_whole_numbers_that_are_looked_up_stay_to_32_bits():
    numbers = np.array([2**24 + 1, 2**31 - 1, -(2**31), 2**31])
    places, whole = np.arange(4), onnx.TensorProto.INT64
    found, expected = operator("GatherElements", numbers, places, output=whole)
    assert np.array_equal(expected, numbers)
    assert (found == numbers).tolist() == [True, True, True, False]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_of_float16_are_cast_exactly(dtype):
    rows = np.array([0.1, -0.1, 65504, 6e-8, -0.0, np.inf, -np.inf, np.nan], dtype)
    found, expected = operator("Cast", rows, to=onnx.TensorProto.FLOAT)
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("n", [2, 33, 300])
def test_the_running_sum_keeps_the_order_of_its_terms(n):
    terms = np.random.default_rng(n).normal(size=(7, n, 3)).astype(np.float32)
    found, expected = operator("CumSum", terms, constants={"axis": np.array(1)})
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("last", [0, 1])
def test_ties_go_to_the_first_or_last_maximum_as_asked(last):
    scores = np.random.default_rng(0).integers(0, 3, (3, 70, 9)).astype(np.float32)
    attributes = {"axis": 1, "keepdims": 0, "select_last_index": last}
    found, expected = operator("ArgMax", scores, output=onnx.TensorProto.INT64, **attributes)
    assert np.array_equal(found, expected)


def test_a_file_with_comparisons_that_fail_for_nan_is_refused():
    with pytest.raises(UnsupportedModelError, match="NaN is true"):
        require_runs(find("openvino"), ["Gather", "Greater"])


def of_sets():
    """A LightGBM model of sets, in float64, and rows of whole codes in float32."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, (12, 70), (2000, 2)), rng.normal(size=2000)])
    y = (X[:, 0] % 3 == 0) * X[:, 2] + X[:, 1] % 5
    data = lightgbm.Dataset(X, y, categorical_feature=[0, 1])
    model = lightgbm.train({"verbose": -1, "num_leaves": 15, "num_threads": 1}, data, 10)
    return bitvec.convert(model), X[:300].astype(np.float32)


def test_codes_of_a_float64_file_without_a_target_are_read_as_they_are(tmp_path):
    from bitvec.runtime.export.onnx.openvino import OpenVinoEngine

    forest, X = of_sets()
    path = bitvec.export(forest, tmp_path / "forest.onnx", form="portable", leaves=True)
    found = OpenVinoEngine(path).exit_leaves(X)
    assert np.array_equal(found, reference.exit_leaves(forest, X.astype(np.float64)))
    facts = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert "rounds that to float32" in facts["bitvec.note"]


def test_a_file_of_tree_operators_is_refused_by_their_name(tmp_path):
    from bitvec.runtime.export.onnx.openvino import certified

    forest = bitvec.convert(real_models()["xgboost classifier"][0])  # its ArgMax comes after them
    path = bitvec.export(forest, tmp_path / "forest.onnx", form="tree_ensemble")
    with pytest.raises(FileFormatError, match="got: TreeEnsemble, which it does not run"):
        certified(path)


def test_a_refusal_says_which_form_fits(tmp_path):
    path, forest = tmp_path / "forest.onnx", of_sets()[0]
    for target, form, fits in (
        ("tensorrt", "traversal", r"got BitwiseAnd\..* fits the form portable: export that"),
        ("tensorrt", "tensor", r"got BitwiseAnd\..* fits the form portable: export that"),
        ("openvino", "tree_ensemble", "fits the form traversal or tensor: export that"),
    ):
        with pytest.raises(UnsupportedModelError, match=fits):
            bitvec.export(forest, path, target=target, form=form)
    oblique = Forest.from_matrices([[1.0, 2.0]], [0.5], [[0], [1]], [1, 2])
    with pytest.raises(UnsupportedModelError, match="These targets run every form: onnxruntime, "):
        bitvec.export(oblique, path, target="edge")
    with pytest.raises(UnsupportedModelError) as nowhere:
        bitvec.export(forest.take([]), path, target="edge")
    assert "These targets" not in str(nowhere.value)

"""The ONNX project's own evaluator answers exported files as onnxruntime does.

Of what `onnx.reference` of onnx 1.23 gets wrong, files avoid a tree of one leaf whose number is not
its node's, numbers as tensors, and flags of missing values left out. Tests leave out what it cannot
do: `BRANCH_MEMBER`, where a member 0 ends the set and sets are taken in the order of a descent
instead of the nodes' own; `GatherElements` of more than 64 columns, which the form `traversal`
needs for more leaves; and no rows in the tree operators.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx.reference
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx_evaluator import evaluator_of
from sklearn import datasets, ensemble
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, POLYTOPE, SET, forests, forests_with_rows, rows

import bitvec
from bitvec.converters.onnx.ensemble3 import classifies
from bitvec.converters.onnx.read import convert
from bitvec.converters.onnx.session import OnnxEngine
from bitvec.converters.onnx.walker import attributes, by_positions
from bitvec.converters.onnx.write import to_onnx
from bitvec.core import machine as machines
from bitvec.core import reference
from bitvec.core.feature_maps import Layers, Linear, ReLU
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.kernels import box
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate, Output
from bitvec.core.to_float32 import narrow_scores
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx import machine_form, portable, tensor, traversal
from bitvec.runtime.export.onnx_files import OnnxOptions, onnx_model

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
STANDARD = (AXIS, OBLIQUE, POLYTOPE, SET, EQUAL, KERNEL)


def evaluated(model, X, **more):
    """Return every output of a model by its name."""
    kind = model.graph.input[0].type.tensor_type.elem_type
    with np.errstate(all="ignore"):
        X = X.astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        evaluator = evaluator_of(model)
        found = evaluator.run(None, {"X": X, **more})
    return dict(zip(evaluator.output_names, found, strict=True))


def assert_same(answers, exits, raw):
    assert np.array_equal(answers["leaves"], exits)
    assert answers["raw"].dtype == raw.dtype
    assert np.array_equal(answers["raw"], raw, equal_nan=True)


def assert_the_references(model, forest, X):
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, X)
    assert_same(evaluated(model, X), reference.exit_leaves(forest, X), raw)


@settings(max_examples=25)
@given(forests_with_rows(kinds=(AXIS, EQUAL, KERNEL), max_leaves=20))
def test_version_5_is_the_reference_bit_for_bit(drawn):
    forest, X = drawn
    assume(len(X))
    assert_the_references(to_onnx(forest, leaves=True), forest, X)


@settings(max_examples=25)
@given(forests_with_rows(kinds=(AXIS, SET), max_leaves=20))
def test_no_runtime_has_to_look_nan_up_in_a_set_of_code_0(drawn):
    """It may become 0 before the runtime asks for it, unless the set compares with each member."""
    forest, X = drawn
    model = to_onnx(forest)
    node = next(node for node in model.graph.node if node.op_type == "TreeEnsemble")
    nodes = by_positions(attributes(node), forest.dtype)
    at = list(model.graph.node).index(node)
    del model.graph.node[at:], model.graph.output[:]
    model.graph.output.add().name = node.input[0]
    columns = evaluated(model, X)[node.input[0]] if at else X
    for column, members, missing in zip(
        nodes.column, nodes.members, nodes.missing_true, strict=True
    ):
        if 0 in members and not missing and (members.size > 30 or members.max() > 30):
            assert not np.isnan(columns[:, column]).any()


@settings(max_examples=25)
@given(forests_with_rows(kinds=(AXIS, EQUAL), max_leaves=20, linear=False))
def test_version_3_is_the_reference_bit_for_bit(drawn):
    forest, X = drawn
    output = forest.output
    assume(len(X) and output.aggregate is Aggregate.SUM and output.scale is None)
    assume(output.tree_weight is None)
    forest = narrow_scores(forest)
    try:
        model = to_onnx(forest, version=3, leaves=True)
    except UnsupportedModelError:
        assume(False)
    with np.errstate(over="ignore"):
        X = X.astype(F32)
    answers = evaluated(model, X)
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, X.astype(forest.dtype))
    assert np.array_equal(answers["leaves"], reference.exit_leaves(forest, X.astype(forest.dtype)))
    assert np.array_equal(answers["raw"], OnnxEngine(model).raw(X), equal_nan=True)
    if forest.output.base_score.dtype == F32:  # else a sum that is said to be within rounding
        assert np.array_equal(answers["raw"], raw, equal_nan=True)


@pytest.mark.parametrize("form", [tensor, traversal], ids=lambda form: form.FORM)
@settings(max_examples=15)
@given(drawn=forests_with_rows(kinds=STANDARD, max_leaves=20))
def test_standard_operators_are_the_reference_bit_for_bit(form, drawn):
    forest, X = drawn
    assert_the_references(form.to_onnx(forest, leaves=True), forest, X)


@settings(max_examples=15)
@given(
    forests((AXIS, SET, EQUAL, KERNEL), aggregates=[Aggregate.SUM], linear=False, max_leaves=20),
    st.data(),
)
def test_products_and_clipping_are_the_reference_bit_for_bit(forest, data):
    X = data.draw(rows(forest, finite=True))
    present = np.random.default_rng(0).random(X.shape) < 0.8
    model = portable.to_onnx(forest, leaves=True)
    missing = np.where(present, X, np.nan).astype(X.dtype)
    masks = {"present": present.astype(X.dtype)} if len(model.graph.input) == 2 else {}
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, missing)
    assert_same(evaluated(model, X, **masks), reference.exit_leaves(forest, missing), raw)


@settings(max_examples=15)
@given(forests_with_rows(kinds=(AXIS, OBLIQUE, SET, EQUAL, KERNEL), max_leaves=20))
def test_machines_are_the_reference_bit_for_bit(drawn):
    forest, X = drawn
    made = machines.from_forest(forest)
    with np.errstate(all="ignore"):
        raw = machines.raw(made, X)
    answers = evaluated(machine_form.to_onnx(made, leaves=True), X)
    assert_same(answers, machines.exit_leaves(made, X), raw)


@pytest.mark.parametrize("kind", ["soft", "mapped"])
def test_soft_forests_and_feature_maps_answer_as_in_onnxruntime(kind):
    pytest.importorskip("onnxscript")
    S, b, B = [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.5], [[0, 0], [0, 1], [1, 1]]
    forest = Forest.from_matrices(S, b, B, [1, 2, 3])
    if kind == "soft":
        tests = replace(forest.tests, kind=np.full(2, Kind.KERNEL, np.uint8))
        forest = replace(forest, tests=tests, kernel=(box(0.5), box(0.5)))
    else:
        swap = Linear(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))
        forest = replace(forest, feature_map=Layers((swap, ReLU()), (2,)))
    model, X = onnx_model(forest, OnnxOptions()), np.array([[0.25, -1.0], [2.0, 3.0], [0.1, 0.4]])
    # Products and sums of float64 in two orders: a few units in the last place.
    expected = OnnxEngine(model).raw(X)
    np.testing.assert_allclose(evaluated(model, X)["raw"], expected, rtol=1e-12)
    assert np.unique(expected).size > 1


# ---- trees of one leaf


def constants(values, dtype=F64):
    """Return trees of one leaf each, around a stump."""
    stump = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20]).take([0])
    B = stump.bitvectors
    half = len(values) // 2
    sizes = [*[1] * half, 2, *[1] * (len(values) - half)]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    v = np.array([*values[:half], 10, 20, *values[half:]], dtype)[:, None]
    return replace(
        stump,
        bitvectors=replace(B, leaf_ptr=ptr),
        leaves=Leaves(v),
        output=Output(1, dtype, base_score=np.array([0.25], dtype), base_first=True),
    )


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("values", [[1.5], [1.5, -3.0], [4.0, 1.5, -3.0, 2.25]])
def test_constant_trees_are_read_alike_by_both_and_read_back_as_such(values, version, leaves):
    forest = constants(values, F32)
    model = to_onnx(forest, version=version, leaves=leaves)
    X = np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 1.0]], F32)
    expected = reference.raw(forest, X.astype(forest.dtype))
    answers = evaluated(model, X)
    assert np.array_equal(answers["raw"], expected)
    assert np.array_equal(OnnxEngine(model).raw(X), expected)
    if leaves:
        exits = reference.exit_leaves(forest, X.astype(forest.dtype))
        assert np.array_equal(answers["leaves"], exits)
        assert np.array_equal(OnnxEngine(model).exit_leaves(X), exits)
        return
    again = convert(model)
    alone = len(values) + (version == 3)  # there the base score is a tree too
    assert np.sort(np.diff(again.bitvectors.leaf_ptr)).tolist() == [1] * alone + [2]
    assert np.array_equal(reference.raw(again, X.astype(again.dtype)), expected)


def test_a_forest_of_constant_trees_alone_is_read_alike():
    stump = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])
    none = np.zeros(0, np.int32)
    alone = replace(
        stump.take([]),
        bitvectors=replace(stump.bitvectors, lo=none, mid=none, hi=none, leaf_ptr=np.arange(4)),
        leaves=Leaves(np.array([[1.0], [3.0], [11.6]])),
    )
    X = np.zeros((2, 2))
    for version in (3, 5):
        model = to_onnx(alone, version=version)
        assert np.array_equal(evaluated(model, X)["raw"], OnnxEngine(model).raw(X))
    assert evaluated(to_onnx(alone), X)["raw"].tolist() == [[15.6], [15.6]]


# ---- real models


def models():
    """Return fitted models of every source library that is installed, and their rows."""
    X, y = datasets.load_iris(return_X_y=True)
    R, t = datasets.load_diabetes(return_X_y=True)
    made = {
        "sklearn forest": (ensemble.RandomForestClassifier(5, random_state=0).fit(X, y), X),
        "sklearn boosting": (ensemble.GradientBoostingRegressor(n_estimators=9).fit(R, t), R),
        "sklearn two classes": (
            ensemble.GradientBoostingClassifier(n_estimators=9).fit(X, y == 1),
            X,
        ),
        "sklearn histograms": (ensemble.HistGradientBoostingRegressor(max_iter=9).fit(R, t), R),
        "sklearn isolation": (
            ensemble.IsolationForest(n_estimators=9, max_samples=32, random_state=0).fit(R),
            R,
        ),
    }
    xgboost = pytest.importorskip("xgboost")
    made["xgboost"] = (xgboost.XGBClassifier(n_estimators=5).fit(X, y), X)
    lightgbm = pytest.importorskip("lightgbm")
    made["lightgbm"] = (lightgbm.LGBMRegressor(n_estimators=9, verbose=-1).fit(R, t), R)
    catboost = pytest.importorskip("catboost")
    quiet = {"verbose": False, "allow_writing_files": False}
    made["catboost"] = (catboost.CatBoostClassifier(9, depth=3, **quiet).fit(X, y), X)
    return made


@pytest.fixture(scope="module")
def fitted():
    return models()


@pytest.mark.parametrize("form", ["tree_ensemble", "traversal", "tensor"])
@pytest.mark.parametrize(
    "name",
    ["sklearn forest", "sklearn boosting", "sklearn two classes", "sklearn histograms",
     "sklearn isolation", "xgboost", "lightgbm", "catboost"],
)  # fmt: skip
def test_real_models_answer_alike(fitted, name, form):
    model, X = fitted[name]
    forest, X = bitvec.convert(model), X[::5]
    if form == "traversal":  # as many trees as have 32 leaves
        forest = forest.take(np.arange(np.searchsorted(forest.bitvectors.leaf_ptr, 33) - 1))
        assert forest.n_trees
    file = onnx_model(forest, OnnxOptions(form=form, leaves=True))
    X = X.astype(forest.dtype)
    found, engine = evaluated(file, X), OnnxEngine(file)
    assert_same(found, reference.exit_leaves(forest, X), reference.raw(forest, X))
    for output in ("prediction", "probabilities", "label"):
        if output in found and found[output].dtype.kind == "f":
            # exp of NumPy and of onnxruntime differ by a few units in the last place.
            eps = np.finfo(found[output].dtype).eps
            expected = engine.run(output, X)
            np.testing.assert_allclose(found[output], expected, rtol=32 * eps, atol=4 * eps)
        elif output in found:
            assert np.array_equal(found[output], engine.run(output, X))


@pytest.mark.parametrize("name", ["sklearn forest", "sklearn two classes", "xgboost", "catboost"])
def test_one_classifier_of_version_3_answers_alike(fitted, name):
    model, X = fitted[name]
    forest, wanted = bitvec.convert(model), ("label", "probabilities")
    file = to_onnx(forest, version=3, interface=Interface(outputs=wanted))
    X = X[::5].astype(F32)
    session = onnxruntime.InferenceSession(file.SerializeToString())
    found = evaluated(file, X)
    label, probabilities = session.run(["label", "probabilities"], {"X": X})
    assert np.array_equal(found["label"], label)
    np.testing.assert_allclose(found["probabilities"], probabilities, rtol=4e-6, atol=5e-7)
    assert classifies(forest, wanted) == (len(file.graph.node) == 1)

"""Laws of the ONNX form `portable`: products and clipping answer as the reference does."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, POLYTOPE, SET, forests, rows

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, Relation, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output
from bitvec.core.structure import arrange
from bitvec.core.to_float32 import fold_weights, narrow_scores, narrow_tests
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.onnx import portable
from bitvec.runtime.export.onnx.portable import FORM, to_onnx
from bitvec.runtime.export.onnx_files import OnnxOptions, onnx_model

ONE_COLUMN = (AXIS, SET, EQUAL, KERNEL)
SUMS = (Aggregate.SUM, Aggregate.MEAN)
OPERATORS = {"MatMul", "Add", "Ceil", "Clip", "Relu", "Cast"}


def answers(
    model: onnx.ModelProto, X: np.ndarray, present: np.ndarray, optimised: bool = True
) -> dict[str, np.ndarray]:
    """What onnxruntime answers, on one thread."""
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    given = {"X": X, "present": present.astype(X.dtype)}
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, {i.name: given[i.name] for i in session.get_inputs()})
    return dict(zip(names, found, strict=True))


def assert_answers(forest: Forest, X: np.ndarray, present: np.ndarray) -> None:
    """The model's answers are the reference's of X with NaN where it is not present."""
    missing = np.where(present, X, np.nan).astype(X.dtype)
    found = answers(to_onnx(forest, leaves=True), X, present)
    assert np.array_equal(found["leaves"], reference.exit_leaves(forest, missing))
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, missing)
    assert found["raw"].dtype == expected.dtype
    output = forest.output
    divisor = forest.n_trees if output.divisor is None else output.divisor
    if output.aggregate is Aggregate.SUM or np.all(np.log2(divisor) % 1 == 0):
        assert np.array_equal(found["raw"], expected)
        return
    # 1 / n_trees and the product are rounded, as the quotient is, then the sum with the base score.
    eps = np.finfo(output.dtype).eps
    size = np.abs(expected - output.base_score) + np.abs(output.base_score)
    assert np.all(np.abs(found["raw"] - expected) <= 3 * eps * size)


@st.composite
def forests_with_masks(draw: st.DrawFn) -> tuple[Forest, np.ndarray, np.ndarray]:
    """A forest, finite rows for it, and which of their values are present."""
    kinds = draw(st.sampled_from([(AXIS,), ONE_COLUMN]))
    forest = draw(forests(kinds=kinds, aggregates=SUMS, linear=False))
    X = draw(rows(forest, finite=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return forest, X, rng.random(X.shape) < draw(st.sampled_from([0.5, 0.9, 1.0]))


@given(forests_with_masks())
def test_leaves_and_raw_scores_are_the_references(drawn):
    assert_answers(*drawn)


@settings(max_examples=15)
@given(forests_with_masks())
def test_unoptimised_sessions_answer_alike(drawn):
    forest, X, present = drawn
    model = to_onnx(forest, leaves=True)
    found, plain = (answers(model, X, present, optimised) for optimised in (True, False))
    assert all(np.array_equal(found[name], plain[name]) for name in found)


@settings(max_examples=25)
@given(forests_with_masks())
def test_only_products_sums_and_clipping_occur(drawn):
    model = to_onnx(drawn[0], leaves=True)
    assert {node.op_type for node in model.graph.node} <= OPERATORS
    facts = {p.key: p.value for p in model.metadata_props}
    assert facts["bitvec.form"] == FORM
    onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def stumps(b: np.ndarray, **rules: object) -> Forest:
    """One tree of one node on column 0 for each threshold."""
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0, 1])
    forest = stump.take([0] * len(b))
    return replace(forest, tests=axis_aligned(np.zeros(len(b)), b, **rules))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [Kind.MARGIN, pytest.param(Kind.EQUAL, marks=pytest.mark.full)])
@pytest.mark.parametrize("rule", list(MissingRule))
def test_every_threshold_splits_every_finite_value(dtype, kind, rule):
    info = np.finfo(dtype)
    positive = [0.0, info.smallest_subnormal, info.tiny, 1e-35, 1.0, info.max, np.inf]
    b = np.array([*positive, *(-value for value in positive)], dtype)
    with np.errstate(over="ignore"):
        near = np.concatenate([b, np.nextafter(b, b.dtype.type(9)), np.nextafter(b, -b)])
    X = np.unique(np.append(near[np.isfinite(near)], dtype(-0.0)))[:, None]
    b, relation, right = (a.ravel() for a in np.meshgrid(b, list(Relation), [False, True]))
    forest = stumps(b, kind=kind, relation=relation, missing_right=right, missing_rule=rule)
    forest = replace(forest, inputs=replace(forest.inputs, missing_sentinel=1.0))
    for present in (True, False):
        assert_answers(forest, X, np.full(X.shape, present))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("code_rule", list(CodeRule))
@pytest.mark.parametrize("other_right", [False, True])
def test_sets_read_codes_by_their_rule(dtype, code_rule, other_right):
    codes = [[], [0], [0, 1, 2, 31], [5, 31, 32, 63], list(range(64))]
    if not other_right:  # float32 has no number between the first two of these
        codes.append([2**24, 2**24 + 1, 2**24 + 2])
    ptr, words = set_bits([np.array(c, int) for c in codes])
    forest = stumps(
        np.zeros(len(codes), dtype), kind=Kind.SET, code_rule=code_rule, other_right=other_right,
        missing_right=np.arange(len(codes)) % 2 == 0, set_ptr=ptr, set_words=words,
    )  # fmt: skip
    whole = np.array([0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 2**24, 2**24 + 1, 2**24 + 2, 1e30], dtype)
    X = np.concatenate([whole, np.nextafter(whole, dtype(-9)), whole + dtype(0.5), -whole])[:, None]
    for present in (True, False):
        assert_answers(forest, X, np.full(X.shape, present))


def test_a_real_forest_that_refuses_missing_values_has_no_mask():
    datasets = pytest.importorskip("sklearn.datasets")
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = datasets.load_digits(return_X_y=True)
    X = X.astype(np.float32)
    model = ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    assert [value.name for value in to_onnx(forest).graph.input] == ["X"]
    assert_answers(forest, X, np.ones(X.shape, bool))
    mean = ensemble.RandomForestClassifier(8, max_depth=6, random_state=0).fit(X, y)
    assert_answers(bitvec.convert(mean), X, np.ones(X.shape, bool))


def test_a_real_forest_with_missing_values_reads_the_mask():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6)).astype(np.float32)
    y = np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-0.5, 0.5])
    present = rng.random(X.shape) < 0.7
    given = np.where(present, X, np.nan)
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=5, n_jobs=1).fit(given, y)
    assert_answers(bitvec.convert(model), X, present)


@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_a_real_forest_of_sets_and_zeros_reads_the_mask(zero_as_missing):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(1)
    X = np.where(rng.random((500, 5)) < 0.3, 0.0, rng.normal(size=(500, 5)))
    X[:, 3], X[:, 4] = rng.integers(0, 9, 500), rng.integers(0, 70, 500)
    y = np.abs(X[:, 1]) + (X[:, 3] % 3 == 2) + (X[:, 4] % 5 == 1) + 0.3 * (X[:, 0] > 0)
    present = rng.random(X.shape) < 0.9
    data = lightgbm.Dataset(np.where(present, X, np.nan), y, categorical_feature=[3, 4])
    options = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "num_leaves": 15}
    options["zero_as_missing"] = zero_as_missing
    forest = bitvec.convert(lightgbm.train(options, data, 8))
    assert np.any(forest.tests.kind == Kind.SET)
    X[::7] += 0.5
    assert_answers(forest, X, present)


@pytest.mark.parametrize("base_first", [False, True])
@pytest.mark.parametrize("trees", [[0], [0, 0], [0, 1], [1, 0], [1, 0, 1, 1, 0]])
def test_trees_of_one_leaf_add_what_they_hold_in_their_turn(base_first, trees):
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1.5, 1e16])
    left, right, roots, v = [], [], [], []
    for has_node in trees:
        roots.append(len(left) if has_node else ~len(v))
        if has_node:
            left.append(~len(v))
            right.append(~(len(v) + 1))
        v += [1.5, 1e16] if has_node else [0.1]
    B = arrange(np.array(left, int), np.array(right, int), np.array(roots))[0]
    output = Output(1, np.dtype(np.float64), base_score=np.array([0.7]), base_first=base_first)
    tests = axis_aligned(np.zeros(len(left)), np.zeros(len(left)))
    forest = Forest(tests, B, Leaves(np.array(v)[:, None]), output, stump.inputs)
    X = np.array([[-1.0], [1.0]])
    assert_answers(forest, X, np.ones(X.shape, bool))


def test_numbers_that_float32_does_not_hold_are_added():
    forest = stumps(np.array([1e-50]))
    output = Output(1, np.dtype(np.float64), base_score=np.array([-1e-50]))
    X = np.array([[0.0], [1e-50], [2e-50]])
    assert_answers(replace(forest, output=output), X, np.ones(X.shape, bool))


@pytest.mark.parametrize("n_rows", [0, 1, 1025])
def test_any_number_of_rows_goes_through(n_rows):
    forest = stumps(np.arange(5, dtype=np.float32))
    X = np.linspace(-1, 6, n_rows, dtype=np.float32)[:, None]
    assert_answers(forest, X, np.ones(X.shape, bool))


def test_the_file_grows_with_the_trees_not_with_their_square():
    one, two = (to_onnx(stumps(np.zeros(n))).ByteSize() for n in (100, 200))
    assert two < 2.1 * one


def test_what_the_form_cannot_hold_is_refused_in_one_sentence(monkeypatch):
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    for leaves, sentence in (([1, np.inf], "finite"), ([1e308, -1e308], "finite")):
        v = np.array(leaves)[:, None]
        with pytest.raises(UnsupportedModelError, match=sentence):
            to_onnx(replace(stump, leaves=Leaves(v)).take([0, 0]))
    lowest = Output(1, np.dtype(np.float64), aggregate=Aggregate.MIN)
    with pytest.raises(UnsupportedModelError, match=r"a sum or a mean.*`traversal`"):
        to_onnx(replace(stump, output=lowest))
    with pytest.raises(UnsupportedModelError, match=r"test one column.*oblique.*`traversal`"):
        to_onnx(Forest.from_matrices([[1.0, 2.0]], [0.0], [[0], [1]], [1, 2]))
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        to_onnx(stump.take([]))
    monkeypatch.setattr(portable, "LARGEST_MATRICES", 6)
    to_onnx(stump)
    with pytest.raises(UnsupportedModelError, match=r"at most 6 elements.*`traversal`"):
        to_onnx(stump.take([0, 0]))


@settings(max_examples=10)
@given(forests(kinds=(OBLIQUE, POLYTOPE), max_leaves=8).filter(lambda f: f.n_nodes))
def test_nodes_that_combine_columns_are_refused(forest):
    if forest.tests.is_one_hot.all():
        return
    with pytest.raises(UnsupportedModelError, match="one column"):
        to_onnx(forest)


@settings(max_examples=10)
@given(forests(kinds=(AXIS,), aggregates=SUMS).filter(lambda f: f.leaves.linear is not None))
def test_linear_leaves_are_refused(forest):
    with pytest.raises(UnsupportedModelError, match="constant leaves"):
        to_onnx(forest)


def in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model as a runtime without float64 reads it: constants are rounded."""
    held = onnx.ModelProto.FromString(model.SerializeToString())
    graph, double, single = held.graph, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
    for tensor in graph.initializer:
        if tensor.data_type == double:
            rounded = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == double:
            value.type.tensor_type.elem_type = single
    for attribute in (a for node in graph.node for a in node.attribute if a.name == "to"):
        attribute.i = single if attribute.i == double else attribute.i
    return held


@pytest.mark.parametrize("code_rule", list(CodeRule))
@pytest.mark.parametrize("kind", [Kind.SET, Kind.EQUAL])
def test_codes_stay_where_a_runtime_rounds_float64_to_float32(kind, code_rule):
    codes = [[0], [0, 1, 2, 31], [5, 31, 32, 40], list(range(50)), [63]]
    if kind == Kind.SET:
        ptr, words = set_bits([np.array(c, int) for c in codes])
        sets = {"code_rule": code_rule, "set_ptr": ptr, "set_words": words}
        forest = stumps(np.zeros(len(codes)), kind=kind, missing_right=True, **sets)
    else:
        forest = stumps(np.arange(40.0), kind=kind, missing_right=True)
    X = np.concatenate([np.arange(-2.0, 70), np.arange(-2, 70) + 0.5, [1e6, -1e6]])[:, None]
    model = in_float32(to_onnx(forest, leaves=True))
    present = np.arange(len(X))[:, None] % 5 != 0
    found = answers(model, X.astype(np.float32), present)["leaves"]
    assert np.array_equal(found, reference.exit_leaves(forest, np.where(present, X, np.nan)))


@pytest.mark.parametrize("form", ["portable", "traversal", "tensor"])
def test_thresholds_stay_where_a_runtime_rounds_float64_to_float32(form):
    b, relation = (a.ravel() for a in np.meshgrid(np.arange(-20.0, 20), list(Relation)))
    forest = stumps(b, relation=relation)
    X = np.concatenate([np.arange(-22.0, 22), np.arange(-22, 22) + 0.5])[:, None]
    model = onnx_model(forest, OnnxOptions(form=form, leaves=True))
    found = answers(in_float32(model), X.astype(np.float32), np.ones_like(X))["leaves"]
    assert np.array_equal(found, reference.exit_leaves(forest, X))


@pytest.mark.parametrize("finite", [False, pytest.param(True, marks=pytest.mark.full)])
@given(drawn=forests_with_masks())
def test_a_plain_file_holds_float32_alone_and_keeps_leaves(drawn, finite):
    forest, X, present = drawn
    options = OnnxOptions(target="edge", form="portable", leaves=True, finite=finite)
    try:
        model = onnx_model(forest, options)
    except UnsupportedModelError:  # numbers that float32 does not hold
        assume(False)
    assert {node.op_type for node in model.graph.node} <= OPERATORS - {"Cast"}
    values = (*model.graph.input, *model.graph.output)
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    kinds |= {value.type.tensor_type.elem_type for value in values}
    assert kinds == {onnx.TensorProto.FLOAT}
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    assume(np.isfinite(X).all())
    present = present | finite
    found = answers(model, X, present)
    missing = np.where(present, X, np.float32(np.nan))
    assert np.array_equal(found["leaves"], reference.exit_leaves(forest, missing))
    held = narrow_scores(fold_weights(narrow_tests(forest)))
    if held.output.aggregate is Aggregate.SUM and held.output.base_score.dtype == np.float32:
        with np.errstate(all="ignore"):
            assert np.array_equal(found["raw"], reference.raw(held, missing))


@pytest.mark.parametrize("form", ["traversal", "tensor", "portable", "tree_ensemble"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
def test_leaves_and_labels_are_whole_numbers_of_the_dtype_asked_for(form, dtype, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    path = bitvec.export(
        bitvec.convert(model), tmp_path / "m.onnx", form=form, leaves=True, integer_dtype=dtype
    )
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    fed = {i.name: X.astype(np.float32) if i.name == "X" else np.ones_like(X, np.float32)
           for i in session.get_inputs()}  # fmt: skip
    found = dict(zip(names, session.run(None, fed), strict=True))
    assert found["leaves"].dtype == dtype
    assert np.array_equal(found["leaves"], bitvec.compile(bitvec.convert(model)).exit_leaves(X))
    if form != "portable":
        assert found["label"].dtype == dtype
        assert np.array_equal(found["label"], model.predict(X))


def test_a_dtype_that_holds_not_every_label_is_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y * 2**25)
    with pytest.raises(UnsupportedModelError, match="at most 16777216, got 67108864"):
        bitvec.export(bitvec.convert(model), tmp_path / "m.onnx", integer_dtype="float32")
    with pytest.raises(InputError, match="int64, int32 or float32, got int8"):
        bitvec.export(bitvec.convert(model), tmp_path / "m.onnx", integer_dtype="int8")


def flushed(model: onnx.ModelProto, X: np.ndarray) -> np.ndarray:
    """The leaves that onnxruntime finds where subnormal numbers are 0, in a thread of its own."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.set_denormal_as_zero", "1")

    def run():
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return session.run(["leaves"], {"X": X})[0]

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def test_a_device_that_takes_subnormal_numbers_for_0_finds_the_same_leaves():
    tiny = np.finfo(np.float32).tiny
    b = np.array([0, 1e-35, -1e-35, tiny, -tiny, 1.5e-38, 1e-31, 1, np.finfo(np.float32).max])
    b = np.concatenate([b, -b]).astype(np.float32)
    with np.errstate(over="ignore"):
        beside = [np.nextafter(b, np.float32(to)) for to in (-np.inf, np.inf)]
    near = np.concatenate([b, *beside])
    X = near[np.isfinite(near) & ((near == 0) | (np.abs(near) >= tiny))][:, None]
    for kind, relation in itertools.product((Kind.MARGIN, Kind.EQUAL), Relation):
        forest = stumps(b, kind=kind, relation=relation)
        model = to_onnx(forest, leaves=True, finite=True)
        assert np.array_equal(flushed(model, X), reference.exit_leaves(forest, X))

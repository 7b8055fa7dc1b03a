"""Laws of the ONNX forms of standard operators: what onnxruntime answers is the reference's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from chain_forests import chains
from hypothesis import given, settings
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, POLYTOPE, SET, forests, forests_with_rows, rows

from bitvec.converters.onnx.session import OnnxEngine
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx import tensor, traversal

STANDARD = (AXIS, OBLIQUE, POLYTOPE, SET, EQUAL, KERNEL)

pytestmark = pytest.mark.parametrize("form", [tensor, traversal], ids=lambda form: form.FORM)


@given(forests_with_rows(kinds=STANDARD))
def test_leaves_and_raw_scores_are_the_references_bit_for_bit(form, drawn):
    forest, X = drawn
    engine = OnnxEngine(form.to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    raw = engine.raw(X)
    assert raw.dtype == expected.dtype
    assert np.array_equal(raw, expected, equal_nan=True)


@settings(max_examples=25)
@given(forests_with_rows(kinds=(AXIS,), classifier=True, linear=False))
def test_labels_and_probabilities_follow_from_the_raw_scores(form, drawn):
    forest, X = drawn
    engine = OnnxEngine(form.to_onnx(forest))
    raw = engine.raw(X)
    expected = transforms.probabilities(forest.output, raw)[0]
    probabilities = engine.run("probabilities", X)
    # exp of onnxruntime and of NumPy differ by a few units in the last place.
    eps = np.finfo(raw.dtype).eps
    np.testing.assert_allclose(probabilities, expected, rtol=32 * eps, atol=4 * eps)
    labels = forest.output.classes[0]
    index = probabilities.argmax(axis=1)
    if forest.output.boundary is not None:
        score = raw[:, 0] if forest.output.labels_from_raw else probabilities[:, 1]
        index = (score > forest.output.boundary).astype(int)
    assert np.array_equal(engine.run("label", X), labels[index])


@pytest.mark.parametrize("transform", list(PostTransform))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 400.0])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_predictions_are_the_transformed_raw_scores(form, transform, dtype, size):
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [[-1.5, 0.0, 2.0], [0.25, -3.0, 1.0]])
    leaves = Leaves((size * stump.v).astype(dtype))
    output = Output(3, np.dtype(dtype), post_transform=transform, parameter=1.5, groups=(1, 2))
    forest = replace(stump, leaves=leaves, output=output)
    X = np.array([[-1.0], [1.0]])
    found = OnnxEngine(form.to_onnx(forest)).run("prediction", X)
    expected = transforms.transform(output, reference.raw(forest, X))
    # exp, log and pow of two libraries: a few units in the last place, subnormal ones flushed.
    info = np.finfo(dtype)
    np.testing.assert_allclose(found, expected, rtol=16 * info.eps, atol=info.tiny)
    assert found.dtype == dtype


@pytest.mark.parametrize(
    "classes",
    [
        (np.array([3, -7]), np.array([0, 1, 2])),
        (np.array(["no", "yes"]), np.array(["a", "ü", ""])),
        (np.array([False, True]), np.array([False, True, False])),
        (np.array([0.5, 1.5]), np.array([1.0, 2.0, 3.0])),
        (np.array([1, 2], np.uint8), np.array([1, 2, 3], np.int16)),
    ],
    ids=["int", "str", "bool", "float", "small int"],
)
def test_several_targets_have_labels_of_any_type(form, classes):
    rng = np.random.default_rng(0)
    forest = chains([9, 9])
    v = rng.random((18, 5))
    output = Output(
        5, np.dtype(np.float64), aggregate=Aggregate.MEAN, classes=classes, groups=(2, 3)
    )
    forest = replace(forest, leaves=Leaves(v), output=output)
    X = rng.uniform(-1, 9, (20, 1)).astype(np.float32)
    engine = OnnxEngine(form.to_onnx(forest))
    expected = transforms.predictions(output, reference.raw(forest, X))
    label = engine.run("label", X)
    assert label.shape == (20, 2)
    assert np.array_equal(label.astype(expected.dtype), expected)
    for group, part in enumerate(transforms.probabilities(output, reference.raw(forest, X))):
        assert np.array_equal(engine.run(f"probabilities_{group}", X), part)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 1025])
def test_any_number_of_rows_goes_through(form, n_rows):
    forest = chains([1, 7, 2, 40, 1, 7])
    X = np.linspace(-1, 41, n_rows, dtype=np.float32)[:, None]
    engine = OnnxEngine(form.to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    assert np.array_equal(engine.raw(X), reference.raw(forest, X))


def test_a_forest_of_single_leaves_needs_no_test(form):
    forest = chains([1, 1, 1])
    assert OnnxEngine(form.to_onnx(forest)).raw(np.zeros((2, 1))).tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize("n_trees", [1, 2, 79, 80, 300])
@pytest.mark.parametrize("n_rows", [1, 3, 60])
def test_sums_keep_the_order_of_the_trees_on_any_number_of_threads(form, n_trees, n_rows):
    rng = np.random.default_rng(n_trees)
    forest = chains([3] * n_trees, base_score=np.array([0.1]), base_first=True)
    forest = replace(forest, leaves=Leaves(rng.normal(size=(3 * n_trees, 1))))
    X = rng.uniform(-1, 3, (n_rows, 1)).astype(np.float32)
    engine = OnnxEngine(form.to_onnx(forest), n_threads=4)
    assert np.array_equal(engine.raw(X), reference.raw(forest, X))


def test_one_missing_value_leaves_the_other_columns_alone(form):
    forest = Forest.from_matrices([[1, 0], [0, 1]], [0, 0], [[0, 0], [0, 1], [1, 1]], [1, 2, 3])
    X = np.array([[np.nan, 1.0], [1.0, np.nan], [-1.0, np.inf]])
    engine = OnnxEngine(form.to_onnx(forest))
    assert engine.raw(X).tolist() == reference.raw(forest, X).tolist() == [[2.0], [3.0], [2.0]]


@settings(max_examples=15)
@given(forests(kinds=STANDARD))
def test_the_model_is_valid_pinned_and_of_standard_operators(form, forest):
    model = form.to_onnx(forest, name="trees")
    onnx.checker.check_model(model, full_check=True)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 21)]
    assert model.ir_version == 10
    assert model.graph.name == "trees"
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    for value in inferred.graph.output:
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    facts = {p.key: p.value for p in model.metadata_props}
    assert facts["bitvec.form"] == form.FORM
    assert facts["bitvec.version"]


@settings(max_examples=5)
@given(forests(kinds=(KERNEL,), soft=True).filter(lambda f: f.kernel is not None))
def test_a_soft_forest_is_refused(form, forest):
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        form.to_onnx(forest)


@settings(max_examples=10)
@given(forests(kinds=STANDARD).flatmap(lambda f: rows(f, max_rows=3).map(lambda X: (f, X))))
def test_unoptimised_sessions_answer_alike(form, drawn):
    import onnxruntime

    forest, X = drawn
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(form.to_onnx(forest).SerializeToString(), options)
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    assert np.array_equal(session.run(["raw"], {"X": X})[0], expected, equal_nan=True)


def test_a_model_too_large_for_one_file_is_refused(form, monkeypatch):
    from bitvec.converters.onnx import model_proto

    forest = chains([9])
    size = form.to_onnx(forest).ByteSize()
    monkeypatch.setattr(model_proto, "LARGEST_FILE", size - 1)
    with pytest.raises(UnsupportedModelError, match="smaller than 2 GiB"):
        form.to_onnx(forest)
    monkeypatch.setattr(model_proto, "LARGEST_FILE", size)
    form.to_onnx(forest)

"""Laws of the ONNX form `traversal`: what onnxruntime answers is what the reference answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, POLYTOPE, SET, forests, forests_with_rows, rows

from bitvec import reference, transforms
from bitvec.errors import UnsupportedModelError
from bitvec.forest import Forest, from_matrices
from bitvec.inputs import Inputs
from bitvec.leaves import Leaves
from bitvec.node_tests import Relation, axis_aligned
from bitvec.output import Aggregate, Output, PostTransform
from bitvec.runtime.onnx import tensor, traversal
from bitvec.runtime.onnx.session import OnnxEngine
from bitvec.runtime.onnx.traversal import FORM, LARGEST_DEPTH, to_onnx
from bitvec.structure import arrange

STANDARD = (AXIS, OBLIQUE, SET, EQUAL, KERNEL)


def chains(sizes: list[int], **output: object) -> Forest:
    """One chain per size: leaf i of a tree is left of the threshold i."""
    left, right, roots, named, b = [], [], [], 0, []
    for size in sizes:
        first = len(left)
        roots.append(first if size > 1 else ~named)
        for node in range(size - 1):
            left.append(~(named + node))
            right.append(len(left) if node < size - 2 else ~(named + size - 1))
            b.append(float(node))
        named += size
    B = arrange(np.array(left), np.array(right), np.array(roots))[0]
    feature = np.zeros(B.n_nodes, np.int64)
    v = np.arange(named, dtype=np.float64)[:, None]
    return Forest(
        axis_aligned(feature, np.array(b, np.float32)),
        B,
        Leaves(v),
        Output(1, np.dtype(np.float64), **output),
        Inputs(1),
    )


@settings(max_examples=60)
@given(forests_with_rows(kinds=STANDARD))
def test_leaves_and_raw_scores_are_the_references_bit_for_bit(drawn):
    forest, X = drawn
    engine = OnnxEngine(to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    raw = engine.raw(X)
    assert raw.dtype == expected.dtype
    assert np.array_equal(raw, expected, equal_nan=True)


@settings(max_examples=25)
@given(forests_with_rows(kinds=(POLYTOPE, AXIS)))
def test_polytope_nodes_route_as_the_reference_off_their_boundary(drawn):
    forest, X = drawn
    found = OnnxEngine(to_onnx(forest, leaves=True)).exit_leaves(X)
    Z = reference.columns(forest, X)
    row, node = np.divmod(np.arange(len(Z) * forest.n_nodes), max(forest.n_nodes, 1))
    with np.errstate(all="ignore"):
        z, missing = reference.margins(forest.tests, Z, row, node, forest.inputs.missing_sentinel)
        # Softplus by exp and log of onnxruntime and by NumPy's logaddexp: a few units in the last
        # place per row, at most three rows, so a margin this close to b may fall on either side.
        scale = np.maximum(1, np.maximum(np.abs(z), np.abs(forest.b[node])))
        close = np.abs(z - forest.b[node]) <= 32 * np.finfo(forest.dtype).eps * scale
    wide = ~forest.tests.is_one_hot[node]
    clear = ~(close & wide & ~missing).reshape(len(Z), forest.n_nodes).any(axis=1)
    assert np.array_equal(found[clear], reference.exit_leaves(forest, X)[clear])


@settings(max_examples=25)
@given(forests_with_rows(kinds=(AXIS,), classifier=True, linear=False))
def test_labels_and_probabilities_follow_from_the_raw_scores(drawn):
    forest, X = drawn
    engine = OnnxEngine(to_onnx(forest))
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
def test_predictions_are_the_transformed_raw_scores(transform, dtype):
    stump = from_matrices([[1.0]], [0.0], [[0], [1]], [[-1.5, 0.0, 2.0], [0.25, -3.0, 1.0]])
    leaves = Leaves(stump.v.astype(dtype))
    output = Output(3, np.dtype(dtype), post_transform=transform, parameter=1.5, groups=(1, 2))
    forest = replace(stump, leaves=leaves, output=output)
    X = np.array([[-1.0], [1.0]])
    found = OnnxEngine(to_onnx(forest)).run("prediction", X)
    expected = transforms.transform(output, reference.raw(forest, X))
    # exp, log and pow of two libraries: a few units in the last place.
    np.testing.assert_allclose(found, expected, rtol=16 * np.finfo(dtype).eps)
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
def test_several_targets_have_labels_of_any_type(classes):
    rng = np.random.default_rng(0)
    forest = chains([9, 9])
    v = rng.random((18, 5))
    output = Output(
        5, np.dtype(np.float64), aggregate=Aggregate.MEAN, classes=classes, groups=(2, 3)
    )
    forest = replace(forest, leaves=Leaves(v), output=output)
    X = rng.uniform(-1, 9, (20, 1)).astype(np.float32)
    engine = OnnxEngine(to_onnx(forest))
    expected = transforms.predictions(output, reference.raw(forest, X))
    label = engine.run("label", X)
    assert label.shape == (20, 2)
    assert np.array_equal(label.astype(expected.dtype), expected)
    for group, part in enumerate(transforms.probabilities(output, reference.raw(forest, X))):
        assert np.array_equal(engine.run(f"probabilities_{group}", X), part)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 1025])
def test_any_number_of_rows_goes_through(n_rows):
    forest = chains([1, 7, 2, 40, 1, 7])
    X = np.linspace(-1, 41, n_rows, dtype=np.float32)[:, None]
    engine = OnnxEngine(to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    assert np.array_equal(engine.raw(X), reference.raw(forest, X))


def test_a_forest_of_single_leaves_needs_no_test():
    forest = chains([1, 1, 1])
    assert OnnxEngine(to_onnx(forest)).raw(np.zeros((2, 1))).tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize("n_trees", [1, 2, 79, 80, 300])
@pytest.mark.parametrize("n_rows", [1, 3, 60])
def test_sums_keep_the_order_of_the_trees_on_any_number_of_threads(n_trees, n_rows):
    rng = np.random.default_rng(n_trees)
    forest = chains([3] * n_trees, base_score=np.array([0.1]), base_first=True)
    forest = replace(forest, leaves=Leaves(rng.normal(size=(3 * n_trees, 1))))
    X = rng.uniform(-1, 3, (n_rows, 1)).astype(np.float32)
    engine = OnnxEngine(to_onnx(forest), n_threads=4)
    assert np.array_equal(engine.raw(X), reference.raw(forest, X))


def test_one_missing_value_leaves_the_other_columns_alone():
    forest = from_matrices([[1, 0], [0, 1]], [0, 0], [[0, 0], [0, 1], [1, 1]], [1, 2, 3])
    X = np.array([[np.nan, 1.0], [1.0, np.nan], [-1.0, np.inf]])
    engine = OnnxEngine(to_onnx(forest))
    assert engine.raw(X).tolist() == reference.raw(forest, X).tolist() == [[2.0], [3.0], [2.0]]


@pytest.mark.parametrize("relation", [Relation.GREATER, Relation.GREATER_EQUAL, "both"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_threshold_splits_every_value_whatever_the_relation(relation, dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    largest = np.finfo(dtype).max
    b = np.array([-np.inf, -largest, -1, -tiny, -0.0, 0.0, tiny, 1, largest, np.inf], dtype)
    X = np.append(b, dtype(np.nan))[:, None]
    relations = {"both": [0, 1]}.get(relation, [relation])
    b, relation, right = (a.ravel() for a in np.meshgrid(b, relations, [False, True]))
    stumps = chains([2] * b.size)
    tests = axis_aligned(np.zeros(b.size), b, relation=relation, missing_right=right)
    forest = replace(stumps, tests=tests)
    engine = OnnxEngine(to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))


@pytest.mark.parametrize("form", [traversal, tensor])
def test_weights_and_offsets_that_float32_does_not_hold_count(form):
    steep = from_matrices([[1 + 1e-12]], [1.0], [[0], [1]], [1, 2])
    offset = replace(
        from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2]).tests, offset=np.array([1e-50])
    )
    X = np.array([[0.0], [1e-50], [2e-50], [1 - 1e-13], [1.0]])
    for forest in (steep, replace(steep, tests=offset)):
        engine = OnnxEngine(form.to_onnx(forest))
        assert np.array_equal(engine.raw(X), reference.raw(forest, X))


def test_deep_trees_of_unlike_sizes_end_at_their_leaves():
    forest = chains([1, 300, 2, 17, 1, 64])
    X = np.arange(-1, 301, dtype=np.float32)[:, None]
    engine = OnnxEngine(to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))


def test_the_file_grows_with_nodes_not_with_their_depth():
    small, large = (to_onnx(chains([n])).ByteSize() for n in (200, 400))
    assert large < 2.1 * small
    shallow, deep = (
        to_onnx(chains([2] * 1000)).ByteSize(),
        to_onnx(chains([3] * 500 + [1])).ByteSize(),
    )
    assert deep < 1.5 * shallow


@settings(max_examples=15)
@given(forests(kinds=STANDARD))
def test_the_model_is_valid_pinned_and_of_standard_operators(forest):
    model = to_onnx(forest, name="trees")
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
    assert facts["bitvec.form"] == FORM
    assert facts["bitvec.version"]


def test_what_the_form_cannot_hold_is_refused_in_one_sentence():
    stump = from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    median = Output(
        1, np.dtype(np.float64), aggregate=Aggregate.WEIGHTED_MEDIAN, tree_weight=np.ones(1)
    )
    with pytest.raises(UnsupportedModelError, match="weighted median"):
        to_onnx(replace(stump, output=median))
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        to_onnx(stump.take([]))
    with pytest.raises(UnsupportedModelError, match="`tree_ensemble`"):
        to_onnx(chains([LARGEST_DEPTH + 2]))
    huge = Output(2, np.dtype(np.float64), classes=(np.array([0, 2**64 - 1], np.uint64),))
    forest = replace(stump, leaves=Leaves(np.eye(2)), output=huge)
    with pytest.raises(UnsupportedModelError, match="int64"):
        to_onnx(forest)


@settings(max_examples=5)
@given(forests(kinds=(KERNEL,), soft=True).filter(lambda f: f.kernel is not None))
def test_a_soft_forest_is_refused(forest):
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        to_onnx(forest)


@settings(max_examples=10)
@given(forests(kinds=STANDARD).flatmap(lambda f: rows(f, max_rows=3).map(lambda X: (f, X))))
def test_unoptimised_sessions_answer_alike(drawn):
    import onnxruntime

    forest, X = drawn
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(to_onnx(forest).SerializeToString(), options)
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    assert np.array_equal(session.run(["raw"], {"X": X})[0], expected, equal_nan=True)


def test_a_model_too_large_for_one_file_is_refused(monkeypatch):
    from bitvec.graph import operators

    forest = chains([9])
    size = to_onnx(forest).ByteSize()
    monkeypatch.setattr(operators, "LARGEST_FILE", size - 1)
    with pytest.raises(UnsupportedModelError, match="smaller than 2 GiB"):
        to_onnx(forest)
    monkeypatch.setattr(operators, "LARGEST_FILE", size)
    to_onnx(forest)

"""Laws of converted ONNX operators: what onnxruntime answers is what the forest answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitvec import certify
from bitvec.converters.onnx.model_oracle import oracle_of
from bitvec.converters.onnx.read import convert
from bitvec.core import reference, transforms
from bitvec.core.node_tests import Kind
from bitvec.core.output import PostTransform
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.predict.predictor import compile
from tests.models.onnx import MODES, operator

ort = pytest.importorskip("onnxruntime")

FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
INT64 = onnx.TensorProto.INT64
SPECIAL = [0.0, -0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 1e-45, 3.4028235e38, np.inf, -np.inf]


def graph_of(kind: str, n_features: int, *, element: int = FLOAT, ml: int = 3, **attributes: Any):
    """A model of one operator; arrays become tensors."""
    dtype = np.float64 if element == DOUBLE else np.float32
    model = operator(kind, ml, attributes, n_features, dtype)
    model.graph.input[0].type.tensor_type.elem_type = element
    return model


def run(model: Any, X: np.ndarray) -> list[Any]:
    """What onnxruntime answers on one thread, for all outputs of the model."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"X": X})


@dataclass
class Nodes:
    """Random trees in the layout of the versions before 5, and where their leaves are."""

    attributes: dict[str, Any]
    leaf_tree: list[int]
    leaf_node: list[int]


def random_nodes(rng, n_trees: int, n_features: int, double: bool, modes=MODES) -> Nodes:
    a: dict[str, list] = {
        f"nodes_{name}": []
        for name in ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    }
    values, missing, leaf_tree, leaf_node = [], [], [], []
    dtype = np.float64 if double else np.float32
    for tree in range(n_trees):
        size = int(rng.integers(1, 9))
        left, right, is_leaf, todo = [0], [0], [True], [0]
        for _ in range(size - 1):
            at = todo.pop(int(rng.integers(len(todo))))
            is_leaf[at] = False
            left[at], right[at] = len(left), len(left) + 1
            left += [0, 0]
            right += [0, 0]
            is_leaf += [True, True]
            todo += [left[at], right[at]]
        a["nodes_treeids"] += [tree * 3] * len(left)
        a["nodes_nodeids"] += range(len(left))
        a["nodes_featureids"] += rng.integers(0, n_features, len(left)).tolist()
        a["nodes_modes"] += ["LEAF" if leaf else str(rng.choice(modes)) for leaf in is_leaf]
        a["nodes_truenodeids"] += left
        a["nodes_falsenodeids"] += right
        values += rng.choice([*SPECIAL, *rng.normal(size=5)], len(left)).tolist()
        missing += rng.integers(0, 2, len(left)).tolist()
        leaf_node += np.flatnonzero(is_leaf).tolist()
        leaf_tree += [tree * 3] * int(np.sum(is_leaf))
    result: dict[str, Any] = {**a}
    if rng.random() < 0.8:
        result["nodes_missing_value_tracks_true"] = missing
    if double:
        result["nodes_values_as_tensor"] = np.array(values, dtype)
    else:
        result["nodes_values"] = np.array(values, dtype).tolist()
    return Nodes(result, leaf_tree, leaf_node)


def weighted(nodes: Nodes, prefix: str, target: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Weights, (n_leaves, n_each), for targets of the same shape, as attributes."""
    each = target.shape[1]
    suffix, value = "", weight.ravel().tolist()
    if weight.dtype == np.float64:
        suffix, value = "_as_tensor", weight.ravel()
    return {
        **nodes.attributes,
        f"{prefix}_treeids": np.repeat(nodes.leaf_tree, each).tolist(),
        f"{prefix}_nodeids": np.repeat(nodes.leaf_node, each).tolist(),
        f"{prefix}_ids": target.ravel().tolist(),
        f"{prefix}_weights{suffix}": value,
    }


def rows_of(rng, n_features: int, dtype: type, n_rows: int = 40) -> np.ndarray:
    pool = np.array([*SPECIAL, np.nan, np.nan, 2.5, -0.5, *rng.normal(size=5)], dtype)
    with np.errstate(over="ignore"):
        above, below = np.nextafter(pool, dtype(np.inf)), np.nextafter(pool, dtype(0))
    pool = np.concatenate([pool, above, below])
    return rng.choice(pool, (n_rows, n_features)).astype(dtype)


def assert_equal_scores(model: Any, X: np.ndarray, scores: np.ndarray) -> None:
    """The forest's raw scores are `scores`, and those of its oracle."""
    forest, answers = convert(model), oracle_of(model)
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, X)
    # Versions before 5 answer in float32, also where they sum in float64.
    assert np.array_equal(raw.astype(scores.dtype), scores, equal_nan=True)
    assert np.array_equal(answers.raw(X), scores, equal_nan=True)
    assert answers.predict is not None
    assert np.array_equal(answers.predict(X), scores, equal_nan=True)
    sizes = answers.n_trees, answers.n_features, answers.n_outputs
    assert sizes == (forest.n_trees, forest.n_features, forest.n_outputs)


@given(seed=st.integers(0, 2**32 - 1))
def test_regressors_of_all_modes_mixed_give_onnxruntimes_scores(seed):
    rng = np.random.default_rng(seed)
    double, n_features = bool(rng.integers(2)), int(rng.integers(1, 4))
    dtype = np.float64 if double else np.float32
    n_targets = int(rng.integers(1, 4))
    nodes = random_nodes(rng, int(rng.integers(1, 6)), n_features, double)
    n_leaves = len(nodes.leaf_node)
    each = n_targets if rng.random() < 0.5 else 1
    target = np.argsort(rng.random((n_leaves, n_targets)), axis=1)[:, :each]
    aggregate = str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"]))
    if aggregate in ("MIN", "MAX") and each < n_targets:
        target[:] = 0
    weight = rng.normal(size=target.shape).astype(dtype)
    options = weighted(nodes, "target", target, weight)
    if rng.random() < 0.5:
        options["base_values"] = rng.normal(size=n_targets).astype(np.float32).tolist()
    model = graph_of(
        "TreeEnsembleRegressor",
        n_features,
        element=DOUBLE if double else FLOAT,
        ml=int(rng.choice([3])) if double else int(rng.choice([1, 3])),
        n_targets=n_targets,
        aggregate_function=aggregate,
        **options,
    )
    X = rows_of(rng, n_features, dtype)
    try:
        convert(model)
    except UnsupportedModelError:
        # onnxruntime forgets the base value of a target that no leaf of a row weighs.
        assert "base_values" in options
        assert each < n_targets
        return
    assert_equal_scores(model, X, run(model, X)[0])


@given(seed=st.integers(0, 2**32 - 1))
def test_classifiers_give_onnxruntimes_scores_and_labels(seed):
    rng = np.random.default_rng(seed)
    double, n_features = bool(rng.integers(2)), int(rng.integers(1, 4))
    dtype = np.float64 if double else np.float32
    n_classes = int(rng.integers(2, 5))
    nodes = random_nodes(rng, int(rng.integers(1, 6)), n_features, double)
    n_leaves = len(nodes.leaf_node)
    labels = rng.permutation(10)[:n_classes]
    if n_classes == 2:
        target = np.full((n_leaves, 1), int(rng.random() < 0.2))
    else:
        target = np.tile(np.arange(n_classes), (n_leaves, 1))
    weight = (rng.integers(-8, 9, target.shape) / 8).astype(dtype)
    if rng.random() < 0.4:
        weight = np.abs(weight)
    options = weighted(nodes, "class", target, weight)
    if rng.random() < 0.5:
        size = 1 if n_classes == 2 else n_classes
        options["base_values"] = (rng.integers(-4, 5, size) / 8).tolist()
    if rng.random() < 0.5:
        options["classlabels_int64s"] = labels.tolist()
    else:
        options["classlabels_strings"] = [f"c{label}" for label in labels]
    second = n_classes == 2 and target[0, 0] == 1
    transforms_known = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
    if n_classes > 2 or second:
        transforms_known.append("PROBIT")
    transform = str(rng.choice(transforms_known))
    element = DOUBLE if double else FLOAT
    model = graph_of(
        "TreeEnsembleClassifier", n_features, element=element, post_transform=transform, **options
    )
    X = rows_of(rng, n_features, dtype)
    label, scores = run(model, X)
    try:
        forest = convert(model)
    except UnsupportedModelError:
        # onnxruntime's label then is no function of the scores that a forest can state.
        assert second
        assert np.all(weight >= 0) or "base_values" in options
        return
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, X)
        got = transforms.predictions(forest.output, raw)
        probabilities = transforms.probabilities(forest.output, raw)[0]
    assert np.array_equal(got.astype(label.dtype), label)
    answers = oracle_of(model)
    assert np.array_equal(answers.raw(X), raw.astype(np.float32), equal_nan=True)
    assert answers.predict is not None
    assert np.array_equal(answers.predict(X), label)
    if answers.scores is None:
        assert any("are not compared" in note for note in answers.notes)
        # Exponentials of float32 scores that were summed in float64, and a sigmoid of x < 0 that is
        # 1 - sigmoid(-x) in float32.
        np.testing.assert_allclose(probabilities, scores, rtol=4e-6, atol=2e-7)
    else:
        expected = scores[:, 1:] if forest.n_outputs == 1 else scores
        assert np.array_equal(answers.scores(X), expected, equal_nan=True)
        # Exponentials of two libraries, and onnxruntime's sum in float32: 8 units in last place.
        np.testing.assert_allclose(probabilities, scores, rtol=1e-6, atol=1e-37)


def v5(n_features: int, dtype: type, **attributes: Any):
    element = DOUBLE if dtype is np.float64 else FLOAT
    return graph_of("TreeEnsemble", n_features, element=element, ml=5, **attributes)


@given(seed=st.integers(0, 2**32 - 1))
def test_version_5_of_all_modes_and_sets_gives_onnxruntimes_scores(seed):
    rng = np.random.default_rng(seed)
    dtype = np.float64 if rng.random() < 0.5 else np.float32
    n_features, n_targets = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    n_trees = int(rng.integers(1, 4))
    true, false, true_leaf, false_leaf, roots = [], [], [], [], []
    n_leaves = 0
    for _ in range(n_trees):
        first = len(true)
        size = int(rng.integers(1, 7))
        roots.append(first)
        for node in range(size):  # a chain, whose other children are leaves
            on, last = bool(rng.integers(2)), node == size - 1
            below, leaf = first + node + 1, n_leaves
            n_leaves += 2 if last else 1
            sides = [(leaf, 1), (leaf + 1, 1) if last else (below, 0)]
            if on:
                sides.reverse()
            for (child, is_leaf), ids, flags in zip(
                sides, (true, false), (true_leaf, false_leaf), strict=True
            ):
                ids.append(child)
                flags.append(is_leaf)
    mode = rng.integers(0, 7, len(true)).astype(np.uint8)
    members: list[float] = []
    for _ in np.flatnonzero(mode == 6):
        pool = np.arange(31) if rng.random() < 0.5 else np.arange(80)
        count = int(rng.integers(1, 6)) if rng.random() < 0.8 else 31
        members += [*rng.choice(pool, min(count, pool.size), replace=False).tolist(), np.nan]
    extra = {"membership_values": np.array(members, dtype)} if members else {}
    if rng.random() < 0.7:
        extra["nodes_missing_value_tracks_true"] = rng.integers(0, 2, len(true)).tolist()
    # One weight a leaf: where a target may be absent from a tree, minimum and maximum differ.
    aggregate = int(rng.integers(0, 4)) if n_targets == 1 else int(rng.integers(0, 2))
    model = v5(
        n_features,
        dtype,
        n_targets=n_targets,
        aggregate_function=aggregate,
        tree_roots=roots,
        nodes_modes=mode,
        nodes_featureids=rng.integers(0, n_features, len(true)).tolist(),
        nodes_splits=rng.choice([*SPECIAL, *rng.normal(size=4)], len(true)).astype(dtype),
        nodes_truenodeids=true,
        nodes_trueleafs=true_leaf,
        nodes_falsenodeids=false,
        nodes_falseleafs=false_leaf,
        leaf_weights=rng.normal(size=n_leaves).astype(dtype),
        leaf_targetids=rng.integers(0, n_targets, n_leaves).tolist(),
        **extra,
    )
    X = rows_of(rng, n_features, dtype)
    codes = rng.choice([*range(80), 40.5, 30.5, 31.5, 0.5, -0.5, -1.5, 1e9, 2.0**40], X.shape)
    X = np.where(rng.random(X.shape) < 0.6, codes, X).astype(dtype)
    assert_equal_scores(model, X, run(model, X)[0])


def chain(codes: list[float], flags: list[int] | None = None, double: bool = False):
    """x0 in codes, written as equalities that share the subtree x1 <= 0."""
    k = len(codes)
    flags = flags or [0] * k
    values = [*codes, 0.0, 0.0, 0.0, 0.0]
    return graph_of(
        "TreeEnsembleRegressor",
        2,
        n_targets=1,
        nodes_treeids=[0] * (k + 4),
        nodes_nodeids=list(range(k + 4)),
        nodes_featureids=[0] * k + [1, 0, 0, 0],
        nodes_modes=["BRANCH_EQ"] * k + ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        nodes_truenodeids=[k] * k + [k + 1, 0, 0, 0],
        nodes_falsenodeids=[*range(1, k), k + 3, k + 2, 0, 0, 0],
        nodes_values=values,
        nodes_missing_value_tracks_true=[*flags, 1, 0, 0, 0],
        target_treeids=[0, 0, 0],
        target_nodeids=[k + 1, k + 2, k + 3],
        target_ids=[0, 0, 0],
        target_weights=[1.0, 2.0, 3.0],
    )


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("codes", [[2], [2, 3], [0, 1], [31, 32, 33], [5, 100, 7, 64, 1000]])
def test_a_chain_of_equalities_is_one_set_node(codes, flag):
    model = chain([float(c) for c in codes], [flag] * len(codes))
    forest = convert(model)
    assert forest.n_leaves == 3
    assert forest.tests.kind.tolist()[0] == (Kind.SET if len(codes) > 1 else Kind.EQUAL)
    x = np.array([*codes, *(c + 0.5 for c in codes), 0, -0.0, 1, -1, 1e9, np.nan, np.inf])
    X = np.stack([np.repeat(x, 3), np.tile([-1, 1, np.nan], x.size)], axis=1).astype(np.float32)
    assert_equal_scores(model, X, run(model, X)[0])


def test_chains_that_no_set_holds_are_refused():
    with pytest.raises(UnsupportedModelError, match=r"one parent.*shared subtree"):
        convert(chain([2.0, 2.5]))
    with pytest.raises(UnsupportedModelError, match="missing value the same way"):
        convert(chain([2.0, 3.0], [0, 1]))
    with pytest.raises(UnsupportedModelError, match=r"one parent.*shared subtree"):
        convert(chain([2.0, -1.0]))


def test_onnxruntimes_sums_do_not_depend_on_the_number_of_rows():
    rng = np.random.default_rng(3)
    nodes = random_nodes(rng, 150, 3, False)
    n_leaves = len(nodes.leaf_node)
    X = rows_of(rng, 3, np.float32, 5000)
    for n_targets in (1, 3):
        target = np.tile(np.arange(n_targets), (n_leaves, 1))
        weight = rng.normal(size=target.shape).astype(np.float32)
        model = graph_of(
            "TreeEnsembleRegressor",
            3,
            n_targets=n_targets,
            **weighted(nodes, "target", target, weight),
        )
        raw = reference.raw(convert(model), X)
        for n_rows in (1, 2, 50, 51, 129, 300, 5000):
            assert np.array_equal(oracle_of(model).raw(X[:n_rows]), raw[:n_rows])


def stump(**changes: Any) -> dict[str, Any]:
    return {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        **changes,
    }


def test_a_transform_of_one_target_does_nothing_in_onnxruntime_and_here():
    for transform in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        model = graph_of(
            "TreeEnsembleRegressor",
            1,
            **stump(),
            n_targets=1,
            post_transform=transform,
            target_treeids=[0, 0],
            target_nodeids=[1, 2],
            target_ids=[0, 0],
            target_weights=[0.5, 2.0],
        )
        forest = convert(model)
        assert forest.output.post_transform is PostTransform.IDENTITY
        assert run(model, np.array([[-1], [1]], np.float32))[0].ravel().tolist() == [0.5, 2.0]


def cast_first(model: Any, *types: int) -> Any:
    """Put casts between the graph's input, of the first of these types, and the trees."""
    value, (first, *casts) = model.graph.input[0], types
    value.type.tensor_type.elem_type = first
    trees = model.graph.node[0]
    for place, kind in enumerate(casts):
        before, after = ("X", *(f"x{i}" for i in range(len(casts))))[place : place + 2]
        step = onnx.helper.make_node("Cast", [before], [after], to=kind)
        model.graph.node.insert(place, step)
        trees = model.graph.node[-1]
        trees.input[0] = after
    return model


@pytest.mark.parametrize("name", ["BOOL", "INT8", "UINT16", "INT32", "INT64"])
@pytest.mark.parametrize("casts", [(FLOAT,), (DOUBLE,), (FLOAT, DOUBLE)])
def test_inputs_of_whole_numbers_and_truths_are_read_through_a_cast(name, casts):
    kind = getattr(onnx.TensorProto, name)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    nodes = Nodes(stump(nodes_values=[0.5 if name == "BOOL" else 100.0, 0.0, 0.0]), [0, 0], [1, 2])
    weight = np.array([[0.25], [0.75]], np.float32)
    attributes = weighted(nodes, "target", np.zeros((2, 1), int), weight)
    model = cast_first(
        graph_of("TreeEnsembleRegressor", 1, n_targets=1, **attributes), kind, *casts
    )
    most = 1 if name == "BOOL" else np.iinfo(dtype).max
    X = np.array([0, 1, min(most, 100), min(most, 101), most, min(most, 2**24 + 1)], dtype)[:, None]
    forest = convert(model)
    assert np.array_equal(reference.raw(forest, X), run(model, X)[0])
    assert certify(forest, model).passed


def test_whole_numbers_that_are_rounded_twice_are_refused():
    nodes = Nodes(stump(nodes_values=[2.0**60, 0.0, 0.0]), [0, 0], [1, 2])
    weight = np.array([[0.25], [0.75]], np.float32)
    attributes = weighted(nodes, "target", np.zeros((2, 1), int), weight)
    made = graph_of("TreeEnsembleRegressor", 1, n_targets=1, **attributes)
    X = np.array([[2**60 + 2**36 + 1]])
    twice = cast_first(onnx.ModelProto.FromString(made.SerializeToString()), INT64, DOUBLE, FLOAT)
    once = cast_first(made, INT64, FLOAT)
    # The trap itself: rounded twice it is another number, and onnxruntime joins the casts or not.
    assert X.astype(np.float64).astype(np.float32) != X.astype(np.float32)
    assert np.array_equal(reference.raw(convert(once), X), run(once, X)[0])
    with pytest.raises(UnsupportedModelError, match="rounded twice"):
        convert(twice)


def test_truths_must_be_cast_since_the_operator_does_not_read_them():
    nodes = Nodes(stump(), [0, 0], [1, 2])
    weight = np.array([[0.25], [0.75]], np.float32)
    attributes = weighted(nodes, "target", np.zeros((2, 1), int), weight)
    made = graph_of("TreeEnsembleRegressor", 1, n_targets=1, **attributes)
    with pytest.raises(UnsupportedModelError, match=r"got ONNX types \['BOOL'\]"):
        convert(cast_first(made, onnx.TensorProto.BOOL))


@pytest.mark.parametrize("labels", [[7], [0], [1], ["yes"]])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_a_classifier_of_one_class_answers_that_class_and_its_sums(labels, transform):
    nodes, text = Nodes(stump(), [0, 0], [1, 2]), labels == ["yes"]
    weight = np.array([[0.25], [0.75]], np.float32)
    options = weighted(nodes, "class", np.zeros((2, 1), int), weight)
    options |= {"post_transform": transform, "base_values": [0.125]}
    named = {"classlabels_strings" if text else "classlabels_int64s": labels}
    model = graph_of("TreeEnsembleClassifier", 1, **named, **options)
    X = np.array([[-1], [1], [np.nan]], np.float32)
    forest = convert(model)
    predictor = compile(forest)
    assert predictor.predict(X).tolist() == labels * 3
    expected = [[0.375], [0.875], [0.875]]
    assert predictor.predict_proba(X).tolist() == predictor.raw(X).tolist() == expected
    if not text:  # onnxruntime ends the process
        label, scores = run(model, X)
        assert scores.tolist() == expected
        assert label.tolist() == [1, 1, 1]
    certificate = certify(forest, model)
    assert certificate.passed
    assert "writes 1 whatever the class is called" in certificate.summary()


def test_a_class_alone_whose_label_or_score_is_no_constant_is_refused():
    nodes, target = Nodes(stump(), [0, 0], [1, 2]), np.zeros((2, 1), int)
    signed = weighted(nodes, "class", target, np.array([[-0.25], [0.75]], np.float32))
    with pytest.raises(UnsupportedModelError, match="no negative weights"):
        convert(graph_of("TreeEnsembleClassifier", 1, classlabels_int64s=[1], **signed))
    shares = weighted(nodes, "class", target, np.array([[0.25], [0.75]], np.float32))
    shares["post_transform"] = "PROBIT"
    with pytest.raises(UnsupportedModelError, match="PROBIT"):
        convert(graph_of("TreeEnsembleClassifier", 1, classlabels_int64s=[1], **shares))


def test_integers_are_compared_as_float32():
    model = graph_of(
        "TreeEnsembleClassifier",
        1,
        element=INT64,
        **stump(nodes_values=[16777216.0, 0.0, 0.0]),
        classlabels_int64s=[4, 5],
        class_treeids=[0, 0],
        class_nodeids=[1, 2],
        class_ids=[0, 0],
        class_weights=[1.0, 0.0],
    )
    X = np.arange(16777214, 16777222)[:, None]
    label, scores = run(model, X)
    forest = convert(model)
    raw = reference.raw(forest, X)
    assert forest.dtype == np.float32
    assert np.array_equal(raw[:, 0], scores[:, 1])
    assert np.array_equal(transforms.predictions(forest.output, raw), label)
    assert np.array_equal(oracle_of(model).raw(X.astype(np.float32)), raw)


def table_of(values: np.ndarray, transform: str, ml: int):
    """A regressor whose row i answers `values[i]`, (n_rows, n_targets): a chain of x <= i."""
    n_rows, n_targets = values.shape
    n = n_rows - 1
    if ml == 5:
        leaf = np.arange(n_rows)[:, None] * n_targets + np.arange(n_targets)
        chains = [np.arange(n) + n * t for t in range(n_targets)]  # one tree for each target
        last = [[*(c[1:]), leaf[n, t]] for t, c in enumerate(chains)]
        element = DOUBLE if values.dtype == np.float64 else FLOAT
        names = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
        return graph_of(
            "TreeEnsemble",
            1,
            element=element,
            ml=5,
            n_targets=n_targets,
            post_transform=names.index(transform),
            tree_roots=[n * t for t in range(n_targets)],
            nodes_modes=np.zeros(n * n_targets, np.uint8),
            nodes_featureids=[0] * (n * n_targets),
            nodes_splits=np.tile(np.arange(n), n_targets).astype(values.dtype),
            nodes_truenodeids=leaf[:n].T.ravel().tolist(),
            nodes_trueleafs=[1] * (n * n_targets),
            nodes_falsenodeids=[int(child) for part in last for child in part],
            nodes_falseleafs=([0] * (n - 1) + [1]) * n_targets,
            leaf_weights=values.ravel(),
            leaf_targetids=np.tile(np.arange(n_targets), n_rows).tolist(),
        )
    nodes = Nodes(
        {
            "nodes_treeids": [0] * (2 * n + 1),
            "nodes_nodeids": list(range(2 * n + 1)),
            "nodes_featureids": [0] * (2 * n + 1),
            "nodes_modes": ["BRANCH_LEQ"] * n + ["LEAF"] * n_rows,
            "nodes_values": [*map(float, range(n)), *([0.0] * n_rows)],
            "nodes_truenodeids": [*range(n, 2 * n), *([0] * n_rows)],
            "nodes_falsenodeids": [*range(1, n), 2 * n, *([0] * n_rows)],
        },
        [0] * n_rows,
        list(range(n, 2 * n + 1)),
    )
    target = np.tile(np.arange(n_targets), (n_rows, 1))
    options = weighted(nodes, "target", target, values)
    return graph_of(
        "TreeEnsembleRegressor", 1, ml=ml, n_targets=n_targets, post_transform=transform, **options
    )


@pytest.mark.parametrize(
    "ml", [1, pytest.param(3, marks=pytest.mark.full), pytest.param(5, marks=pytest.mark.full)]
)
@pytest.mark.parametrize("n_targets", [1, 2, 5])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_each_post_transform_gives_onnxruntimes_answers(transform, n_targets, ml):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, n_targets)) * rng.choice([0.1, 3, 40], (400, 1))
    if transform == "PROBIT":
        values = rng.random((400, n_targets))
        # Near one half the formula cancels, and an ulp of a logarithm is many of the answer.
        values[np.abs(values - 0.5) < 0.05] = 0.25
        values[:4] = [[0.0], [1.0], [2.0], [-1.0]]
    values[rng.random(values.shape) < 0.2] = 0
    values[rng.random(values.shape) < 0.1] *= 1e-8
    model = table_of(values.astype(np.float32), transform, ml)
    X = np.arange(400, dtype=np.float32)[:, None]
    forest, scores = convert(model), run(model, X)[0].reshape(400, n_targets)
    with np.errstate(all="ignore"):
        found = transforms.transform(forest.output, reference.raw(forest, X))
    if n_targets == 1 and transform != "PROBIT":  # onnxruntime leaves the transform out
        assert forest.output.post_transform is PostTransform.IDENTITY
        assert np.array_equal(found, scores)
    elif transform == "LOGISTIC":
        assert np.array_equal(found, scores)
    elif transform == "PROBIT":  # one ulp of a logarithm is some 10 here, and more near one half
        np.testing.assert_allclose(found, scores, rtol=4e-6)
    else:
        # Exponentials of two libraries, and onnxruntime's sum in float32: 8 units in last place.
        np.testing.assert_allclose(found, scores, rtol=1e-6, atol=1e-37)
    certificate = certify(forest, model, X)
    assert certificate.passed
    assert ("predictions" in certificate.parts) != (transform == "PROBIT")


@pytest.mark.parametrize("transform", ["PROBIT", "LOGISTIC"])
def test_a_transform_of_float64_scores_is_computed_in_float32(transform):
    values = np.array([[0.1, 0.3], [0.9, 0.123456789], [0.7, 0.2]])
    model = table_of(values, transform, 5)
    X = np.arange(3.0)[:, None]
    forest = convert(model)
    found = transforms.transform(forest.output, reference.raw(forest, X))
    assert np.array_equal(found, run(model, X)[0])


def test_labels_that_onnxruntime_does_not_take_from_the_scores_are_refused():
    nodes = Nodes(stump(), [0, 0], [1, 2])
    target, weight = np.tile([0, 1], (2, 1)), np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    options = weighted(nodes, "class", target, weight)
    two = graph_of("TreeEnsembleClassifier", 1, classlabels_int64s=[7, 9], **options)
    # The trap itself: the scores are right, the labels are neither the higher class nor a class.
    label, scores = run(two, np.array([[-1], [1]], np.float32))
    assert np.array_equal(scores, weight)
    assert label.tolist() == [1, 1]
    with pytest.raises(UnsupportedModelError, match="class id 0 only"):
        convert(two)
    # Nobody reads the label, so that the scores are the model.
    del two.graph.output[0]
    assert np.array_equal(reference.raw(convert(two), np.float32([[-1], [1]])), weight)
    assert certify(convert(two), two).passed
    absent = weighted(nodes, "class", np.array([[0], [2]]), weight[:, :1])
    with pytest.raises(UnsupportedModelError, match="class number"):
        convert(graph_of("TreeEnsembleClassifier", 1, classlabels_int64s=[1, 2, 3], **absent))


def test_a_graph_narrower_than_the_operator_rounds_its_thresholds_exactly():
    helper, rng = onnx.helper, np.random.default_rng(1)
    values = rng.normal(size=6)  # float64, most of them no float32
    for mode in MODES:
        for value in (*values, 1.0, 1e300, -1e300, np.inf):
            model = graph_of(
                "TreeEnsembleRegressor",
                1,
                element=DOUBLE,
                **{k: v for k, v in stump().items() if k not in ("nodes_values", "nodes_modes")},
                nodes_modes=[mode, "LEAF", "LEAF"],
                nodes_values_as_tensor=np.array([value, 0, 0]),
                n_targets=1,
                target_treeids=[0, 0],
                target_nodeids=[1, 2],
                target_ids=[0, 0],
                target_weights_as_tensor=np.array([1.0, 2.0]),
            )
            graph = model.graph
            graph.node[0].input[0] = "wide"
            graph.node.insert(0, helper.make_node("Cast", ["X"], ["wide"], to=DOUBLE))
            graph.input[0].type.tensor_type.elem_type = FLOAT
            with np.errstate(over="ignore"):
                near = np.float32(value)
            X = np.array([near, np.nextafter(near, np.float32(9)), 0, np.inf, -np.inf, np.nan])
            X = np.append(X, np.nextafter(near, np.float32(-9))).astype(np.float32)[:, None]
            forest = convert(model)
            assert forest.dtype == np.float32
            assert_equal_scores(model, X, run(model, X)[0])

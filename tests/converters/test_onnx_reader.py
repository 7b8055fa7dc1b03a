"""Laws of lifted ONNX operators: what onnxruntime answers is what the forest answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitvec import certify, reference, transforms
from bitvec.converters.onnx.reader import convert, subject
from bitvec.errors import UnsupportedModelError
from bitvec.node_tests import Kind
from bitvec.output import PostTransform

ort = pytest.importorskip("onnxruntime")

FLOAT, DOUBLE, INT64, STRING = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.INT64,
    onnx.TensorProto.STRING,
)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
SPECIAL = [0.0, -0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 1e-45, 3.4028235e38, np.inf, -np.inf]


def graph_of(kind: str, n_features: int, *, element: int = FLOAT, ml: int = 3, **attributes: Any):
    """A model of one operator; arrays become tensors."""
    helper = onnx.helper
    attributes = {
        k: onnx.numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v
        for k, v in attributes.items()
    }
    outputs = {"scores": element if kind == "TreeEnsemble" else FLOAT}
    if kind == "TreeEnsembleClassifier":
        outputs = {"label": STRING if "classlabels_strings" in attributes else INT64, **outputs}
    node = helper.make_node(
        kind, ["X"], list(outputs), name="trees", domain="ai.onnx.ml", **attributes
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("X", element, [None, n_features])],
        [helper.make_tensor_value_info(name, type_, None) for name, type_ in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


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
    """The forest's raw scores are `scores`, and those of its subject."""
    forest = convert(model)
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, X)
    # Versions before 5 answer in float32, also where they sum in float64.
    assert np.array_equal(raw.astype(scores.dtype), scores, equal_nan=True)
    assert np.array_equal(subject(model).raw(X), scores, equal_nan=True)


@settings(max_examples=100)
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


@settings(max_examples=100)
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
    transform = str(rng.choice(["NONE", "LOGISTIC", "SOFTMAX"]))
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
        second = n_classes == 2 and target[0, 0] == 1
        odd = np.all(weight >= 0) and (second or transform == "LOGISTIC")
        assert n_classes == 2
        assert odd or (second and "base_values" in options)
        return
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, X)
    got = transforms.predictions(forest.output, raw)
    assert np.array_equal(got.astype(label.dtype), label)
    assert np.array_equal(subject(model).raw(X), raw.astype(np.float32), equal_nan=True)
    # onnxruntime's exponentials are its own; its sigmoid of x < 0 is 1 - sigmoid(-x), in float32.
    probabilities = transforms.probabilities(forest.output, raw)[0]
    np.testing.assert_allclose(probabilities, scores, rtol=2e-6, atol=2e-7)


def v5(n_features: int, dtype: type, **attributes: Any):
    element = DOUBLE if dtype is np.float64 else FLOAT
    return graph_of("TreeEnsemble", n_features, element=element, ml=5, **attributes)


@settings(max_examples=100)
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
            assert np.array_equal(subject(model).raw(X[:n_rows]), raw[:n_rows])


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
    assert np.array_equal(subject(model).raw(X.astype(np.float32)), raw)


@pytest.mark.parametrize("transform", ["PROBIT", "SOFTMAX_ZERO"])
def test_transforms_without_a_counterpart_are_refused(transform):
    nodes = Nodes(stump(), [0, 0], [1, 2])
    target, weight = np.tile([0, 1], (2, 1)), np.ones((2, 2), np.float32)
    model = graph_of(
        "TreeEnsembleRegressor",
        1,
        n_targets=2,
        post_transform=transform,
        **weighted(nodes, "target", target, weight),
    )
    with pytest.raises(UnsupportedModelError, match=f"post-transform.*{transform}"):
        convert(model)


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
    one = graph_of(
        "TreeEnsembleClassifier",
        1,
        classlabels_int64s=[7],
        **weighted(nodes, "class", target[:, :1], weight[:, :1]),
    )
    with pytest.raises(UnsupportedModelError, match="at least two classes"):
        convert(one)
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


# Converters.


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2]


@pytest.mark.parametrize(
    ("name", "n_classes", "double"),
    [
        ("RandomForestRegressor", 0, False),
        ("RandomForestRegressor", 0, True),
        ("GradientBoostingRegressor", 0, True),
        ("RandomForestClassifier", 2, False),
        ("ExtraTreesClassifier", 3, False),
        ("GradientBoostingClassifier", 2, False),
        ("GradientBoostingClassifier", 3, False),
    ],
)
def test_models_of_skl2onnx_certify(name, n_classes, double, table):
    skl2onnx = pytest.importorskip("skl2onnx")
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, score = table
    X = X.astype(np.float64 if double else np.float32)
    cuts = [[], [], [0.0], [-0.5, 0.5]][n_classes]
    y = np.array(["a", "b", "c"])[np.digitize(score, cuts)] if n_classes else score
    fitted = getattr(ensemble, name)(n_estimators=12, max_depth=4, random_state=0).fit(X, y)
    model = skl2onnx.to_onnx(fitted, X[:1], target_opset={"": 17, "ai.onnx.ml": 3})
    forest = convert(model)
    result = certify(forest, subject(model), X)
    assert result.n_raw_mismatches == 0
    if double:  # declares float64 outputs, which onnxruntime refuses
        return
    answer = run(model, X)[0]
    got = transforms.predictions(forest.output, reference.raw(forest, X))
    if n_classes:  # through Identity, ZipMap and Cast
        assert np.array_equal(got, answer)
    else:
        assert np.array_equal(got.astype(np.float32), answer.ravel())


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
def test_xgboost_models_of_onnxmltools_certify(objective, table):
    onnxmltools = pytest.importorskip("onnxmltools")
    xgb = pytest.importorskip("xgboost")
    X, score = table
    X = np.where(np.abs(X) > 1.5, np.nan, X)
    kind = xgb.XGBRegressor if objective == "reg:squarederror" else xgb.XGBClassifier
    y = {"binary:logistic": score > 0, "multi:softprob": np.digitize(score, [-0.5, 0.5])}
    fitted = kind(n_estimators=10, max_depth=4, n_jobs=1).fit(X, y.get(objective, score))
    types = onnxmltools.convert.common.data_types
    model = onnxmltools.convert_xgboost(
        fitted, initial_types=[("X", types.FloatTensorType([None, 4]))]
    )
    forest = convert(model)
    result = certify(forest, subject(model), X)
    assert result.n_raw_mismatches == 0
    if forest.output.classes is not None:
        got = transforms.predictions(forest.output, reference.raw(forest, X))
        assert np.array_equal(got, run(model, X)[0])


def test_category_chains_of_onnxmltools_certify():
    onnxmltools = pytest.importorskip("onnxmltools")
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 12, 400), rng.normal(size=400)], axis=1).astype(np.float32)
    y = np.isin(X[:, 0], [1, 4, 5, 9]) + X[:, 1]
    options = {"objective": "regression", "min_data_per_group": 1, "cat_smooth": 0, "verbose": -1}
    options |= {"num_threads": 1, "max_cat_to_onehot": 1}
    data = lgb.Dataset(X, y, categorical_feature=[0])
    fitted = lgb.train(options, data, 8)
    types = onnxmltools.convert.common.data_types
    model = onnxmltools.convert_lightgbm(
        fitted, initial_types=[("X", types.FloatTensorType([None, 2]))]
    )
    forest = convert(model)
    assert np.any(forest.tests.kind == Kind.SET)
    result = certify(forest, subject(model), X)
    assert result.n_raw_mismatches == 0
    assert np.array_equal(reference.raw(forest, X), run(model, X)[0])

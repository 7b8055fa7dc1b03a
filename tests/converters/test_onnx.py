"""Laws of the ONNX form `tree_ensemble`: what onnxruntime answers is what the reference answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from strategies import EQUAL, KERNEL, OBLIQUE, ONE_HOT, SET, forests, forests_with_rows

import bitvec
from bitvec.converters.onnx.session import OnnxEngine, oracle_of
from bitvec.converters.onnx.write import LARGEST_DEPTH, to_onnx
from bitvec.core import reference, structure, transforms
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, axis_aligned, set_bits
from bitvec.core.output import Output
from bitvec.errors import UnsupportedModelError

HELD = (*ONE_HOT, KERNEL)


def engine_of(forest: Forest, **options: int) -> OnnxEngine:
    return OnnxEngine(to_onnx(forest, leaves=True), **options)


@given(forests_with_rows(kinds=HELD))
def test_leaves_and_raw_scores_are_the_references_bit_for_bit_on_one_thread(drawn):
    forest, X = drawn
    engine = engine_of(forest)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    raw = engine.raw(X)
    assert raw.dtype == expected.dtype
    assert np.array_equal(raw, expected, equal_nan=True)


@settings(max_examples=25)
@given(forests_with_rows(kinds=(SET, EQUAL), max_leaves=20))
def test_sets_and_equality_route_exactly_without_the_output_of_leaves(drawn):
    forest, X = drawn
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    assert np.array_equal(OnnxEngine(to_onnx(forest)).raw(X), expected, equal_nan=True)


def booster(
    n_trees: int, dtype: type, out: type, n_outputs: int = 1, *, base_first: bool = True
) -> Forest:
    """Stump-like trees of three leaves whose leaves name the tree's output."""
    rng = np.random.default_rng(n_trees)
    left = np.tile([~0, ~1], n_trees) - np.repeat(3 * np.arange(n_trees), 2)
    right = np.stack([2 * np.arange(n_trees) + 1, ~(3 * np.arange(n_trees) + 2)], axis=1).ravel()
    B = structure.arrange(left, right, 2 * np.arange(n_trees))[0]
    named = np.repeat(np.arange(n_trees) % n_outputs, 3).astype(np.int32)
    return Forest(
        axis_aligned(rng.integers(0, 3, B.n_nodes), rng.normal(size=B.n_nodes).astype(dtype)),
        B,
        Leaves(rng.normal(size=(B.n_leaves, 1)).astype(out), named),
        Output(
            n_outputs,
            np.dtype(out),
            base_score=rng.normal(size=n_outputs).astype(out),
            base_first=base_first,
        ),
        Inputs(3),
    )


@pytest.mark.parametrize("n_trees", [1, 79, 80, 300])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize(
    ("dtype", "out"),
    [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float64),
     (np.float64, np.float32)],
)  # fmt: skip
def test_sums_are_the_references_on_one_thread_and_near_them_on_four(
    n_trees, n_outputs, dtype, out
):
    forest = booster(n_trees, dtype, out, n_outputs)
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(dtype)
    expected = reference.raw(forest, X)
    one, four = engine_of(forest), engine_of(forest, n_threads=4)
    # Two orders of adding n terms differ by less than 2 n eps times the sum of their sizes.
    size = np.abs(forest.leaves.v).sum() + np.abs(forest.output.base_score).max()
    bound = 2 * (n_trees + 1) * np.finfo(out).eps * size
    for rows in (1, 2, 49, 51, 300):  # onnxruntime changes its plan at 50 rows and 80 trees
        assert np.array_equal(one.raw(X[:rows]), expected[:rows])
        assert np.all(np.abs(four.raw(X[:rows]) - expected[:rows]) <= bound)
        assert np.array_equal(four.exit_leaves(X[:rows]), one.exit_leaves(X[:rows]))


def _of_few_codes(rng: np.random.Generator, kind: Kind, width: int, named: bool) -> Forest:
    """Trees of one or two columns of codes: chains of tests, leaves of few values."""
    n_trees, n_leaves = 4, 8
    left, right = [], []
    for tree in range(n_trees):
        parts = [~(tree * n_leaves + leaf) for leaf in range(n_leaves)]
        while len(parts) > 1:  # joins two neighbours, mostly the last ones
            at = len(parts) - 2 if rng.random() < 0.7 else int(rng.integers(len(parts) - 1))
            left.append(parts[at])
            right.append(parts[at + 1])
            parts[at : at + 2] = [len(left) - 1]
        if rng.random() < 0.5:  # the chain runs along the other branch
            own = slice(len(left) - n_leaves + 1, len(left))
            left[own], right[own] = right[own], left[own]
    roots = np.arange(1, n_trees + 1) * (n_leaves - 1) - 1
    B = structure.arrange(np.array(left), np.array(right), roots)[0]
    n = B.n_nodes
    codes = [rng.permutation(10)[: rng.integers(1, 4)] for _ in range(n)]
    is_set = kind == Kind.SET
    ptr, words = set_bits([np.sort(each) if is_set else np.zeros(0, np.int64) for each in codes])
    tests = axis_aligned(
        rng.integers(0, 2, n) * (rng.random() < 0.5),
        np.zeros(n, np.float32) if is_set else rng.integers(0, 6, n).astype(np.float32),
        kind=kind,
        missing_right=rng.random(n) < 0.5,
        other_right=is_set & (rng.random(n) < 0.3),
        set_ptr=ptr,
        set_words=words,
    )
    v = rng.integers(0, 2, (B.n_leaves, width)).astype(np.float32)
    output = np.repeat(np.arange(n_trees) % 2, n_leaves).astype(np.int32) if named else None
    base = np.arange(1, 3 if named else width + 1, dtype=np.float32)
    scores = Output(base.size, np.dtype(np.float32), base_score=base, base_first=True)
    return Forest(tests, B, Leaves(v, output), scores, Inputs(2))


@pytest.mark.parametrize(("width", "named"), [(1, False), (1, True), (3, False)])
@pytest.mark.parametrize(("kind", "version"), [(Kind.EQUAL, 3), (Kind.EQUAL, 5), (Kind.SET, 5)])
def test_chains_of_equal_leaves_are_not_taken_for_one_test(kind, version, width, named):
    codes = np.array([*range(10), np.nan, 2.5, -1, 40], np.float32)
    X = np.stack(np.meshgrid(codes, codes), axis=-1).reshape(-1, 2)
    for seed in range(30):
        forest = _of_few_codes(np.random.default_rng(seed), kind, width, named)
        expected = reference.raw(forest, X)
        for leaves in (False, True):
            got = OnnxEngine(to_onnx(forest, version=version, leaves=leaves)).raw(X)
            assert np.array_equal(got, expected)


@pytest.mark.parametrize("rule", list(CodeRule))
@pytest.mark.parametrize("other_right", [False, True])
@pytest.mark.parametrize("codes", [[], [0], [31, 32], list(range(64)), [5, 2000]])
def test_a_value_that_is_no_code_is_in_no_set(rule, other_right, codes):
    ptr, words = set_bits([np.array(codes, np.int64)])
    tests = axis_aligned(
        [0],
        np.zeros(1, np.float32),
        kind=Kind.SET,
        code_rule=rule,
        other_right=other_right,
        missing_right=not other_right,
        set_ptr=ptr,
        set_words=words,
    )
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    forest = replace(stump, tests=tests)
    X = [0, -0.0, 0.5, -0.5, -1, 1.5, 31, 32, 32.5, 63, 64, 2000, 2001, np.inf, -np.inf, np.nan]
    X = np.array(X, np.float32)[:, None]
    assert np.array_equal(engine_of(forest).raw(X), reference.raw(forest, X))


def test_a_set_of_many_codes_loads():
    ptr, words = set_bits([np.arange(0, 20_000, 2)])
    tests = axis_aligned([0], np.zeros(1, np.float32), kind=Kind.SET, set_ptr=ptr, set_words=words)
    forest = replace(Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2]), tests=tests)
    X = np.array([[0], [1], [19_998], [19_999], [20_000]], np.float32)
    assert engine_of(forest).raw(X).ravel().tolist() == [2, 1, 2, 1, 1]


def test_no_root_has_a_leaf_and_a_node_of_one_number():
    # Node 1 and leaf 1 under root 0: some onnxruntime versions see a single leaf.
    forest = Forest.from_matrices([[1.0], [1.0]], [0.0, -1.0], [[0, 0], [0, 1], [1, 1]], [1, 2, 3])
    for tree in (forest, booster(5, np.float32, np.float64)):
        node = next(n for n in to_onnx(tree).graph.node if n.op_type == "TreeEnsemble")
        a = {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
        for root in a["tree_roots"]:
            one_leaf = a["nodes_trueleafs"][root] != a["nodes_falseleafs"][root]
            assert not one_leaf or a["nodes_truenodeids"][root] != a["nodes_falsenodeids"][root]


def test_no_rows_give_no_scores():
    engine = engine_of(booster(3, np.float32, np.float64, 2))
    assert engine.raw(np.zeros((0, 3))).shape == (0, 2)
    assert engine.exit_leaves(np.zeros((0, 3))).shape == (0, 3)


@settings(max_examples=15)
@given(forests(kinds=HELD))
def test_the_model_is_valid_and_pinned(forest):
    model = to_onnx(forest, name="trees")
    onnx.checker.check_model(model, full_check=True)
    domains = {o.domain: o.version for o in model.opset_import}
    assert domains == {"": 21, "ai.onnx.ml": 5}
    assert model.ir_version == 10
    assert model.graph.name == "trees"
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    assert {p.key: p.value for p in model.metadata_props}["bitvec.form"] == "tree_ensemble"


@settings(max_examples=10)
@given(forests(kinds=(OBLIQUE,)).filter(lambda f: not f.tests.is_one_hot.all()))
def test_oblique_nodes_are_refused_with_the_form_that_holds_them(forest):
    with pytest.raises(UnsupportedModelError, match="use the form `tensor`"):
        to_onnx(forest)


def test_trees_deeper_than_runtimes_descend_are_refused():
    n = LARGEST_DEPTH + 1
    left, right = ~np.arange(n), np.append(np.arange(1, n), ~n)
    B = structure.arrange(left, right, np.array([0]))[0]
    forest = Forest(
        axis_aligned(np.zeros(n), np.arange(n, dtype=np.float32)),
        B,
        Leaves(np.arange(n + 1.0)[:, None]),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )
    with pytest.raises(UnsupportedModelError, match=r"depth 1024 at most.*`tensor`"):
        to_onnx(forest)


# Converted models.


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    known = np.nan_to_num(X)
    return X, known[:, 0] + known[:, 1] * known[:, 2]


def converted(model):
    from bitvec.converters.sklearn import oracle, read

    return read.convert(model), oracle.oracle_of(model)


def certify_by_hand(model, X):
    """Convert, export in both forms, and compare both files with the source itself."""
    from bitvec.runtime.export.onnx import tensor

    forest, source = converted(model)
    for form in (to_onnx, tensor.to_onnx):
        exported = oracle_of(form(forest, leaves=True))
        assert np.array_equal(exported.raw(X), source.raw(X))
        leaf = exported.leaf_ids(X) + forest.bitvectors.leaf_ptr[:-1]
        assert np.array_equal(forest.source.leaf_id[leaf], source.leaf_ids(X))
        yield OnnxEngine(form(forest))


def test_sklearn_forests_give_their_own_probabilities_labels_and_leaves(table):
    from sklearn.ensemble import RandomForestClassifier

    X, score = table
    y = np.array(["low", "mid", "high"])[np.digitize(score, [-0.5, 0.5])]
    model = RandomForestClassifier(15, max_depth=7, random_state=0).fit(X, y)
    for engine in certify_by_hand(model, X):
        assert np.array_equal(engine.run("probabilities", X), model.predict_proba(X))
        assert np.array_equal(engine.run("label", X), model.predict(X))


def test_sklearn_trees_of_several_targets_give_their_own_labels(table):
    from sklearn.tree import DecisionTreeClassifier

    X, score = table
    y = np.stack([score > 0, score > 1], axis=1).astype(int)
    model = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, y)
    for engine in certify_by_hand(model, X):
        assert np.array_equal(engine.run("label", X), model.predict(X))
        assert np.array_equal(engine.run("probabilities_1", X), model.predict_proba(X)[1])


def test_sklearn_regressors_give_their_own_predictions(table):
    from sklearn.ensemble import ExtraTreesRegressor

    X, score = table
    X = np.nan_to_num(X)
    model = ExtraTreesRegressor(100, max_depth=6, random_state=0).fit(X, score)
    model.n_jobs = 1
    for engine in certify_by_hand(model, X):
        assert np.array_equal(engine.run("prediction", X)[:, 0], model.predict(X))


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
def test_xgboost_models_give_their_own_margins_and_leaves(table, objective):
    xgb = pytest.importorskip("xgboost")
    from bitvec.converters.xgboost import oracle, read
    from bitvec.runtime.export.onnx import tensor

    X, score = table
    y = {"reg:squarederror": score, "binary:logistic": score > 0}.get(
        objective, np.digitize(score, [-0.5, 0.5])
    )
    parameters = {"objective": objective, "max_depth": 4, "nthread": 1}
    if objective == "multi:softprob":
        parameters["num_class"] = 3
    model = xgb.train(parameters, xgb.DMatrix(X, label=y), 20)
    forest, source = read.convert(model), oracle.oracle_of(model)
    for form in (to_onnx, tensor.to_onnx):
        exported = oracle_of(form(forest, leaves=True))
        assert np.array_equal(exported.raw(X), source.raw(X))
        leaf = exported.leaf_ids(X) + forest.bitvectors.leaf_ptr[:-1]
        assert np.array_equal(forest.source.leaf_id[leaf], source.leaf_ids(X))
        engine = OnnxEngine(form(forest))
        found = engine.run(
            "prediction" if "prediction" in engine.output_names else "probabilities", X
        )
        expected = (
            transforms.transform(forest.output, source.raw(X))
            if forest.output.classes is None
            else transforms.probabilities(forest.output, source.raw(X))[0]
        )
        # exp of two libraries: a few units in the last place.
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(("second", "is_alike"), [(1.0, True), (3.0, False)])
def test_what_onnxruntime_takes_for_one_test_is_not_called_proved(second, is_alike):
    node = onnx.helper.make_node(
        "TreeEnsembleRegressor",
        ["X"],
        ["Y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0] * 5,
        nodes_nodeids=[*range(5)],
        nodes_modes=["BRANCH_EQ", "BRANCH_EQ", "LEAF", "LEAF", "LEAF"],
        nodes_featureids=[0] * 5,
        nodes_values=[1.0, 2.0, 0.0, 0.0, 0.0],
        nodes_truenodeids=[2, 3, 0, 0, 0],
        nodes_falsenodeids=[1, 4, 0, 0, 0],
        nodes_missing_value_tracks_true=[0, 1, 0, 0, 0],
        target_treeids=[0] * 3,
        target_nodeids=[2, 3, 4],
        target_ids=[0] * 3,
        target_weights=[1.0, second, 7.0],
    )
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "trees",
        [onnx.helper.make_tensor_value_info("X", floats, [None, 1])],
        [onnx.helper.make_tensor_value_info("Y", floats, [None, 1])],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    certificate = bitvec.certify(bitvec.convert(model), model, progress=False)
    assert (certificate.grade == "proved") != is_alike
    assert ("for one test" in certificate.summary()) == is_alike
    assert certificate.passed != is_alike

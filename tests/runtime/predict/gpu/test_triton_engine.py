"""The engine of Triton kernels is the reference, bit for bit: on a GPU, else in the interpreter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_bits import assert_same_bits
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, ONE_HOT, POLYTOPE, SET, forests, rows

from bitvec.core import reference, structure, tree_paths
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import MissingRule, Relation, axis_aligned
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.errors import InputError
from bitvec.runtime.predict.predictor import compile

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from bitvec.runtime.predict.gpu import (  # noqa: E402
    bit_tables,
    device_forest,
    host_rows,
    node_tables,
    replay,
    row_codes,
)
from bitvec.runtime.predict.gpu.code_layout import lay_out_codes  # noqa: E402
from bitvec.runtime.predict.gpu.engine import TritonEngine  # noqa: E402

ON_GPU = not triton.knobs.runtime.interpret
DEVICE = "cuda" if ON_GPU else "cpu"
pytestmark = [
    *([pytest.mark.gpu] if ON_GPU else []),
    pytest.mark.skipif(ON_GPU and not torch.cuda.is_available(), reason="no GPU here"),
]


def few(n):
    """Examples: the interpreter takes a second for each."""
    return settings(max_examples=5 * n if ON_GPU else n)


def assert_is_reference(forest, X):
    engine = TritonEngine(forest, DEVICE)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    with np.errstate(all="ignore"):
        assert_same_bits(engine.raw(X), reference.raw(forest, X))
    return engine


def boosted(n_trees=7, depth=4, n_features=5, n_outputs=1, seed=0, dtype=np.float32, values=9):
    """Complete trees over few thresholds, in turn for each output."""
    rng = np.random.default_rng(seed)
    n_inner = (1 << depth) - 1
    at = np.arange(n_trees * n_inner)
    tree, k = np.divmod(at, n_inner)
    is_last = 2 * k + 1 >= n_inner
    first_leaf = tree * (n_inner + 1) + 2 * k + 1 - n_inner
    left = np.where(is_last, ~first_leaf, tree * n_inner + 2 * k + 1)
    right = np.where(is_last, ~(first_leaf + 1), tree * n_inner + 2 * k + 2)
    B, order = structure.arrange(left, right, np.arange(n_trees) * n_inner)
    n_nodes = at.size
    tests = axis_aligned(
        rng.integers(0, n_features, n_nodes),
        (rng.integers(-values, values, n_nodes) / 4).astype(dtype),
        relation=rng.integers(0, 2, n_nodes).astype(np.uint8),
        missing_right=rng.random(n_nodes) < 0.5,
    )
    v = rng.normal(size=(B.n_leaves, 1)).astype(np.float32)
    output = np.repeat(np.arange(n_trees) % n_outputs, n_inner + 1).astype(np.int32)
    leaves = Leaves(v, output if n_outputs > 1 else None)
    return Forest(
        tests.take(order.node),
        B,
        leaves.take(-1 - order.leaf),
        Output(n_outputs, np.dtype(np.float32), base_score=np.full(n_outputs, -0.0, np.float32)),
        Inputs(n_features),
    )


def table(forest, n, seed=1):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-10, 11, (n, forest.n_features)) / 4).astype(forest.dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@few(12)
@given(data=st.data())
def test_leaves_and_the_bits_of_raw_scores_are_the_references(data):
    forest = data.draw(forests(max_leaves=data.draw(st.sampled_from([8, 70]))))
    assert_is_reference(forest, data.draw(rows(forest)))


@pytest.mark.parametrize(
    "kinds", [(AXIS, KERNEL), (SET,), (EQUAL, AXIS), ONE_HOT, (OBLIQUE,), (POLYTOPE, AXIS)]
)
@pytest.mark.parametrize("rule", [(MissingRule.NAN,), tuple(MissingRule)])
@few(2)
@given(data=st.data())
def test_each_kind_of_node_alone_decides_as_the_reference(kinds, rule, data):
    forest = data.draw(forests(kinds=kinds, missing_rules=rule, max_leaves=20))
    assert_is_reference(forest, data.draw(rows(forest)))


@few(4)
@given(data=st.data())
def test_a_prediction_kernel_gives_soft_scores_and_crisp_leaves(data):
    forest = data.draw(forests(kinds=(KERNEL, AXIS), max_leaves=8, soft=True))
    assert_is_reference(forest, data.draw(rows(forest)))


class _Products:
    """Columns and their products with the next."""

    n_inputs, n_features = 4, 8

    def __call__(self, X):
        return np.concatenate([X, X * np.roll(X, 1, axis=1)], axis=1)


def test_a_feature_map_is_computed_on_the_host():
    forest = boosted(3, 3, n_features=8)
    mapped = replace(forest, feature_map=_Products(), inputs=Inputs(4))
    assert_is_reference(mapped, table(mapped, 40))
    with pytest.raises(InputError, match="must be asked for rows of the host"):
        compile(mapped, engine="triton", device=DEVICE).raw(torch.zeros((2, 4), device=DEVICE))


@few(4)
@given(data=st.data())
def test_codes_are_those_of_the_layout(data):
    forest = data.draw(forests(kinds=ONE_HOT, max_leaves=20))
    X = data.draw(rows(forest))
    trees = device_forest.DeviceForest(forest, torch.device(DEVICE))
    x = torch.tensor(X, device=DEVICE)
    codes = trees.codes(x).cpu().numpy().reshape(-1, max(1, trees.layout.n_planes), 32)
    V = trees.codes.columns(x).cpu().numpy()
    expected = trees.layout.codes(V)
    if trees.layout.n_planes:
        assert np.array_equal(codes.swapaxes(1, 2).reshape(-1, codes.shape[1])[: len(X)], expected)


@few(4)
@given(data=st.data())
def test_a_node_goes_right_where_its_planes_code_reaches_its_own(data):
    forest = data.draw(forests(kinds=(AXIS,), max_leaves=20))
    X = data.draw(rows(forest))
    layout = lay_out_codes(forest)
    trees = device_forest.DeviceForest(forest, torch.device(DEVICE))
    V = trees.codes.columns(torch.tensor(X, device=DEVICE)).cpu().numpy()
    right = layout.codes(V)[:, layout.plane] >= layout.least
    assert np.array_equal(right, reference.hard_tests(forest, X))


@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 257])
def test_full_trees_of_every_depth(depth, n):
    forest = boosted(3, depth)
    assert_is_reference(forest, table(forest, n))


@pytest.mark.parametrize("wide", [False, True])
def test_trees_whose_levels_share_tests_run_by_levels(wide, monkeypatch):
    if wide:
        monkeypatch.setattr(node_tables, "SHORT_THRESHOLDS", 2)
    forest = boosted(5, 4)
    B, tests = forest.bitvectors, forest.tests
    first = np.searchsorted(tree_paths.node_depth(B)[:15], np.arange(4))
    level = 15 * B.tree_of_node + first[tree_paths.node_depth(B)]
    engine = assert_is_reference(replace(forest, tests=tests.take(level)), table(forest, 70))
    assert engine.info()["form"] == "oblivious, of depth 4"


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("programs", [0, 4, 1000])
def test_trees_side_by_side_add_in_the_same_order(n_outputs, programs, monkeypatch):
    monkeypatch.setattr(device_forest, "FEW_PROGRAMS", programs)
    forest = boosted(9, 3, n_outputs=n_outputs)
    assert_is_reference(forest, table(forest, 70))


@few(3)
@given(data=st.data())
def test_small_trees_take_32_rows_at_once(data):
    forest = data.draw(forests(kinds=(AXIS, SET, OBLIQUE), max_leaves=data.draw(st.integers(1, 9))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_forest, "MANY_ROWS", 0)
        assert_is_reference(forest, data.draw(rows(forest)))


@pytest.mark.parametrize(("n_outputs", "n"), [(3, 33), (1, 4097)])
def test_small_trees_take_blocks_of_rows_and_add_in_order(n_outputs, n, monkeypatch):
    monkeypatch.setattr(device_forest, "MANY_ROWS", 1)
    forest = boosted(3, 3, n_outputs=n_outputs)
    assert_is_reference(forest, table(forest, n))


@pytest.mark.parametrize("n_thresholds", [1, 3, 16, 254])
def test_digits_of_codes_decide_as_codes(n_thresholds, monkeypatch):
    monkeypatch.setattr(device_forest, "MANY_ROWS", 1)
    b = np.repeat(np.arange(n_thresholds, dtype=np.float32), 2 if n_thresholds < 9 else 1)
    n = b.size
    B, order = structure.arrange(~(2 * np.arange(n)), ~(2 * np.arange(n) + 1), np.arange(n))
    tests = axis_aligned(np.zeros(n), b, missing_right=np.arange(n) % 2 == 1)
    v = np.random.default_rng(0).normal(size=(2 * n, 1)).astype(np.float32)
    forest = Forest(tests.take(order.node), B, Leaves(v), Output(1, v.dtype), Inputs(1))
    near = [b, np.nextafter(b, np.float32(np.inf)), np.float32([np.nan, -1, 1e9])]
    assert_is_reference(forest, np.concatenate(near)[:, None])


def test_what_is_too_large_for_32_rows_at_once_is_not_taken(monkeypatch):
    def of(forest):
        return device_forest.DeviceForest(forest, torch.device(DEVICE))._bits

    assert of(boosted(2, 6)) is not None
    assert of(boosted(2, 7)) is None  # full trees of 128 leaves
    monkeypatch.setattr(node_tables, "FULL_DEPTH", 3)
    assert of(boosted(1, 8)) is not None
    assert of(boosted(1, 9)) is None  # 512 leaves
    assert of(boosted(24, 5, n_features=1, values=1000)) is None  # 768 thresholds
    monkeypatch.setattr(bit_tables, "MOST_BITS", 20)
    assert of(boosted(2, 6)) is None


@pytest.mark.parametrize("limits", [(254, 65533), (3, 65533), (3, 4)])
@pytest.mark.parametrize("depth", [3, 4])
def test_codes_of_every_width(limits, depth, monkeypatch):
    monkeypatch.setattr(row_codes, "BYTE_THRESHOLDS", limits[0])
    for module in (row_codes, node_tables):
        monkeypatch.setattr(module, "SHORT_THRESHOLDS", limits[1])
    monkeypatch.setattr(node_tables, "FULL_DEPTH", 3)
    forest = boosted(3, depth)
    assert_is_reference(forest, table(forest, 40))


def test_a_column_of_more_thresholds_than_a_byte_has():
    forest = boosted(24, 5, n_features=1, values=1000)
    engine = assert_is_reference(forest, table(forest, 40))
    assert engine.info()["thresholds"] > 254


@pytest.mark.parametrize("base_first", [False, True])
def test_a_base_score_of_minus_zero_stays(base_first):
    forest = boosted(2, 1)
    leaves = Leaves(np.full((forest.n_leaves, 1), -0.0, np.float32))
    output = replace(forest.output, base_first=base_first)
    assert_is_reference(replace(forest, leaves=leaves, output=output), table(forest, 3))


@pytest.mark.parametrize("aggregate", [Aggregate.SUM, Aggregate.MEAN])
def test_vectors_of_leaves_are_added_in_order(aggregate):
    forest = boosted(6, 3)
    v = np.random.default_rng(0).normal(size=(forest.n_leaves, 19)).astype(np.float64)
    output = Output(19, np.dtype(np.float64), aggregate=aggregate)
    assert_is_reference(replace(forest, leaves=Leaves(v), output=output), table(forest, 50))


def test_no_trees_and_lone_leaves():
    forest = boosted(2, 1)
    assert_is_reference(forest.take([]), table(forest, 5))
    lone = Forest(
        forest.tests.take(np.zeros(0, int)),
        structure.from_children([], [], [~0, ~1]),
        Leaves(np.array([[1.0], [2.0]], np.float32)),
        forest.output,
        forest.inputs,
    )
    assert_is_reference(lone, table(forest, 5))


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("missing_right", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_at_the_ends_of_the_numbers(relation, missing_right, dtype):
    info = np.finfo(dtype)
    ends = [-np.inf, info.min, -info.smallest_subnormal, -0.0, 0.0, info.tiny, info.max, np.inf]
    b = np.array(ends, dtype)
    n = b.size
    B, order = structure.arrange([~(2 * k) for k in range(n)], [~(2 * k + 1) for k in range(n)],
                                 np.arange(n))  # fmt: skip
    tests = axis_aligned(np.zeros(n), b, relation=relation, missing_right=missing_right)
    forest = Forest(
        tests.take(order.node),
        B,
        Leaves(np.arange(2 * n, dtype=dtype)[:, None]),
        Output(1, np.dtype(dtype)),
        Inputs(1),
    )
    with np.errstate(over="ignore"):
        near = [b, np.nextafter(b, dtype(np.inf)), np.nextafter(b, dtype(-np.inf)), [np.nan]]
    assert_is_reference(forest, np.concatenate(near).astype(dtype)[:, None])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("given_dtype", [np.float32, np.float64])
def test_rows_of_another_dtype_and_of_any_strides(dtype, given_dtype):
    forest = boosted(3, 3, dtype=dtype)
    X = table(forest, 40).astype(given_dtype)
    X[0, 0] = given_dtype(0.1)
    for view in (np.asfortranarray(X), X[::-1], X[:, ::-1][:, ::-1], np.repeat(X, 2, 0)[::2]):
        assert_is_reference(forest, view)


def test_blocks_of_rows_do_not_change_the_answer(monkeypatch):
    monkeypatch.setattr(host_rows, "BLOCK_BYTES", 6000)
    monkeypatch.setattr(device_forest, "BUDGET", 1)
    forest = boosted(3, 3)
    assert_is_reference(forest, table(forest, 600))


def test_rows_on_the_device_are_answered_there():
    forest = boosted(5, 3)
    X = table(forest, 40)
    predictor = compile(forest, engine="triton", device=DEVICE)
    x = torch.tensor(X, device=DEVICE)
    raw = predictor.raw(x)
    assert isinstance(raw, torch.Tensor)
    assert raw.device == x.device
    assert_same_bits(raw.cpu().numpy(), predictor.raw(X))
    for rows_ in (x.T.contiguous().T, x.double(), x[::2].repeat_interleave(2, 0)):
        expected = predictor.raw(rows_.cpu().numpy())
        assert_same_bits(predictor.raw(rows_).cpu().numpy(), expected)
    assert torch.equal(predictor.exit_leaves(x).cpu(), torch.tensor(predictor.exit_leaves(X)))
    assert torch.equal(predictor.predict(x).cpu(), torch.tensor(predictor.predict(X)))
    with pytest.raises(InputError, match="must have 5 features, got shape"):
        predictor.raw(x[:, :2])
    with pytest.raises(InputError, match=r"must be floats, got torch\.int64"):
        predictor.raw(x.nan_to_num().long())


def test_what_no_tensor_holds_is_refused_for_rows_on_the_device():
    predictor = compile(boosted(5, 3), engine="triton", device=DEVICE)
    x = torch.zeros((4, 5), device=DEVICE)
    with pytest.raises(InputError, match=r"`apply` of this forest must be asked for rows of the"):
        predictor.apply(x)


@pytest.mark.skipif(not ON_GPU, reason="no GPU here")
def test_arrays_of_other_libraries_on_the_device_are_not_copied():
    cupy = pytest.importorskip("cupy")
    forest = boosted(5, 3)
    X = table(forest, 40)
    predictor = compile(forest, engine="triton", device=DEVICE)
    assert_same_bits(predictor.raw(cupy.asarray(X)).cpu().numpy(), predictor.raw(X))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_probabilities_are_within_a_few_units_in_the_last_place(n_outputs):
    transform = PostTransform.SIGMOID if n_outputs == 1 else PostTransform.SOFTMAX
    forest = boosted(6, 3, n_outputs=n_outputs)
    classes = (np.arange(2 if n_outputs == 1 else n_outputs),)
    output = replace(forest.output, post_transform=transform, classes=classes)
    predictor = compile(replace(forest, output=output), engine="triton", device=DEVICE)
    X = table(forest, 60)
    got = predictor.predict_proba(torch.tensor(X, device=DEVICE)).cpu().numpy()
    expected = predictor.predict_proba(X)
    assert got.dtype == expected.dtype
    # 4 units in the last place of 1: exponentials of torch and NumPy differ in the last.
    assert np.abs(got - expected).max() <= 4 * np.finfo(np.float32).eps
    labels = predictor.predict(torch.tensor(X, device=DEVICE)).cpu().numpy()
    assert np.mean(labels == predictor.predict(X)) > 0.98


def test_a_device_that_it_does_not_run_on_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    with pytest.raises(InputError, match="must run on the device cuda, got cpu: pass device="):
        TritonEngine(boosted(1, 1), "cpu")


@pytest.mark.parametrize("runs", [0, 4])
def test_columns_are_read_side_by_side_or_one_by_one(runs, monkeypatch):
    monkeypatch.setattr(row_codes, "MOST_RUNS", runs)
    forest = boosted(6, 4, n_features=37)
    assert_is_reference(forest, table(forest, 70))


@pytest.mark.skipif(not ON_GPU, reason="no GPU here")
@pytest.mark.parametrize("kinds", [(AXIS,), (SET, EQUAL), (OBLIQUE,), (POLYTOPE, AXIS)])
@given(data=st.data())
def test_calls_of_one_shape_are_replayed_on_their_own_rows(kinds, data):
    forest = data.draw(forests(kinds=kinds, max_leaves=20))
    predictor = compile(forest, engine="triton", device=DEVICE)
    X = np.resize(data.draw(rows(forest)), (40, forest.n_features))
    for k in range(4):
        turned = np.roll(X, k, axis=0)
        x = torch.tensor(turned, device=DEVICE)
        with np.errstate(all="ignore"):
            assert_same_bits(predictor.raw(x).cpu().numpy(), reference.raw(forest, turned))
        leaves = predictor.exit_leaves(x).cpu().numpy()
        assert np.array_equal(leaves, reference.exit_leaves(forest, turned))


@pytest.mark.skipif(not ON_GPU, reason="no GPU here")
def test_graphs_of_other_shapes_streams_and_threads_do_not_mix(monkeypatch):
    monkeypatch.setattr(replay, "MOST_GRAPHS", 2)
    forest = boosted(5, 3)
    predictor = compile(forest, engine="triton", device=DEVICE)

    def ask(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            for n in (1, 7, 40, 7, 40, 1, 7):
                X = table(forest, n, seed)
                got = predictor.raw(torch.tensor(X, device=DEVICE)).cpu().numpy()
                assert_same_bits(got, reference.raw(forest, X))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(16)))


@pytest.mark.skipif(not ON_GPU, reason="no GPU here")
def test_a_graph_of_calls_can_be_replayed():
    forest = boosted(5, 3)
    X = table(forest, 2000)
    predictor = compile(forest, engine="triton", device=DEVICE)
    x = torch.tensor(X, device=DEVICE)
    predictor.raw(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        raw = predictor.raw(x)
    x.copy_(torch.tensor(X[::-1].copy()))
    graph.replay()
    assert_same_bits(raw.cpu().numpy(), predictor.raw(X[::-1]))


def test_few_programs_take_all_blocks_of_rows(monkeypatch):
    monkeypatch.setattr(device_forest, "CACHE", 1)
    forest = boosted(3, 3)
    assert_is_reference(forest, table(forest, 600))

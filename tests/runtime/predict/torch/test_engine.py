"""The torch engine is the reference, bit for bit: every form, every device, any blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_bits import assert_same_bits
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, ONE_HOT, POLYTOPE, SET, forests, rows

from bitvec.core import reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import box
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, MissingRule, axis_aligned
from bitvec.core.output import Aggregate, Output
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.predict.engine import Engine  # noqa: E402
from bitvec.runtime.predict.torch import compared_columns  # noqa: E402
from bitvec.runtime.predict.torch import engine as module  # noqa: E402
from bitvec.runtime.predict.torch.engine import TorchEngine  # noqa: E402
from bitvec.runtime.predict.torch.forms import FORMS  # noqa: E402

CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
    ],
)
on_every_device = pytest.mark.parametrize("device", ["cpu", CUDA])
in_every_form = pytest.mark.parametrize("form", FORMS)


def expected_raw(forest, X):
    with np.errstate(all="ignore"):
        return reference.raw(forest, X)


@on_every_device
@in_every_form
@settings(max_examples=15)
@given(data=st.data())
def test_leaves_and_the_bits_of_raw_scores_are_the_references(device, form, data):
    forest = data.draw(forests(max_leaves=data.draw(st.sampled_from([8, 70]))))
    X = data.draw(rows(forest))
    engine = TorchEngine(forest, device, form=form)
    exits, raw = engine.exit_leaves(X), engine.raw(X)
    assert exits.dtype == np.int32
    assert np.array_equal(exits, reference.exit_leaves(forest, X))
    assert_same_bits(raw, expected_raw(forest, X))


@on_every_device
@settings(max_examples=10)
@given(data=st.data())
def test_a_prediction_kernel_gives_soft_scores_and_crisp_leaves(device, data):
    forest = data.draw(forests(kinds=(KERNEL, AXIS), max_leaves=8, soft=True))
    X = data.draw(rows(forest))
    engine = TorchEngine(forest, device)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    assert_same_bits(engine.raw(X), expected_raw(forest, X))


@on_every_device
@pytest.mark.parametrize(
    "kinds", [(AXIS, KERNEL), (SET,), (EQUAL, AXIS), ONE_HOT, (OBLIQUE,), (POLYTOPE, AXIS)]
)
@pytest.mark.parametrize("rule", [(MissingRule.NAN,), tuple(MissingRule)])
@settings(max_examples=6)
@given(data=st.data())
def test_each_kind_of_node_alone_decides_as_the_reference(device, kinds, rule, data):
    forest = data.draw(forests(kinds=kinds, missing_rules=rule, max_leaves=20))
    X = data.draw(rows(forest))
    engine = TorchEngine(forest, device)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))


@on_every_device
@settings(max_examples=10)
@given(data=st.data())
def test_sets_may_be_decided_without_a_table(device, data):
    forest = data.draw(forests(max_leaves=20))
    X = data.draw(rows(forest))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compared_columns, "TABLE", 0)
        engine = TorchEngine(forest, device)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    assert_same_bits(engine.raw(X), expected_raw(forest, X))


@on_every_device
@in_every_form
@settings(max_examples=8)
@given(data=st.data())
def test_blocks_do_not_change_the_answer(device, form, data):
    forest = data.draw(forests(max_leaves=12))
    X = data.draw(rows(forest))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ELEMENTS", 5)
        patch.setattr(module, "BUDGET", 2000)
        engine = TorchEngine(forest, device, form=form)
        assert engine.info()["block_rows"] <= 2000 // 48
        assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
        assert_same_bits(engine.raw(X), expected_raw(forest, X))


@on_every_device
@settings(max_examples=10)
@given(data=st.data())
def test_the_layout_and_the_dtype_of_X_do_not_matter(device, data):
    forest = data.draw(forests())
    X = data.draw(rows(forest))
    engine = TorchEngine(forest, device)
    wide = np.zeros((len(X), 2 * forest.n_features), X.dtype)
    wide[:, ::2] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    exits, raw = engine.exit_leaves(X), engine.raw(X)
    layouts = [np.asfortranarray(X), wide[:, ::2], X[::-1].copy()[::-1], frozen]
    if forest.dtype == np.float32:
        layouts.append(X.astype(np.float64))
    for layout in layouts:
        assert np.array_equal(engine.exit_leaves(layout), exits)
        assert_same_bits(engine.raw(layout), raw)
    assert engine.exit_leaves(X[:0]).shape == (0, forest.n_trees)
    assert engine.raw(X[:0]).shape == (0, forest.n_outputs)


def test_a_wider_input_is_rounded_to_the_forests_dtype():
    stump = Forest.from_matrices([[1.0]], [1.0], [[0], [1]], [10, 20])
    tests = stump.tests
    narrow = {
        name: getattr(tests, name).astype(np.float32) for name in ("weight", "offset", "r", "b")
    }
    forest = replace(stump, tests=replace(tests, **narrow))
    X = np.array([[1 + 1e-9], [1 + 1e-6], [1e300], [-1e300]])
    assert TorchEngine(forest).raw(X).ravel().tolist() == [10, 20, 20, 10]


@on_every_device
@settings(max_examples=8)
@given(data=st.data())
def test_an_array_that_is_given_is_filled_and_returned(device, data):
    forest = data.draw(forests(max_leaves=20))
    X = data.draw(rows(forest))
    engine = TorchEngine(forest, device)
    exits = np.full((len(X), forest.n_trees), -1, np.int32)
    raw = np.full((forest.n_outputs, len(X)), np.nan, forest.output.dtype).T
    assert engine.exit_leaves(X, exits) is exits
    assert engine.raw(X, out=raw) is raw
    assert np.array_equal(exits, reference.exit_leaves(forest, X))
    assert_same_bits(raw, expected_raw(forest, X))


def grown(n_trees, n_outputs=1, depth=5, dtype=np.float32, **output):
    """A forest of full trees with leaves whose sums depend on their order."""
    rng = np.random.default_rng(n_trees)
    n = 2**depth - 1
    left = np.arange(n_trees * n).reshape(n_trees, n)
    child = left[:, :1] + 2 * np.arange(n)[None, :] + 1
    is_leaf = np.arange(n) >= n // 2
    leaf = np.cumsum(np.repeat(is_leaf, 2)).reshape(n, 2) - 1
    first = 2**depth * np.arange(n_trees)[:, None]
    sides = [np.where(is_leaf, ~(first + leaf[:, k]), child + k).ravel() for k in (0, 1)]
    B = structure.arrange(*sides, left[:, 0])[0]
    v = rng.normal(size=(B.n_leaves, n_outputs)) * 10.0 ** rng.integers(-6, 6, (B.n_leaves, 1))
    return Forest(
        axis_aligned(
            rng.integers(0, 4, B.n_nodes).astype(np.int32),
            rng.normal(size=B.n_nodes).astype(dtype),
            missing_right=rng.random(B.n_nodes) < 0.5,
        ),
        B,
        Leaves(v.astype(dtype)),
        Output(n_outputs, np.dtype(dtype), **output),
        Inputs(4),
    )


@on_every_device
@in_every_form
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 2, 150])
@pytest.mark.parametrize("missing", [False, True])
def test_many_trees_add_in_their_order(device, form, n_outputs, n_rows, missing):
    forest = grown(31, n_outputs, aggregate=Aggregate.MEAN)
    X = np.random.default_rng(0).normal(size=(n_rows, 4)).astype(np.float32)
    if missing:
        X[::2, 1] = np.nan
        X[-1] = np.inf
    engine = TorchEngine(forest, device, form=form)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    assert_same_bits(engine.raw(X), expected_raw(forest, X))


@on_every_device
def test_a_forest_without_trees_answers_its_base_score(device):
    forest = grown(2, 2, base_score=np.array([1.5, -0.0], np.float32)).take([])
    X = np.zeros((5, 4), np.float32)
    engine = TorchEngine(forest, device)
    assert engine.exit_leaves(X).shape == (5, 0)
    assert_same_bits(engine.raw(X), expected_raw(forest, X))


def test_many_threads_may_call_one_engine():
    forest = grown(40, 3)
    engine = TorchEngine(forest)
    X = np.random.default_rng(1).normal(size=(800, 4)).astype(np.float32)
    expected = expected_raw(forest, X)
    with ThreadPoolExecutor(8) as pool:
        for raw in pool.map(lambda n: engine.raw(X[:n]), [1, 7, 800] * 8):
            assert_same_bits(raw, expected[: len(raw)])


@settings(max_examples=10)
@given(forests(max_leaves=70), st.sampled_from(FORMS))
def test_info_tells_which_trees_run_how_and_why(forest, form):
    engine = TorchEngine(forest, form=form)
    info = engine.info()
    assert sum(info["trees"].values()) == forest.n_trees
    assert info["form"] in info["trees"]
    assert info["why"] == "asked for" if form != "auto" else info["why"]
    if form == "matrix":
        assert set(info["trees"]) <= {"matrix"}
    assert isinstance(engine, Engine)


def test_an_unknown_form_is_refused():
    with pytest.raises(InputError, match=r"must be one of auto, matrix.*got .gemm."):
        TorchEngine(grown(1), form="gemm")


def test_the_form_follows_from_the_trees():
    assert TorchEngine(grown(3)).info()["form"] == "perfect"
    assert TorchEngine(grown(3), form="matrix").info()["trees"] == {"matrix": 3}


@on_every_device
@pytest.mark.parametrize("shape", [(2, 5), (2, 3), (4,), (2, 4, 1)])
def test_a_wrong_shape_is_refused(device, shape):
    tests = replace(grown(3).tests, kind=np.full(grown(3).n_nodes, Kind.KERNEL, np.uint8))
    soft = replace(grown(3), tests=tests, kernel=(box(1.0),) * 4)
    for forest in (grown(3), soft):
        engine = TorchEngine(forest, device)
        for call in (engine.raw, engine.exit_leaves):
            with pytest.raises(InputError, match="must have 4 features"):
                call(np.zeros(shape, np.float32))

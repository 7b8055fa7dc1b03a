"""Compiled paths of soft forests: the numbers of torch's own operations, and their gradients."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, forests, rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.node_tests import MissingRule
from bitvec.core.output import Aggregate
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.predict.cpu import plain_walks  # noqa: E402
from bitvec.runtime.train.relax import (  # noqa: E402
    SoftForest,
    compiled_paths,
    path_kernels,
    scaling,
)

SUMMED = (Aggregate.SUM, Aggregate.MEAN)
MOVING = [("b", "v"), ("v",), ("S", "b", "v", "r", "base_score")]


def made(forest, X, trainable, gamma, **options):
    """Return a calibrated module whose numbers have moved, the same for any options."""
    module = SoftForest.from_forest(
        forest, "sigmoid", trainable=trainable, gamma=gamma, **options
    ).calibrate(X)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.requires_grad:
                parameter.add_((0.1 * noise).to(parameter.dtype))
    return module


def answers(module, X):
    """Return scores and the gradients of one loss."""
    scores = module(X)
    weight = torch.tensor(np.random.default_rng(0).normal(size=scores.shape)).to(scores.dtype)
    moving = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad((scores * weight).sum(), moving, allow_unused=True)
    return [scores.detach(), *(g if g is not None else torch.zeros(()) for g in found)]


def assert_near(got, expected, within=3e-5):
    for one, other in zip(got, expected, strict=True):
        size = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        assert torch.allclose(one.to(other.dtype), other, rtol=within, atol=within * size)


def compiles(module, X):
    return module._compiled_total(module.plan(), module.prepare(X)) is not None


@given(st.data(), st.sampled_from(MOVING), st.sampled_from([1.5, 20.0]))
def test_compiled_paths_answer_as_torch_does(data, trainable, gamma):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=40, max_trees=4))
    # Of moderate size: at 1e300 the last bits of a product decide a share.
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = rng.normal(size=(data.draw(st.integers(1, 70)), forest.n_features))
    X[rng.random(X.shape) < 0.1] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 0.0]))
    ours = made(forest, X, trainable, gamma)
    assert compiles(ours, X)
    by_torch = made(forest, X, trainable, gamma, dtype=torch.float32, tree_chunk=forest.n_trees)
    assert not compiles(by_torch, X)
    assert_near(answers(ours, X), answers(by_torch, X))


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 255, 256, 257, 600])
def test_any_number_of_rows_is_answered_on_any_number_of_threads(n):
    forest = Forest.from_matrices(
        np.eye(3)[[2, 0, 1]], [0.2, 0.1, -0.3], [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]],
        [[1, 5], [2, 6], [4, 7], [8, 9]],
    ).take([0] * 30)  # fmt: skip
    X = np.random.default_rng(1).normal(size=(n, 3))
    ours = made(forest, np.random.default_rng(2).normal(size=(50, 3)), ("b", "v"), 4.0)
    threads = torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            found.append(answers(ours, X))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    other = made(
        forest, np.random.default_rng(2).normal(size=(50, 3)), ("b", "v"), 4.0, tree_chunk=7
    )
    assert_near(found[0], answers(other, X))


@pytest.mark.parametrize("kept", [0, 1 << 21])
def test_a_tree_of_more_nodes_than_a_run_has_room_for_is_answered(monkeypatch, kept):
    monkeypatch.setattr(path_kernels, "CACHED", 64)  # runs of one vector
    monkeypatch.setattr(compiled_paths, "KEPT", kept)
    chain = np.arange(6)[:, None] >= 5 - np.arange(5)
    forest = Forest.from_matrices(np.ones((5, 1)), np.arange(5.0)[::-1], chain, np.arange(6.0))
    X = np.linspace(-1, 6, 40)[:, None]
    ours, other = (made(forest, X, ("b", "v"), 3.0, tree_chunk=chunk) for chunk in (None, 1))
    assert_near(answers(ours, X), answers(other, X))


def test_steep_paths_are_those_of_the_hard_forest_on_tied_rows_too():
    B = [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]]
    forest = Forest.from_matrices(np.eye(3)[[2, 0, 1]], [1.0, 2.0, -1.0], B, [1.0, 2.0, 4.0, 8.0])
    X = np.random.default_rng(0).integers(-2, 4, (200, 3)).astype(float)
    X[::7, 0], X[::11, 1] = np.nan, np.inf
    module = SoftForest.from_forest(forest, trainable=("b", "v")).calibrate(X)
    module.gamma = 1e9
    assert compiles(module, X)
    assert np.array_equal(module(X).detach().numpy(), reference.raw(forest, X))


def test_a_number_that_is_none_stays_one_and_is_no_missing_value():
    forest = Forest.from_matrices(
        [[1.0], [1.0]], [0.0, 1.0], [[0, 0], [0, 1], [1, 1]], [1.0, 2.0, 4.0]
    )
    X = np.array([[-1.0], [np.nan], [2.0]])
    module = SoftForest.from_forest(forest, trainable=("b", "v"))
    with torch.no_grad():
        module.b[1] = np.nan
    assert compiles(module, X)
    got = module(X).detach().numpy()[:, 0]
    assert np.isnan(got[0])
    assert np.isnan(got[2])


def test_what_kernels_do_not_take_is_left_to_torch():
    forest = Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    X = np.ones((4, 2))
    assert compiles(SoftForest.from_forest(forest), X)
    for options in (
        {"dtype": torch.float64}, {"dtype": torch.bfloat16}, {"relaxation": "smooth_step"},
        {"relaxation": "softmax"}, {"tree_chunk": 1},
    ):  # fmt: skip
        assert not compiles(SoftForest.from_forest(forest, **options), X)
    module = SoftForest.from_forest(forest)
    x = torch.ones((4, 2), requires_grad=True)
    module(x).sum().backward()
    assert bool((x.grad[:, 0] > 0).all())


def test_margins_that_are_given_are_held_only_where_they_are_few(monkeypatch):
    forest = Forest.from_matrices([[1.0, 2.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    module = SoftForest.from_forest(forest, trainable=("b", "v"))  # an oblique test, that stays
    assert compiles(module, np.ones((8, 2)))
    monkeypatch.setattr(compiled_paths, "CACHED_PAIRS", 7)
    assert not compiles(module, np.ones((8, 2)))
    assert compiles(module, np.ones((7, 2)))
    monkeypatch.undo()
    module = SoftForest.from_forest(forest, trainable=("S", "b", "v"))  # whose rows are dense
    module.calibrate(np.random.default_rng(1).normal(size=(9, 2)))
    monkeypatch.setattr(compiled_paths, "CACHED_PAIRS", 0)
    monkeypatch.setattr(compiled_paths, "RECOMPUTE_BEYOND", 7)
    assert not compiles(module, np.ones((8, 2)))
    assert compiles(module, np.ones((7, 2)))
    X = np.random.default_rng(0).normal(size=(23, 2))
    with torch.no_grad():  # in pieces
        assert compiles(module, X)
        assert torch.equal(module(X), torch.cat([module(X[at : at + 7]) for at in (0, 7, 14, 21)]))


AXIS_FORESTS = forests(kinds=(AXIS,), max_leaves=40, missing_rules=(MissingRule.NAN,))


@given(st.data())
def test_plain_walks_are_the_reference(data):
    forest = data.draw(AXIS_FORESTS)
    assert plain_walks.compares_columns(forest)
    X, walks = data.draw(rows(forest)), plain_walks.PlainWalks(forest)
    assert np.array_equal(walks.exit_leaves(X), reference.exit_leaves(forest, X))
    raw = reference.raw(forest, X)
    assert np.array_equal(walks.raw(X), raw, equal_nan=True)
    out = np.empty_like(raw)
    assert np.array_equal(walks.raw(X[:, :], out), raw, equal_nan=True)


@given(st.data())
def test_scales_and_cuts_are_the_same_by_walks(data):
    forest = data.draw(AXIS_FORESTS)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = np.round(rng.normal(size=(60, forest.n_features)), 1).astype(forest.dtype)
    X[rng.random(X.shape) < 0.1] = data.draw(st.sampled_from([np.nan, np.inf, 0.0]))
    if forest.n_nodes:  # values equal to thresholds
        at = rng.integers(forest.n_nodes, size=20)
        X[np.arange(20), forest.tests.feature[at]] = forest.tests.b[at]
    device = torch.device("cpu")
    by_walks = scaling.measure(forest, X, device)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_walks, "compares_columns", lambda forest: False)
        by_torch = scaling.measure(forest, X, device)
    assert np.allclose(by_walks.margin, by_torch.margin, rtol=1e-5)
    assert np.array_equal(by_walks.cut, by_torch.cut)


def test_numbers_that_are_changed_before_the_backward_pass_are_refused():
    forest = Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    module = SoftForest.from_forest(forest, trainable=("b", "v"))
    loss = module(np.ones((4, 2))).sum()
    with torch.no_grad():
        module.b.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def loss_of(module, X):
    def loss(b, v):
        return torch.func.functional_call(module, {"b": b, "v": v}, (X,)).square().mean()

    return loss


@pytest.mark.parametrize("kind", ["axis", "oblique"])
def test_second_derivatives_are_those_of_plain_operations(kind):
    S = np.eye(3)[[2, 0, 1]] if kind == "axis" else [[1, 0.5, 0], [0, 1, 0], [0.3, 0, 1]]
    B = [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]]
    forest = Forest.from_matrices(S, [0.2, 0.1, -0.3], B, [1.0, 2.0, 4.0, 8.0])
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[::9, 0] = np.nan if kind == "axis" else 0.5
    module = made(forest, X, ("b", "v"), 3.0)
    assert compiles(module, X)
    b, v = module.b.detach(), module.v.detach()
    loss = loss_of(module, X)
    expected = torch.func.hessian(loss, argnums=(0, 1))(b, v)
    got = torch.autograd.functional.hessian(loss, (b, v))
    for one, other in zip(sum(got, ()), sum(expected, ()), strict=True):
        assert bool((other != 0).any())
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)
    several = torch.autograd.functional.jacobian(
        lambda b: torch.func.functional_call(module, {"b": b}, (X,))[:5], b, vectorize=True
    )
    alone = torch.autograd.functional.jacobian(
        lambda b: torch.func.functional_call(module, {"b": b}, (X,))[:5], b
    )
    assert torch.allclose(several, alone, rtol=1e-4, atol=1e-6)


def test_second_derivatives_that_torch_would_take_for_0_are_refused():
    forest = Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    module = SoftForest.from_forest(forest, trainable=("b", "v"), dtype=torch.float64)
    X = np.random.default_rng(0).normal(size=(9, 2))
    (slope,) = torch.autograd.grad(module(X).square().sum(), module.v, create_graph=True)
    assert torch.autograd.grad(slope.sum(), module.v)[0].abs().sum() > 0
    with pytest.raises(InputError, match=r"torch\.func"):
        torch.autograd.grad(module(X).square().sum(), module.b, create_graph=True)
    x = torch.tensor(X)
    call = loss_of(module, x)
    H = torch.func.hessian(call)(module.b.detach(), module.v.detach())
    assert H.abs().sum() > 0


def test_what_jit_traces_is_the_formulas():
    forest = Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    module = SoftForest.from_forest(forest, trainable=("b", "v"))
    X, other = torch.tensor(np.random.default_rng(0).normal(size=(2, 9, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module, X, check_trace=False)
    # Sums of shares of size 1 in float32, by two ways.
    assert torch.allclose(traced(other), module(other), atol=1e-6)


def test_tangents_inference_and_a_steepness_that_moves_are_left_to_torch():
    forest = Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    X = np.random.default_rng(0).normal(size=(9, 2))
    module = SoftForest.from_forest(forest, trainable=("b", "v"))
    with torch.autograd.forward_ad.dual_level():
        v = torch.autograd.forward_ad.make_dual(module.v.detach(), torch.ones_like(module.v))
        found = torch.func.functional_call(module, {"v": v}, (X,))
        tangent = torch.autograd.forward_ad.unpack_dual(found).tangent
    assert torch.allclose(tangent, torch.ones(9, 1))
    with torch.inference_mode():
        made_there = SoftForest.from_forest(forest, trainable=("b", "v"))
    assert torch.allclose(made_there(X), module(X), atol=1e-6)  # by torch, and compiled
    module.gamma = torch.nn.Parameter(torch.tensor(2.0))
    module(X).sum().backward()
    assert module.gamma.grad is not None

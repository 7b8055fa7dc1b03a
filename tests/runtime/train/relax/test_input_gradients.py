"""Gradients with respect to rows: right of tensors, refused where they would be lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import AXIS, OBLIQUE, POLYTOPE, forests, rows

import bitvec
from bitvec.core.feature_maps import Identity, StackedForest
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS  # noqa: E402
from bitvec.runtime.train.relax.soft_machine import SoftMachine  # noqa: E402

STUMP = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])
SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def three_leaves(seed=0):
    rng = np.random.default_rng(seed)
    tree = Forest.from_matrices(
        np.eye(3)[:2], rng.normal(size=2), [[0, 0], [0, 1], [1, 1]], [0.0, 1.0, 3.0]
    )
    return tree.take([0, 0])


@pytest.mark.parametrize("name", sorted(set(RELAXATIONS) - {"straight_through"}))
@pytest.mark.parametrize("trainable", [("b", "v"), ("S", "b", "v")])
def test_every_relaxation_has_the_gradient_of_its_rows(name, trainable):
    X = np.random.default_rng(1).normal(size=(4, 3))
    module = SoftForest.from_forest(
        three_leaves(), name, trainable=trainable, gamma=0.7, dtype=torch.float64
    ).calibrate(X)
    x = torch.tensor(X, requires_grad=True)
    assert torch.autograd.gradcheck(module, (x,))
    module(x).sum().backward()
    assert bool(x.grad[:, :2].any())


@settings(max_examples=12)
@given(st.data())
def test_scores_are_those_of_arrays_and_gradients_are_finite(data):
    forest = data.draw(forests(max_leaves=12, aggregates=SUMMED))
    X = data.draw(rows(forest))
    trainable = data.draw(st.sampled_from([("b", "v"), ("S", "b", "v")]))
    module = SoftForest.from_forest(forest, trainable=trainable, dtype=torch.float64)
    x = torch.tensor(X, requires_grad=True)
    # z of several columns is summed in another order, in the forest's dtype.
    few = np.finfo(forest.dtype).eps
    u = module.memberships(x)
    expected = module.memberships(X).detach().numpy()
    np.testing.assert_allclose(u.detach().numpy(), expected, rtol=0, atol=4096 * few)
    u.square().sum().backward()
    assert x.grad is None or bool(x.grad.isfinite().all())


@settings(max_examples=8)
@given(st.data())
def test_gradients_pass_linear_leaves_and_rows_of_every_kind(data):
    kinds = (AXIS, OBLIQUE, POLYTOPE)
    forest = data.draw(forests(kinds=kinds, max_leaves=6, dtypes=(np.float64,), aggregates=SUMMED))
    assume(forest.leaves.v.dtype == np.float64)  # leaves of float32 round x to it
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = rng.normal(size=(3, forest.n_features))
    present = torch.tensor(rng.random(X.shape) > 0.1)
    module = SoftForest.from_forest(forest, trainable=("v",), gamma=0.3, dtype=torch.float64)

    def run(values):
        blank = torch.full(X.shape, torch.nan, dtype=torch.float64)
        return module(blank.masked_scatter(present, values))

    assert torch.autograd.gradcheck(run, (torch.tensor(X)[present].requires_grad_(),))


@pytest.mark.parametrize("name", ["sigmoid", "smooth_step", "straight_through"])
def test_a_layer_before_the_forest_learns(name):
    torch.manual_seed(0)
    forest = SoftForest.from_forest(three_leaves(), name, gamma=0.5)
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), forest)
    net(torch.randn(8, 5)).square().sum().backward()
    assert bool(net[0].weight.grad.any())
    assert bool(net[0].weight.grad.isfinite().all())


def test_a_tensor_that_does_not_fit_is_refused():
    module = SoftForest.from_forest(STUMP)
    with pytest.raises(InputError, match=r"shape \(batch, 2\) on cpu, got shape \(3, 1\)"):
        module(torch.zeros((3, 1), requires_grad=True))
    with pytest.raises(InputError, match="must hold values, got a tensor on the device meta"):
        module(torch.zeros((3, 2), device="meta"))


def lost():
    machine = SoftMachine.from_forest(STUMP)
    return [machine, machine.memberships, SoftForest.from_forest(STUMP).hard]


def test_a_feature_map_that_stays_passes_the_gradient_where_torch_holds_it():
    x = torch.tensor([[0.2, 0.0], [0.9, 1.0]], dtype=torch.float64)
    bare = SoftForest.from_forest(STUMP, dtype=torch.float64)
    mapped = SoftForest.from_forest(replace(STUMP, feature_map=Identity(2)), dtype=torch.float64)
    found, expected = (torch.func.jacrev(module)(x) for module in (mapped, bare))
    assert torch.equal(found, expected)
    stacked = SoftForest.from_forest(replace(STUMP, feature_map=StackedForest(STUMP)))
    with pytest.raises(UnsupportedModelError, match="StackedForest: let it move"):
        stacked(x.requires_grad_())


@pytest.mark.parametrize("call", lost())
def test_a_gradient_that_would_be_lost_is_refused(call):
    x = torch.zeros((2, 2), requires_grad=True)
    with pytest.raises(InputError, match=r"pass X\.detach\(\)"):
        call(x)
    with pytest.raises(InputError, match=r"pass X\.detach\(\)"):
        call(torch.nn.Linear(2, 2)(x))
    with torch.no_grad():
        expected = call(x)
    assert torch.equal(call(x.detach()), expected)


@pytest.mark.parametrize("name", sorted(set(RELAXATIONS) - {"straight_through"}))
def test_every_relaxation_has_the_gradients_of_rows_and_of_every_parameter(name):
    X = np.random.default_rng(2).normal(size=(3, 3))
    module = SoftForest.from_forest(three_leaves(), name, gamma=0.7, dtype=torch.float64)
    module.calibrate(X)
    held = {n: p for n, p in module.named_parameters() if p.requires_grad}
    of_rows = set() if name == "kernel" else {"rows.S"}  # that gate reads them as they are
    assert set(held) == {"b", "v"} | of_rows
    values = [p.detach().clone().requires_grad_() for p in held.values()]

    def run(x, *values):
        return torch.func.functional_call(module, dict(zip(held, values, strict=True)), (x,))

    x = torch.tensor(X, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x, *values))
    for gradient in torch.autograd.grad(run(x, *values).sum(), (x, *values)):
        assert bool(gradient.any())


@pytest.mark.parametrize("name", RELAXATIONS)
def test_a_tensor_of_rows_tends_to_the_hard_answer_with_finite_gradients(name):
    X = np.random.default_rng(3).normal(size=(20, 3))
    forest = three_leaves()
    module = SoftForest.from_forest(forest, name, dtype=torch.float64).calibrate(X)
    expected = bitvec.to_torch(forest)(torch.tensor(X))
    far = []
    for gamma in (1.0, 30.0, 1e3, 1e7):
        module.gamma = gamma
        x = torch.tensor(X, requires_grad=True)
        scores = module(x)
        scores.square().sum().backward()
        assert bool(x.grad.isfinite().all())
        far.append(float((scores - expected).abs().max().detach()))
    assert far[-1] <= min(far[0], 1e-12)

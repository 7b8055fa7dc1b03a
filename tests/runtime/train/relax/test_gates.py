"""Gates: their literal formulas, their exact zeros and their gradients."""

from __future__ import annotations

import dense_relaxations
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import gates  # noqa: E402
from bitvec.runtime.train.relax.leaf_sums import sum_of_leaves, sum_of_reached  # noqa: E402

MARGINS = torch.linspace(-9, 9, 181, dtype=torch.float64)


@given(st.floats(0, 30), st.floats(0.01, 0.99), st.floats(0.1, 20))
def test_noisy_or_is_its_literal_formula(g, p0, exponent):
    f = -np.expm1(-g)
    with np.errstate(over="ignore", divide="ignore"):
        literal = 1 / (1 + ((1 - f) / (1 - p0)) ** exponent)
    margin = g + np.log1p(-p0)
    got = float(gates.noisy_or(torch.tensor(exponent * margin, dtype=torch.float64)))
    # 1 - f loses the digits that f has no room for: up to exp(30) times eps.
    assert abs(got - literal) < 1e-2 * (1 if g > 20 else 1e-4)


def test_noisy_or_is_defined_where_its_literal_formula_is_not():
    assert float(gates.noisy_or(torch.tensor(3.0 * (800.0 - 2.0)))) == 1.0


def test_smooth_step_is_its_literal_formula():
    expected = dense_relaxations.smooth_step(MARGINS.numpy())
    assert np.allclose(gates.smooth_step(MARGINS), expected, rtol=0, atol=1e-15)
    both = gates.smooth_turns(MARGINS[:, None])[:, :, 0]
    assert np.allclose(both[:, 1], expected, rtol=0, atol=1e-15)
    assert np.allclose(both[:, 0], expected[::-1], rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_smooth_step_is_exactly_0_and_1_outside_its_band_and_never_outside_of_0_and_1(dtype):
    info = torch.finfo(dtype)
    edge = torch.tensor([3.0, 3.5, 1e30, torch.inf], dtype=dtype)
    assert gates.smooth_step(edge).tolist() == [1.0] * 4
    assert gates.smooth_step(-edge).tolist() == [0.0] * 4
    near = torch.linspace(-3, 3, 10_001).to(dtype)
    near = torch.cat([near, torch.tensor([-3 * (1 - info.eps), 3 * (1 - info.eps)], dtype=dtype)])
    s = gates.smooth_step(near)
    assert bool(((s >= 0) & (s <= 1)).all())


def test_smooth_step_and_the_sigmoid_have_one_slope_at_0():
    slopes = []
    for gate in (gates.sigmoid, gates.smooth_step):
        m = torch.zeros((), dtype=torch.float64, requires_grad=True)
        slopes.append(torch.autograd.grad(gate(m), m)[0].item())
    assert slopes == [0.25, 0.25]


@pytest.mark.parametrize("turns", [gates.smooth_turns, gates.log_sigmoid_turns])
def test_gradients_of_turns_are_exact(turns):
    m = torch.tensor(np.random.default_rng(0).normal(size=(4, 5)) * 2, requires_grad=True)
    assert torch.autograd.gradcheck(turns, (m,))


def test_logarithms_of_the_sigmoid_are_finite_where_it_is_0_and_sound_at_infinity():
    m = torch.tensor([[-1e5, 1e5, -torch.inf, torch.inf]], requires_grad=True)
    turns = gates.log_sigmoid_turns(m)
    inf = torch.inf
    assert turns.tolist() == [[[0.0, -1e5, 0.0, -inf], [-1e5, 0.0, -inf, 0.0]]]
    (turns[:, :, :2].sum() + turns[0, 0, 2] + turns[0, 1, 3]).backward()
    assert m.grad.isfinite().all()


def test_activations_are_positive_for_positive_margins_only():
    for gate in gates.ACTIVATIONS.values():
        assert torch.equal(gate(MARGINS) > 0, MARGINS > 0)
        assert torch.all(gate(MARGINS)[MARGINS <= 0] == 0)


def test_a_leaf_of_membership_0_adds_nothing():
    u = torch.tensor([[0.0, 0.25], [1.0, 0.75]])
    v = torch.tensor([[torch.inf], [2.0]])
    for output in (None, torch.tensor([1, 0])):
        n_outputs = 1 if output is None else 2
        dense = sum_of_leaves(u, v, output, n_outputs, torch.tensor([0]))
        leaf, row = torch.nonzero(u > 0, as_tuple=True)
        reached = sum_of_reached(row, leaf, u[leaf, row], v, output, shape=(n_outputs, 2))
        assert torch.equal(dense, reached)
        assert dense.tolist() == (
            [[2.0, torch.inf]] if output is None else [[2.0, 1.5], [0.0, torch.inf]]
        )

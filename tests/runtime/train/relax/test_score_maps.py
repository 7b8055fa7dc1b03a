"""Maps from scores to the simplex: their optimality, their gradients, and −inf outside."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax.leaf_maps import SCORE_MAPS, score_map  # noqa: E402


def drawn(seed=0, n=9):
    return torch.tensor(np.random.default_rng(seed).normal(size=(4, n, 5)) * 2)


def bisected(score):
    """Return 1.5-entmax by bisection on its threshold: sum of ((score/2 − t)+)² = 1."""
    half = score / 2
    low, high = half.max() - 1.0, half.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if (np.maximum(half - middle, 0) ** 2).sum() > 1 else (low, middle)
        )
    return np.maximum(half - low, 0) ** 2


@pytest.mark.parametrize("seed", range(5))
def test_entmax_is_its_bisection(seed):
    score = drawn(seed)
    found = score_map("entmax")(score).numpy()
    for tree in range(4):
        for row in range(5):
            expected = bisected(score[tree, :, row].numpy())
            np.testing.assert_allclose(found[tree, :, row], expected, atol=1e-12)  # rounding


def test_entmax_is_stationary_for_its_problem():
    """p · s + (4/3) · sum of (p − p^1.5) has one slope, s − 2 p^0.5 + 4/3, on its support."""
    score = drawn()
    p = score_map("entmax")(score)
    slope = score - 2 * p.sqrt()
    inside = p > 0
    top = torch.where(inside, slope, -torch.inf).amax(dim=1, keepdim=True)
    assert bool(((slope - top).abs() < 1e-9)[inside].all())  # roots of rounded numbers
    assert bool((score <= top + 1e-9)[~inside].all())


@pytest.mark.parametrize("name", SCORE_MAPS)
def test_a_map_ends_on_the_simplex_and_shifts_do_not_matter(name):
    score = drawn()
    p = score_map(name)(score)
    assert bool((p >= 0).all())
    torch.testing.assert_close(p.sum(dim=1), torch.ones(4, 5, dtype=p.dtype))
    torch.testing.assert_close(score_map(name)(score + 100), p, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SCORE_MAPS)
def test_scores_of_minus_infinity_are_outside(name):
    score = drawn()
    padded = torch.cat([score, torch.full((4, 3, 5), -torch.inf)], dim=1).requires_grad_()
    p = score_map(name)(padded)
    assert bool((p[:, 9:] == 0).all())
    torch.testing.assert_close(p[:, :9], score_map(name)(score))
    (p * torch.arange(12.0, dtype=p.dtype)[:, None]).sum().backward()
    assert bool(padded.grad.isfinite().all())
    assert bool((padded.grad[:, 9:] == 0).all())


@pytest.mark.parametrize("name", SCORE_MAPS)
def test_gradients_are_exact(name):
    assert torch.autograd.gradcheck(score_map(name), (drawn(n=5).requires_grad_(),))


@pytest.mark.parametrize("name", SCORE_MAPS)
def test_one_leaf_and_huge_gaps_are_no_trouble(name):
    assert score_map(name)(torch.zeros((1, 1, 2))).tolist() == [[[1.0, 1.0]]]
    score = torch.tensor([[[1e30], [0.0], [-1e30]]], requires_grad=True)
    p = score_map(name)(score)
    assert p.flatten().tolist() == [1.0, 0.0, 0.0]
    p.sum().backward()
    assert bool(score.grad.isfinite().all())


def test_an_unknown_map_is_refused():
    with pytest.raises(InputError, match="one of softmax, entmax, sparsemax"):
        score_map("hardmax")

"""Sparsemax and entmax-1.5: those of a full sort, their gradients, and when one is one-hot."""

from __future__ import annotations

import dense_relaxations
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bitvectors

from bitvec.core import matrices, reference

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import sparsemax as projections  # noqa: E402
from bitvec.runtime.train.relax.sparsemax import entmax15, sparsemax  # noqa: E402

EPSILON = 0.5
BOTH = pytest.mark.parametrize(
    ("project", "literal"),
    [(sparsemax, dense_relaxations.sparsemax), (entmax15, dense_relaxations.entmax15)],
    ids=["sparsemax", "entmax15"],
)


def along(project, score):
    """Apply a projection to each line of (n, size)."""
    return project(torch.as_tensor(score)[:, :, None])[:, :, 0].numpy()


def along_traced(project, line):
    return project(line[None, :, None])[0, :, 0]


@BOTH
@given(
    st.sampled_from([1, 2, 3, 15, 16, 63, 64, 65, 100, 300]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-6, 0.1, 1.0, 30.0, 1e6]),
    st.booleans(),
)
def test_it_is_that_of_a_full_sort(project, literal, size, seed, scale, hostile):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(4, size)) * scale
    if hostile:  # ties, and places outside
        score = np.round(score)
        score[rng.random(score.shape) < 0.3] = -np.inf
        score[:, rng.integers(size)] = 0.0
    expected = np.stack([literal(line) for line in score])
    assert np.allclose(along(project, score), expected, rtol=0, atol=1e-12)  # rounding of sums
    traced = torch.func.vmap(lambda line: along_traced(project, line))(torch.tensor(score))
    assert np.allclose(traced, expected, rtol=0, atol=1e-12)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sum_is_1_whatever_the_scores(project, literal, dtype):
    rng = np.random.default_rng(0)
    for scale in (0.0, 1e-30, 1e-3, 1.0, 1e4, 1e30):
        score = torch.tensor(rng.normal(size=(3, 1024, 5)) * scale, dtype=dtype)
        p = project(score)
        # The rounding of a sum of 1024 shares.
        assert torch.all((p.sum(dim=1) - 1).abs() < 64 * torch.finfo(dtype).eps)
        assert torch.all(p >= 0)


@BOTH
def test_gradients_are_exact(project, literal):
    for size in (5, 80):
        score = torch.tensor(np.random.default_rng(0).normal(size=(2, size, 2)), requires_grad=True)
        assert torch.autograd.gradcheck(project, (score,))


@BOTH
def test_a_place_outside_has_no_share_and_no_gradient(project, literal):
    score = torch.tensor([0.3, -torch.inf, 0.1], dtype=torch.float64)[None, :, None]
    score.requires_grad_()
    (project(score) * torch.tensor([1.0, 2.0, 3.0])[None, :, None]).sum().backward()
    assert project(score)[0, 1, 0] == 0
    assert score.grad[0, 1, 0] == 0
    assert score.grad.isfinite().all()


@BOTH
def test_parts_that_fit_a_cache_are_no_other_problem(project, literal, monkeypatch):
    score = torch.tensor(np.random.default_rng(0).normal(size=(7, 70, 3)))
    whole = project(score)
    monkeypatch.setattr(projections, "CACHED", 2 * 70 * 3)
    assert torch.allclose(project(score), whole, rtol=0, atol=1e-12)  # other Newton starts


@BOTH
def test_not_a_number_ends_and_stays_one(project, literal):
    p = project(torch.tensor([[torch.nan, 1.0], [0.0, 1.0]])[:, :, None])
    assert p[0].isnan().all()
    assert p[1, :, 0].tolist() == along(project, np.array([[0.0, 1.0]], np.float32))[0].tolist()


def test_no_slices_are_no_slices():
    assert sparsemax(torch.zeros((0, 3, 2))).shape == (0, 3, 2)
    assert entmax15(torch.zeros((2, 3, 0))).shape == (2, 3, 0)


@given(bitvectors(max_trees=1, max_leaves=40), st.integers(0, 2**32 - 1))
def test_it_is_the_exit_leaf_up_to_temperature_eps_over_leaves_and_no_further(B, seed):
    h = np.random.default_rng(seed).random((16, B.n_nodes)) < 0.5
    scores = matrices.scores(B, h)
    penalty = EPSILON / B.n_leaves
    biased = scores - penalty * np.arange(B.n_leaves)

    def project(temperature: float) -> np.ndarray:
        return along(sparsemax, biased / temperature)

    exits = reference.exit_leaf_bitvector(B, h)[:, 0]
    one_hot = np.eye(B.n_leaves)[exits]
    # The gap of two neighbouring penalties is penalty / T >= 1 up to float64 rounding.
    assert np.allclose(project(penalty), one_hot, rtol=0, atol=1e-12)
    assert np.array_equal(project(penalty / 2), one_hot)
    if B.n_leaves == 1:
        return
    ties = (scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1
    neighbours = ties & (np.sort(biased, axis=1)[:, -2:] @ [-1, 1] < 1.5 * penalty)
    beyond = project(2 * penalty)
    assert np.all(beyond[neighbours].max(axis=1) < 1), "warmer, tied neighbours share the mass"

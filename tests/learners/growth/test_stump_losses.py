"""The losses of stumps: closed forms against autograd, and what EM promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bitvec.learners.growth.level import Batch, Blocks, Level, level_of
from bitvec.learners.growth.linear import Linear
from bitvec.learners.growth.stump_losses import (
    EM,
    LOSSES,
    Impurity,
    Likelihood,
    log_likelihood,
    responsibility,
    split_bound,
)
from bitvec.learners.growth.targets import Labels, Values, sums_by_side


def a_level(kind: str, seed: int = 0) -> Level:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    code = (X[:, 0] + rng.standard_normal(60) > 0).astype(int) + (X[:, 1] > 1)
    target: Any = Labels(code, 3) if kind == "labels" else Values(X @ rng.standard_normal((3, 2)))
    weight = rng.uniform(0.5, 2, 60)
    return level_of(X, target, weight, [np.arange(25), np.arange(25, 60)])


def batch_and_steep(level: Level) -> tuple[Batch, Any, torch.Tensor]:
    tests = Linear().draw([np.random.default_rng(j) for j in range(2)], level, 4)
    batch = Blocks(level).at(0)
    return batch, tests, 1.5 * tests.margins(batch.Z, batch.node)


def test_the_closed_form_gradient_is_that_of_autograd() -> None:
    rng = np.random.default_rng(0)
    steep = torch.tensor(rng.normal(0, 5, (3, 4, 5)), requires_grad=True)
    left, right = (torch.tensor(rng.uniform(0, 2, (3, 4, 5))) for _ in range(2))
    s = steep.sigmoid()
    literal = (right * s.log() + left * (1 - s).log()).sum()
    (expected,) = torch.autograd.grad(literal, steep)
    value = split_bound(steep, left, right)
    (found,) = torch.autograd.grad(value.sum(), steep)
    assert torch.allclose(value.sum(), literal)
    assert torch.allclose(found, expected, atol=1e-12)
    assert torch.autograd.gradcheck(lambda m: split_bound(m, left, right), (steep,))


def test_confident_nodes_keep_a_gradient() -> None:
    """A clamped probability would have none: −ln 1e-5 is 11.5."""
    steep = torch.tensor([-60.0], requires_grad=True)
    split_bound(steep, torch.zeros(1), torch.ones(1)).sum().backward()
    assert steep.grad is not None
    assert steep.grad.item() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["labels", "values"])
def test_the_likelihood_has_the_gradient_of_the_bound_at_the_current_point(kind: str) -> None:
    level = a_level(kind)
    batch, _, steep = batch_and_steep(level)
    steep = steep.detach().requires_grad_()
    (direct,) = torch.autograd.grad(Likelihood(level.soft)(steep, batch).sum(), steep)
    sums = sums_by_side(steep.sigmoid(), batch.weight, batch.statistics, batch.node, 2).detach()
    density = level.soft.log_density(sums, batch.node, batch.rows)
    h = responsibility(density, steep).detach()
    bound = batch.by_node(-split_bound(steep, 1 - h, h))
    (of_bound,) = torch.autograd.grad(bound.sum(), steep)
    assert torch.allclose(direct, of_bound, atol=1e-7)


@pytest.mark.parametrize("kind", ["labels", "values"])
def test_an_em_step_never_lowers_the_likelihood(kind: str) -> None:
    level = a_level(kind)
    batch, tests, steep = batch_and_steep(level)
    sums = sums_by_side(steep.sigmoid(), batch.weight, batch.statistics, batch.node, 2).detach()

    def likelihood(steep: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        # With the deviation of values that the leaves share, which log_density leaves out.
        density = level.soft.log_density(sums, batch.node, batch.rows)
        if kind == "values":
            n = sums[..., 0].sum(0) * 2
            variance = level.soft.impurity(sums).sum(0) / n
            density = density - variance.log()[:, batch.node][..., None]
        return batch.by_node(log_likelihood(density, steep))

    rises = 0
    with torch.no_grad():
        for _ in range(15):
            steep = 1.5 * tests.margins(batch.Z, batch.node)
            before = likelihood(steep, sums)
            density = level.soft.log_density(sums, batch.node, batch.rows)
            h = responsibility(density, steep)
            sums = sums_by_side(h, batch.weight, batch.statistics, batch.node, 2)
            leaves = likelihood(steep, sums)
            assert torch.all(leaves >= before - 1e-5)
            with torch.enable_grad():
                value = batch.by_node(
                    split_bound(1.5 * tests.margins(batch.Z, batch.node), 1 - h, h)
                )
                (slope,) = torch.autograd.grad(value.sum(), tests.theta)
            old = tests.theta.clone()
            tests.theta += 0.05 * slope
            moved = 1.5 * tests.margins(batch.Z, batch.node)
            climbed = batch.by_node(split_bound(moved, 1 - h, h)) >= value
            tests.theta.copy_(torch.where(climbed[..., None], tests.theta, old))
            after = likelihood(1.5 * tests.margins(batch.Z, batch.node), sums)
            assert torch.all(after >= leaves - 1e-5)
            rises += int((after > before + 1e-4).sum())
    assert rises > 20


@pytest.mark.parametrize("kind", ["labels", "values"])
def test_em_takes_h_and_leaves_from_all_rows_every_tenth_step(kind: str) -> None:
    level = a_level(kind)
    batch, tests, steep = batch_and_steep(level)
    loss = EM(level.soft)
    seen = []

    def everything() -> tuple[torch.Tensor, Batch]:
        seen.append(1)
        return 1.5 * tests.margins(batch.Z, batch.node), batch

    for step in range(21):
        loss.before(step, everything)
    assert len(seen) == 3
    assert loss.right is not None
    assert loss.right.shape == (4, 60)
    assert torch.all((loss.right >= 0) & (loss.right <= 1))
    assert loss(steep, batch).shape == (4, 2)
    assert loss.sums is not None
    assert loss.sums[..., 0].sum(0).shape == (4, 2)


@pytest.mark.parametrize("kind", ["labels", "values"])
def test_at_a_steep_split_the_impurity_is_that_of_both_sides(kind: str) -> None:
    level = a_level(kind)
    batch, tests, steep = batch_and_steep(level)
    found = Impurity(level.soft)(1e6 * steep, batch).detach().numpy()
    blocks = Blocks(level)
    right = blocks.spread(tests.margins(batch.Z, batch.node)).detach().numpy() > 0
    for restart in range(4):
        for j in range(2):
            own = np.arange(level.start[j], level.start[j + 1])
            weight, target = level.weight, level.target
            sides = (own[~right[restart, own]], own[right[restart, own]])
            exact = sum(target.take(side).impurity(weight[side]) for side in sides if side.size)
            unit = target.take(own).unit(weight[own])
            assert found[restart, j] == pytest.approx(exact / unit, abs=1e-4)


def test_a_side_and_its_complement_are_the_same_to_every_loss() -> None:
    """So both orientations of a polytope are one stump."""
    level = a_level("labels")
    batch, _, steep = batch_and_steep(level)
    for name, loss in LOSSES.items():
        if name != "em":
            there, here = loss(level.soft)(steep, batch), loss(level.soft)(-steep, batch)
            assert torch.allclose(there, here, atol=1e-6), name

"""Stumps of a level: as good as alone, started in the middle, and better for more restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitvec.learners.growth import level as level_module
from bitvec.learners.growth.grow import generator_of
from bitvec.learners.growth.level import Blocks, level_of
from bitvec.learners.growth.linear import Linear, LinearRule
from bitvec.learners.growth.polytope import Polytope, PolytopeRule
from bitvec.learners.growth.stump_losses import LOSSES
from bitvec.learners.growth.stumps import StumpTraining, centre, margins_of, train_stumps
from bitvec.learners.growth.targets import Labels, Target, Values
from bitvec.runtime.train.retrain.schedules import steepness

KINDS = {"linear": Linear(), "polytope": Polytope(3, 0.01)}


def training(kind: str, loss: str = "information", **options: Any) -> StumpTraining:
    plain = StumpTraining(
        KINDS[kind], LOSSES[loss], 15, 3, 4096, 0.05, steepness((1.0, 8.0), "linear")
    )
    return replace(plain, **options)


def a_problem(n: int = 300, *, values: bool = False) -> tuple[Any, Target, Any, list[Any]]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)) * [1, 10, 100, 1]
    code = (X[:, 0] + X[:, 1] / 10 > 0).astype(int) + (np.abs(X[:, 3]) > 1)
    target: Target = Values(code[:, None] * 1.0) if values else Labels(code, 3)
    rows = np.split(rng.permutation(n), [n // 3, n // 2])
    return X, target, rng.uniform(0.5, 2, n), [np.sort(own) for own in rows]


def numbers(rule: Any) -> Any:
    if isinstance(rule, LinearRule):
        return rule.theta
    assert isinstance(rule, PolytopeRule)
    return np.concatenate([rule.beta.ravel(), rule.r])


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_stumps_of_a_level_are_those_trained_one_by_one(kind: str, loss: str) -> None:
    """Up to the order of sums in float32."""
    X, target, weight, rows = a_problem(values=loss == "variance")
    how = training(kind, loss)
    together = train_stumps(
        X, target, weight, rows, [generator_of(5, 4 + j, 0) for j in range(3)], how
    )
    for j, own in enumerate(rows):
        (alone,) = train_stumps(X, target, weight, [own], [generator_of(5, 4 + j, 0)], how)
        assert numbers(together[j].rule) == pytest.approx(numbers(alone.rule), rel=2e-3, abs=2e-3)
        assert together[j].cost == pytest.approx(alone.cost, rel=1e-6)


def test_they_are_so_where_steps_take_a_part_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_module, "MIN_ROWS_OF_A_STEP", 40)
    X, target, weight, rows = a_problem()
    how = training("linear", batch_size=40)
    together = train_stumps(
        X, target, weight, rows, [generator_of(5, 4 + j, 0) for j in range(3)], how
    )
    for j, own in enumerate(rows):
        (alone,) = train_stumps(X, target, weight, [own], [generator_of(5, 4 + j, 0)], how)
        assert numbers(together[j].rule) == pytest.approx(numbers(alone.rule), rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_start_has_half_of_the_weight_on_each_side(kind: str) -> None:
    X, target, weight, rows = a_problem()
    level = level_of(X, target, weight, rows)
    tests = KINDS[kind].draw([generator_of(1, j, 0) for j in range(3)], level, 5)
    everything = Blocks(level)
    centre(tests, everything)
    margins = margins_of(tests, everything).double().numpy()
    for j in range(3):
        own = slice(level.start[j], level.start[j + 1])
        w = level.weight[own]
        for restart in range(5):
            m = margins[restart, own]
            right = w[m > 0].sum() / w.sum()
            assert abs(right - 0.5) <= w.max() / w.sum()
            deviation = np.sqrt(np.average((m - np.average(m, weights=w)) ** 2, weights=w))
            assert deviation == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_training_lowers_the_impurity_and_the_cost_is_that_of_the_rule(kind: str) -> None:
    X, target, weight, rows = a_problem()
    generators = [generator_of(0, j, 0) for j in range(3)]
    untrained = train_stumps(X, target, weight, rows, generators, training(kind, steps=1))
    generators = [generator_of(0, j, 0) for j in range(3)]
    trained = train_stumps(X, target, weight, rows, generators, training(kind, steps=100))
    for own, before, after in zip(rows, untrained, trained, strict=True):
        right = after.rule.margins(X[own]) > after.threshold
        sides = (own[~right], own[right])
        cost = sum(target.take(side).impurity(weight[side]) for side in sides)
        assert after.cost == pytest.approx(cost)
        assert after.cost <= before.cost
    assert sum(each.cost for each in trained) < 0.9 * sum(each.cost for each in untrained)


def test_the_best_of_more_restarts_is_no_worse() -> None:
    """The starts of fewer restarts are the first of those of more."""
    X, target, weight, rows = a_problem()

    def cost(restarts: int) -> float:
        (stump,) = train_stumps(
            X,
            target,
            weight,
            rows[:1],
            [generator_of(0, 1, 0)],
            training("linear", restarts=restarts),
        )
        return stump.cost

    assert cost(6) <= cost(3) * (1 + 1e-6)
    assert cost(3) <= cost(1) * (1 + 1e-6)


def test_rows_that_are_all_alike_have_no_cut() -> None:
    X, target = np.ones((20, 2)), Labels(np.arange(20) % 2, 2)
    for kind in sorted(KINDS):
        (stump,) = train_stumps(
            X, target, np.ones(20), [np.arange(20)], [generator_of(0, 1, 0)], training(kind)
        )
        assert stump.cost == np.inf


def test_a_column_that_is_constant_at_a_node_is_not_read() -> None:
    X, target, weight, rows = a_problem()
    X[rows[0], 2] = 5.0
    stumps = train_stumps(
        X, target, weight, rows, [generator_of(0, j, 0) for j in range(3)], training("linear")
    )
    read = [numbers(stump.rule)[2] != 0 for stump in stumps]
    assert read == [False, True, True]

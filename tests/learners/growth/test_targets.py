"""Targets: impurities, leaves by hard counts, and the soft sums that training sees."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from bitvec.learners.growth.targets import Labels, Values, sums_by_side


def drawn(seed: int, n: int = 40) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return rng, rng.integers(0, 3, n), rng.standard_normal((n, 2)), rng.integers(1, 4, n) * 1.0


def test_impurity_is_the_entropy_and_the_squared_error() -> None:
    _, code, Y, weight = drawn(0)
    share = np.array([weight[code == k].sum() for k in range(3)]) / weight.sum()
    expected = -(share * np.log(share)).sum() * weight.sum()
    assert Labels(code, 3).impurity(weight) == pytest.approx(expected)
    mean = np.average(Y, axis=0, weights=weight)
    assert Values(Y).impurity(weight) == pytest.approx((weight[:, None] * (Y - mean) ** 2).sum())


def test_far_from_zero_values_keep_their_digits() -> None:
    _, _, Y, weight = drawn(1)
    near, far = Values(np.round(Y * 1024)), Values(np.round(Y * 1024) + 2.0**40)
    assert far.impurity(weight) == pytest.approx(near.impurity(weight), rel=1e-12)
    margin = np.arange(40.0)
    here, there = (each.cuts(margin, np.array([0, 40]), weight) for each in (near, far))
    assert here.low.tolist() == there.low.tolist()
    assert here.cost == pytest.approx(there.cost, rel=1e-12)


@pytest.mark.parametrize("kind", ["labels", "values"])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_leaves_of_weighted_rows_are_those_of_rows_as_often(kind: str, smoothing: float) -> None:
    rng, code, Y, weight = drawn(2)
    target: Any = Labels(code, 3) if kind == "labels" else Values(np.round(8 * Y))
    leaf = rng.integers(0, 4, len(code))
    old = np.full((6, target.n_outputs), 7.0)
    rows = np.repeat(np.arange(len(code)), weight.astype(int))
    once = target.leaf_values(leaf, weight, old, smoothing)
    often = target.take(rows).leaf_values(leaf[rows], np.ones(rows.size), old, smoothing)
    if kind == "labels":
        assert np.array_equal(once, often)
    else:  # deviations from the mean of all are rounded before they are summed
        assert once == pytest.approx(often, rel=1e-13)
    assert np.all(once[4:] == 7.0)
    if kind == "labels":
        counts = np.array([weight[(leaf == 1) & (code == k)].sum() for k in range(3)]) + smoothing
        assert once[1] == pytest.approx(counts / counts.sum())
    elif not smoothing:
        at = leaf == 1
        assert once[1] == pytest.approx(np.average(target.Y[at], axis=0, weights=weight[at]))


@pytest.mark.parametrize("kind", ["labels", "values"])
def test_soft_sums_at_a_hard_split_are_the_exact_impurities(kind: str) -> None:
    rng, code, Y, weight = drawn(3)
    target: Any = Labels(code, 3) if kind == "labels" else Values(Y)
    start = np.array([0, 24, 40])
    right = rng.integers(0, 2, 40)
    soft = target.soft(start, weight)
    node = torch.tensor([0, 0, 0, 1, 1])  # of blocks of 8 rows
    block = torch.arange(40).reshape(5, 8)
    sums = sums_by_side(
        torch.tensor(right, dtype=torch.float32)[block][None],
        torch.tensor(weight, dtype=torch.float32)[block],
        soft.statistics[block],
        node,
        2,
    )
    found = soft.impurity(sums).sum(0)[0].numpy()
    for j, (first, last) in enumerate(pairwise(start)):
        own = np.arange(first, last)
        sides = (own[right[own] == 0], own[right[own] == 1])
        exact = sum(target.take(side).impurity(weight[side]) for side in sides)
        unit = 1.0 if kind == "labels" else target.take(own).impurity(weight[own])
        if kind == "values":  # soft values are in deviations of their node
            unit /= weight[own].sum()
        assert found[j] == pytest.approx(exact / unit, rel=1e-4)


def test_purity_and_the_least_rows_of_a_split() -> None:
    assert Labels(np.array([1, 1]), 2).is_pure()
    assert not Labels(np.array([1, 0]), 2).is_pure()
    assert Values(np.array([[1.0, 2.0], [1.0, 2.0]])).is_pure()
    assert not Values(np.array([[1.0, 2.0], [1.0, 2.5]])).is_pure()
    assert [Labels(np.zeros(1, int), n).min_rows for n in (2, 26)] == [4, 4]
    assert Values(np.zeros((1, 1))).min_rows == 4

"""A level: each node's own units, and blocks that deal out its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bitvec.learners.growth import level as module
from bitvec.learners.growth.level import Blocks, Level, level_of
from bitvec.learners.growth.targets import Labels


def a_level(sizes: tuple[int, ...] = (7, 40, 1), seed: int = 0) -> tuple[Level, Any, list[Any]]:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.standard_normal((n + 5, 4)) * [1, 100, 1e-7, 1] + [0, 1e6, 0, 3]
    X[:, 3] = np.where(np.arange(n + 5) % 2, 3.0, 3.1)
    rows = np.split(rng.permutation(n + 5)[:n], np.cumsum(sizes)[:-1])
    X[rows[0], 3] = 3.0
    weight = rng.uniform(0.5, 2, n + 5)
    return level_of(X, Labels(rng.integers(0, 2, n + 5), 2), weight, rows), X, rows


def test_columns_have_mean_0_and_deviation_1_at_each_node() -> None:
    level, _, rows = a_level()
    for j, own in enumerate(rows):
        Z = level.Z[level.start[j] : level.start[j + 1]].double().numpy()
        weight = level.weight[level.start[j] : level.start[j + 1]]
        assert np.all(Z[:, -1] == 1)
        if len(own) == 1:
            assert np.all(Z[:, :-1] == 0)
            continue
        mean = np.average(Z[:, :-1], axis=0, weights=weight)
        assert mean == pytest.approx(0, abs=1e-5)
        deviation = np.sqrt(np.average(Z[:, :-1] ** 2, axis=0, weights=weight))
        assert deviation == pytest.approx([1, 1, 1, 0 if j == 0 else 1], rel=1e-4)
        assert not np.any(level.units.varies[0, 3])


def test_folded_weights_say_the_same_of_raw_columns() -> None:
    level, X, rows = a_level()
    beta = np.random.default_rng(1).standard_normal((3, 5))
    for j, own in enumerate(rows):
        folded = level.units.fold(j, beta)
        Z = level.Z[level.start[j] : level.start[j + 1]].double().numpy()
        raw = np.concatenate([X[own], np.ones((own.size, 1))], axis=1)
        assert raw @ folded.T == pytest.approx(Z @ beta.T, abs=1e-3)
    assert np.all(level.units.fold(0, beta)[:, 3] == 0)


def test_blocks_of_all_rows_hold_each_row_once() -> None:
    level, _, _ = a_level()
    blocks = Blocks(level)
    batch = blocks.at(0)
    filled = batch.weight > 0
    assert sorted(batch.rows[filled].tolist()) == list(range(48))
    assert torch.equal(
        batch.node[:, None].expand_as(batch.rows)[filled],
        torch.tensor(level.node)[batch.rows[filled]],
    )
    assert batch.by_node(torch.ones(2, *batch.rows.shape)) == pytest.approx(np.ones((2, 3)))
    value = torch.arange(48.0)
    assert torch.equal(blocks.spread(value[batch.rows][None])[0], value)
    assert blocks.at(5) is batch


def test_a_step_takes_a_share_of_each_node_and_comes_round_to_every_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MIN_ROWS_OF_A_STEP", 3)
    level, _, _ = a_level()
    blocks = Blocks(level, 30, [np.random.default_rng(j) for j in range(3)])
    seen: dict[int, int] = {}
    for step in range(4):
        batch = blocks.at(step)
        filled = batch.weight > 0
        at = batch.rows[filled].numpy()
        assert np.bincount(level.node[at], minlength=3).tolist() == [7, 10, 1]
        assert np.unique(at).size == at.size
        for row in at.tolist():
            seen[row] = seen.get(row, 0) + 1
    big = [seen[row] for row in range(int(level.start[1]), int(level.start[2]))]
    assert big == [1] * 40
    assert Blocks(level, 3000).is_all
    assert not blocks.is_all

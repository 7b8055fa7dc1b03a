"""Columns that nodes read: every set and every patch may be drawn, and nothing else is read."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from bitvec.errors import InputError
from bitvec.learners.draws import feature_count
from bitvec.learners.growth.columns import RandomColumns, RandomPatch, columns_of
from bitvec.learners.growth.level import level_of
from bitvec.learners.growth.targets import Labels


def draws(columns: Any, n: int = 400) -> set[tuple[int, ...]]:
    generator = np.random.default_rng(0)
    return {tuple(columns(generator).tolist()) for _ in range(n)}


def test_every_set_of_columns_is_drawn() -> None:
    assert draws(RandomColumns(2, 4)) == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}


def test_every_patch_is_drawn_off_the_diagonal_and_at_the_last_offsets_too() -> None:
    image = np.arange(2 * 4 * 5).reshape(2, 4, 5)
    patches = {
        tuple(image[:, top : top + 3, left : left + 2].ravel().tolist())
        for top, left in product(range(2), range(4))
    }
    assert draws(RandomPatch((2, 4, 5), (3, 2))) == patches


def test_a_level_of_some_columns_is_the_level_of_a_table_of_these() -> None:
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((30, 5)) + 3, rng.uniform(0.5, 2, 30)
    labels = Labels(rng.integers(0, 2, 30), 2)
    rows, columns = [np.arange(12), np.arange(12, 30)], np.array([[0, 3], [1, 4]])
    level = level_of(X, labels, weight, rows, columns)
    for j, own in enumerate(rows):
        alone = level_of(X[:, columns[j]], labels, weight, [own])
        assert np.array_equal(level.Z[level.start[j] : level.start[j + 1]], alone.Z)
        beta = rng.standard_normal(3)
        full, part = level.units.fold(j, beta), alone.units.fold(0, beta)
        assert np.array_equal(full[[*columns[j], 5]], part)
        assert np.flatnonzero(full[:-1]).tolist() == columns[j].tolist()


def test_all_columns_are_no_draw() -> None:
    assert columns_of(None, None, None, 7) is None
    assert columns_of(1.0, None, None, 7) is None
    assert columns_of(0.5, (4, 5), (1, 4, 5), 20) is None
    assert columns_of(0.5, None, None, 7) == RandomColumns(3, 7)
    assert columns_of(0.5, (4, 4), (1, 4, 5), 20) == RandomPatch((1, 4, 5), (4, 4))


@pytest.mark.parametrize("value", [0, 17, 0.0, 1.5, True, "half", -1])
def test_a_number_of_features_out_of_place_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="`max_features` must be None"):
        feature_count(value, 16)


@pytest.mark.parametrize("patch", [(5, 5), (0, 1), (2,), 3, (1.5, 2)])
def test_a_patch_that_is_no_part_of_the_image_is_refused(patch: Any) -> None:
    with pytest.raises(InputError, match="`patch_shape` must be"):
        columns_of(None, patch, (1, 4, 5), 20)
    with pytest.raises(InputError, match="`image_shape` must be given"):
        columns_of(None, (2, 2), None, 20)

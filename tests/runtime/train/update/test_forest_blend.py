"""Blends: candidates that rows held out cannot tell apart share, and worse ones have no part."""

from __future__ import annotations

import numpy as np
import pytest

import bitvec
from bitvec.runtime.train.retrain import objective
from bitvec.runtime.train.retrain.training_data import read
from bitvec.runtime.train.update.forest_blend import weights
from bitvec.runtime.train.update.update_choice import RUNS, Choice

N = 400


@pytest.fixture(scope="module")
def rows():
    """Rows held out, and the stump that is updated."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 1))
    stump = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    return stump, read(stump, X, rng.normal(size=N), None)


def choice(rows, measure=None):
    stump, data = rows
    goal = objective.of_forest(stump, data.target, loss="auto")
    return Choice(stump, goal, data, measure=measure)


def test_candidates_that_cannot_be_told_apart_share_and_bad_ones_have_no_part(rows):
    of, target = choice(rows), rows[1].target
    rng = np.random.default_rng(1)
    near = [0.5 * target + 0.5 * rng.normal(size=(N, 1)) for _ in range(2)]
    held = [*near, 5 + 0 * target]
    found = weights(held, of)
    assert found.sum() == pytest.approx(1)
    assert found[0] >= 0.25
    assert found[1] >= 0.25
    assert found[2] == 0
    together = np.tensordot(found, np.stack(held), 1)
    assert of.score_of(together) >= max(of.score_of(raw) for raw in held)


def test_errors_are_larger_where_neighbours_are_alike(rows):
    of, target = choice(rows), rows[1].target
    rng = np.random.default_rng(2)
    alike = np.repeat(rng.normal(size=(RUNS, 1)), N // RUNS, axis=0)
    mixed = alike[rng.permutation(N)]
    offset = 0.05
    by_run, by_row = (
        of.errors_behind(target + np.sqrt(np.abs(offset + noise - noise.mean())), target)
        for noise in (alike, mixed)
    )
    assert by_run < 0.5 * by_row
    assert of.errors_behind(target, target + 1) == 0


def test_a_score_of_all_rows_tells_no_error(rows):
    target = rows[1].target
    of = choice(rows, measure=lambda raw: -float(np.abs(raw - target).max()))
    assert of.errors_behind(target + 0.1, target) == np.inf
    assert of.errors_behind(target, target + 0.1) == 0
    found = weights([target + 0.3, target], of)
    assert found.tolist() == [0, 1]


def test_the_best_has_a_part_even_where_no_score_is_finite(rows):
    of = choice(rows)
    found = weights([np.full((N, 1), np.inf)] * 2, of)
    assert found.sum() == pytest.approx(1)

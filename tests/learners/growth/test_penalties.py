"""Penalties of stumps against their formulas, written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bitvec.errors import InputError
from bitvec.learners.growth.level import Level, level_of
from bitvec.learners.growth.linear import Linear, LinearTests
from bitvec.learners.growth.penalties import FLOOR, GammaProcess, Roughness, image_shape
from bitvec.learners.growth.polytope import PolytopeTests
from bitvec.learners.growth.targets import Labels


def a_level(p: int, columns: Any = None) -> Level:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, p)) * np.arange(1, p + 1)
    rows = [np.arange(10), np.arange(10, 30)]
    return level_of(X, Labels(rng.integers(0, 2, 30), 2), np.ones(30), rows, columns)


def test_the_prior_is_that_of_the_paper_over_the_rows_of_the_node() -> None:
    rng = np.random.default_rng(1)
    beta = rng.standard_normal((3, 2, 4, 3))
    log_r, tau = rng.normal(-2, 1, (3, 2, 4)), np.zeros((3, 2))
    tests = PolytopeTests(*(torch.tensor(part) for part in (beta, log_r, tau)))
    found = GammaProcess(0.5, 2.0, 0.3, 0.7)(tests, a_level(2)).detach().numpy()
    for restart in range(3):
        for j, n_rows in enumerate((10, 20)):
            expected = 0.0
            for k in range(4):
                ln_r = log_r[restart, j, k]
                expected += -(0.5 / 4 - 1) * ln_r + 2.0 * np.exp(ln_r)
                for weight in beta[restart, j, k, :-1]:
                    expected += (0.3 + 0.5) * np.log(1 + weight**2 / (2 * 0.7))
            assert found[restart, j] == pytest.approx(expected / n_rows, rel=1e-6)


def test_a_facet_below_the_floor_is_pulled_no_further() -> None:
    log_r = torch.tensor([[[FLOOR - 1, FLOOR + 1]]])
    tests = PolytopeTests(torch.zeros(1, 1, 2, 3), log_r, torch.zeros(1, 1))
    GammaProcess()(tests, a_level(2)).sum().backward()
    slope = tests.log_r.grad
    assert slope is not None
    assert 0 < slope[0, 0, 0] < 1e-3  # only c0 · r is left, which vanishes with r
    assert slope[0, 0, 1] > 0.04


@pytest.mark.parametrize("columns", [None, np.array([[1, 2, 5, 6], [0, 3, 8, 11]])])
def test_roughness_is_the_laplacian_of_the_raw_weights(columns: Any) -> None:
    level = a_level(12, columns)
    tests = Linear().draw([np.random.default_rng(j) for j in range(2)], level, 2)
    assert isinstance(tests, LinearTests)
    found = Roughness(3.0, (1, 3, 4))(tests, level).detach().numpy()
    for restart in range(2):
        for j in range(2):
            theta = tests.rule(restart, j, level.units).theta  # 0 where the node reads nothing
            assert np.count_nonzero(theta) == (12 if columns is None else 4)
            image = (theta * np.sqrt(np.mean(level.units.spread[j] ** 2))).reshape(3, 4)
            expected = 0.0
            for row in range(3):
                for column in range(4):
                    if row:
                        expected += (image[row, column] - image[row - 1, column]) ** 2
                    if column:
                        expected += (image[row, column] - image[row, column - 1]) ** 2
            assert found[restart, j] == pytest.approx(3 * expected, rel=1e-4)


@pytest.mark.parametrize("shape", [None, (3,), (3, 5), (2.0, 6), (0, 12), (1, 2, 3, 2)])
def test_shapes_that_do_not_fit_are_refused(shape: object) -> None:
    with pytest.raises(InputError, match="`spatial_shape` must be"):
        image_shape(shape, 12)


def test_shapes_that_fit_have_channels() -> None:
    assert image_shape((3, 4), 12) == (1, 3, 4)
    assert image_shape([2, 3, 2], 12) == (2, 3, 2)

"""The nearest point of a polyhedron meets all of its constraints, or multipliers prove it empty."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.verify.probing.nearest import nearest


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_point_satisfies_its_halfspaces_and_none_is_nearer(seed):
    rng = np.random.default_rng(seed)
    G, h = rng.normal(size=(6, 8)), rng.normal(size=6)
    d, u = nearest(G, h)
    # 1e-12: a few roundings of float64 in sums of 8 products of order 1.
    assert np.all(G @ d >= h - 1e-12)
    assert np.all(u >= 0)
    # Stationarity of |d|²/2: d is a combination of the rows that bind, with weights >= 0.
    binds = np.abs(G @ d - h) < 1e-9
    weights = np.linalg.lstsq(G[binds].T, d, rcond=None)[0]
    assert np.all(weights >= -1e-12)
    assert np.allclose(G[binds].T @ weights, d, rtol=0, atol=1e-10)


def test_halfspaces_that_do_not_meet_give_multipliers_that_prove_it():
    G, h = np.array([[1.0, 1.0], [-1.0, 0.5], [0.0, -1.0]]), np.array([1.0, 1.0, 0.0])
    d, u = nearest(G, h)
    assert d is None
    assert np.all(u >= 0)
    # 1e-12: rounding of a small solved system; u is scaled by its own size.
    assert np.all(np.abs(u @ G) < 1e-12 * u.max())
    assert u @ h > 0


@pytest.mark.parametrize("width", [64.0, 1024.0, 4096.0, 2.0**16, 2.0**24])
def test_a_gap_far_smaller_than_the_box_around_it_is_no_point(width):
    # x <= -1/2 and 3/4 x >= -1/4, a sixth apart, in [-width, 0] scaled to [-1, 1].
    rows = np.array([[0.5], [-1.0], [0.75]])
    least = np.array([-1.0, 0.5, -0.25])
    G = np.vstack([rows * width / 2, [[1.0], [-1.0]]])
    h = np.concatenate([least + rows[:, 0] * width / 2, [-1.0, -1.0]])
    d, u = nearest(G, h)
    assert d is None
    assert np.all(u >= 0)
    # Farkas: the rounding of sums of 5 products stays below the proof, which is u h > 0.
    assert u @ h > np.abs(u @ G).sum() + 5e-16 * (u @ (np.abs(G).sum(axis=1) + np.abs(h)))


@pytest.mark.parametrize("seed", range(40))
def test_a_point_that_is_returned_violates_no_constraint(seed):
    rng = np.random.default_rng(seed)
    n_rows, n = rng.integers(2, 12), rng.integers(1, 6)
    G = rng.integers(-4, 5, (n_rows, n)) * 10.0 ** rng.integers(-4, 5, (n_rows, 1))
    near = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    # Bounds about one point, met or missed by 1e-7 of their size.
    h = G @ near + 1e-7 * rng.normal(size=n_rows) * (np.abs(G) @ np.abs(near))
    d, u = nearest(G, h)
    assert np.all(u >= 0)
    if d is None:
        return
    # 1e-13: some hundred roundings of float64.
    assert np.all(G @ d >= h - 1e-13 * (np.abs(G) @ np.abs(d) + np.abs(h)))

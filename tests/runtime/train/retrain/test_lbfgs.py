"""L-BFGS: the optimum of smooth problems, never a higher value on the way."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.runtime.train.retrain import lbfgs

rng = np.random.default_rng(0)


def rosenbrock(x):
    a, b = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    gradient = np.zeros_like(x)
    gradient[:-1] += -400 * x[:-1] * a - 2 * b
    gradient[1:] += 200 * a
    return float((100 * a**2 + b**2).sum()), gradient


def test_a_quadratic_is_solved_whatever_its_scale():
    spread = 10.0 ** np.linspace(-3, 4, 30)
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    A = np.sqrt(spread)[:, None] * (Q @ np.diag(np.linspace(1, 3, 30)) @ Q.T) * np.sqrt(spread)
    right = rng.normal(size=30)
    found = lbfgs.minimise(
        lambda x: (float(x @ A @ x / 2 - right @ x), A @ x - right),
        np.zeros(30),
        spread,
        tolerance=1e-9,
        iterations=200,
    )
    assert found.converged
    # A norm of 1e-9 over the scale, of which the Hessian is at least half.
    assert np.allclose(found.point * np.sqrt(spread), np.linalg.solve(A, right) * np.sqrt(spread))


def test_a_bent_valley_is_followed_to_its_end():
    values = []

    def problem(x):
        value, gradient = rosenbrock(x)
        values.append(value)
        return value, gradient

    found = lbfgs.minimise(
        problem, np.full(6, -1.0), np.full(6, 100.0), tolerance=1e-9, iterations=500
    )
    assert found.converged
    assert np.allclose(found.point, 1, atol=1e-7)  # the valley is flat: 1e-9 in the gradient
    assert found.calls == len(values)
    assert found.value == min(values)


def test_a_start_that_is_not_finite_is_returned_as_it_is():
    found = lbfgs.minimise(
        lambda x: (np.nan, x * np.nan), np.ones(3), np.ones(3), tolerance=1e-6, iterations=9
    )
    assert not found.converged
    assert found.calls == 1
    assert np.array_equal(found.point, np.ones(3))


def test_a_step_into_infinity_is_shortened():
    def problem(x):
        value = np.where(np.abs(x) < 2, (x - 1.9) ** 2, np.inf)
        return float(value.sum()), np.where(np.abs(x) < 2, 2 * (x - 1.9), np.nan)

    found = lbfgs.minimise(problem, np.zeros(3), np.full(3, 1e-3), tolerance=1e-8, iterations=99)
    assert found.converged
    assert np.allclose(found.point, 1.9)


@pytest.mark.parametrize("n", [0, 1])
def test_few_or_no_coordinates_are_no_problem(n):
    found = lbfgs.minimise(
        lambda x: (float((x * x).sum()), 2 * x),
        np.ones(n),
        np.ones(n),
        tolerance=1e-9,
        iterations=9,
    )
    assert found.converged
    assert np.allclose(found.point, 0)

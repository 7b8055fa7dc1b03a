"""Helpers answer parts of the rows, whoever calls, and go with the process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.runtime.predict import threads
from bitvec.runtime.predict.cpu.few_rows import calls, waiting_threads
from bitvec.runtime.predict.predictor import compile

N_ROWS = 5000
N = 12


def make(n_trees, seed):
    rng = np.random.default_rng(seed)
    tree = Forest.from_matrices(
        np.eye(N), rng.normal(size=N), 1 - np.eye(N + 1, N), rng.normal(size=N + 1)
    )
    return tree.take([0] * n_trees)


FORESTS = {"a lone tree": make(1, 0), "a forest": make(60, 1)}
X = np.random.default_rng(2).normal(size=(N_ROWS, N))


@pytest.fixture
def pool(monkeypatch):
    """Helpers as on four cores, for however little work."""
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    monkeypatch.setattr(calls, "THREAD", 1)
    made = waiting_threads._Pool()
    monkeypatch.setattr(waiting_threads, "_pool", made)
    yield made
    made.stop()
    for helper in made._helpers:
        helper.join(10)
        assert not helper.is_alive()


@pytest.mark.parametrize("name", FORESTS)
@pytest.mark.parametrize("n_jobs", [2, 3, 4])
def test_every_row_is_answered_by_however_many_threads(pool, name, n_jobs):
    expected = reference.raw(FORESTS[name], X)
    predictor = compile(FORESTS[name], engine="numba", n_jobs=n_jobs)
    for n in (1, 127, 128, 129, 257, 1000, N_ROWS):
        for _ in range(5):
            assert np.array_equal(predictor.raw(X[:n]), expected[:n])
        out = np.empty_like(expected[:n])
        assert predictor.raw(X[:n], out=out) is out
        assert np.array_equal(out, expected[:n])
    assert len(pool._helpers) == n_jobs - 1


def test_a_call_is_answered_right_after_helpers_fell_asleep(pool):
    predictor = compile(FORESTS["a forest"], engine="numba", n_jobs=4)
    expected = reference.raw(FORESTS["a forest"], X)
    wait = threading.Event()
    for pause in [0.0, 1e-5, 5e-5, 1e-4, 1e-3] * 20:
        assert np.array_equal(predictor.raw(X), expected)
        wait.wait(pause)
    for _ in range(1000):  # a busy machine lets them wait
        if not any(helper.is_awake for helper in pool._helpers):
            break
        wait.wait(0.01)
    else:
        raise AssertionError("helpers are awake though nobody asks")
    assert np.array_equal(predictor.raw(X), expected)


def test_callers_at_once_have_their_own_answers(pool):
    predictors = [
        compile(forest, engine="numba", n_jobs=4) for forest in FORESTS.values() for _ in range(3)
    ]
    expected = [reference.raw(predictor.forest, X) for predictor in predictors]

    def ask(k):
        return all(np.array_equal(predictors[k].raw(X), expected[k]) for _ in range(50))

    with ThreadPoolExecutor(6) as callers:
        assert all(callers.map(ask, range(6)))


def test_rows_that_are_left_to_the_reference_are_answered_by_it(pool):
    # exp(1000) is beyond the range of exp: what is compiled leaves such a score to others.
    low = Forest.from_matrices([[1.0, 0.0]], [2.0], [[0], [1]], [0.5, -1000.0])
    output = replace(low.output, post_transform=PostTransform.SIGMOID)
    forest = replace(low, output=output)
    rows = X[:, :2].copy()
    rows[4000, 0] = 3
    expected = transforms.transform(output, reference.raw(forest, rows))
    assert expected[4000] == 0
    assert np.array_equal(compile(forest, engine="numba", n_jobs=4).scores(rows), expected)


def test_a_helper_that_takes_subnormal_numbers_for_zero_is_replaced(pool, monkeypatch):
    predictor = compile(FORESTS["a forest"], engine="numba", n_jobs=2)
    expected = reference.raw(FORESTS["a forest"], X)
    number = pool._memory[waiting_threads.SUBNORMALS :][:8].view(np.float64)
    number[0] = 0.0  # as such a thread sees it
    assert np.array_equal(predictor.raw(X), expected)
    (first,) = pool._helpers
    first.join(10)
    assert not first.is_alive()
    number[0] = 5e-324
    assert np.array_equal(predictor.raw(X), expected)
    (second,) = pool._helpers
    assert second is not first
    assert second.is_alive()

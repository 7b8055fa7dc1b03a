"""Threads help all callers, never too many at once, also after a fork and after an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict import threads
from bitvec.runtime.predict.predictor import compile
from bitvec.runtime.predict.threads import available_cores, effective_jobs, for_each_block

several_cores = pytest.mark.skipif(available_cores() < 2, reason="one core has no helpers")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


@pytest.fixture
def four_cores(monkeypatch):
    """A pool as on four cores, whatever there are."""
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    yield
    if threads._pool.executor is not None:
        threads._pool.executor.shutdown()


def blocks_done(n_rows, block, n_threads):
    done = []
    for_each_block(done.append, n_rows, block=block, n_threads=n_threads)
    return sorted((part.start, part.stop) for part in done)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 9])
@pytest.mark.parametrize("n_rows", [0, 1, 10, 11])
def test_every_row_is_in_one_block(four_cores, n_rows, n_threads):
    expected = [(start, min(start + 3, n_rows)) for start in range(0, n_rows, 3)]
    assert blocks_done(n_rows, 3, n_threads) == expected


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 4])
def test_no_more_threads_work_than_were_asked_for(four_cores, n_jobs):
    at_work, most, lock = set(), [0], threading.Lock()

    def work(part):
        with lock:
            at_work.add(threading.get_ident())
            most[0] = max(most[0], len(at_work))
        time.sleep(0.002)

    for_each_block(work, 60, block=1, n_threads=n_jobs)
    assert most[0] <= n_jobs
    assert n_jobs == 1 or most[0] > 1, "nobody helped"


def test_many_callers_share_one_helper_less_than_there_are_cores(four_cores):
    helpers, callers = set(), set()

    def call(_):
        callers.add(threading.get_ident())
        for_each_block(
            lambda part: (helpers.add(threading.get_ident()), time.sleep(0.001)),
            40,
            block=1,
            n_threads=4,
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(16)))
    assert 1 <= len(helpers - callers) <= 3


def test_a_number_of_jobs_is_at_most_that_of_the_cores(four_cores):
    assert [effective_jobs(n) for n in (1, 3, 4, 64)] == [1, 3, 4, 4]
    assert [effective_jobs(n) for n in (None, -1, -2, -4, -9)] == [4, 4, 3, 1, 1]
    for wrong in (0, 1.5, "2", True):
        with pytest.raises(InputError, match="n_jobs"):
            effective_jobs(wrong)


def test_info_says_how_many_threads_there_may_be():
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    for n_jobs in (1, 2, 1000):
        info = compile(forest, n_jobs=n_jobs).info()
        assert info["n_threads"] == min(n_jobs, available_cores())


def test_an_error_of_a_helper_reaches_the_caller_and_ends_the_work(four_cores):
    caller, done = threading.get_ident(), []

    def work(part):
        if threading.get_ident() != caller:
            raise ZeroDivisionError(part)
        done.append(part)
        time.sleep(0.001)

    with pytest.raises(ZeroDivisionError):
        for_each_block(work, 10_000, block=1, n_threads=3)
    assert len(done) < 10_000
    assert blocks_done(7, 2, 3) == [(0, 2), (2, 4), (4, 6), (6, 7)], "the pool is usable"


def test_no_thread_is_at_work_when_an_error_is_raised(four_cores):
    caller, working = threading.get_ident(), []

    def work(part):
        if threading.get_ident() == caller:
            time.sleep(0.01)  # the helpers begin
            raise ZeroDivisionError
        working.append(part)
        time.sleep(0.05)
        working.pop()

    with pytest.raises(ZeroDivisionError):
        for_each_block(work, 100, block=1, n_threads=4)
    assert working == []


def test_a_busy_pool_blocks_nobody(four_cores):
    release = threading.Event()
    holder = threading.Thread(
        target=for_each_block,
        args=(lambda part: release.wait(10), 8),
        kwargs={"block": 1, "n_threads": 4},
    )
    holder.start()
    try:
        assert len(blocks_done(50, 1, 4)) == 50
    finally:
        release.set()
        holder.join()


def test_work_may_ask_for_help_itself(four_cores):
    found = []
    for_each_block(lambda part: found.extend(blocks_done(4, 1, 4)), 12, block=1, n_threads=4)
    assert len(found) == 48


def test_a_helper_in_another_mode_of_rounding_does_not_help(four_cores, monkeypatch):
    caller, workers = threading.get_ident(), set()
    monkeypatch.setattr(threads, "flushes", lambda: threading.get_ident() != caller)

    def work(part):
        workers.add(threading.get_ident())
        time.sleep(0.002)

    for_each_block(work, 30, block=1, n_threads=4)
    assert workers == {caller}
    assert threads._pool.executor is None, "threads started in the caller's mode are wanted"
    monkeypatch.setattr(threads, "flushes", lambda: False)
    for_each_block(work, 30, block=1, n_threads=4)
    assert len(workers) > 1


def test_callers_on_many_threads_have_their_own_answers():
    forest = Forest.from_matrices(np.eye(6), np.zeros(6), 1 - np.eye(7, 6), np.arange(7.0))
    predictor = compile(forest)
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(20_000 + 7 * k, 6)) for k in range(8)]
    expected = [compile(forest, n_jobs=1).raw(X) for X in batches]
    outs = [np.empty_like(raw) for raw in expected]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            list(pool.map(lambda k: predictor.raw(batches[k], out=outs[k]), range(8)))
            assert all(np.array_equal(a, b) for a, b in zip(outs, expected, strict=True))


# ---- other processes

SETUP = """
import os, signal, sys, threading, time
import numpy as np
from bitvec.core.forest import Forest
from bitvec.runtime.predict import threads
from bitvec.runtime.predict.cpu.few_rows import waiting_threads
from bitvec.runtime.predict.predictor import compile
threads.available_cores = lambda: 4
threads._pool = threads._Pool()
n = 12
forest = Forest.from_matrices(np.eye(n), np.zeros(n), 1 - np.eye(n + 1, n), np.arange(n + 1.0))
forest = forest.take([0] * 200)
predictor = compile(forest, n_jobs=4, warm=True)
X = np.random.default_rng(0).normal(size=(50_000, n))
"""


def run(script, **options):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SETUP + textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@forks
def test_a_forked_child_predicts_right_on_threads_of_its_own():
    process = run("""
        expected = predictor.raw(X)
        assert waiting_threads._pool._helpers
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                same = np.array_equal(predictor.raw(X), expected)
                os._exit(0 if same and waiting_threads._pool._helpers else 3)
            children.append(child)
        assert np.array_equal(predictor.raw(X), expected)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.exit(max(codes))
    """)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr


@forks
def test_a_child_forked_while_others_predict_predicts_right():
    process = run("""
        expected = predictor.raw(X)
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                predictor.raw(X[:5000])
        workers = [threading.Thread(target=busy) for _ in range(3)]
        for worker in workers: worker.start()
        codes = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(predictor.raw(X), expected) else 3)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for worker in workers: worker.join()
        sys.exit(max(codes))
    """)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise on Windows")
def test_an_interrupt_of_a_long_call_is_answered_and_the_next_call_is_right():
    process = run("""
        expected = predictor.raw(X)
        long = np.broadcast_to(X, (200, *X.shape)).reshape(-1, X.shape[1])
        print("ready", flush=True)
        try:
            while True:
                predictor.raw(long)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert np.array_equal(predictor.raw(X), expected)
        print("right", flush=True)
    """)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n", process.stderr.read()
    # A block takes milliseconds; a loaded machine may take its time to run the threads at all.
    assert time.monotonic() - sent < 10
    # `communicate` would lose what was read ahead with the line before.
    assert process.stdout.readline() == "right\n", process.stderr.read()
    assert process.wait(timeout=120) == 0

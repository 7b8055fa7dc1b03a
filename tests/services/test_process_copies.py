"""Processes are copies of one that is ready where that is safe: it has one thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from bitvec.services import process_copies

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux")


@linux
def test_a_process_with_one_thread_gets_ready_and_is_copied() -> None:
    text = (
        "from bitvec.services import process_copies\n"
        "process_copies.stay_single()\n"
        "import numpy\n"
        "print(process_copies.context(lambda: print('ready')).get_start_method())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ready", "fork"]


@linux
def test_a_process_whose_preparation_starts_a_thread_is_not_copied() -> None:
    text = (
        "import threading\n"
        "from bitvec.services import process_copies\n"
        "start = threading.Thread(target=threading.Event().wait, daemon=True).start\n"
        "print(process_copies.context(start).get_start_method())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["forkserver"]


@linux
def test_a_process_with_threads_is_not_copied_nor_works_ahead() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert process_copies.context(pytest.fail).get_start_method() == "forkserver"
        assert process_copies.ahead(pytest.fail, ["a"])() == {}
    finally:
        end.set()
        thread.join()


AHEAD = """
import os, sys, time
from bitvec.services import process_copies


def answer(argument):
    if argument == "bad":
        raise OSError(argument)
    if argument == "slow":
        time.sleep(600)
    return os.getpid(), argument.upper()


found = process_copies.ahead(answer, ["a", "bad", "b", "slow", "c"])
time.sleep(float(sys.argv[1]))
results = found()
assert all(process != os.getpid() for process, _ in results.values())
print(sorted((argument, answer) for argument, (_, answer) in results.items()))
"""


@linux
def test_what_is_worked_out_ahead_is_what_was_done_when_it_is_asked_for() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs a second core")

    def run(seconds: float) -> str:
        command = [sys.executable, "-c", AHEAD, str(seconds)]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    assert run(2) == "[('a', 'A'), ('b', 'B')]"
    assert run(0) in ("[]", "[('a', 'A')]", "[('a', 'A'), ('b', 'B')]")

"""Wall time, processor time and memory of a program with all its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple


class Cost(NamedTuple):
    """Cost of one run of a program."""

    seconds: float
    cpu: float
    peak: float


_LAUNCHER: Final = """
import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
seconds = time.perf_counter() - start
all_used = [used]
while True:
    try:
        all_used.append(os.wait4(-1, 0)[2])
    except ChildProcessError:
        break
cpu = sum(one.ru_utime + one.ru_stime for one in all_used)
print(os.waitstatus_to_exitcode(status), seconds, cpu, max(one.ru_maxrss for one in all_used))
"""
"""Runs a program from a small process, whose memory would count as the program's, and waits for the
processes that outlive it too."""


def cost(command: Sequence[str | Path], folder: Path | None = None) -> Cost:
    """Run a program and return its seconds, those of the processor, and its peak in MB."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    env |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    os.sync()  # a program that flushes what it writes must not wait for what others left unwritten
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCHER, *map(str, command)],
        env=env, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, seconds, cpu, peak = map(float, done.stdout.split())
    if status:
        raise RuntimeError(f"{command[1:3]} ended with {status:.0f}: {done.stderr[-2000:]}")
    # The largest of a process and of those that it waited for.
    return Cost(seconds, cpu, peak / 1024)

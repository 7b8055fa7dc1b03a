"""An interrupt of a long fit is answered at once, by the trees that grow in other threads too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("sklearn")

PROGRAM = """
import threading, time
import numpy as np
from bitvec.learners import KDDTClassifier, KDDTRandomForestClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=({n_rows}, 20))
y = rng.integers(0, 5, len(X))
{make}(bandwidth=1.0, max_depth=2, **{options}).fit(X[:50], y[:50])  # compiles
print("ready", flush=True)
try:
    {make}({bandwidth}, **{options}).fit(X, y)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
TREE = ("KDDTClassifier", {}, "bandwidth=1.0", 100_000)
FOREST = ("KDDTRandomForestClassifier", {"n_estimators": 8, "n_jobs": 2}, "bandwidth=1.0", 100_000)
SEARCH = ("KDDTClassifier", {"n_jobs": 2}, 'bandwidth="cv"', 100_000)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize(
    ("make", "options", "bandwidth", "n_rows"),
    [TREE, *(pytest.param(*case, marks=pytest.mark.full) for case in (FOREST, SEARCH))],
)
def test_an_interrupt_of_a_long_fit_is_answered(make, options, bandwidth, n_rows):
    program = PROGRAM.format(make=make, options=options, bandwidth=bandwidth, n_rows=n_rows)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout) == (0, "interrupted\n"), stderr
    # A node of this many rows takes a tenth of a second; the fit would take minutes.
    assert time.monotonic() - sent < 20

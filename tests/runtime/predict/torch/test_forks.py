"""A forked child is told that torch's threads stayed behind, where it would wait for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

SCRIPT = """
import os, sys
import numpy as np, torch
from bitvec.errors import BitvecError
from bitvec.core.forest import Forest
from bitvec.runtime.predict.torch import TorchEngine

parent_threads, child_threads = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(parent_threads)
engine = TorchEngine(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
X = np.random.default_rng(0).normal(size=(200_000, 2))
expected = engine.raw(X)
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if child_threads:
    torch.set_num_threads(child_threads)
try:
    os._exit(0 if np.array_equal(engine.raw(X), expected) else 1)
except BitvecError as error:
    os._exit(42 if "spawn" in str(error) and "\\n" not in str(error) else 2)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    ("parent_threads", "child_threads", "code"), [(2, 0, 42), (2, 1, 0), (1, 0, 0)]
)
def test_a_forked_child_answers_or_says_why_not(parent_threads, child_threads, code):
    command = [sys.executable, "-c", SCRIPT, str(parent_threads), str(child_threads)]
    # Without the check the first case never ends.
    assert subprocess.run(command, timeout=60, check=False).returncode == code

"""Seconds of steps that take turns, and the memory of one form alone in its process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch

from benchmarks.relaxed import forests, forms
from benchmarks.relaxed.forms import Step

ROOT = Path(__file__).resolve().parents[2]
DENSE = "dense"
WHAT = ("scores", "gradients of S", "gradients of b", "gradients of v")


def seconds(steps: Mapping[str, Step], *, turns: int) -> dict[str, float]:
    """Return the median seconds of each step; they take turns, after one that is not timed."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(turns):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in taken.items()}


def require_equal(first: Step, second: Step) -> float:
    """Return the largest difference of two forms' scores and gradients, in units of their spread.

    Raises
    ------
    ArithmeticError
        If it is more than what the order of sums can make.
    """
    largest = 0.0
    for name, a, b in zip(WHAT, first(), second(), strict=True):
        difference = float((a - b).abs().max()) / float(b.std())
        # Float32 sums of up to 14 terms a path, 100 trees and 1,024 rows, in other orders.
        if not (a.shape == b.shape and difference < 1e-4):
            raise ArithmeticError(
                f"the two forms' {name} differ by {difference:.3g} of their deviation."
            )
        largest = max(largest, difference)
    return largest


def alone(form: str, n_trees: int, depth: int) -> dict[str, float | None]:
    """Return the seconds of one step in a process of its own, and the MB that it adds to the peak.

    Both are None if the process died.
    """
    command = [sys.executable, "-m", "benchmarks.relaxed.measure", form, str(n_trees), str(depth)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        return {"seconds": None, "mb": None}
    answer: dict[str, float | None] = json.loads(done.stdout)
    return answer


def _alone(form: str, n_trees: int, depth: int) -> None:
    """Take a step of one form, and print its seconds and what it added to the peak of memory."""
    forest, X = forests.complete(n_trees, depth), forests.rows()
    # What a first step of torch itself takes is in the baseline.
    forms.ours(forests.complete(2, 3), X, "sigmoid")()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    before = _status("VmRSS")
    step = forms.dense(forest, X) if form == DENSE else forms.ours(forest, X, form)
    start = time.perf_counter()
    step()
    taken = time.perf_counter() - start
    print(json.dumps({"seconds": taken, "mb": (_status("VmHWM") - before) / 1024}))


def _status(name: str) -> int:
    """Return a size in kB that Linux keeps of this process, and not of the one that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status must tell {name}.")


if __name__ == "__main__":
    torch.manual_seed(0)
    _alone(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

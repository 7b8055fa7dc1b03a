"""Seconds of steps that take turns, and the memory of one form alone in its process."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping

import torch

from benchmarks.relaxed import forests, forms
from benchmarks.relaxed.forms import Step
from benchmarks.worker import CannotRunError, held, reset_peak, serve
from benchmarks.workers import alone

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


def process(form: str, n_trees: int, depth: int) -> dict[str, float | None]:
    """Return the seconds of one step in a process of its own, and the MB that it adds to the peak.

    Both are None if the process died.
    """
    try:
        return alone("benchmarks.relaxed.measure", form, str(n_trees), str(depth))
    except CannotRunError:
        return {"seconds": None, "mb": None}


def _one_step(form: str, n_trees: int, depth: int) -> dict[str, float]:
    """Take a step of one form; return its seconds and what it added to the peak of memory."""
    torch.manual_seed(0)
    forest, X = forests.complete(n_trees, depth), forests.rows()
    # What a first step of torch itself takes is held before.
    forms.ours(forests.complete(2, 3), X, "sigmoid")()
    before = reset_peak()
    step = forms.dense(forest, X) if form == DENSE else forms.ours(forest, X, form)
    start = time.perf_counter()
    step()
    return {"seconds": time.perf_counter() - start, "mb": (held() - before) / 2**20}


if __name__ == "__main__":
    serve(lambda: _one_step(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

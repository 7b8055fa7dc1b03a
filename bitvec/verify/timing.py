"""Times of calls, in this process or in the one that holds what is called."""

from __future__ import annotations

import time
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bitvec.core.arrays import Array


@runtime_checkable
class Timed(Protocol):
    """A function of rows in another process, which can be timed there."""

    def seconds(self, X: Array, batch: int, span: float) -> list[float]:
        """Return what `seconds` returns of it there."""


def seconds(function: Any, X: Array, batch: int, span: float) -> list[float]:
    """Return the times of calls with `batch` rows each, one after the other for a span.

    Each call gets other rows of X, from its beginning again at its end: repeating the same few rows
    would flatter code with branches. A first call is not counted. A function of another process is
    timed there, without the way of rows and answers between the processes.

    Parameters
    ----------
    function : callable
        Takes rows.
    X : (n_rows, n_features), n_rows at least `batch`
    batch : int
    span : float
        Seconds; one call is made at least.
    """
    if isinstance(function, Timed):
        return function.seconds(X, batch, span)
    starts = range(0, len(X) - batch + 1, batch)
    blocks = [np.ascontiguousarray(X[at : at + batch]) for at in starts]
    function(blocks[-1])
    taken: list[float] = []
    end = time.perf_counter() + span
    while not taken or time.perf_counter() < end:
        block = blocks[len(taken) % len(blocks)]
        start = time.perf_counter()
        function(block)
        taken.append(time.perf_counter() - start)
    return taken

"""Answers to few rows by CUDA graphs: all launches of a call as one, recorded once for a shape.

Launching costs more than the work where rows are few, since each launch is prepared in Python. A
graph reads and writes where it was recorded, so rows are copied there and the answer out of there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MOST_ROWS = 1 << 16
"""Rows of a call, at most, for which a graph is kept."""
MOST_GRAPHS = 8
"""Graphs that are kept, those that were used last; each holds what its call takes."""


class Replayed:
    """A function of rows on a CUDA device, replayed where rows of the same shape come again.

    Parameters
    ----------
    answer : callable
        From a tensor to a tensor, both on one device, whose answer depends on the rows alone. One
        that waits for the device cannot be recorded and is called each time.
    """

    def __init__(self, answer: Callable[[Tensor], Tensor]) -> None:
        self._answer = answer
        self._graphs: OrderedDict[Any, tuple[Any, Tensor, Tensor]] = OrderedDict()
        self._seen: dict[Any, None] = {}
        self._lock = threading.Lock()
        self._waits = False

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the answer; the first call of a shape compiles, the second records."""
        cuda: Any = torch.cuda  # whose functions are not typed
        if rows.device.type != "cuda" or not 0 < len(rows) <= MOST_ROWS:
            return self._answer(rows)
        if self._waits or cuda.is_current_stream_capturing():  # or a graph of the caller's own
            return self._answer(rows)
        with cuda.device(rows.device):
            # Work of two streams must not meet in one graph's memory.
            key = rows.shape, rows.dtype, cuda.current_stream().cuda_stream
            with self._lock:
                if key not in self._graphs:
                    if key not in self._seen:
                        if len(self._seen) >= 64 * MOST_GRAPHS:
                            self._seen.clear()
                        self._seen[key] = None
                        return self._answer(rows)
                    try:
                        self._record(key, rows)
                    except RuntimeError:
                        self._waits = True
                        return self._answer(rows)
                self._graphs.move_to_end(key)
                graph, read, written = self._graphs[key]
                read.copy_(rows)
                graph.replay()
                return written.clone()

    def _record(self, key: Any, rows: Tensor) -> None:
        cuda: Any = torch.cuda
        read = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device)
        read.copy_(rows)
        self._answer(read)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, capture_error_mode="thread_local"):
            written = self._answer(read)
        self._graphs[key] = graph, read, written
        if len(self._graphs) > MOST_GRAPHS:
            self._graphs.popitem(last=False)

"""Telling that threads of torch itself round subnormal numbers to zero: they keep their mode."""

from __future__ import annotations

import torch

from bitvec.runtime.predict.subnormals import FlushedThreadError

GRAIN = 1 << 15
"""Elements that torch gives to a thread at least."""


def check() -> None:
    """Refuse to run where one of the threads over which torch spreads a call flushes.

    They are started by the first long call and keep the mode that the calling thread had then. One
    product of 2**15 numbers for each of them asks all.

    Raises
    ------
    FlushedThreadError
    """
    n_threads = torch.get_num_threads()
    if n_threads > 1:
        with torch.inference_mode():
            asked = torch.full((n_threads * GRAIN,), 1e-40, dtype=torch.float32) * 1.0
            if not bool((asked > 0).all()):
                raise FlushedThreadError(
                    "torch's own threads",
                    "start them anew: a new process that never calls it with True",
                )

"""Checks of torch's own threads: a forked child has none, and they may flush subnormal numbers."""

from __future__ import annotations

import os

import torch

from bitvec.errors import BitvecError
from bitvec.runtime.predict.subnormals import FlushedThreadError

GRAIN = 1 << 15
"""Elements that torch gives to a thread at least."""

_threaded_in: int | None = None
"""The process in which torch last ran here on several threads; a child inherits its parent's."""


def require_subnormals(n_elements: int) -> None:
    """Refuse to run where a call of so many elements is spread over threads that flush.

    They are started by the first long call and keep the mode that the calling thread had then. One
    product of 2**15 numbers for each of them asks all.

    Raises
    ------
    FlushedThreadError
    """
    n_threads = torch.get_num_threads()
    if n_threads > 1 and n_elements > GRAIN:
        with torch.inference_mode():
            asked = torch.full((n_threads * GRAIN,), 1e-40, dtype=torch.float32) * 1.0
            if not bool((asked > 0).all()):
                raise FlushedThreadError(
                    "torch's own threads",
                    "start them anew: a new process that never calls it with True",
                )


def require_own_threads() -> None:
    """Note that torch is about to run in this process.

    Raises
    ------
    BitvecError
        If it would hang: this is a forked child, torch ran on several threads in its parent, and
        may use several here.
    """
    global _threaded_in
    if torch.get_num_threads() == 1:
        return
    if _threaded_in is None:
        _threaded_in = os.getpid()
    elif _threaded_in != os.getpid():
        raise BitvecError(
            "torch must not run on several threads in a forked process whose parent did so: "
            "start workers with the method spawn or forkserver, or call torch.set_num_threads(1) "
            "in them."
        )

"""Processes that predict: copies of one that has made ready what all of them need."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any


def stay_single() -> None:
    """Keep NumPy's BLAS from starting threads, where NumPy is not imported yet.

    A process can be copied safely only while it has one thread.
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def context(get_ready: Callable[[], object]) -> Any:
    """Return how processes are started: on Linux as copies of one that is ready.

    That is this process, made ready by `get_ready`, if it has one thread; else one that has
    imported what is needed. Elsewhere each process gets ready by itself.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    if _is_single():
        get_ready()
        if _is_single():
            gc.freeze()  # what is ready stays: looking for garbage in it would copy its pages
            return multiprocessing.get_context("fork")
    from multiprocessing import forkserver

    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["__main__", "bitvec.services.ready_process"])
    forkserver.ensure_running()
    return found


def _is_single() -> bool:
    """Return whether this process has one thread, those of native libraries counted."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - names are all it needs
    except OSError:
        return False

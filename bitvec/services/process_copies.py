"""Processes that predict: copies of one that has made ready what all of them need."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any


def context() -> Any:
    """Return how processes are started, and begin: one gets ready while the caller goes on."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["__main__", "bitvec.services.ready_process"])
    forkserver.ensure_running()
    return found

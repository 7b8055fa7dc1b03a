"""Telling a forked child that it must not use torch's threads, which stayed behind."""

from __future__ import annotations

import os

import torch

from bitvec.errors import BitvecError

_threaded_in: int | None = None
"""The process in which torch last ran here on several threads; a child inherits its parent's."""


def check() -> None:
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

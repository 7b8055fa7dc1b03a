"""Processes that predict: copies of one that has made ready what all of them need."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

PR_SET_PDEATHSIG = 1
"""Request of Linux's prctl: a signal when the process that began this one ends."""
Argument = TypeVar("Argument")
Result = TypeVar("Result")


def stay_single() -> None:
    """Keep NumPy's BLAS and pyarrow's jemalloc from starting threads, where not imported yet.

    A process can be copied safely only while it has one thread.
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "pyarrow" not in sys.modules:
        os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")


def context(get_ready: Callable[[], object]) -> Any:
    """Return how processes are started: on Linux as copies of one that is ready.

    That is this process, made ready by `get_ready`, if it has one thread; else one that has
    imported what is needed. Elsewhere each process gets ready by itself.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    stay_single()
    if _is_single():
        with _no_collection():
            get_ready()
            gc.freeze()  # what is ready stays: looking for garbage in it would copy its pages
        if _is_single():
            return multiprocessing.get_context("fork")
    from multiprocessing import forkserver

    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["__main__", "bitvec.services.ready_process"])
    forkserver.ensure_running()
    return found


def ahead(
    function: Callable[[Argument], Result], arguments: Sequence[Argument]
) -> Callable[[], dict[Argument, Result]]:
    """Begin to call a function in a process of its own, on one argument after another.

    So a core that would be idle does it while this process imports and loads. What is returned ends
    that, and returns the results so far by their arguments: none where this process has threads or
    one core, or cannot be copied, and none of a call that raised.
    """
    if sys.platform != "linux" or not _is_single() or len(os.sched_getaffinity(0)) < 2:
        return dict
    fork = multiprocessing.get_context("fork")
    receive, send = fork.Pipe(duplex=False)
    process = fork.Process(target=_send_results, args=(function, arguments, send), daemon=True)
    process.start()
    send.close()

    def results() -> dict[Argument, Result]:
        process.kill()
        found = {}
        with receive, suppress(EOFError, OSError):  # also of a result that was half sent
            while True:
                argument, result = receive.recv()
                found[argument] = result
        process.join()
        return found

    return results


def _send_results(
    function: Callable[[Argument], Result], arguments: Sequence[Argument], send: Connection
) -> None:
    _end_with_parent()
    for argument in arguments:
        with suppress(Exception):
            send.send((argument, function(argument)))


@contextmanager
def pool(n_processes: int, started: Any) -> Iterator[ProcessPoolExecutor]:
    """Give processes that `started` starts, as `context` returns it.

    They end with this one, however it ends, and at once where an exception leaves what is inside.
    """
    others = {*multiprocessing.active_children()}
    with ProcessPoolExecutor(n_processes, started, _end_with_parent) as processes:
        try:
            yield processes
        except BaseException:
            for own in {*multiprocessing.active_children()} - others:
                own.terminate()
            processes.shutdown(wait=True, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began this one ends it
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():  # it ended before it was asked for
            os._exit(1)


def is_copy() -> bool:
    """Return whether this is one of several processes, which share the cores."""
    return multiprocessing.parent_process() is not None


@contextmanager
def _no_collection() -> Iterator[None]:
    """Look for no garbage: what is imported and loaded meanwhile stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _is_single() -> bool:
    """Return whether this process has one thread, those of native libraries counted."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - names are all it needs
    except OSError:
        return False

"""A pool of threads of our own, for kernels that run without the GIL.

numba's own threads are neither safe to use from several threads (workqueue) nor after a fork
(libgomp). Here the calling thread takes blocks from a queue and the pool's threads help: a busy
pool slows a caller down and never blocks it, and an interrupt is answered after one block.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from bitvec.errors import InputError


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def effective_jobs(n_jobs: int | None) -> int:
    """Return a number of threads, with joblib's meaning of negative numbers.

    None and -1 are all available cores, -2 all but one, and so on; at least 1.

    Raises
    ------
    InputError
        If `n_jobs` is 0 or not an integer.

    Examples
    --------
    >>> effective_jobs(3)
    3
    """
    if n_jobs is None:
        return available_cores()
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or int(n_jobs) == 0:
        raise InputError(
            f"`n_jobs` must be None or an integer other than 0, got {n_jobs!r}: -1 means all cores."
        )
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))


class _Pool:
    """The helping threads of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.size = 0
        self.executor: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], None], times: int) -> list[Future[None]]:
        with self.lock:
            if self.executor is None or self.size < times:
                if self.executor is not None:
                    self.executor.shutdown(wait=False)
                self.size = times
                self.executor = ThreadPoolExecutor(times, thread_name_prefix="bitvec")
            try:
                return [self.executor.submit(work) for _ in range(times)]
            except RuntimeError:  # the interpreter is shutting down: the caller works alone
                return []


_pool = _Pool()


def _forget_pool() -> None:
    # A forked child has neither the threads nor, perhaps, a free lock.
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def for_each_block(
    work: Callable[[slice], None], n_rows: int, *, block: int, n_threads: int
) -> None:
    """Call `work` with every block of `block` rows, on at most `n_threads` threads.

    The calling thread is one of them. The first exception ends the work and is raised here.
    """
    blocks = deque(slice(i, min(i + block, n_rows)) for i in range(0, n_rows, block))

    def take() -> None:
        try:
            while True:
                try:
                    part = blocks.popleft()
                except IndexError:
                    return
                work(part)
        except BaseException:
            blocks.clear()
            raise

    helpers = min(n_threads, len(blocks)) - 1
    futures = _pool.submit(take, helpers) if helpers > 0 else []
    try:
        take()
    finally:
        blocks.clear()
        for future in futures:
            future.cancel()
        for future in futures:
            if not future.cancelled():
                future.result()

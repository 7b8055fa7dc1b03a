"""A pool of threads of our own, for kernels that run without the GIL.

numba's own threads are neither safe to use from several threads (workqueue) nor after a fork
(libgomp). Here the calling thread takes blocks from a queue and the pool's threads help. All
callers share one pool, of one thread less than there are cores: a busy pool slows a caller down and
never blocks it, and many callers start no more helpers than one. An interrupt is answered after one
block.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from bitvec.errors import InputError
from bitvec.runtime.predict.subnormals import flushes


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def effective_jobs(n_jobs: int | None) -> int:
    """Return a number of threads, with joblib's meaning of negative numbers.

    None and -1 are all available cores, -2 all but one, and so on; at least 1, and at most the
    available cores, beyond which threads would only take turns.

    Raises
    ------
    InputError
        If `n_jobs` is 0 or not an integer.

    Examples
    --------
    >>> effective_jobs(1)
    1
    """
    cores = available_cores()
    if n_jobs is None:
        return cores
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or int(n_jobs) == 0:
        raise InputError(
            f"`n_jobs` must be None or an integer other than 0, got {n_jobs!r}: -1 means all cores."
        )
    return min(int(n_jobs), cores) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def _find_core() -> Callable[[], int]:
    """Return what tells on which core the calling thread runs, -1 where the system does not."""
    try:
        asked: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
        os.sched_getaffinity(0)
    except (AttributeError, OSError, TypeError):
        return lambda: -1
    return asked


_core = _find_core()


class _Pool:
    """The helping threads of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.size = max(0, available_cores() - 1)
        self.executor: ThreadPoolExecutor | None = None
        self.known: set[int] = set()
        self.free_core = -1

    def keep_from(self, core: int) -> None:
        """Keep the helpers from a core, which is the caller's.

        A thread that is woken for a fraction of a millisecond may be put on the core of the thread
        that wakes it, where it waits; the two would take turns for many calls, since the scheduler
        sees no core overloaded.
        """
        if core == self.free_core or core < 0:
            return
        self.free_core = core
        for thread in list(self.known):
            self._keep_apart(thread)

    def know(self, thread: int) -> None:
        """Count a thread among those that are kept from the cores of callers."""
        if thread not in self.known:
            self.known.add(thread)
            self._keep_apart(thread)

    def _keep_apart(self, thread: int) -> None:
        if self.free_core >= 0 and (others := os.sched_getaffinity(os.getpid()) - {self.free_core}):
            with contextlib.suppress(OSError):  # it has ended
                os.sched_setaffinity(thread, others)

    def submit(
        self, work: Callable[[], None], times: int, futures: list[Future[None]]
    ) -> ThreadPoolExecutor | None:
        """Ask at most `times` threads for help, each by a future that is appended."""
        with self.lock:
            if self.executor is None and self.size:
                self.executor = ThreadPoolExecutor(self.size, thread_name_prefix="bitvec")
            executor = self.executor
            try:
                for _ in range(min(times, self.size) if executor is not None else 0):
                    assert executor is not None
                    futures.append(executor.submit(work))
            except RuntimeError:  # the interpreter is shutting down: the caller works alone
                pass
            return executor

    def forget(self, executor: ThreadPoolExecutor | None) -> None:
        """Let other threads help from now on than those of an executor."""
        with self.lock:
            if executor is not None and self.executor is executor:
                executor.shutdown(wait=False)
                self.executor = None
                self.known = set()  # their numbers will be those of other threads


_pool = _Pool()


def _forget_pool() -> None:
    # A forked child has neither the threads nor, perhaps, a free lock.
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def keep_apart() -> None:
    """Keep the calling thread, which helps others, from the cores of callers."""
    _pool.know(threading.get_native_id())


def keep_core() -> None:
    """Keep helping threads from the core of the calling thread."""
    _pool.keep_from(_core())


def for_each_block(
    work: Callable[[slice], None], n_rows: int, *, block: int, n_threads: int
) -> None:
    """Call `work` with every block of `block` rows, on at most `n_threads` threads.

    The calling thread is one of them. The first exception ends the work and is raised here, once no
    thread is at work any more.
    """
    if n_rows <= block:
        if n_rows:
            work(slice(0, n_rows))
        return
    blocks = deque(slice(i, min(i + block, n_rows)) for i in range(0, n_rows, block))
    flushed, unlike = flushes(), threading.Event()

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

    pool, executor = _pool, None

    def help() -> None:
        pool.know(threading.get_native_id())
        # Its mode is that of the thread that started it: other sums than the caller's.
        if flushes() == flushed:
            take()
        else:
            unlike.set()

    helpers = min(n_threads, len(blocks)) - 1
    if helpers < 1:
        return take()
    futures: list[Future[None]] = []
    keep_core()
    try:
        executor = pool.submit(help, helpers, futures)
        take()
    finally:
        blocks.clear()
        _settle(futures)
        if unlike.is_set():
            pool.forget(executor)


def _settle(futures: list[Future[None]]) -> None:
    """Wait until no helper is at work, also where an interrupt comes meanwhile; then raise."""
    interrupt: BaseException | None = None
    for future in futures:
        while not future.cancel() and not future.done():
            try:
                future.exception()
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
    for future in futures:
        if not future.cancelled():
            future.result()

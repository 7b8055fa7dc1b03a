"""Kernels: functions compiled without the GIL, kept on disk, with a word when compiling takes long.

numba's cache on disk knows a kernel by the file and the name of its function. It sees neither the
functions that the kernel calls, nor the constants that it was compiled with. So a kernel's name
carries a digest of all sources of this package and its sub-packages, of those of the package that
the kernel itself stands in, and of the level of vectors: a change in any of them is another name.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit

from bitvec.runtime.cpu.arrays import pointer
from bitvec.runtime.cpu.target import vectors

LONG = 1.0
"""Seconds of compiling after which a word is said."""

_logger = logging.getLogger("bitvec")

inner = njit(error_model="numpy")
"""Part of a kernel: only whole kernels go to the cache on disk."""

inlined = njit(error_model="numpy", forceinline=True)
"""Part of a kernel that is called for each number: a call would take longer than what it does."""


@inner
def scratch(n_bytes):  # type: ignore[no-untyped-def]
    """Return bytes that begin at a cache line: vectors that cross one cost more."""
    room = np.empty(n_bytes + 64, np.uint8)
    start = -np.int64(room.ctypes.data) % 64
    return room[start : start + n_bytes]


@inner
def int64s(address, n):  # type: ignore[no-untyped-def]
    """Return n int64 that stand at an address: unpacking an array costs more than a number."""
    return numba.carray(pointer(address), (n,), np.int64)  # type: ignore[attr-defined, call-arg]


HERE = Path(__file__).parent


@cache
def digest(package: Path = HERE) -> str:
    """Return what distinguishes these sources, those of a package, and this level of vectors."""
    hasher = hashlib.sha256(f"{numba.__version__} {vectors()}".encode())
    for folder in (HERE,) if package.is_relative_to(HERE) else (HERE, package):
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder).as_posix()
            hasher.update(name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()[:16]


class Kernel:
    """A compiled function: compiles, or loads from the cache, at its first call.

    Arrays are handed to it contiguous and read-only unless they are filled, so that one compiled
    version serves all calls; `bitvec.runtime.cpu.arrays.constant` makes them so.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        package = Path(function.__code__.co_filename).parent
        function.__qualname__ = f"{function.__qualname__}-{digest(package)}"
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
        try:
            self.compiled = njit(cache=True, **options)(function)
        except RuntimeError:
            # No folder for the cache can be written. The shared temporary directory would do, but
            # numba reads its cache by unpickling, and others may write there.
            self.compiled = njit(**options)(function)
        self._call: Callable[..., Any] = self._first

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def _first(self, *arguments: Any) -> Any:
        with _announced(self.name):
            try:
                result = self.compiled(*arguments)
            except OSError:
                # A full disk: numba has compiled the kernel, failed to store it, and not run it.
                result = self.compiled(*arguments)
        self._call = self.compiled
        return result


@contextmanager
def _announced(name: str) -> Iterator[None]:
    timer = threading.Timer(
        LONG,
        _logger.warning,
        (
            "bitvec compiles the kernel %s for this processor; later runs load it from a cache.",
            name,
        ),
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def kernel(function: Callable[..., Any]) -> Kernel:
    """Return a function as a `Kernel`: a decorator."""
    return Kernel(function)

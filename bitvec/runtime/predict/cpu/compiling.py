"""Kernels: functions compiled without the GIL, kept on disk, with a warning when one is compiled.

numba's cache on disk knows a kernel by the file and the name of its function. It sees neither the
functions that the kernel calls, nor the constants that it was compiled with. So a kernel's name
carries a digest of all sources of this package and its sub-packages, of those of the package that
the kernel itself stands in, and of the level of vectors: a change in any of them is another name.
What was compiled while the sources changed, as in an upgrade, is not kept.

`BITVEC_KERNELS` names a folder that holds the kernels instead of numba's own places. Times and
paths of source files play no part in it, so that it can be made on one machine and copied to others
with the same processor, Python and numba. It is read by unpickling, as numba's cache is: only a
folder that nobody else can write may be named.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import IO, Any

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import njit, types
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    NullCache,
    _CacheLocator,
)
from numba.core.ccallback import CFunc
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]

from bitvec.runtime.predict.cpu.kernel_arrays import pointer, room_on_stack, size_of
from bitvec.runtime.predict.cpu.target import vectors

COMPILES = "bitvec compiles kernels for this processor, which takes seconds"

_logger = logging.getLogger("bitvec")

_OPTIONS: Any = {"error_model": "numpy", "boundscheck": False}

_PART: Any = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of what only compiled functions call: without what Python and C would call it by."""


def inner(function: Callable[..., Any]) -> Any:
    """Return part of a kernel, a decorator: only whole kernels go to the cache on disk."""
    return njit(**_PART)(_told_apart(function))


def phase(function: Callable[..., Any]) -> Any:
    """Return part of a kernel that is called in one place: a decorator.

    Its statements replace the call before types are inferred. LLVM optimises an `inner` function by
    itself and again in each caller; a phase once.
    """
    return njit(error_model="numpy", inline="always")(_told_apart(function))


def inlined(function: Callable[..., Any]) -> Any:
    """Return part of a kernel that is called for each number, where a call takes too long."""
    return njit(forceinline=True, **_PART)(_told_apart(function))


def _told_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a closure a name of its own, by what it holds.

    numba numbers functions of one name in each process as they come, and the linker takes compiled
    functions of one name and number for one: two that are loaded from the cache, and that different
    processes have compiled, would be taken for each other.
    """
    if function.__closure__:
        held = zip(function.__code__.co_freevars, function.__closure__, strict=True)
        told = ", ".join(f"{name}={_told(cell.cell_contents)}" for name, cell in held)
        key = hashlib.sha256(told.encode()).hexdigest()[:12]
        if not function.__qualname__.endswith(key):  # else it has one already
            function.__qualname__ = f"{function.__qualname__}-{key}"
    return function


def _told(value: Any) -> str:
    """Return what a closure holds as a text, the same in every process.

    Raises
    ------
    TypeError
        If its kind is none that is known to tell all of it.
    """
    function = getattr(value, "py_func", getattr(value, "_defn", value))
    if isinstance(function, FunctionType):  # of which closures have names of their own
        return f"{function.__module__}.{_told_apart(function).__qualname__}"
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_told, value))})"
    if value is None or isinstance(value, bool | int | float | str | np.dtype | np.generic | type):
        return repr(value)
    if isinstance(value, types.Type | ir.Type):
        return f"{type(value).__name__} {value}"
    raise TypeError(f"a closure must hold numbers, texts, types or functions, got {value!r}.")


@inner
def scratch(n_bytes):  # type: ignore[no-untyped-def]
    """Return bytes that begin at a cache line: vectors that cross one cost more."""
    room = np.empty(n_bytes + 64, np.uint8)
    start = -np.int64(room.ctypes.data) % 64
    return room[start : start + n_bytes]


@phase
def stack_array(n, dtype):  # type: ignore[no-untyped-def]
    """Return n numbers on the stack of who calls this, from a cache line on.

    To ask for memory elsewhere takes as long as to bin some rows.
    """
    return numba.carray(  # type: ignore[attr-defined]
        pointer(room_on_stack(np.int64(n) * size_of(dtype(0)))),  # type: ignore[call-arg]
        (n,),
        dtype,
    )


@inner
def int64s(address, n):  # type: ignore[no-untyped-def]
    """Return n int64 that stand at an address: unpacking an array costs more than a number."""
    return numba.carray(pointer(address), (n,), np.int64)  # type: ignore[attr-defined, call-arg]


HERE = Path(__file__).parent


def digest(package: Path = HERE) -> str:
    """Return what distinguishes these sources, those of a package, and this level of vectors."""
    return _digest(_folders(package))


def is_unchanged(package: Path) -> bool:
    """Return whether the sources on disk are still those of the digest."""
    try:
        return _digest.__wrapped__(_folders(package)) == digest(package)
    except OSError:  # one goes at this moment
        return False


def _folders(package: Path) -> tuple[Path, ...]:
    return (HERE,) if package.is_relative_to(HERE) else (HERE, package)


@cache
def _digest(folders: tuple[Path, ...]) -> str:
    hasher = hashlib.sha256(f"{numba.__version__} {vectors()}".encode())
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder).as_posix()
            hasher.update(name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()[:16]


class _KeyedFiles(IndexDataCacheFile):
    """One file for each version of a kernel, named by what it was compiled for, with its digest.

    numba numbers the files of a kernel and keeps an index: of two processes that compile at once,
    each may take the number of the other, and the index then names the wrong version. And numba
    unpickles what it finds: here a file that is cut short or damaged counts as one that is not
    there, so that the kernel is compiled again and the file replaced.
    """

    def load(self, key: Any) -> Any:
        name = self._data_name(key)
        try:
            content = Path(self._data_path(name)).read_bytes()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        size = hashlib.sha256().digest_size
        is_whole = hashlib.sha256(content[:-size]).digest() == content[-size:]
        return super()._load_data(name) if is_whole else None  # type: ignore[no-untyped-call]

    def save(self, key: Any, data: Any) -> None:
        self._save_data(self._data_name(key), data)  # type: ignore[no-untyped-call]

    def _data_name(self, key: Any) -> str:
        named = hashlib.sha256(repr(key).encode()).digest()[:8]
        return super()._data_name(int.from_bytes(named))  # type: ignore[no-untyped-call]

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[_Digested]:
        with super()._open_for_write(filepath) as stream:
            digested = _Digested(stream)
            yield digested
            stream.write(digested.digest())


class _Digested:
    """A stream to which is written, and the digest of what was."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._hasher = stream, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hasher.update(data)
        return self._stream.write(data)

    def digest(self) -> bytes:
        return self._hasher.digest()


@cache
def _warn_once(message: str) -> None:
    _logger.warning(message)


class _Folder(_CacheLocator):
    """The folder that `BITVEC_KERNELS` names; module names differ in the whole package."""

    def __init__(self, path: str, line: int) -> None:
        self._path, self._line = path, line

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return ""  # a kernel's name holds the digest of the sources

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Folder | None:
        named = os.environ.get("BITVEC_KERNELS")
        return cls(str(Path(named).absolute()), py_func.__code__.co_firstlineno) if named else None


class _Places(CompileResultCacheImpl):
    _locator_classes = [_Folder, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012

    def reduce(self, data: Any) -> tuple[Any, ...]:
        *parts, environments = super().reduce(data)  # type: ignore[no-untyped-call]
        return (*parts, tuple(map(_Constants, environments)))


class _Constants:
    """Constants of a function that a kernel holds, on their way to the cache.

    numba imports the function's module to read them again, which is for functions of numba itself
    much of what can be compiled.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __reduce__(self) -> tuple[Any, ...]:
        held: Any = self._environment
        return _environment, (held.globals["__name__"], held.consts, held.env_name)


def _environment(module: str, constants: list[Any], name: str) -> Environment:
    found: Environment | None = lookup_environment(name)  # type: ignore[no-untyped-call]
    if found is None:
        loaded = sys.modules.get(module)
        found = Environment({"__name__": module} if loaded is None else vars(loaded))
        found.env_name = name
        found.consts[:] = constants
        Environment._memo[name] = found
    return found


@cache
def _name_runtime() -> None:
    """Tell the linker where numba's runtime is: all of it that loaded kernels call is in C."""
    for name, address in _nrt_python.c_helpers.items():
        add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class _KernelCache(FunctionCache):
    """numba's cache of one function, which a full disk or a lost folder does not stop."""

    _impl_class = _Places

    def __init__(self, function: Callable[..., Any], package: Path) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._package = package
        self._cache_file = _KeyedFiles(  # type: ignore[no-untyped-call]
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        # The name tells all that numba would add: of functions that a closure holds it takes
        # another number in each process, so that none would be found again.
        return signature, codegen.magic_tuple()

    def load_overload(self, signature: Any, target: Any) -> Any:
        # numba imports all that it can compile here, SciPy too, and compiles parts of its runtime.
        # What is loaded needs none of it.
        _name_runtime()
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target)  # type: ignore[no-untyped-call]
        if found is None:  # numba compiles next
            _warn_once(f"{COMPILES}; later runs load them from a cache.")
        return found

    def save_overload(self, signature: Any, data: Any) -> None:
        if not is_unchanged(self._package):  # parts of it may be made from the sources before
            return
        try:
            super().save_overload(signature, data)  # type: ignore[no-untyped-call]
        except OSError as error:  # the kernel is compiled, and runs
            _warn_once(f"The next run compiles kernels again, as the cache is not written: {error}")


class _NoCache(NullCache):
    """No cache on disk, where no folder for it can be written."""

    def load_overload(self, signature: Any, target: Any) -> None:
        _warn_once(f"{COMPILES}, in each run: name a folder in NUMBA_CACHE_DIR to keep them.")


def _named(function: Callable[..., Any]) -> FunctionCache | NullCache:
    """Give a function its digest for a name, and return its cache."""
    package = Path(function.__code__.co_filename).parent
    function.__qualname__ = f"{_told_apart(function).__qualname__}-{digest(package)}"
    # Where no folder for the cache can be written, numba raises a RuntimeError. The shared
    # temporary directory would do, but the cache is read by unpickling, and others may write
    # there.
    try:
        return _KernelCache(function, package)
    except RuntimeError:
        return _NoCache()


class Kernel:
    """A compiled function: compiles, or loads from the cache, at its first call.

    Arrays are handed to it contiguous and read-only unless they are filled, so that one compiled
    version serves all calls; `bitvec.runtime.predict.cpu.kernel_arrays.constant` makes them so.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        kept = _named(function)
        self.compiled = njit(nogil=True, **_OPTIONS)(function)
        self.compiled._cache = kept

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    def address(self, n: int) -> int:
        """Return where it stands in memory when compiled for n int64, for `kernel_arrays.ran`."""
        return self.version((types.int64,) * n)[1]

    def version(self, signature: tuple[Any, ...]) -> tuple[Callable[..., Any], int]:
        """Return what is compiled for a signature, which looks at no types, and its address."""
        self.compiled.compile(signature)
        found = self.compiled.overloads[signature]
        address = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
        return found.entry_point, int(address)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Return a function as a `Kernel`: a decorator."""
    return Kernel(function)


class Function:
    """A compiled function of int64, called by its address: compiles, or loads, at its first use.

    Who calls it need not be compiled for it, nor for what it is compiled with. Its last argument
    may be the address of numbers: it is compiled for their dtype then.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._cache = function, _named(function)
        self._compiled: dict[np.dtype | None, Any] = {}

    def address(self, dtype: np.dtype | None = None) -> int:
        """Return where it stands in memory, as long as this object does."""
        if dtype not in self._compiled:
            word: Any = types.int64
            arguments = [word] * self._function.__code__.co_argcount
            if dtype is not None:
                arguments[-1] = types.CPointer(numba.from_dtype(dtype))  # type: ignore[no-untyped-call]
            compiled: Any = CFunc(self._function, (tuple(arguments), word), {}, _OPTIONS)
            compiled._cache = self._cache
            compiled.compile()
            self._compiled.setdefault(dtype, compiled)
        return int(self._compiled[dtype].address)


def by_address(function: Callable[..., Any]) -> Function:
    """Return a function as a `Function`: a decorator."""
    return Function(function)

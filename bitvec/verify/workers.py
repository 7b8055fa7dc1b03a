"""Child processes that open untrusted files: isolated and limited in time and memory.

A library written in C++ believes what a file says; a damaged one may crash it, hang it, or have it
ask for any amount of memory. So a *file* is opened by such a library in a child process, which
answers over a pipe (`bitvec.verify.messages`) for as long as the answers are wanted. The child
starts in the root folder with `-I`, is handed the absolute entries of this process's `sys.path`
without the current folder, and of the environment what `bitvec.verify.child_environment` keeps. Its
time is limited per question by `BITVEC_CHILD_SECONDS` (60 by default, and a second more for each MB
of the file), its memory by `BITVEC_CHILD_GIB` (4, and 32 bytes for each byte of the file). Memory
is limited by `RLIMIT_DATA`: Windows has no such limit and macOS does not enforce it: there only
time is limited. This keeps crashes and hangs out of this process; it is no sandbox against code
that a flaw of such a library would let a file run.
"""

from __future__ import annotations

import json
import os
import select
import signal
import site
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bitvec import errors
from bitvec.core.arrays import Array
from bitvec.errors import BitvecError, FileFormatError, InputError
from bitvec.verify import child_environment, messages

SECONDS, GIB = 60.0, 4.0
"""Time for one question, and memory; `BITVEC_CHILD_SECONDS` and `BITVEC_CHILD_GIB` change them."""
BYTES_PER_SECOND, BYTES_PER_BYTE = 1e6, 32
"""By which a large file has more time and memory."""
BLOCK_ROWS, BLOCK_BYTES = 1 << 14, 1 << 20
"""Most rows of one question, and most bytes of them where 1024 rows have fewer."""

_START: Final = """
import importlib.util, json, site, sys
given = json.loads(sys.argv[1])
for folder in given["sites"]:
    site.addsitedir(folder)
own = [entry for entry in sys.path if entry not in given["path"]]
sys.path[:] = given["path"] + own
spec = importlib.util.spec_from_file_location(
    "bitvec", given["init"], submodule_search_locations=given["folders"]
)
sys.modules["bitvec"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from bitvec.verify import child
child.serve(given)
"""
"""Runs in the child. Its own `sys.path` under `-I` is that of the installation and its .pth files,
so the current folder is in it only where it is installed."""


class Worker:
    """A child process that opens one file and answers questions about it.

    It ends when it is closed or no longer used, with its group, and when this process ends.

    Parameters
    ----------
    path : path
        Of the file, or of a directory.
    library : str
        What opens it, for messages.
    unneeded : sequence of str
        Libraries that this one imports where they are installed, and that the child does without.
    """

    def __init__(
        self, path: str | os.PathLike[str], library: str, unneeded: Sequence[str] = ()
    ) -> None:
        self.path, self.library = os.fspath(path), library
        size = _size(Path(path))
        self.seconds = _limit("BITVEC_CHILD_SECONDS", SECONDS) + size / BYTES_PER_SECOND
        self.gib = _limit("BITVEC_CHILD_GIB", GIB) + size * BYTES_PER_BYTE / 2**30
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._functions: weakref.WeakValueDictionary[int, Callable[..., Any]]
        self._functions = weakref.WeakValueDictionary()  # each holds this worker
        self._failure = ""
        self._process, alive = _started(int(self.gib * 2**30), unneeded)
        self.close = weakref.finalize(self, _end, self._process, alive, os.getpid())

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def call(self, module: str, function: str, *arguments: Any) -> Any:
        """Call a function of a module there; functions in what it returns are called there too."""
        return self.ask({"module": module, "function": function, "arguments": [*arguments]})

    def ask(self, question: dict[str, Any]) -> Any:
        """Return the child's answer to a question as `child.serve` takes it."""
        if os.getpid() != self._owner:
            raise InputError(
                f"{self.path} must be asked in the process that opened it, got a forked one: open "
                "it there again."
            )
        with self._lock:
            if self._failure:
                raise FileFormatError(self._failure)
            late = threading.Event()
            timer = threading.Timer(self.seconds, _stop, (self._process, late))
            timer.daemon = True
            parts = messages.written(question)
            try:
                timer.start()
                for part in parts:
                    messages.send(self._process.stdin, part)
                stream = _Answers(self._process.stdout)
                answer = messages.read(stream, int(self.gib * 2**30), self._function)
            except FileFormatError as error:
                self._failure = f"{self.path}: {error}"
                self.close()
                raise FileFormatError(self._failure) from error
            except (OSError, EOFError):
                self._failure = self._ending(late=late.is_set())
                raise FileFormatError(self._failure) from None
            except BaseException:  # an interruption: what the pipe holds is half an answer
                self._failure = f"{self.path} must be open to be asked: open it again."
                self.close()
                raise
            finally:
                timer.cancel()
        if isinstance(answer, dict) and "value" in answer:
            return answer["value"]
        raise self._told(answer if isinstance(answer, dict) else {})

    def _function(self, number: int) -> Callable[..., Any]:
        """Return a function of the child, the same for the same number."""
        return self._functions.setdefault(number, _Asked(self, number))

    def of_rows(self, number: int, X: Array) -> Any:
        """Return what a function of the child answers to rows, which it is handed in blocks."""
        n_bytes = max(1, X.nbytes // max(len(X), 1))
        block = min(BLOCK_ROWS, max(1024, BLOCK_BYTES // n_bytes // 1024 * 1024))
        parts = []
        for start in range(0, max(len(X), 1), block):
            rows = X[start : start + block]
            part = self.ask({"number": number, "arguments": [rows]})
            if not isinstance(part, np.ndarray) or part.shape[:1] != rows.shape[:1]:
                raise FileFormatError(
                    f"{self.path} must be answered with a row for each of {len(rows)} by "
                    f"{self.library}, got {getattr(part, 'shape', 'no array')}."
                )
            parts.append(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _told(self, answer: dict[str, Any]) -> BaseException:
        """Return what was raised in the child."""
        name, text = str(answer.get("error")), str(answer.get("text"))
        text = text.replace(str(Path(self.path).absolute()), self.path)
        cls, state = getattr(errors, name, None), answer.get("state")
        if isinstance(cls, type) and issubclass(cls, BitvecError):
            error = cls.__new__(cls)
            error.args = (text,)
            error.__dict__.update(state if isinstance(state, dict) else {})
            return error
        if name == "OSError" and isinstance(state, dict) and isinstance(state.get("args"), list):
            return OSError(*state["args"][:2], self.path if len(state["args"]) > 2 else None)
        if name == "MemoryError" or _tells_of_memory(text):
            return FileFormatError(self._beyond_memory())
        return FileFormatError(self._sentence(text))

    def _ending(self, *, late: bool) -> str:
        """Close the worker, and return how its process ended."""
        _kill(self._process)  # which changes nothing of a process that ends already
        status, said = self._process.wait(), ""
        stream = self._process.stderr
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            lines = (stream.read(1 << 16) or b"").decode("utf-8", "replace").split("\n")
            lines = [" ".join(line.split()) for line in lines if line.strip()]
            said = lines[-1][:200].rstrip(".") if lines else ""
        self.close()
        if late:
            return self._sentence(
                f"no answer within {self.seconds:.3g} seconds", "BITVEC_CHILD_SECONDS"
            )
        if _tells_of_memory(said):
            return self._beyond_memory()
        names = {-one.value: one.name for one in signal.Signals}
        how = names.get(status, f"exit status {status}")
        return self._sentence(f"a crash of its process ({how}{': ' + said if said else ''})")

    def _beyond_memory(self) -> str:
        return self._sentence(f"more memory than {self.gib:.3g} GiB", "BITVEC_CHILD_GIB")

    def _sentence(self, what: str, limit: str = "") -> str:
        trust = f"raise {limit}" if limit else "load it yourself and pass the model object"
        return (
            f"{self.path} must be a file that {self.library} can open and answer for, got {what}: "
            f"get it again from whoever made it, or, where you trust it, {trust}."
        )


class _Asked:
    """A function of a child, which lives as long as this does."""

    def __init__(self, worker: Worker, number: int) -> None:
        self._worker, self._number = worker, number

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) == 1 and isinstance(arguments[0], np.ndarray):
            return self._worker.of_rows(self._number, arguments[0])
        return self._worker.ask({"number": self._number, "arguments": [*arguments]})

    def seconds(self, X: Array, batch: int, span: float) -> list[float]:
        """Return the times of calls in the child, as `bitvec.verify.timing.seconds` does."""
        timed = {"number": self._number, "timed": True, "arguments": [X, batch, span]}
        times: list[float] = self._worker.ask(timed)
        return times


class _Answers:
    """The answers of a process, waited for in spans short enough that an interruption is noticed.

    A signal that comes just before a read begins does not end it.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._poll = stream, None
        if os.name == "posix":
            self._poll = select.poll()
            self._poll.register(stream, select.POLLIN)

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, none at the end."""
        while self._poll is not None and not self._poll.poll(500):
            pass
        part: bytes = self._stream.read(size)
        return part


def opened(
    path: str | os.PathLike[str],
    library: str,
    module: str,
    function: str,
    *arguments: Any,
    unneeded: Sequence[str] = (),
) -> Any:
    """Return what a function makes of a file, in a child that lives as long as what it returns.

    Parameters
    ----------
    path : path
    library : str
        What opens it, for messages.
    module, function : str
        Called with the absolute path and the arguments; messages name the path as it was given.
    unneeded : sequence of str
        As of `Worker`.
    """
    worker = Worker(path, library, unneeded)
    try:
        return worker.call(module, function, str(Path(path).absolute()), *arguments)
    except BaseException:
        worker.close()
        raise


def _limit(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text or default)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise InputError(f"{name} must be a number above 0, got {text!r}: unset it.")
    return value


def _size(path: Path) -> int:
    try:
        files = path.iterdir() if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _started(n_bytes: int, unneeded: Sequence[str]) -> tuple[subprocess.Popen[bytes], int | None]:
    """Start a child; return it and the end of a pipe that ends the child when this process ends."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise InputError(
            "a file must be opened in a process of Python's own, got a program without "
            "`sys.executable`: load the model yourself and pass the object."
        )
    package = sys.modules["bitvec"]
    user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    path = child_environment.import_path()
    given: dict[str, Any] = {
        "path": path,
        "sites": [user] if user in path else [],
        "init": str(Path(str(package.__file__)).absolute()),
        "folders": [str(Path(folder).absolute()) for folder in package.__path__],
        "bytes": n_bytes,
        "unneeded": [*unneeded],
    }
    options: dict[str, Any] = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    reads = alive = None
    if os.name == "posix":
        reads, alive = os.pipe()
        given["alive"] = reads
        options = {"start_new_session": True, "pass_fds": [reads]}
    flags = ["-I", *(["-B"] if sys.dont_write_bytecode else [])]
    flags += ["-X", "utf8"] if sys.flags.utf8_mode else []
    try:
        process = subprocess.Popen(
            [str(Path(sys.executable).absolute()), *flags, "-c", _START, json.dumps(given)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if os.name == "posix" else subprocess.DEVNULL,
            cwd=Path(sys.executable).anchor or None,
            env=child_environment.kept(os.environ),
            **options,
        )
    except BaseException:
        if alive is not None:
            os.close(alive)
        raise
    finally:
        if reads is not None:
            os.close(reads)
    return process, alive


def _stop(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    _kill(process)


def _tells_of_memory(text: str) -> bool:
    return any(word in text for word in ("bad_alloc", "bad allocation", "MemoryError"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and what it has started."""
    if process.returncode is not None:
        return
    try:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError:  # it has ended
        pass


def _end(process: subprocess.Popen[bytes], alive: int | None, owner: int) -> None:
    """End a child, once; in a forked process it is not ours to end."""
    if os.getpid() != owner:
        return
    _kill(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    if alive is not None:
        os.close(alive)

"""Child process of `bitvec.verify.workers`: it answers requests over its pipes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

from bitvec import errors
from bitvec.errors import BitvecError
from bitvec.files.sound import reason
from bitvec.verify import messages, timing


def serve(given: dict[str, Any]) -> None:
    """Answer questions until the pipe ends.

    Parameters
    ----------
    given : dict
        `bytes` of memory that this process may have; `alive`, on POSIX, the end of a pipe that
        closes when the process that asks is gone; `unneeded`, libraries that are not found here.
    """
    source, target = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what a library prints is no answer
    sys.stdout = sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks decides when it is enough
    if os.name == "posix":
        _confine(given["bytes"], given["alive"])
    sys.meta_path.insert(0, _Without(given["unneeded"]))
    functions: list[Any] = []

    def number_of(function: Any) -> int:
        if function not in functions:
            functions.append(function)
        return functions.index(function)

    while True:
        try:
            asked = messages.read(source, sys.maxsize)
        except EOFError:
            return
        try:
            if "module" in asked:
                function = getattr(import_module(asked["module"]), asked["function"])
            else:
                function = functions[asked["number"]]
                if "timed" in asked:
                    function = partial(timing.seconds, function)
            parts = messages.written({"value": function(*asked["arguments"])}, number_of)
        except Exception as error:
            parts = messages.written(_told(error))
        for part in parts:
            messages.send(target, part)


class _Without(MetaPathFinder):
    """Hides libraries, as where they are not installed."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raise the error of a library that is not installed, or leave the name to others."""
        if fullname in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _told(error: Exception) -> dict[str, Any]:
    """Return an error as a message: what is raised on purpose as it is, others in one line."""
    name, text = type(error).__name__, str(error)
    state: dict[str, Any] = {}
    if isinstance(error, BitvecError) and name in vars(errors):
        state = {key: value for key, value in vars(error).items() if isinstance(value, str)}
    elif isinstance(error, OSError) and error.errno is not None:
        named = ["file"] if error.filename is not None else []
        name, state = "OSError", {"args": [error.errno, error.strerror, *named]}
    else:
        text = reason(error)
    return {"error": name, "text": text, "state": state}


def _confine(most: int, alive: int) -> None:
    """Limit the memory of this process, and have it end with the one that started it."""
    import fcntl
    import resource

    os.set_blocking(2, False)  # nobody reads what a library prints without end
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if hasattr(os, "O_ASYNC"):  # the system sends SIGIO at the pipe's end, whatever runs here
        fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(alive, fcntl.F_SETFL, fcntl.fcntl(alive, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=_watch, args=(alive,), daemon=True).start()


def _watch(alive: int) -> None:
    os.read(alive, 1)
    os._exit(1)

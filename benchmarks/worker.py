"""A process that measures, from its own side: `python -m benchmarks.worker MODULE:NAME ARGUMENTS`.

It calls what is named with the arguments, a list in JSON, and answers with one line of JSON: the
dictionary that it gives, or `ready` of the object that it makes, whose methods then answer requests
of the standard input. `{"reason": ...}` says why there is no answer. It runs in environments of
other libraries too, so this module imports nothing but Python's own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


class CannotRunError(Exception):
    """A worker cannot do what it is asked for; the message says why."""


def main(place: str, arguments: str) -> None:
    """Answer by what is named, once or until the input ends."""
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    served: list[Any] = []

    def answer(work: Callable[[], Any]) -> None:
        try:
            found = work()
        except Exception as error:
            found = {"reason": reason(error)}
        answers.write(json.dumps(found, default=str) + "\n")
        answers.flush()

    def start() -> Any:
        module, _, name = place.partition(":")
        made = getattr(import_module(module), name)(*json.loads(arguments))
        if isinstance(made, dict):
            return made
        served.append(made)
        return made.ready

    answer(start)
    for line in sys.stdin if served else ():
        request = json.loads(line)
        method = getattr(served[0], request.pop("do"))
        answer(lambda: method(**request))  # noqa: B023 - called at once


def reason(error: Exception) -> str:
    """Return in a line why something failed."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, CannotRunError):
        return text
    if isinstance(error, ImportError):
        return f"{error.name or text} is not installed"
    return f"{type(error).__name__}: {text}"


def reset_peak() -> int:
    """Have the peak of memory counted from now on; return the bytes that are held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return held("VmRSS")


def held(name: str = "VmHWM") -> int:
    """Return a size in bytes that Linux keeps of this process: its peak, if no other is named."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status must tell {name}.")


if __name__ == "__main__":
    # Under its own name, whose exceptions are those that the workers raise.
    import_module("benchmarks.worker").main(*sys.argv[1:])

"""A process that measures, from its own side: it answers each request by a line of JSON.

It runs in environments of other libraries too, so this module imports nothing but Python's own.
The first answer needs no request; `{"reason": ...}` says why there is none.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


class CannotRunError(Exception):
    """A worker cannot do what it is asked for; the message says why."""


def serve(
    start: Callable[[], Any],
    asked: Callable[[dict[str, Any]], Any] | None = None,
    *,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Answer with what `start` returns, and each request of the standard input by `asked`.

    `after` is called when a request has been answered.
    """
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answered(work: Callable[[], Any]) -> bool:
        try:
            answer, worked = work(), True
        except Exception as error:
            answer, worked = {"reason": _reason(error)}, False
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()
        return worked

    if not answered(start) or asked is None:
        return
    for line in sys.stdin:
        request = json.loads(line)
        answered(lambda: asked(request))  # noqa: B023 - called at once
        after()


def _reason(error: Exception) -> str:
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

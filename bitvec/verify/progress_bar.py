"""Progress on stderr: a bar where stderr is a terminal, else a line at times."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

LINE_SECONDS = 30.0
"""Seconds between lines, and before the first: short work needs no word."""


@runtime_checkable
class Advance(Protocol):
    """Moves a bar to a fraction from 0 to 1, and may change what stands before it."""

    def __call__(self, fraction: float, text: str | None = None) -> None: ...


@contextmanager
def progress(
    description: str, *, quiet: bool = False, lines: bool = True, at_once: bool = True
) -> Iterator[Advance | None]:
    """Yield what moves a bar with the expected time, and writes lines where stderr is no terminal.

    None if `quiet`, or where stderr is no terminal and `lines` are not wanted. The bar, which a
    thread redraws, is shown `at_once` or when it is first moved.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if quiet or not (is_terminal or lines):
        yield None
        return
    if not is_terminal:
        yield _lines(description)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    # Without markup: a description holds no more than its text.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("expected still:"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=1.0)

    def advance(fraction: float, text: str | None = None) -> None:
        bar.start()
        bar.update(task, completed=fraction, description=text)

    if at_once:
        bar.start()
    try:
        yield advance
    finally:
        bar.stop()


def _lines(description: str) -> Advance:
    """Return what writes a line where the last one is long ago."""
    last = time.monotonic()

    def advance(fraction: float, text: str | None = None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            print(f"{text or description}: {fraction:.0%}", file=sys.stderr, flush=True)

    return advance

"""A progress bar on stderr, where stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Moves a bar to a fraction from 0 to 1, and may change what stands before it."""

    def __call__(self, fraction: float, text: str | None = None) -> None: ...


@contextmanager
def progress(description: str, *, quiet: bool = False) -> Iterator[Advance | None]:
    """Show a bar and yield what moves it; None if stderr is no terminal, or if `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    # Without markup: a description holds no more than its text.
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=1.0)

        def advance(fraction: float, text: str | None = None) -> None:
            bar.update(task, completed=fraction, description=text)

        yield advance

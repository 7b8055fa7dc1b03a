"""Errors of a command as one sentence on stderr and an exit status, never a traceback.

2 is wrong input (click's own usage errors are 2 already), 70 a bug (EX_SOFTWARE of sysexits.h), 130
an interruption, 141 a reader that went away (128 + SIGPIPE).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bitvec.cli.streams import HALTED, INTERRUPTED, STDOUT, discard_stdout
from bitvec.core.plain_text import plain
from bitvec.errors import BitvecError

INPUT, BUG, NO_READER = 2, 70, 141
DEBUG = "bitvec.debug"
"""Key of `ctx.meta` that says whether tracebacks are wanted."""


class Failure(click.ClickException):
    """A sentence and an exit status."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """The status that click exits with."""
        return self.status


@contextmanager
def reported(ctx: click.Context) -> Iterator[None]:
    """Turn what is raised inside into a `Failure`, and show warnings as one line each."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
            sys.stdout.flush()
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        _show_traceback(ctx)
        raise Failure(HALTED, INTERRUPTED) from None
    except BrokenPipeError:
        discard_stdout()
        raise click.exceptions.Exit(NO_READER) from None
    except (BitvecError, OSError, MemoryError) as error:
        _show_traceback(ctx)
        if isinstance(error, OSError) and error.filename == STDOUT:
            discard_stdout()
        raise Failure(sentence(error), INPUT) from None
    except Exception as error:
        _show_traceback(ctx)
        what = f"{type(error).__name__}: {plain(str(error))}".strip().rstrip(".:")
        raise Failure(
            f"{what}. This is a bug in bitvec: run the command again with --debug and report what "
            "it shows.",
            BUG,
        ) from None


def sentence(error: BaseException) -> str:
    """Return what an error says, on one line."""
    if isinstance(error, MemoryError):
        return f"this needs more memory than there is ({plain(str(error)) or 'MemoryError'})."
    if isinstance(error, OSError) and error.filename is not None:
        return _of_the_system(error)
    return plain(str(error)) or type(error).__name__


def _of_the_system(error: OSError) -> str:
    if error.filename == STDOUT:
        return f"stdout must be open and have room for the answer, got: {error.strerror}."
    name = plain(os.fsdecode(error.filename)) if error.filename != "" else "the empty path"
    for kind, says in (
        (FileNotFoundError, "does not exist."),
        (IsADirectoryError, "must be a file, got a directory."),
        (PermissionError, "must be open to you, got: permission denied."),
    ):
        if isinstance(error, kind):
            return f"{name} {says}"
    return f"{name} cannot be used: {error.strerror}."


def _show_traceback(ctx: click.Context) -> None:
    if ctx.meta.get(DEBUG):
        import traceback

        click.echo(traceback.format_exc(), err=True, nl=False)


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    click.echo(f"Warning: {plain(str(message))}", err=True)

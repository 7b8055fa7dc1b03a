"""Parts of commands that train: options, rows to choose by, and the course of the training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING

import click

from bitvec.errors import InputError

if TYPE_CHECKING:
    from bitvec.runtime.train.retrain.selection import Evaluation

LOSSES = ("auto", "squared", "absolute", "huber", "quantile", "poisson")
target_option = click.option(
    "--target",
    required=True,
    metavar="COLUMN",
    help="The column of DATA to learn: its name, or its number from 0 if DATA has no names.",
)


def share(validation: str) -> float | None:
    """Return the share that is to be held out; None where a file is named."""
    if not validation:
        raise InputError("--validation must be a share between 0 and 1, or a file, got ''.")
    try:
        share = float(validation)
    except ValueError:
        return None
    if not 0 < share < 1:
        raise InputError(f"--validation must be a share between 0 and 1, or a file, got {share}.")
    return share


@contextmanager
def watch(doing: str, *, quiet: bool) -> Iterator[Callable[[Evaluation], None]]:
    """Show on stderr the hard forest's score each time it is looked at: a bar on a terminal."""
    from bitvec.verify.progress_bar import progress

    # Where there is no bar, each evaluation has its own line.
    with progress(doing, quiet=quiet or not sys.stderr.isatty()) as advance:

        def told(evaluation: Evaluation) -> None:
            mark = "  kept" if evaluation.accepted else ""
            text = f"{evaluation.stage} {evaluation.step}: validation {evaluation.score:.4g}"
            if isfinite(evaluation.loss):
                text += f", loss {evaluation.loss:.4g}"
            if isfinite(evaluation.gamma):
                text += f", steepness {evaluation.gamma:.3g}"
            text += mark
            if advance is not None:
                advance(evaluation.step / max(evaluation.steps, 1), text)
            elif not quiet:
                click.echo(text, err=True)

        yield told

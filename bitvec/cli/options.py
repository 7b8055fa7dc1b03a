"""Options and types of parameters that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bitvec.cli.failures import DEBUG

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PATH = click.Path(path_type=Path, readable=False)
"""A path; whether it can be read or written is said by `bitvec.cli.paths`."""


def _remember_debug(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    ctx.meta[DEBUG] = wanted


debug_option = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show the traceback of an error.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

header_option = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row of a text file holds names; it does if no cell is a number.",
)


def seed_option(of: str) -> Callable[[Decorated], Decorated]:
    """Return `--seed`, with a word on what it is the seed of."""
    return click.option(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        default=0,
        show_default=True,
        metavar="N",
        help=f"Of {of}.",
    )

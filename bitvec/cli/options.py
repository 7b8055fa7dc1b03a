"""Options and types of parameters that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bitvec.cli.failures import DEBUG
from bitvec.errors import InputError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class _Path(click.Path):
    """A path of some characters: pathlib takes the empty one for the working directory."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        name = os.fspath(value)
        if not name or "\0" in name:
            what = "a path" if param is None else param.get_error_hint(ctx)
            raise InputError(f"{what} must name a file, got {name!r}.")
        return super().convert(value, param, ctx)


PATH = _Path(path_type=Path, readable=False)
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

values_only_option = click.option(
    "--allow-values-only",
    is_flag=True,
    help="Let the certificate pass on values alone where neither trees nor leaf ids are shown.",
)

header_option = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row of a text file holds names; it does if no cell is a number, or if "
    "it holds the names that the forest knows.",
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

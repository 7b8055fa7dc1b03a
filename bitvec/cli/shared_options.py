"""Options that several commands share, each declared once, and the types of option values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from bitvec.cli.failures import DEBUG
from bitvec.errors import InputError

ENGINES = ("auto", "numba", "torch", "triton", "reference")
TRAINABLE = ("S", "b", "v", "r", "base_score", "phi")


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


class Pair(click.ParamType):  # type: ignore[type-arg]
    """Two numbers, as `1,4`."""

    name = "pair"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        try:
            first, last = (float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"must be two numbers, as 1,4, got {value!r}.", param, ctx)
        return first, last


class Parts(click.ParamType):  # type: ignore[type-arg]
    """A list of what may move, as `S,b,v`."""

    name = "parts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        parts = tuple(part.strip() for part in str(value).split(","))
        for part in parts:
            if part not in TRAINABLE:
                self.fail(f"must list some of {', '.join(TRAINABLE)}, got {part!r}.", param, ctx)
        return parts


class Directions(click.ParamType):  # type: ignore[type-arg]
    """Directions of columns, as `age=1,4=-1`, a column by name or number; `none` for none."""

    name = "directions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str | int, int]:
        if isinstance(value, dict):
            return value
        found: dict[str | int, int] = {}
        for part in () if value == "none" else str(value).split(","):
            column, _, sign = part.strip().rpartition("=")
            if not column or sign not in ("1", "-1", "0"):
                self.fail(
                    f"must give columns 1 or -1, as age=1,4=-1, or be none, got {part!r}.",
                    param,
                    ctx,
                )
            found[int(column) if column.isdecimal() else column] = int(sign)
        return found


def directions_text(monotone: Mapping[str | int, int]) -> str:
    """Return columns with the directions that they have, for people."""
    return ", ".join(
        f"{column} {'rising' if sign > 0 else 'falling'}" for column, sign in monotone.items()
    )


PATH = _Path(path_type=Path, readable=False)
"""A path; whether it can be read or written is said by `bitvec.cli.given_files`."""


def _remember_debug(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    ctx.meta[DEBUG] = wanted


forest_argument = click.argument("path", metavar="FOREST|MODEL", type=PATH)
rows_argument = click.argument("data", metavar="DATA", type=PATH)

# What a command says of them itself is added where it declares them.
out_option = partial(click.option, "-o", "--out", type=PATH, metavar="OUT")
data_option = partial(click.option, "--data", type=PATH, metavar="DATA")
certify_option = partial(click.option, "--certify", "proves", is_flag=True)
device_option = partial(click.option, "--device", metavar="DEVICE")
seed_option = partial(
    click.option,
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    metavar="N",
)

monotone_option = click.option(
    "--monotone",
    type=Directions(),
    metavar="COLUMN=1,COLUMN=-1|none",
    help="Columns along which the raw scores never fall (1) or never rise (-1); by default those "
    "that the model records.",
)
engine_option = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="What computes the answer; all engines give the same.",
)
dtypes_option = click.option(
    "--dtypes",
    type=click.Choice(("float64", "float32")),
    help="Of the columns of numbers that a scikit-learn pipeline is handed, on which its "
    "arithmetic depends: float64 if not given, which stands for whole numbers too.",
)
labels_option = click.option(
    "--target",
    metavar="COLUMN",
    help="The column of --data that holds the labels: its name, or its number from 0.",
)
header_option = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row of a text file holds names; it does if no cell is a number, or if "
    "it holds the names that the forest knows.",
)
values_only_option = click.option(
    "--allow-values-only",
    is_flag=True,
    help="Let the certificate pass on values alone where neither trees nor leaf ids are shown.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
debug_option = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show the traceback of an error.",
)


def as_command(
    name: str, short_help: str, *, json: bool = True
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of a function, with `--json` and `--debug`."""

    def made(function: Callable[..., Any]) -> click.Command:
        made = click.command(name, short_help=short_help)(function)
        return debug_option(json_option(made) if json else made)

    return made

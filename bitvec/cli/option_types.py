"""Types of options that hold several values in one word."""

from __future__ import annotations

from typing import Any

import click

TRAINABLE = ("S", "b", "v", "r", "base_score", "phi")


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

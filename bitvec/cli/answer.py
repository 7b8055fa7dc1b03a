"""Output of a command: one JSON object for a script, or lines that a terminal may show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import click

from bitvec.core.plain_text import plain


def json_value(value: Any) -> Any:
    """Return a value as JSON knows it: NaN is null, an infinity is "inf" or "-inf"."""
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def print_json(answer: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout."""
    import json

    click.echo(json.dumps(json_value(answer), allow_nan=False))


def print_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Print label and value, one pair per line, the labels in one column.

    Lines are never folded, so that they can be searched.
    """
    pairs = list(lines)
    width = max((len(label) for label, _ in pairs), default=0)
    for label, value in pairs:
        click.echo(f"{click.style(label.ljust(width), bold=True)}  {plain(value)}")


def count(number: int, thing: str) -> str:
    """Return "1 tree", "1,200 trees".

    >>> count(1, "leaf"), count(1200, "tree")
    ('1 leaf', '1,200 trees')
    """
    plural = {"leaf": "leaves", "class": "classes"}.get(thing, f"{thing}s")
    return f"{number:,} {thing if number == 1 else plural}"

"""Errors that say which model they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any

from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of the model in front of messages about it."""
    try:
        yield
    except (FileFormatError, InvalidForestError, UnsupportedModelError) as error:
        raise type(error)(f"{name}: {error}") from error


@contextmanager
def naming_file(model: Any) -> Iterator[None]:
    """Put the name of a file in front of messages about it; objects have none."""
    if not isinstance(model, str | PathLike):
        yield
        return
    with naming(str(fspath(model))):
        yield

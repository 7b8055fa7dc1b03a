"""Errors that say which model they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of the model in front of messages about it."""
    try:
        yield
    except (FileFormatError, InvalidForestError, UnsupportedModelError) as error:
        raise type(error)(f"{name}: {error}") from error

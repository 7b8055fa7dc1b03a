"""Columns of X as a file of bitvec's states them: names and the codes of categories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bitvec.core.inputs import Inputs
from bitvec.errors import FileFormatError, InvalidForestError

NAMES, CATEGORIES = "bitvec.feature_names.json", "bitvec.categories.json"
_LABELS = (str, int, float, bool)


def stored_inputs(message: Any, n_features: int, sentinel: float | None = None) -> Inputs:
    """Return the columns of X as the metadata of an `onnx.ModelProto` describe them, if they do.

    Raises
    ------
    FileFormatError
        If the metadata are there and are none that bitvec writes of so many columns.
    """
    facts = {entry.key: entry.value for entry in message.metadata_props}
    names = stored_names(facts)
    stored = _json(facts, CATEGORIES)
    try:
        columns = {} if stored is None else _code_books(stored)
        return Inputs(n_features, names, missing_sentinel=sentinel, **columns)
    except InvalidForestError as error:
        raise FileFormatError(f"the metadata of the file must fit its columns: {error}") from error


def stored_names(facts: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the names of columns that metadata state, if they do.

    Raises
    ------
    FileFormatError
        If they are there and are none that bitvec writes.
    """
    names = _json(facts, NAMES)
    if names is not None and not _is_list(names, str):
        raise FileFormatError(f"`{NAMES}` must be a list of names.")
    return None if names is None else tuple(names)


def _code_books(stored: Any) -> dict[str, Any]:
    """Return the arguments of `Inputs` that the code books of a file stand for."""
    held = stored if isinstance(stored, dict) else {}
    books: Any = held.get("books")
    lists: Any = [held.get(name, []) for name in ("hashed", "whole_numbers", "decimals")]
    refuses_unseen: Any = held.get("refuses_unseen", False)
    if (
        not isinstance(books, list)
        or not all(book is None or _is_list(book, *_LABELS) for book in books)
        or not all(_is_list(columns, int) for columns in lists)
        or type(refuses_unseen) is not bool
    ):
        raise FileFormatError(
            f"`{CATEGORIES}` must hold a list of labels, or none, of each column."
        )
    return {
        "categories": tuple(None if book is None else tuple(book) for book in books),
        "hashed": tuple(lists[0]),
        "whole_numbers": tuple(lists[1]),
        "decimals": tuple(lists[2]),
        "refuses_unseen": refuses_unseen,
    }


def _json(facts: Mapping[str, str], key: str) -> Any:
    if key not in facts:
        return None
    try:
        return json.loads(facts[key])
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"`{key}` must be JSON, got other text.") from error


def _is_list(value: Any, *kinds: type) -> bool:
    return isinstance(value, list) and all(type(item) in kinds for item in value)

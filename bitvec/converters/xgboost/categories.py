"""The categories of the data frame that an xgboost model was trained on: its code books."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bitvec.converters.xgboost.document import Document, integers, member
from bitvec.core.inputs import Label
from bitvec.errors import FileFormatError

Book = tuple[Label, ...]


def code_books(model: Document, n_features: int) -> tuple[Book | None, ...] | None:
    """Return, per feature, the categories whose place is the code; None where none are known.

    Parameters
    ----------
    model : JSON object
        The `model` of a gbtree. Its member `cats` holds what xgboost 3.1 and later keep of a data
        frame; older models, and those trained on arrays of codes, hold nothing.
    n_features : int

    Raises
    ------
    FileFormatError
        If `cats` is damaged.

    Notes
    -----
    A book with letters beyond ASCII is left out: xgboost 3.1 and 3.2 count characters of a pandas
    category where they cut bytes, so it does not hold what the frame held. Codes still work.
    """
    if "cats" not in model:
        return None
    columns = member(member(model, "cats", dict), "enc", list)
    if not columns:
        return None
    if len(columns) != n_features:
        raise FileFormatError(
            f"`cats` must have one entry for each of {n_features} features, got {len(columns)}."
        )
    books = tuple(_book(column) for column in columns)
    return books if any(book is not None for book in books) else None


def _book(column: Any) -> Book | None:
    if not isinstance(column, dict):
        raise FileFormatError(f"an entry of `cats` must be an object, got {type(column).__name__}.")
    book: Book | None
    if "offsets" in column:
        book = _texts(column)
    else:
        book = tuple(integers(column.get("values"), "values", -(2**63), 2**63).tolist())
    if book is not None and len(set(book)) < len(book):
        raise FileFormatError(
            f"the categories of a feature must be distinct, got {len(set(book))} in {len(book)}."
        )
    return book or None


def _texts(column: Document) -> Book | None:
    """Cut the bytes of an Arrow string array, which xgboost keeps as signed numbers."""
    letters = integers(column.get("values"), "values", -128, 256) % 256
    ends = integers(column["offsets"], "offsets", 0, letters.size + 1)
    if ends.size and (ends[0] != 0 or np.any(np.diff(ends) < 0)):
        raise FileFormatError(f"`offsets` must rise from 0 to {letters.size}.")
    if np.any(letters > 127):
        return None
    text = bytes(letters.tolist()).decode("ascii")
    return tuple(text[i:j] for i, j in pairwise(ends))

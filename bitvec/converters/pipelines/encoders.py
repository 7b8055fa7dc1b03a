"""Encoders: categories of numbers or texts as columns of 0 and 1, or as their places; bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.attribute_records import class_name
from bitvec.converters.pipelines.derived_columns import (
    Block,
    Derived,
    Step,
    Walk,
    as_floats,
    checked,
)
from bitvec.converters.pipelines.operations import DOUBLE, SINGLE, Encode, Rising, float_of
from bitvec.core.arrays import Array

_WIDEST = 2**53


def one_hot(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a OneHotEncoder."""
    return _one_hot(step, block, walk, _dtype(step))


def _one_hot(step: Step, block: Block, walk: Walk, dtype: np.dtype) -> Block:
    books = _categories(step, block, walk)
    drops = step.fitted("_drop_idx_after_grouping")
    drops = [None] * len(books) if drops is None else np.asarray(drops).tolist()
    handling = step.option("handle_unknown", "error")
    columns = []
    for at, (column, categories) in enumerate(zip(_read(block).columns, books, strict=True)):
        codes = np.arange(len(categories))
        grouped = _grouping(step, at)
        infrequent = None
        if grouped is not None:
            codes = grouped
            infrequent = int(np.max(codes))  # the last code is that of the group
        drop = drops[at]
        unknown: int | None = -1  # the code of no column
        if handling == "error":
            unknown = None
        elif handling in ("infrequent_if_exist", "warn") and infrequent is not None:
            unknown = infrequent
        elif handling not in ("ignore", "infrequent_if_exist", "warn"):
            raise step.refuse(f"it handles unknown categories by {handling!r}")
        for code in range(int(codes.max(initial=-1)) + 1):
            if code != drop:
                numbers = codes == code
                other = None if unknown is None else float(unknown == code)
                encoded = Encode(categories, numbers, other, column.values, float_of(dtype))
                columns.append(column.then(encoded, dtype))
    _keep_checked(block, books, walk, handling)
    return Block(tuple(columns), bool(step.option("sparse_output", True)))


def ordinal(step: Step, block: Block, walk: Walk) -> Block:
    """Follow an OrdinalEncoder."""
    dtype = _dtype(step)
    books = _categories(step, block, walk)
    missing_at: dict[int, int] = dict(step.fitted("_missing_indices"))
    handling = step.option("handle_unknown", "error")
    unknown = None
    if handling == "use_encoded_value":
        unknown = float(step.option("unknown_value", np.nan))
    elif handling != "error":
        raise step.refuse(f"it handles unknown categories by {handling!r}")
    columns = []
    for at, (column, categories) in enumerate(zip(_read(block).columns, books, strict=True)):
        numbers = np.arange(len(categories), dtype=np.float64)
        grouped, own = _grouping(step, at), missing_at.get(at, missing_at.get(str(at)))  # type: ignore[call-overload]
        if grouped is not None:
            others = np.arange(len(categories)) != own
            numbers[others] = grouped[: int(others.sum())]
        if own is not None:
            numbers[own] = float(step.option("encoded_missing_value", np.nan))
        encoded = Encode(categories, numbers, unknown, column.values, float_of(dtype))
        columns.append(column.then(encoded, dtype))
    return Block(tuple(columns))


def bins(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a KBinsDiscretizer."""
    own = step.option("dtype", None)
    block = as_floats(block)
    if own is not None:
        block = block.each(lambda _, column: column.to(_named(step, own)))
    block = checked(block, nan=False)
    edges = step.fitted("bin_edges_")
    if len(edges) != len(block.columns):
        raise step.refuse(f"it has bins of {len(edges)} columns, not {len(block.columns)}")

    def change(at: int, column: Derived) -> Derived:
        inner = np.asarray(edges[at], np.float64)[1:-1]
        if np.any(np.isnan(inner)) or np.any(np.diff(inner) < 0):
            raise step.refuse("its edges must rise")
        return column.then(Rising("bin", (inner,), column.values, column.values))

    block = block.each(change)
    if step.option("encode", "onehot") == "ordinal":
        return block
    encoder = step.inner(step.fitted("_encoder"), "_encoder")
    return _one_hot(encoder, block, walk, block.dtype)


def _read(block: Block) -> Block:
    """Return the columns as an encoder reads them, one by one, each checked by itself."""
    return checked(block, nan=True)


def _keep_checked(block: Block, books: list[tuple[Any, ...]], walk: Walk, handling: str) -> None:
    """Note what a column of no output is checked for: one category that is dropped, say."""
    for column, categories in zip(_read(block).columns, books, strict=True):
        other = None if handling == "error" else 0.0
        known = Encode(categories, np.zeros(len(categories)), other, column.values, DOUBLE)
        walk.checked.append(column.then(known, DOUBLE))


def _categories(step: Step, block: Block, walk: Walk) -> list[tuple[Any, ...]]:
    """Return the categories of each column, as Python values of one kind, with NaN or None."""
    if block.is_sparse:
        raise step.refuse("it takes no sparse matrix")
    found = step.fitted("categories_")
    if not isinstance(found, list) or len(found) != len(block.columns):
        raise step.refuse(f"its `categories_` must be of {len(block.columns)} columns")
    books = []
    for values in found:
        book = tuple(np.asarray(values).ravel().tolist())
        known = [v for v in book if v is not None and v == v]
        texts = sum(isinstance(v, str) for v in known)
        numbers = [v for v in known if isinstance(v, bool | int | float)]
        if (
            texts + len(numbers) != len(known)
            or (texts and numbers)
            or len(set(known)) < len(known)
        ):
            raise step.refuse("its categories must be texts or numbers, all different")
        if any(abs(number) > _WIDEST for number in numbers if isinstance(number, int)):
            raise step.refuse("its categories are whole numbers that float64 does not hold")
        if any(v is None for v in book) and not texts:
            raise step.refuse("its categories are None and numbers")
        books.append(book)
    return books


def _grouping(step: Step, at: int) -> Array | None:
    """Return the code of each category where the rare ones share one, the last."""
    if not step.option("_infrequent_enabled", False):
        return None
    found = step.fitted("_default_to_infrequent_mappings")[at]
    return None if found is None else np.asarray(found, np.int64)


def _dtype(step: Step) -> np.dtype:
    return _named(step, step.option("dtype", np.float64))


def _named(step: Step, given: Any) -> np.dtype:
    """Return the dtype of an option: float32, or float64, which holds whole numbers too."""
    try:
        dtype = np.dtype(class_name(given) if hasattr(given, "state") else given)
    except TypeError:
        raise step.refuse(f"its dtype is {given!r}") from None
    if dtype in (SINGLE, DOUBLE):
        return dtype
    if dtype.kind in "iu" and dtype.itemsize >= 4:
        return DOUBLE
    raise step.refuse(f"its dtype is {dtype}, not float32, float64, int32 or int64")

"""Categories in a LightGBM model text: the sets of its splits, and pandas' code books."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.converters.category_sets import SET_WORDS_LIMIT
from bitvec.converters.lightgbm.model_text import ModelText, integers, one_each, per_tree
from bitvec.core.arrays import Array, ranges
from bitvec.core.inputs import Label
from bitvec.core.shape_annotations import Bool, Float64, Int64, UInt32
from bitvec.errors import FileFormatError, UnsupportedModelError


def left_sets(
    trees: list[dict[str, bytes]],
    n_nodes: Int64[Array, " n_trees"],
    is_set: Bool[Array, " n_nodes"],
    threshold: Float64[Array, " n_nodes"],
) -> tuple[Int64[Array, " n_nodes"], UInt32[Array, " n_words"]]:
    """Return the words of each set, inverted: LightGBM's bits say which codes go left.

    The threshold of a split on categories is the number of its set within the tree.
    """
    none = np.zeros(is_set.size, np.int64), np.zeros(0, np.uint32)
    n_cat = one_each(trees, "num_cat")
    tree = np.repeat(np.arange(n_nodes.size), n_nodes)
    number = np.where(is_set, threshold, 0.0)
    if np.any(is_set & ~((number >= 0) & (number < n_cat[tree]) & (number == np.floor(number)))):
        raise FileFormatError("a split on categories must name one of its tree's `num_cat` sets.")
    if not np.any(n_cat):
        return none
    bounded = np.where(n_cat > 0, n_cat + 1, 0)
    trees = [t if n else {} for t, n in zip(trees, n_cat.tolist(), strict=True)]
    bound = integers(per_tree(trees, "cat_boundaries", bounded), "cat_boundaries")
    first = np.cumsum(bounded) - bounded
    ends = bound[(first + bounded - 1)[n_cat > 0]]
    words_of = np.zeros(n_nodes.size, np.int64)
    words_of[n_cat > 0] = ends
    inner = np.ones(bound.size, np.bool_)
    inner[first[n_cat > 0]] = False
    if np.any(bound[~inner] != 0) or np.any((bound - np.roll(bound, 1))[inner] < 0):
        raise FileFormatError("`cat_boundaries` must rise from 0.")
    words = integers(per_tree(trees, "cat_threshold", words_of), "cat_threshold")
    if words.size and not (int(words.min()) >= 0 and int(words.max()) < 2**32):
        raise FileFormatError("`cat_threshold` must hold words of 32 bits, got other numbers.")
    node = np.flatnonzero(is_set)
    at = first[tree[node]] + number[node].astype(np.int64)
    count = np.zeros(is_set.size, np.int64)
    count[node] = bound[at + 1] - bound[at]
    if int(count.sum()) > SET_WORDS_LIMIT:
        raise UnsupportedModelError(
            f"category sets must take at most {SET_WORDS_LIMIT} words, got {int(count.sum())}."
        )
    start = (np.cumsum(words_of) - words_of)[tree[node]] + bound[at]
    return count, ~words[ranges(start, count[node])].astype(np.uint32)


UNPLACED: Final = (
    "the categories of `pandas_categorical` fit several columns, so that the forest takes codes, "
    "not categories"
)
ORDERED: Final = (
    "columns of ordered categories, which LightGBM splits like numbers, take codes: NaN for a "
    "category that is not in `pandas_categorical`"
)
SEARCH_LIMIT: Final = 10**7
"""Pairs of a column and a list that are looked at."""

Books = tuple[tuple[Label, ...] | None, ...]


def code_books(text: ModelText, n_features: int) -> tuple[Books | None, dict[str, Any]]:
    """Return, per feature, the categories of the data frame whose place is the code.

    A text lists the categories of each category column, in the order of the columns, but not which
    columns these were. By default they are the categorical features, besides ordered ones, which
    are features like any number. A book is kept where the codes and the order leave one place to
    each list. No other place can lead to a wrong answer: a column of categories without a book is
    refused by whoever reads the frame. Ordered columns get none, since LightGBM reads an unseen
    category of theirs as NaN, which is not a code.

    Where a list has become no book, the second value says so and holds the lists, for metadata.
    """
    lists = text.pandas_categorical
    if not lists:
        return None, {}
    for book in lists:
        _check_book(book)
    sizes = np.array([len(book) for book in lists])
    columns = [_column(info) for info in text.header["feature_infos"].split(" ")]
    places = _places(columns, _categorical(text, columns), sizes)
    kept: dict[str, Any] = {"pandas_categorical": lists}
    if places is None:
        return None, kept | {"code_books": UNPLACED}
    books: list[tuple[Label, ...] | None] = [None] * n_features
    for column, place in places.items():
        books[column] = tuple(lists[place])
    return tuple(books), {} if len(places) == len(lists) else kept | {"code_books": ORDERED}


class _Column(NamedTuple):
    """Return what `feature_infos` says of a feature."""

    is_set: bool
    may_be_codes: bool
    most: int
    """The largest code seen, -1 for none."""


def _column(info: str) -> _Column:
    if info.startswith("["):
        low, _, high = info.strip("[]").partition(":")
        try:
            low_code, high_code = float(low), float(high)
        except ValueError:
            return _Column(False, False, -1)
        whole = 0 <= low_code <= high_code < 2**31 and low_code % 1 == high_code % 1 == 0
        return _Column(False, whole, int(high_code) if whole else -1)
    parts = info.split(":")
    codes = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 12]
    return _Column(len(parts) > 1, info == "none" or len(parts) > 1, max(codes, default=-1))


def _categorical(text: ModelText, columns: list[_Column]) -> list[int]:
    """Return the features that LightGBM took as categorical."""
    listed = text.parameter("categorical_feature")
    if listed and all(part.isascii() and part.isdigit() for part in listed.split(",")):
        found = {int(part) for part in listed.split(",") if len(part) < 12}
        if max(found, default=0) < len(columns):
            return sorted(found)
    return [at for at, column in enumerate(columns) if column.is_set]


def _places(
    columns: list[_Column], categorical: list[int], sizes: Int64[Array, " n_lists"]
) -> dict[int, int] | None:
    """Return which list belongs to each categorical feature; None if that is not certain.

    Lists are dealt out in order. With as many lists as categorical features or more, each of these
    has one, and what is left over belongs to features of ordered categories; with fewer, some
    features were codes already. Sets of places are held as the bits of integers: bit j of `before`
    says that the columns so far can hold j lists.
    """
    spare = sizes.size > len(categorical)
    candidates = categorical
    if spare:
        is_set = set(categorical)
        candidates = [c for c, col in enumerate(columns) if c in is_set or col.may_be_codes]
    if len(candidates) * sizes.size > SEARCH_LIMIT:
        return None
    must = set(categorical) if sizes.size >= len(categorical) else set()
    fits = [_bits(sizes > columns[c].most) for c in candidates]
    before = [1]
    for column, fit in zip(candidates, fits, strict=True):
        used = (before[-1] & fit) << 1
        before.append(used if column in must else before[-1] | used)
    after, found = 1 << sizes.size, {}
    for column, fit, start in zip(candidates[::-1], fits[::-1], before[-2::-1], strict=True):
        used = fit & (after >> 1)
        found[column] = start & used
        after = used if column in must else after | used
    found = {column: found[column] for column in categorical if found[column]}
    if sum(places.bit_count() for places in found.values()) != min(sizes.size, len(categorical)):
        return None
    return {column: places.bit_length() - 1 for column, places in found.items()}


def _bits(flags: Bool[Array, " n"]) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _check_book(book: Any) -> None:
    if not isinstance(book, list) or not all(
        isinstance(label, (str, int, float, bool)) for label in book
    ):
        raise FileFormatError("`pandas_categorical` must hold lists of texts, numbers or booleans.")
    if len(set(book)) < len(book):
        raise FileFormatError("the categories of a feature must be distinct, got one twice.")

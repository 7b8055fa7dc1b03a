"""Categories in a LightGBM model text: the sets of its splits, and pandas' code books."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt32

from bitvec.arrays import Array, ranges
from bitvec.converters.category_sets import SET_WORDS_LIMIT
from bitvec.converters.lightgbm.text import ModelText, integers, one_each, per_tree
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.inputs import Label


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


def code_books(text: ModelText, n_features: int) -> tuple[tuple[Label, ...] | None, ...] | None:
    """Return, per feature, the categories of the data frame whose place is the code.

    A text lists the categories of each category column, but not which columns these were. They are
    the categorical features, unless some were ordered, or arrays of codes: the numbers then differ,
    and no book is kept. Codes still work.
    """
    if not text.pandas_categorical:
        return None
    listed = text.parameter("categorical_feature")
    infos = text.header["feature_infos"].split(" ")
    columns = [c for c, info in enumerate(infos) if ":" in info and not info.startswith("[")]
    if listed and all(part.isascii() and part.isdigit() for part in listed.split(",")):
        columns = sorted({int(part) for part in listed.split(",")})
    if len(columns) != len(text.pandas_categorical) or columns[-1] >= n_features:
        return None
    books: list[tuple[Label, ...] | None] = [None] * n_features
    for column, book in zip(columns, text.pandas_categorical, strict=True):
        if not isinstance(book, list) or not all(
            isinstance(label, (str, int, float, bool)) for label in book
        ):
            raise FileFormatError(
                "`pandas_categorical` must hold lists of texts, numbers or booleans."
            )
        if len(set(book)) < len(book):
            raise FileFormatError("the categories of a feature must be distinct, got one twice.")
        seen = infos[column].split(":") if not infos[column].startswith("[") else []
        if any(part.isascii() and part.isdigit() and int(part) >= len(book) for part in seen):
            return None  # more codes than categories: these are another column's
        books[column] = tuple(book)
    return tuple(books)

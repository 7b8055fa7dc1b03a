"""The columns of a data specification: what a model reads, and what stands in where it misses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from bitvec.converters.category_sets import SET_WORDS_LIMIT
from bitvec.converters.ydf import schema
from bitvec.converters.ydf.directory import Directory
from bitvec.converters.ydf.protobuf import Messages
from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs, Label
from bitvec.core.shape_annotations import Float32, Float64, Int64
from bitvec.errors import FileFormatError, UnsupportedModelError


class ColumnType(IntEnum):
    """YDF's types of columns that a forest can read."""

    NUMERICAL = 1
    CATEGORICAL = 4
    BOOLEAN = 7
    DISCRETIZED_NUMERICAL = 9


_REFUSED: Final = {
    2: "NUMERICAL_SET",
    3: "NUMERICAL_LIST",
    5: "CATEGORICAL_SET",
    6: "CATEGORICAL_LIST",
    8: "STRING",
    10: "HASH",
    11: "NUMERICAL_VECTOR_SEQUENCE",
}


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of the data specification, in its order.

    Parameters
    ----------
    names : tuple of str
    type : int64, (n_columns,)
    mean : float64, (n_columns,)
        What stands in for a missing number.
    n_codes, most_frequent : int64, (n_columns,)
        Number of codes of a categorical column, code 0 (out of dictionary) included, and the code
        that stands in for a missing one.
    mostly_true : bool, (n_columns,)
        What stands in for a missing truth value.
    words : dict
        By column, the words of a categorical column's dictionary by code; none where the column
        holds codes itself.
    boundaries : dict
        By column, the boundaries of a discretized column's bins.
    features : int64, (n_features,)
        The columns that the model reads.
    unstacked : tuple of (str, int, int)
        Columns of several numbers: their name, the first of their columns, and how many they are.
    """

    names: tuple[str, ...]
    type: Int64[Array, " n_columns"]
    mean: Float64[Array, " n_columns"]
    n_codes: Int64[Array, " n_columns"]
    most_frequent: Int64[Array, " n_columns"]
    mostly_true: Array
    words: dict[int, tuple[str, ...]]
    boundaries: dict[int, Float32[Array, " n_boundaries"]]
    features: Int64[Array, " n_features"]
    unstacked: tuple[tuple[str, int, int], ...]

    @property
    def stand_in(self) -> Float32[Array, " n_columns"]:
        """Replacement of missing numbers, in the engines' dtype."""
        with np.errstate(over="ignore"):  # infinite where it overflows, as a cast in C++ is
            return self.mean.astype(np.float32)

    @property
    def inputs(self) -> Inputs:
        """The forest's inputs; the empty string, which is a missing category, has the last code."""
        books: list[tuple[Label, ...] | None] = [
            (*self.words[c], "") if c in self.words else None for c in self.features.tolist()
        ]
        names = tuple(self.names[column] for column in self.features.tolist())
        if len(set(names)) < len(names):
            raise FileFormatError("the columns must have distinct names, got one twice.")
        return Inputs(
            len(names),
            names,
            tuple(books) if any(books) else None,
            whole_numbers=tuple(
                place
                for place, column in enumerate(self.features.tolist())
                if self.type[column] == ColumnType.CATEGORICAL and column not in self.words
            ),
            decimals=tuple(place for place, book in enumerate(books) if book is not None),
        )


def read_columns(directory: Directory) -> Columns:
    """Read the data specification of a model.

    Raises
    ------
    UnsupportedModelError
        If the model reads a column of a type that a forest cannot hold; the message names it.
    FileFormatError
        If the specification is damaged.
    """
    columns, _ = directory.data_spec.nested("columns", schema.COLUMN)
    names = tuple(_text(name) for name in columns.texts("name"))
    type_ = columns.ints("type")
    features, _ = directory.model.repeated("input_features")
    _require_features(names, type_, features)
    mean = np.zeros(columns.size)
    numerical, owner = columns.nested("numerical", schema.NUMERICAL)
    mean[owner] = numerical.doubles("mean")
    mostly_true = np.ones(columns.size, np.bool_)  # both counts default to 0
    boolean, owner = columns.nested("boolean", schema.BOOLEAN)
    mostly_true[owner] = boolean.ints("count_true") >= boolean.ints("count_false")
    categorical, owner = columns.nested("categorical", schema.CATEGORICAL)
    n_codes, most_frequent = np.zeros(columns.size, np.int64), np.zeros(columns.size, np.int64)
    n_codes[owner] = categorical.ints("number_of_unique_values")
    most_frequent[owner] = categorical.ints("most_frequent_value")
    words = _dictionaries(categorical, owner, n_codes)
    read = features[type_[features] == ColumnType.CATEGORICAL]
    if np.any((n_codes[read] < 1) | (n_codes[read] > SET_WORDS_LIMIT)) or np.any(
        (most_frequent[read] < 0) | (most_frequent[read] >= n_codes[read])
    ):
        raise FileFormatError("a categorical column must hold codes, and name its most frequent.")
    discretized, owner = columns.nested("discretized_numerical", schema.DISCRETIZED)
    bound, of = discretized.repeated("boundaries")
    boundaries = {int(owner[i]): bound[of == i] for i in range(owner.size)}
    for column in features[type_[features] == ColumnType.DISCRETIZED_NUMERICAL].tolist():
        _require_bins(names[column], boundaries.get(column, np.zeros(0, np.float32)))
    return Columns(
        names,
        type_,
        mean,
        n_codes,
        most_frequent,
        mostly_true,
        words,
        boundaries,
        features,
        _unstacked(directory, len(names)),
    )


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"a name must be UTF-8, got {value[:40]!r}.") from error


def _require_features(names: tuple[str, ...], type_: Array, features: Array) -> None:
    if features.size and not (features.min() >= 0 and features.max() < type_.size):
        raise FileFormatError("`input_features` must name columns of the data specification.")
    if np.unique(features).size < features.size:
        raise FileFormatError("`input_features` must be distinct, got a column twice.")
    for column in features.tolist():
        if int(type_[column]) not in list(ColumnType):
            kind = _REFUSED.get(int(type_[column]), "of an unknown type")
            raise UnsupportedModelError(
                f"a feature must be numerical, categorical, boolean or discretized, got "
                f"{names[column]!r}, which is {kind}."
            )


def _dictionaries(
    categorical: Messages, owner: Array, n_codes: Array
) -> dict[int, tuple[str, ...]]:
    items, item_owner = categorical.nested("items", schema.ITEM)
    value, value_owner = items.nested("value", schema.ITEM_VALUE)
    index = np.zeros(items.size, np.int64)
    index[value_owner] = value.ints("index")
    keys = items.texts("key")
    integers = categorical.bools("is_already_integerized")
    ends = np.searchsorted(item_owner, np.arange(owner.size + 1))
    words = {}
    for i, column in enumerate(owner.tolist()):
        if integers[i]:
            continue
        part = slice(int(ends[i]), int(ends[i + 1]))
        order = np.argsort(index[part], kind="stable")
        if not np.array_equal(index[part][order], np.arange(n_codes[column])):
            raise FileFormatError("a dictionary must hold one word for each of its codes.")
        book = tuple(_text(keys[part][k]) for k in order.tolist())
        if len(set(book)) < len(book) or "" in book:
            raise FileFormatError("the words of a dictionary must be distinct and not empty.")
        words[column] = book
    return words


def _require_bins(name: str, boundaries: Array) -> None:
    """Refuse bins whose values YDF's engines would place in other bins.

    They read a bin as one number: halfway between its boundaries, or 1 beyond the outermost.
    """
    rises = boundaries.size and np.all(np.isfinite(boundaries))
    if rises:
        inner = (boundaries[:-1] + boundaries[1:]) / np.float32(2)
        value = np.concatenate(
            [boundaries[:1] - np.float32(1), inner, boundaries[-1:] + np.float32(1)]
        )
        rises = np.all(value[:-1] < boundaries) and np.all(value[1:] >= boundaries)
    if not rises:
        raise UnsupportedModelError(
            f"the boundaries of the bins must rise by more than an ulp, got others for {name!r}: "
            "YDF's engines disagree about them."
        )


def _unstacked(directory: Directory, n_columns: int) -> tuple[tuple[str, int, int], ...]:
    parts, _ = directory.data_spec.nested("unstackeds", schema.UNSTACKED)
    first, size = parts.ints("begin_column_idx"), parts.ints("size")
    if np.any((first < 0) | (size < 1) | (size > n_columns) | (first > n_columns - size)):
        raise FileFormatError("an unstacked column must be columns of the data specification.")
    names = [_text(name) for name in parts.texts("original_name")]
    return tuple(zip(names, first.tolist(), size.tolist(), strict=True))

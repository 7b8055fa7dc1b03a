"""Inputs of a forest: the number of columns, their names, and the category code books."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from bitvec.core.arrays import Array, require
from bitvec.core.shape_annotations import Bool, Float

Label = str | int | float | bool

COLUMN_LISTS: Final = ("hashed", "whole_numbers", "decimals", "category_hashes")
"""Fields of `Inputs` that list columns."""
DOMAIN_DTYPES: Final = ("float64", "float32", "any", "text", "dropped")
NULLS: Final = ("any", "nan", "none")
"""The missing text among NaN and None: either, or one that the source tells from the other."""

MAX_FEATURES = 1 << 24
"""Most columns that a forest may read: a row of them is 128 MiB, whatever the file's own size."""


def require_columns(n_features: int) -> None:
    """Refuse more columns than a row can be made for; what allocates by their number asks first.

    Raises
    ------
    InvalidForestError
    """
    require(n_features >= 0, f"`n_features` must not be negative, got {n_features}.")
    require(
        n_features <= MAX_FEATURES,
        f"`n_features` must be at most {MAX_FEATURES}, got {n_features}: the model is damaged, or "
        "must be trained without columns that no tree reads.",
    )


@dataclass(frozen=True, slots=True)
class Domain:
    """Values of a column that the source takes, and the dtype in which it computes with them.

    Parameters
    ----------
    dtype : "float64", "float32", "any", "text" or "dropped"
        Of the column that the source is handed. float64 stands for whole numbers and truth values
        too; of "any", numbers are cast to the forest's dtype, as the source's rows are; a text has
        a code, its place in the code book; a dropped column is not read, may be absent from a data
        frame, and counts as 0.
    intervals : tuple of (float, float)
        Closed, rising and apart; of codes where there is a code book, NaN aside.
    missing : bool
        Whether a missing value is taken.
    null : "any", "nan" or "none"
        Which of NaN and None is the missing text, where the source tells them apart.

    Examples
    --------
    >>> Domain(intervals=((0.0, 1.0),), missing=False).holds(np.array([0.5, 2.0, np.nan])).tolist()
    [True, False, False]
    """

    dtype: str = "float64"
    intervals: tuple[tuple[float, float], ...] = ((-np.inf, np.inf),)
    missing: bool = True
    null: str = "any"

    def __post_init__(self) -> None:
        for name, known in (("dtype", DOMAIN_DTYPES), ("null", NULLS)):
            value = getattr(self, name)
            require(value in known, f"`{name}` must be one of {', '.join(known)}, got {value!r}.")
        ends = [end for interval in self.intervals for end in interval]
        sound = all(first <= last for first, last in self.intervals) and all(
            a < b for a, b in zip(ends[1::2], ends[2::2], strict=False)
        )
        require(sound, "`intervals` must be closed, rising and apart.")

    @property
    def is_everything(self) -> bool:
        """Return whether no value is refused."""
        return self.missing and self.intervals == ((-np.inf, np.inf),)

    def holds(self, x: Float[Array, " n"]) -> Bool[Array, " n"]:
        """Return which values are taken."""
        ends = np.array(self.intervals, np.float64).reshape(-1, 2)
        at = np.searchsorted(ends[:, 0], x, side="right") - 1
        inside = (at >= 0) & (x <= np.append(ends[:, 1], -np.inf)[at])
        return np.where(np.isnan(x), self.missing, inside)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The columns of X.

    Parameters
    ----------
    n_features : int
        Columns of X.
    feature_names : tuple of str, optional
        One distinct name per column.
    categories : tuple, optional
        Per column the category values whose position is the code, or None for a numeric column.
    missing_sentinel : float, optional
        The value that `MissingRule.NAN_OR_SENTINEL` counts as missing, besides NaN.
    absent_is_missing : bool
        Whether an entry that a sparse matrix does not hold is missing, or else 0.
    hashed : tuple of int
        The columns whose categories are known by their hashes: a whole number in their
        code books is the `bitvec.core.city_hash.category_hash` of a category whose text is not
        known.
    whole_numbers : tuple of int
        The columns without a code book whose categories are whole numbers that stand for
        themselves, so that X holds them and not codes.
    decimals : tuple of int
        The columns in which a whole number of a data frame is the category of its decimals: with a
        code book of texts, where a truth value is "true" or "false", or among
        `whole_numbers`, where the text "3" is the number 3.
    category_hashes : tuple of int
        The columns without a code book in which X holds the `category_hash` of each category, so
        that none has to be known beforehand. A forest with such columns compares in float64.
    refuses_unseen : bool
        Whether a category of a data frame that the code book does not hold is refused, as the
        source library would refuse it or take it for another. To have it go where each node sends
        an unknown category, replace it by False.
    domains : tuple of Domain, optional
        Of a source that computes with its columns before its trees read them: what each column may
        hold. The numbers have one dtype: rows of another than float64 or float32 are refused, if it
        is one of these; so are sparse matrices.

    Notes
    -----
    An array holds codes, or hashes. -1, which data frames have for a missing category, is in a
    column of categories what the source library takes it for; `bitvec.converters.category_sets`
    lists that. In a column of numbers -1 is -1 everywhere.
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    categories: tuple[tuple[Label, ...] | None, ...] | None = None
    missing_sentinel: float | None = None
    absent_is_missing: bool = False
    hashed: tuple[int, ...] = ()
    whole_numbers: tuple[int, ...] = ()
    decimals: tuple[int, ...] = ()
    category_hashes: tuple[int, ...] = ()
    refuses_unseen: bool = False
    domains: tuple[Domain, ...] | None = None

    def __post_init__(self) -> None:
        require_columns(self.n_features)
        for name in ("feature_names", "categories", "domains"):
            values = getattr(self, name)
            require(
                values is None or len(values) == self.n_features,
                f"`{name}` must have one entry for each of the {self.n_features} features, "
                f"got {0 if values is None else len(values)}.",
            )
        if self.feature_names is not None:
            require(
                len(set(self.feature_names)) == len(self.feature_names),
                "`feature_names` must be distinct.",
            )
        books = self.categories or ()
        for column in self.hashed:
            book = books[column] if 0 <= column < len(books) else None
            require(
                book is not None and all(type(label) in (str, int) for label in book),
                f"`hashed` must name columns with code books of texts and whole numbers, got "
                f"{column}.",
            )
        for column in self.whole_numbers:
            require(
                0 <= column < self.n_features and self.book(column) is None,
                f"`whole_numbers` must name columns without code books, got {column}.",
            )
        for column in self.category_hashes:
            require(
                0 <= column < self.n_features
                and self.book(column) is None
                and column not in self.whole_numbers,
                f"`category_hashes` must name columns without code books, got {column}.",
            )
        for column in self.decimals:
            book = self.book(column) if 0 <= column < self.n_features else None
            require(
                column in self.whole_numbers
                or (book is not None and all(type(label) is str for label in book)),
                "`decimals` must name columns with code books of texts, or of whole numbers, got "
                f"{column}.",
            )

        dtypes = {domain.dtype for domain in self.domains or ()} - {"text", "dropped"}
        require(len(dtypes) < 2, "`domains` must have one dtype of numbers, got two.")
        for column, domain in enumerate(self.domains or ()):
            require(
                (domain.dtype == "text") <= (self.book(column) is not None),
                f"a column of texts must have a code book, got none for column {column}.",
            )

    @property
    def number_dtype(self) -> str | None:
        """The dtype that rows must have, None if they may have any."""
        if self.domains is None:
            return None
        others = ("text", "dropped")
        found = next((d.dtype for d in self.domains if d.dtype not in others), "float64")
        return None if found == "any" else found

    @property
    def reads_numbers_alone(self) -> bool:
        """Return whether no column holds categories, or says what it may hold."""
        kinds = self.domains, self.categories, self.category_hashes, self.whole_numbers
        return not any(kinds)

    @property
    def has_truths(self) -> bool:
        """Return whether a category is a truth value, which an array of numbers loses."""
        return any(type(label) is bool for book in self.categories or () for label in book or ())

    def is_dropped(self, column: int) -> bool:
        """Return whether the source drops a column."""
        return self.domains is not None and self.domains[column].dtype == "dropped"

    def takes(self, X: Float[Array, "batch n_features"]) -> Bool[Array, " batch"]:
        """Return the rows that hold nothing outside the domains."""
        taken = np.ones(len(X), np.bool_)
        for column, domain in enumerate(self.domains or ()):
            if not domain.is_everything:
                taken &= domain.holds(X[:, column])
        return taken

    def book(self, column: int) -> tuple[Label, ...] | None:
        """Return the categories of a column whose position is the code, None without any."""
        return None if self.categories is None else self.categories[column]

"""Inputs of a forest: the number of columns, their names, and the category code books."""

from __future__ import annotations

from dataclasses import dataclass

from bitvec.core.arrays import require

Label = str | int | float | bool

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

    def __post_init__(self) -> None:
        require_columns(self.n_features)
        for name in ("feature_names", "categories"):
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

    def book(self, column: int) -> tuple[Label, ...] | None:
        """Return the categories of a column whose position is the code, None without any."""
        return None if self.categories is None else self.categories[column]

"""What a forest reads: how many columns, their names, and the category code books."""

from __future__ import annotations

from dataclasses import dataclass

from bitvec.arrays import require

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
        Whether an entry that a sparse matrix does not hold is missing (xgboost, treelite) or 0.
    hashed : tuple of int
        The columns whose categories are known by their hashes (CatBoost): a whole number in their
        code books is the `bitvec.city_hash.category_hash` of a category whose text is not known.
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    categories: tuple[tuple[Label, ...] | None, ...] | None = None
    missing_sentinel: float | None = None
    absent_is_missing: bool = False
    hashed: tuple[int, ...] = ()

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

"""The columns of a HistGradientBoosting model that is written: which hold categories, and which.

The model encodes the categories of a column as 0, 1, 2, ... and takes what it does not know for
missing. So it needs to know only the codes that some node sends elsewhere than missing values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.converters.sklearn.categories import encoder_of
from bitvec.converters.sklearn.new_estimators import unsupported
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, CodeRule, Kind, set_codes
from bitvec.core.shape_annotations import Bool, Int64

MOST = 255
"""Categories that a column of such a model may have."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Places in which the model keeps what the forest reads.

    Parameters
    ----------
    place : int64, (n_features,)
        Where each column of X stands in the model's own order, which begins with categories.
    codes : dict
        For each categorical column, the forest's codes in the model's order.
    known : dict
        For each categorical column, which of these its trees know.
    """

    place: Int64[Array, " n_features"]
    codes: dict[int, Int64[Array, " n_codes"]]
    known: dict[int, Bool[Array, " n_codes"]]

    def goes_left(
        self, forest: Forest, nodes: Int64[Array, " n_sets"]
    ) -> Bool[Array, "n_sets 256"]:
        """Return which of the model's codes go left at set nodes."""
        left = np.zeros((nodes.size, 256), bool)
        for row, node in enumerate(nodes.tolist()):
            column = int(forest.tests.feature[node])
            codes, known = self.codes[column], self.known[column]
            right = np.isin(codes, set_codes(forest.tests, node))
            left[row, : codes.size] = known & ~right
        return left


def fit_columns(model: Any, forest: Forest, n_classes: int) -> Columns:
    """Fit the model to rows of the forest's categories, so that it can read rows like them.

    What else it learns is replaced by the caller.

    Parameters
    ----------
    model : HistGradientBoosting estimator, not fitted
    forest : Forest
    n_classes : int
        How many classes the model has; 0 for a regressor.
    """
    used = _used_codes(forest)
    books = forest.inputs.categories or (None,) * forest.n_features
    codes = {
        column: np.arange(len(book))
        if book and len(book) <= MOST
        else used.get(column, np.zeros(0, np.int64))
        for column, book in enumerate(books)
        if book or column in used
    }
    for column, own in codes.items():
        if own.size > MOST:
            raise unsupported(f"know at most {MOST} categories of a column, got {own.size}")
        # Some category must stand in the column, even if all go where missing values go.
        codes[column] = own if own.size else np.zeros(1, np.int64)
    is_categorical = np.isin(np.arange(forest.n_features), list(codes))
    # Two rows of each class, for it warns of targets that are nearly as many as rows.
    n_rows = max(2, 2 * n_classes, *(own.size for own in codes.values()))
    X = np.zeros((n_rows, forest.n_features), object if any(books) else np.float64)
    for column, own in codes.items():
        book = books[column]
        values = own if not book else np.array([book[code] for code in own.tolist()], object)
        X[:, column] = np.resize(values, n_rows)
    model.set_params(
        categorical_features=is_categorical if codes else None, max_iter=1, early_stopping=False
    )
    model.fit(X, np.arange(n_rows) % n_classes if n_classes else np.ones(n_rows))
    # The model sorts its categories.
    for column, categories in zip(sorted(codes), _categories(model, codes), strict=True):
        book = books[column]
        of_value = {v: code for code, v in enumerate(book)} if book else None
        codes[column] = np.array(
            [int(v) if of_value is None else of_value[v] for v in categories], np.int64
        )
    if codes:
        encoder = encoder_of(model)
        # A column of numbers or booleans does not compare with objects in every version.
        encoder.categories_ = [
            part if isinstance(part[0], str) else np.array(part.tolist())
            for part in encoder.categories_
        ]
    known = {
        column: np.isin(own, used.get(column, np.zeros(0, np.int64)))
        for column, own in codes.items()
    }
    place = np.empty(forest.n_features, np.int64)
    order = np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])
    place[order] = np.arange(forest.n_features)
    for column, own in known.items():
        model._bin_mapper.bin_thresholds_[int(place[column])] = np.flatnonzero(own) * 1.0
    return Columns(place, codes, known)


def _categories(model: Any, codes: dict[int, Array]) -> list[list[Any]]:
    return [part.tolist() for part in encoder_of(model).categories_] if codes else []


def _used_codes(forest: Forest) -> dict[int, Int64[Array, " n_codes"]]:
    """Return, per column of set nodes, the codes that some node tells from missing values."""
    tests = forest.tests
    is_set = tests.kind == Kind.SET
    if np.any(is_set & (tests.missing_right != tests.other_right)):
        raise unsupported("send unknown categories where it sends missing values, got another way")
    if np.any(is_set & (tests.code_rule != CodeRule.EXACT)):
        raise unsupported("read whole numbers as categories, got sets that round")
    columns = np.unique(tests.feature[is_set]).tolist()
    books = forest.inputs.categories or (None,) * forest.n_features
    encoded = [*columns, *(column for column, book in enumerate(books) if book)]
    if np.any(np.isin(tests.feature[~is_set], encoded)):
        raise unsupported("read a column as numbers or as categories, got one that is read as both")
    used: dict[int, Int64[Array, " n_codes"]] = {}
    for column in columns:
        nodes = np.flatnonzero(is_set & (tests.feature == column))
        told = [np.zeros(0, np.int64)]
        for node in nodes.tolist():
            right = set_codes(tests, node)
            n_words = int(tests.set_ptr[node + 1] - tests.set_ptr[node])
            every = np.arange(n_words * WORD_BITS)
            told.append(np.setdiff1d(every, right) if tests.missing_right[node] else right)
        used[column] = np.unique(np.concatenate(told))
    for column, codes in used.items():
        book = books[column]
        if book and codes.size and codes[-1] >= len(book):
            # No row holds a code beyond its book.
            used[column] = codes[codes < len(book)]
    return used

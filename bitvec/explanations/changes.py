"""Changes of one column that change a row's label, and rows that reach the same leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, key_of, keys
from bitvec.core.forest import Forest, require_forest
from bitvec.core.shape_annotations import Int64
from bitvec.core.value_sets import atoms
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.predictor import Predictor, compile
from bitvec.runtime.predict.unsupported import refused_values

PAIRS = 1 << 24
"""Pairs of a row and a training row that are compared at a time."""


@dataclass(frozen=True, slots=True)
class Change:
    """The nearest value of one column that changes the label of a row.

    Parameters
    ----------
    column : int
    name : str
        The column's name, or its number as text.
    value, becomes : number or category
        What the row holds, and what it would have to hold; NaN is a missing value.
    label, changed : label
        What is predicted for the row, and with the change.
    """

    column: int
    name: str
    value: Any
    becomes: Any
    label: Any
    changed: Any


def smallest_changes(forest: Forest, row: Any) -> tuple[Change, ...]:
    """Return the smallest change of each single column that changes the label of a row.

    Exact: between two neighbouring thresholds of a column nothing changes, so the nearest float of
    each such interval is tried. In a column of categories, any other category is as near.

    Parameters
    ----------
    forest : Forest
        A classifier of one label; its nodes read one column each.
    row : table of one row, (1, n_features)

    Returns
    -------
    tuple of Change
        One for each column of numbers where there is such a value, nearest as a number first; then
        one for each other label and column of categories. A column that is missing in the row has
        none.

    Raises
    ------
    InputError
        If the row does not fit, or the forest is no classifier of one label.
    UnsupportedModelError
        If a node reads several columns, or the forest has a feature map.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import bitvec
    >>> tree = DecisionTreeClassifier().fit([[0, 1], [1, 0], [2, 0], [9, 1]], [0, 0, 1, 1])
    >>> [(one.column, one.becomes) for one in smallest_changes(bitvec.convert(tree), [[1, 0]])]
    [(0, 1.5000001192092896)]
    """
    require_forest(forest)
    if forest.feature_map is not None or not np.all(forest.tests.is_one_hot):
        raise UnsupportedModelError(
            "changes of single columns need nodes that read one column of X each, got a forest "
            "with others: there is no exact answer for it."
        )
    if forest.output.classes is None or len(forest.output.classes) != 1:
        raise InputError("changes of a label need a classifier of one label, got another forest.")
    rows = tables.rows(row, forest.inputs, forest.dtype)
    if len(rows) != 1:
        raise InputError(f"`row` must be a table of one row, got {len(rows)}: pass X[i : i + 1].")
    predictor = compile(forest, n_jobs=1)
    label = predictor.predict(rows)[0]
    found = []
    for column in np.unique(forest.tests.feature).tolist():
        if not np.isnan(rows[0, column]):
            found += _of_column(predictor, rows[0], column, label)
    found.sort(key=lambda pair: pair[0])
    return tuple(change for _, change in found)


def _of_column(
    predictor: Predictor, row: Array, column: int, label: Any
) -> list[tuple[float, Change]]:
    forest = predictor.forest
    x, book = row[column], forest.inputs.book(column)
    candidates = _numbers(forest, x, column) if book is None else np.arange(len(book))
    tried = np.tile(row, (len(candidates), 1))
    tried[:, column] = candidates
    labels = predictor.predict(tried)
    differs = np.flatnonzero(labels != label)
    if not differs.size:
        return []
    if book is None:
        distance = np.abs(tried[differs, column].astype(np.float64) - float(x))
        chosen = [int(np.argmin(distance))]
    else:
        distance = np.full(differs.size, np.inf)
        chosen = np.unique(labels[differs], return_index=True)[1].tolist()
    names = forest.inputs.feature_names

    def shown(value: Any) -> Any:
        if book is None:
            return float(value)
        return book[int(value)] if 0 <= value < len(book) else float(value)

    return [
        (
            float(distance[at]),
            Change(
                column,
                names[column] if names is not None else str(column),
                shown(x),
                shown(tried[differs[at], column]),
                label,
                labels[differs[at]],
            ),
        )
        for at in chosen
    ]


def _numbers(forest: Forest, x: Any, column: int) -> Array:
    """Return the float nearest to x of each interval on which no test of the column changes."""
    nodes = np.flatnonzero(forest.tests.feature == column)
    refused = refused_values(forest)
    top = key_of(np.inf, forest.dtype)
    if refused is not None and refused.infinite:
        top -= 1
    first, last, _ = atoms(forest.tests, nodes, top, forest.inputs.missing_sentinel)
    nearest: Array = floats(np.clip(keys(np.array([x]))[0], first, last), forest.dtype)
    return nearest


def nearest_rows(
    forest: Forest, X: Any, training: Any, *, k: int = 5, n_jobs: int | None = 1
) -> tuple[Int64[Array, "batch k"], Int64[Array, "batch k"]]:
    """Return the training rows that share the most exit leaves with each row.

    Parameters
    ----------
    forest : Forest
    X : table of rows, (batch, n_features)
    training : table of rows, (n_training, n_features)
    k : int
        How many; at most all.
    n_jobs : int, optional
        Threads of the predictions.

    Returns
    -------
    rows : int64, (batch, k)
        Numbers of training rows, nearest first; of equal ones the first.
    shared : int64, (batch, k)
        In how many trees they share the leaf: n_trees times the proximity of Breiman's random
        forests.

    Raises
    ------
    InputError
        If a table does not fit, or `k` is not from 1 to the number of training rows.

    Examples
    --------
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> rows, shared = nearest_rows(stump, [[0.0, 9.0]], [[1.0, 9.0], [0.2, 9.0]], k=2)
    >>> rows.tolist(), shared.tolist()
    ([[1, 0]], [[1, 0]])
    """
    require_forest(forest)
    predictor = compile(forest, n_jobs=n_jobs)
    own, others = predictor.exit_leaves(X), predictor.exit_leaves(training)
    if not 1 <= k <= len(others):
        raise InputError(
            f"`k` must be from 1 to the number of training rows, {len(others)}, got {k}."
        )
    found = np.empty((len(own), k), np.int64)
    shared = np.empty((len(own), k), np.int64)
    step = max(1, PAIRS // max(len(others), 1))
    by_tree = np.ascontiguousarray(others.T)
    for start in range(0, len(own), step):
        part = own[start : start + step]
        count = np.zeros((len(part), len(others)), np.int32)
        for tree, leaf in enumerate(by_tree):
            count += part[:, tree, None] == leaf
        order = np.argsort(-count, axis=1, kind="stable")[:, :k]
        found[start : start + step] = order
        shared[start : start + step] = np.take_along_axis(count, order, axis=1)
    return found, shared

"""Dependence of predictions on one or two columns, averaged over rows or over training weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.directions import turns
from bitvec.core.forest import Forest, require_forest
from bitvec.core.shape_annotations import Float, Float64
from bitvec.core.tree_paths import node_depth
from bitvec.errors import InputError
from bitvec.explanations.contributions import leaf_contributions
from bitvec.explanations.covers import shares
from bitvec.explanations.unsupported import require_supported
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.predictor import compile

Method = Literal["brute", "recursion"]
METHODS: Final = get_args(Method)
RESPONSES: Final = ("raw", "scores", "predict_proba")
CELLS = 1 << 22
"""Values of X that are held at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialDependence:
    """The average prediction at each point of a grid.

    Parameters
    ----------
    columns : tuple of int
        One or two columns.
    grid : tuple of arrays, one for each of `columns`
    average : float64, (n_outputs, n_points) or (n_outputs, n_points, n_points)
    individual : float64, (n_outputs, batch, n_points) or (n_outputs, batch, n_points, n_points)
        Individual conditional expectations: the prediction of each row; None unless asked for.
    """

    columns: tuple[int, ...]
    grid: tuple[Array, ...]
    average: Float64[Array, "..."]
    individual: Float64[Array, "..."] | None = None


def partial_dependence(
    forest: Forest,
    X: Any,
    columns: int | str | Sequence[int | str],
    *,
    grid: ArrayLike | Sequence[ArrayLike] | None = None,
    n_points: int = 100,
    method: Method = "brute",
    response: str = "raw",
    individual: bool = False,
    n_jobs: int | None = 1,
) -> PartialDependence:
    """Return how predictions depend on one or two columns.

    Parameters
    ----------
    forest : Forest
    X : table of rows, (batch, n_features)
        Rows whose other columns are kept, and whose values of `columns` make the grid.
    columns : int or str, or two of them
    grid : array, or one for each of two columns, optional
        Values, codes in a column of categories. If not given: all categories, all distinct values
        where there are at most `n_points`, or else `n_points` values evenly from the 5th to the
        95th percentile.
    n_points : int
    method : str
        "brute" predicts every row with every point of the grid in its place and averages: the
        definition (Friedman 2001). "recursion" is scikit-learn's faster one: one path down each
        tree, in which a node of another column goes both ways by the cover of its sides; raw
        scores only, base score included; X makes the grid alone.
    response : str
        "raw", "scores" (after the link) or "predict_proba".
    individual : bool
        Whether to return each row's predictions too (individual conditional expectation).
    n_jobs : int, optional
        Threads of the predictions: None or -1 for all cores.

    Raises
    ------
    InputError
        If an argument does not fit, or "recursion" finds no cover.
    UnsupportedModelError
        If "recursion" is asked of a forest that is not explained by cover.

    Examples
    --------
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> found = partial_dependence(stump, [[0.0, 9.0], [1.0, 9.0]], 0)
    >>> found.grid[0].tolist(), found.average.tolist()
    ([0.0, 1.0], [[10.0, 20.0]])
    """
    require_forest(forest)
    places = _places(forest, columns)
    _require_options(method, response, individual)
    rows = tables.rows(X, forest.inputs, forest.dtype)
    if not len(rows):
        raise InputError("`X` must have at least one row, got none: pass some rows.")
    points = _grid(forest, rows, places, grid, n_points)
    mesh = np.stack([part.ravel() for part in np.meshgrid(*points, indexing="ij")], axis=1)
    shape = tuple(len(part) for part in points)
    if method == "recursion":
        require_supported(forest)
        average = recursion(forest, places, mesh)
        return PartialDependence(places, points, average.T.reshape(-1, *shape))
    answer = getattr(compile(forest, n_jobs=n_jobs), response)
    average, each = _brute(answer, rows, places, mesh, individual=individual)
    if each is not None:
        each = each.reshape(*each.shape[:2], *shape)
    return PartialDependence(places, points, average.T.reshape(-1, *shape), each)


def _brute(
    answer: Any, rows: Array, places: tuple[int, ...], mesh: Array, *, individual: bool
) -> tuple[Float64[Array, "n_mesh n_outputs"], Float64[Array, "n_outputs batch n_mesh"] | None]:
    """Predict all rows with each point of the mesh in their places."""
    several = max(1, min(len(mesh), CELLS // max(rows.size, 1)))
    held = np.tile(rows, (several, 1))
    average, each = [], []
    for start in range(0, len(mesh), several):
        part = mesh[start : start + several]
        block = held[: len(part) * len(rows)]
        for at, column in enumerate(places):
            block[:, column] = np.repeat(part[:, at], len(rows))
        found = np.asarray(answer(block)).reshape(len(part), len(rows), -1)
        average.append(found.mean(axis=1, dtype=np.float64))
        if individual:
            each.append(found.astype(np.float64).transpose(2, 1, 0))
    return np.concatenate(average), np.concatenate(each, axis=2) if individual else None


def recursion(
    forest: Forest, places: tuple[int, ...], mesh: Float[Array, "n_mesh n_places"]
) -> Float64[Array, "n_mesh n_outputs"]:
    """Return the cover-weighted means of raw scores with some columns known."""
    B, tests = forest.bitvectors, forest.tests
    share = shares(forest)
    rows = np.zeros((len(mesh), forest.n_features), forest.dtype)
    rows[:, places] = mesh
    known = np.isin(tests.feature, places)
    # The shares of a point of the mesh that go left and right; 0 or 1 where the column is known.
    node = np.flatnonzero(known)
    row, at = np.divmod(np.arange(len(mesh) * node.size), max(node.size, 1))
    right = turns(tests, rows, row, node[at], forest.inputs.missing_sentinel)
    outcome = np.zeros((forest.n_nodes, len(mesh)))
    outcome[node] = right.reshape(len(mesh), node.size).T
    reach = np.ones((forest.n_nodes, len(mesh)))
    reach_leaf = np.ones((forest.n_leaves, len(mesh)))
    children = structure.children(B)
    depth = node_depth(B)
    for level in range(int(depth.max(initial=-1)) + 1):
        nodes = np.flatnonzero(depth == level)
        goes = np.where(known[nodes, None], outcome[nodes], share[nodes, 1:])
        for child, part in zip(children, (1 - goes, goes), strict=True):
            below = child[nodes]
            is_node = below >= 0
            arriving = reach[nodes] * part
            reach[below[is_node]] = arriving[is_node]
            reach_leaf[~below[~is_node]] = arriving[~is_node]
    value = leaf_contributions(forest)
    total = np.tile(forest.output.base_score.astype(np.float64), (len(mesh), 1))
    if forest.leaves.output is None:
        return total + reach_leaf.T @ value
    for output in range(forest.n_outputs):
        own = forest.leaves.output == output
        total[:, output] += reach_leaf[own].T @ value[own, 0]
    return total


def _require_options(method: str, response: str, individual: bool) -> None:
    for name, given, known in (
        ("method", method, METHODS),
        ("response", response, RESPONSES),
    ):
        if given not in known:
            raise InputError(
                f"`{name}` must be one of {', '.join(known)}, got {given!r}: choose one of them."
            )
    if method == "recursion" and (response != "raw" or individual):
        raise InputError(
            "`method` 'recursion' gives averages of raw scores alone: pass method='brute'."
        )


def column_place(forest: Forest, column: int | str) -> int:
    """Return the place of a column of X that is given by its name or its number.

    Raises
    ------
    InputError
        If the forest has none.
    """
    names = forest.inputs.feature_names or ()
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and 0 <= column < forest.n_features:
        return int(column)
    raise InputError(
        f"a column must be a number below {forest.n_features} or a name that the forest has, got "
        f"{column!r}: see `forest.inputs`."
    )


def _places(forest: Forest, columns: int | str | Sequence[int | str]) -> tuple[int, ...]:
    given: list[Any] = [columns]
    if isinstance(columns, Sequence | np.ndarray) and not isinstance(columns, str):
        given = list(columns)
    places = [column_place(forest, column) for column in given]
    if len(places) not in (1, 2) or len(set(places)) < len(places):
        raise InputError(
            f"`columns` must be one column or two different ones, got {columns!r}: call it for "
            "each."
        )
    return tuple(places)


def _grid(
    forest: Forest,
    rows: Array,
    places: tuple[int, ...],
    grid: ArrayLike | Sequence[ArrayLike] | None,
    n_points: int,
) -> tuple[Array, ...]:
    if grid is not None:
        given = [grid] if len(places) == 1 else list(grid)  # type: ignore[arg-type]
        try:
            points = [np.asarray(part, forest.dtype) for part in given]
        except (TypeError, ValueError) as error:
            raise InputError(
                f"`grid` must hold numbers, codes in a column of categories: {error}."
            ) from error
        if len(points) != len(places) or any(p.ndim != 1 or not p.size for p in points):
            raise InputError(
                "`grid` must have one list of values for each column, got shapes "
                f"{[p.shape for p in points]}: pass values along one axis."
            )
        return tuple(points)
    if n_points < 2:
        raise InputError(f"`n_points` must be at least 2, got {n_points}: pass 100.")
    return tuple(_points(forest, rows[:, column], column, n_points) for column in places)


def _points(forest: Forest, values: Array, column: int, n_points: int) -> Array:
    book = forest.inputs.book(column)
    if book is not None:
        return np.arange(len(book), dtype=forest.dtype)
    found = np.unique(values[np.isfinite(values)])
    if not found.size:
        raise InputError(
            f"column {column} must hold a finite value to make a grid of, got none: pass `grid`."
        )
    if found.size <= n_points:
        return found
    low, high = np.percentile(values[np.isfinite(values)], [5, 95])
    return np.linspace(low, high, n_points).astype(forest.dtype)

"""Forests of the columns that are read alone, which answer the wide rows of sparse matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.shape_annotations import Int64
from bitvec.runtime.predict import row_blocks, tables
from bitvec.runtime.predict.engine import Engine, RemadeEngine
from bitvec.runtime.predict.unsupported import RefusedValues

WIDE = 2
"""Columns for each that is read from which on sparse rows are not filled to their full width."""


class NarrowForest:
    """Answers to sparse matrices, of which only the columns that a forest reads are made dense.

    Parameters
    ----------
    forest : Forest
    columns : int64, (n_read,)
        Those of `read_columns`.
    engine : RemadeEngine
    refused : RefusedValues, optional
        What the columns that are not read may not hold either.
    predictor : callable
        Makes a `Predictor` of a forest and an engine.
    """

    def __init__(
        self,
        forest: Forest,
        columns: Int64[Array, " n_read"],
        engine: RemadeEngine,
        refused: RefusedValues | None,
        predictor: Callable[[Forest, Engine], Any],
    ) -> None:
        self._forest, self._columns = forest, columns
        self._engine, self._make = engine, predictor
        self._refused = None if refused is None else replace(refused, n_features=1)
        self._predictor: Any = None

    def answer(self, verb: str, X: Any, out: Array | None) -> Array:
        """Return the answer of a verb of `Predictor`; the parameters are those of the verb."""
        held = tables.open_sparse(X, self._forest.inputs)
        if out is not None:
            row_blocks.require_apart(out, (held.data, held.indices, held.indptr))
        if self._refused is not None:
            self._refused.check(held.data[:, None])
        if self._predictor is None:
            narrow = narrowed(self._forest, self._columns)
            self._predictor = self._make(narrow, self._engine.of(narrow))
        found: Array = getattr(self._predictor, verb)(held[:, self._columns], out=out)
        return found


def narrow_forest(
    forest: Forest,
    engine: Engine,
    refused: RefusedValues | None,
    predictor: Callable[[Forest, Engine], Any],
) -> NarrowForest | None:
    """Return what answers to sparse matrices, None where most columns are read."""
    columns = read_columns(forest)
    if isinstance(engine, RemadeEngine) and 0 < columns.size * WIDE <= forest.n_features:
        return NarrowForest(forest, columns, engine, refused, predictor)
    return None


def read_columns(forest: Forest) -> Int64[Array, " n_read"]:
    """Return the columns of X that nodes or leaves read, rising; all under a feature map.

    Examples
    --------
    >>> read_columns(Forest.from_matrices([[0, 1, 0]], [0.5], [[0], [1]], [10, 20])).tolist()
    [1]
    """
    if forest.feature_map is not None:
        return np.arange(forest.n_features)
    is_read = np.zeros(forest.n_features, np.bool_)
    is_read[forest.tests.column] = True
    if forest.leaves.linear is not None:
        is_read[forest.leaves.linear.column] = True
    return np.flatnonzero(is_read)


def narrowed(forest: Forest, columns: Int64[Array, " n_read"]) -> Forest:
    """Return the forest that answers to X[:, columns] as this one does to arrays X.

    `columns` are those of `read_columns`; there is no feature map.
    """
    place = np.zeros(forest.n_features, np.int32)
    place[columns] = np.arange(columns.size)
    leaves, linear, inputs = forest.leaves, forest.leaves.linear, forest.inputs
    if linear is not None:
        leaves = replace(leaves, linear=replace(linear, column=place[linear.column]))
    return replace(
        forest,
        tests=replace(forest.tests, column=place[forest.tests.column]),
        leaves=leaves,
        inputs=Inputs(
            columns.size,
            missing_sentinel=inputs.missing_sentinel,
            absent_is_missing=inputs.absent_is_missing,
        ),
        kernel=None if forest.kernel is None else tuple(forest.kernel[at] for at in columns),
    )

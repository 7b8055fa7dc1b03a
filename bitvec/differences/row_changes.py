"""Comparison of the predictions of two forests for the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.differences.matching import Matching
from bitvec.differences.moved import between
from bitvec.runtime.predict.predictor import Predictor, compile


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Changes of the predictions for the rows of X.

    Parameters
    ----------
    rows : int
    exits : int or None
        Rows that come to another leaf in some tree; None where leaves cannot be paired.
    predictions, raw : int
        Rows whose prediction, and whose raw score, is another.
    largest_raw : float
        The largest change of a raw score.
    """

    rows: int
    exits: int | None
    predictions: int
    raw: int
    largest_raw: float


def compare_rows(
    before: Forest, after: Forest, matching: Matching, rows: tuple[Array, Array]
) -> tuple[RowChanges, Array]:
    """Return how the answers to the same rows differ, and the raw scores before.

    `rows` holds them as each of the forests reads them.
    """
    # What the source refuses does not matter here: NaN has an answer in both.
    old, new = (compile(replace(forest, source=None)) for forest in (before, after))
    old_raw = old.raw(rows[0])
    raw, raw_moved = between(old_raw, new.raw(rows[1]))
    changes = RowChanges(
        rows=len(raw),
        exits=_exits(old, new, matching, rows),
        predictions=int(np.count_nonzero(_differ(old.predict(rows[0]), new.predict(rows[1])))),
        raw=int(np.count_nonzero(raw_moved.any(axis=1))),
        largest_raw=float(np.fmax.reduce(raw, axis=None, initial=0.0)),
    )
    return changes, old_raw


def _exits(
    old: Predictor, new: Predictor, matching: Matching, rows: tuple[Array, Array]
) -> int | None:
    if matching.how == "nothing":
        return None
    B, C = old.forest.bitvectors, new.forest.bitvectors
    partner = np.full(C.n_leaves, -1, np.int64)
    partner[matching.leaves[1]] = matching.leaves[0]
    came_to = partner[new.exit_leaves(rows[1]) + C.leaf_ptr[:-1]]
    came_from = old.exit_leaves(rows[0]) + B.leaf_ptr[:-1]
    return int(np.count_nonzero((came_to != came_from).any(axis=1)))


def _differ(old: Array, new: Array) -> Array:
    both_floats = old.dtype.kind == new.dtype.kind == "f"
    differ = between(old, new)[1] if both_floats else np.asarray(old != new)
    rows: Array = np.logical_or.reduce(differ.reshape(len(old), -1), axis=1)
    return rows

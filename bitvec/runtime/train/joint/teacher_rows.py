"""Teacher rows: answers of another model that has not seen a row, and new rows between old ones.

They stop the overfitting on tables. A target is the mean of the label and what the teacher, fitted
on other rows, answers; a new row takes some of its columns from a row nearby and is answered by the
teacher alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.errors import InputError, needs
from bitvec.runtime.train.relax.moments import column_units
from bitvec.runtime.train.retrain.training_data import Data

COPIES, NEIGHBOURS, SWAPPED = 10, 20, 0.5
"""New rows a row, nearest rows that columns are taken from, and the probability of a column."""
FOLDS = 5
"""Parts of the rows, each answered by a teacher that was fitted on the others."""
LABELS = 0.5
"""Part of the label in a target of a row that has one."""
SEARCHED = 10_000
"""Rows at most that nearest ones are searched among."""
LEAVES, ROUNDS, TREES, PATIENCE = (8, 31), 400, 2000, 10
"""Boosters that are tried: their leaves, most rounds, most trees, and rounds without a gain."""


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A model that is fitted anew on some rows, and asked for others.

    Parameters
    ----------
    estimator : estimator of scikit-learn's interface
        Cloned, never changed: a classifier with `predict_proba` of class numbers, or a regressor.
    n_classes : int
        0 for a regressor.
    weighted : bool
        Whether `fit` is given `sample_weight`.
    """

    estimator: Any
    n_classes: int
    weighted: bool

    def fitted(self, data: Data) -> Any:
        """Return the model fitted on rows, whose targets are class numbers or values."""
        from sklearn.base import clone

        y = data.target[:, 0] if data.target.shape[1] == 1 else data.target
        # Without weights that differ boosters find their bins much faster.
        given = {"sample_weight": data.weight} if self.weighted and np.ptp(data.weight) else {}
        return clone(self.estimator).fit(data.X, y, **given)

    def answers(self, model: Any, X: Array) -> Float64[Array, "n_rows width"]:
        """Return the class probabilities, or the values, of a fitted model.

        Raises
        ------
        InputError
            If it gives others than finite numbers.
        """
        if not self.n_classes:
            found = np.asarray(model.predict(X), np.float64).reshape(len(X), -1)
        else:
            found = np.zeros((len(X), self.n_classes))
            known = np.asarray(model.classes_, np.int64)  # a fold may lack a class
            found[:, known] = model.predict_proba(X)
        if not np.all(np.isfinite(found)):
            raise InputError(
                "`teacher` must give finite numbers, got NaN or infinity from a "
                f"{type(model).__name__}: choose another one."
            )
        return found

    def out_of_fold(self, data: Data, seed: int) -> Float64[Array, "n_rows width"]:
        """Return what teachers that have not seen them answer for rows."""
        from sklearn.model_selection import KFold, StratifiedKFold

        n_folds = min(FOLDS, len(data))
        if self.n_classes:
            n_folds = min(n_folds, max(int(np.bincount(data.target[:, 0]).max()), 2))
        kind = StratifiedKFold if self.n_classes else KFold
        parts = kind(n_folds, shuffle=True, random_state=seed)
        found = np.zeros((len(data), self.n_classes or data.target.shape[1]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of classes that a part lacks
            splits = list(parts.split(data.X, data.target[:, 0]))
        for rest, part in splits:
            found[part] = self.answers(self.fitted(data.take(rest)), data.X[part])
        return found


def taught(
    data: Data,
    own: Float64[Array, "n_rows width"],
    unseen: Float64[Array, "n_rows width"],
    teacher: Teacher,
    model: Any,
    seed: int,
) -> Data:
    """Return rows with mixed targets, and new rows that the teacher answers.

    Parameters
    ----------
    data : Data
    own : float64, (n_rows, width)
        Class probabilities, or values, of the labels.
    unseen : float64, (n_rows, width)
        What teachers answered that had not seen the row.
    model
        The fitted teacher of new rows.
    """
    new = rows_between(data.X, COPIES, seed)
    return Data(
        np.concatenate([data.X, new]),
        np.concatenate([LABELS * own + (1 - LABELS) * unseen, teacher.answers(model, new)]),
        np.concatenate([data.weight, np.tile(data.weight, COPIES)]),
    )


def rows_between(
    X: Float64[Array, "n_rows n_features"], copies: int, seed: int
) -> Float64[Array, "n_new n_features"]:
    """Return new rows: each column of a row keeps its value, or takes that of a row nearby.

    Values are taken over, never mixed, so that a column of whole numbers stays one. Nearness is the
    distance over standardised columns, to at most 10,000 rows drawn.

    Parameters
    ----------
    copies : int
        New rows for each row; those of the first copy come first, in the order of X.
    """
    random = np.random.default_rng(seed)
    near = _nearest(X, random)
    row = np.tile(np.arange(len(X)), copies)
    shape = (len(row), X.shape[1])
    other = near[row[:, None], random.integers(0, near.shape[1], shape)]
    taken = random.random(shape) < SWAPPED
    return np.where(taken, X[other, np.arange(shape[1])], X[row])


def _nearest(X: Array, random: np.random.Generator) -> Int64[Array, "n_rows n_near"]:
    from sklearn.neighbors import NearestNeighbors

    center, spread = column_units(X)
    Z = (X - center) / spread
    among = np.sort(random.permutation(len(X))[:SEARCHED])
    n_near = min(NEIGHBOURS + 1, len(among))  # a row itself is among its nearest
    search = NearestNeighbors(n_neighbors=n_near).fit(Z[among])
    return among[search.kneighbors(Z, return_distance=False)][:, min(1, n_near - 1) :]


def tuned_booster(
    data: Data, held_out: Data, n_classes: int, seed: int
) -> tuple[Teacher, Any, Float64[Array, "n_rows width"]]:
    """Return the histogram booster of least loss on rows held out, fitted, and its answers there.

    Boosters of 8 and of 31 leaves are stopped by a part of the training rows and compared on the
    rows held out; of the returned teacher the number of rounds is fixed.
    """
    with needs("scikit-learn", "sklearn", "A teacher"):
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    make = HistGradientBoostingClassifier if n_classes else HistGradientBoostingRegressor
    rounds = min(ROUNDS, max(TREES // max(n_classes, 1), 1)) if n_classes > 2 else ROUNDS
    best: tuple[float, Teacher, Any, Array] | None = None
    for leaves in LEAVES:
        booster = make(
            max_leaf_nodes=leaves,
            max_iter=rounds,
            early_stopping=_can_stop(data, n_classes),
            n_iter_no_change=PATIENCE,
            random_state=seed,
        )
        teacher = Teacher(booster, n_classes, weighted=True)
        model = teacher.fitted(data)
        answers = teacher.answers(model, held_out.X)
        loss = loss_of(answers, held_out, n_classes)
        if best is None or loss < best[0]:
            fixed = make(
                max_leaf_nodes=leaves,
                max_iter=max(model.n_iter_, 1),
                early_stopping=False,
                random_state=seed,
            )
            best = loss, Teacher(fixed, n_classes, weighted=True), model, answers
    assert best is not None
    return best[1:]


def _can_stop(data: Data, n_classes: int) -> bool:
    """Return whether a tenth of the rows can be held out, of every class."""
    if not n_classes:
        return len(data) >= 2 * PATIENCE
    count = np.bincount(data.target[:, 0])
    return len(data) >= 2 * PATIENCE * n_classes and int(count[count > 0].min()) > 1


def loss_of(answers: Float64[Array, "n_rows width"], data: Data, n_classes: int) -> float:
    """Return the mean log loss of class probabilities, or squared error of values, summed."""
    if n_classes:
        p = answers[np.arange(len(data)), data.target[:, 0]]
        each = -np.log(np.maximum(p, 1e-15))
    else:
        each = ((answers - data.target) ** 2).sum(axis=1)
    return float(np.average(each, weights=data.weight))

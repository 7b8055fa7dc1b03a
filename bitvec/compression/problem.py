"""The rows of a compression, and the loss by which candidates are chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.core import transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.output import Output
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.monotone import Monotone
from bitvec.runtime.train.retrain import metrics, training_data
from bitvec.runtime.train.retrain.selection import hard_scores
from bitvec.runtime.train.retrain.training_data import Data

F32 = np.dtype(np.float32)
_ROWS = ("X", "target", "weight")


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows and loss of a compression.

    Parameters
    ----------
    forest : Forest
        The given model.
    fit, held_out : Data
        Rows in float32; targets are class numbers or values, (batch, 1).
    n_classes : int
        0 for numbers.
    categorical : tuple of int
        Columns whose values are codes of categories.
    monotone : Monotone, optional
        Directions that every candidate keeps.
    seed : int
    """

    forest: Forest
    fit: Data
    held_out: Data
    n_classes: int
    categorical: tuple[int, ...]
    monotone: Monotone | None
    seed: int

    def of_all_rows(self) -> Problem:
        """Return the problem whose rows to fit are all rows; those held out stay beside them."""
        one, other = self.fit, self.held_out
        parts = (np.concatenate([getattr(d, n) for d in (one, other)]) for n in _ROWS)
        return replace(self, fit=Data(*parts))

    @property
    def metric(self) -> str:
        """Name of the score that is told beside the loss."""
        return "accuracy" if self.n_classes else "rmse"

    @property
    def n_outputs(self) -> int:
        """Scores that a booster's round adds to."""
        return self.n_classes if self.n_classes > 2 else 1

    @property
    def y(self) -> Array:
        """Targets of the rows to fit, (batch,)."""
        column: Array = self.fit.target[:, 0]
        return column

    def kept(self, forest: Forest) -> Forest:
        """Return a forest whose leaves are cut where it does not keep the directions."""
        if self.monotone is None:
            return forest
        self.monotone.require(forest)
        return self.monotone.kept(forest)

    def holds(self, forest: Forest) -> bool:
        """Return whether a forest keeps the directions, if there are any."""
        return self.monotone is None or self.monotone.holds(forest)

    def named(self, forest: Forest) -> Forest:
        """Return a fitted forest with the columns and classes of the given one, without a source.

        Its classes must be those of the given model, in their order.
        """
        output = forest.output
        if self.n_classes:
            output = replace(output, classes=self.forest.output.classes)
        inputs = replace(self.forest.inputs, missing_sentinel=None)
        return replace(forest, output=output, inputs=inputs, source=None)

    def losses(self, output: Output, raw: Array, data: Data) -> Array:
        """Return minus the log-likelihood, or the squared error, of each row, (batch,) float64."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self.n_classes:
                found = -metrics.log_likelihood(output, raw, data.target)
            else:
                answer = transforms.transform(output, raw).astype(np.float64)
                found = np.square(answer - data.target).sum(axis=1)
        return np.where(np.isnan(found), np.inf, found)

    def judged(self, forest: Forest, data: Data | None = None) -> tuple[float, float]:
        """Return the mean loss and the score, accuracy or RMSE, on rows held out by default."""
        data = self.held_out if data is None else data
        raw = hard_scores(forest, data.X)
        weight = data.weight / data.weight.sum()
        loss = float((self.losses(forest.output, raw, data) * weight).sum())
        if not self.n_classes:
            return loss, float(np.sqrt(loss))
        right = metrics.accuracy(forest.output, raw, data.target)
        return loss, float((right * weight).sum())


def read(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    sample_weight: Any,
    validation: Any,
    monotone: Any,
    seed: int,
) -> Problem:
    """Read and check the rows; see `compress`.

    Raises
    ------
    InputError
        If rows are of another schema, labels are missing or unknown, or a class has no rows.
    UnsupportedModelError
        If the model cannot be compressed.
    """
    _require_plain(forest)
    if y is None:
        raise InputError("`y` must hold a label for each row of X, got None: pass the labels.")
    data = training_data.read(forest, X, y, sample_weight)
    data = replace(data, weight=_of_mean_one(data.weight))
    classes = forest.output.classes
    n_classes = 0 if classes is None else len(classes[0])
    is_share = isinstance(validation, (int, float, np.number)) and not isinstance(validation, bool)
    if is_share and n_classes and 0 < validation < 1:
        fit, held_out = _stratified(data, float(validation), seed)
    else:
        fit, held_out = training_data.split(forest, data, validation, seed)
    fit = training_data.require_rows(fit.take(np.flatnonzero(fit.weight > 0)), "training")
    if classes is not None:
        absent = np.setdiff1d(np.arange(n_classes), fit.target[:, 0])
        if absent.size:
            label = classes[0].tolist()[int(absent[0])]
            raise InputError(
                f"`y` must hold at least 2 rows of each class of the model, got too few of "
                f"{label!r}: pass such rows, with weights above 0."
            )
    return Problem(
        forest,
        _narrow(fit),
        _narrow(held_out),
        n_classes,
        _categorical(forest),
        Monotone.asked(forest, monotone),
        seed,
    )


def _of_mean_one(weight: Array) -> Array:
    """Return weights in the unit that boosters' limits of rows and of derivatives are meant in."""
    if not weight.any():
        return weight
    part = weight / weight.max()
    return part / part[part > 0].mean()


def _require_plain(forest: Forest) -> None:
    output = forest.output
    n_targets = output.n_outputs if output.classes is None else len(output.classes)
    hashed = forest.inputs.category_hashes or forest.inputs.hashed
    for refused, what in (
        (n_targets != 1, f"one target, got {n_targets}: compress a model for each of them"),
        (
            forest.feature_map is not None,
            "a forest that reads X itself, got a feature map: compute its columns beforehand",
        ),
        (forest.kernel is not None, "a forest that predicts hard, got a prediction kernel"),
        (forest.leaves.linear is not None, "constant leaves, got leaves that are linear in x"),
        (bool(hashed), "categories by codes, got hashes of categories, which float32 cannot hold"),
    ):
        if refused:
            raise UnsupportedModelError(f"a model to be compressed must have {what}.")


def _narrow(data: Data) -> Data:
    with np.errstate(over="ignore"):
        return replace(data, X=np.ascontiguousarray(data.X, F32))


def _stratified(data: Data, share: float, seed: int) -> tuple[Data, Data]:
    """Return the rows to fit and those held out, of which each class has its share."""
    order = np.random.default_rng(seed).permutation(len(data))
    label = data.target[order, 0]
    held = np.zeros(len(data), bool)
    for number in np.unique(label):
        rows = np.flatnonzero(label == number)
        held[rows[: round(share * len(rows))]] = True
    return (
        training_data.require_rows(data.take(order[~held]), "training"),
        training_data.validation_rows(data.take(order[held])),
    )


def _categorical(forest: Forest) -> tuple[int, ...]:
    inputs, tests = forest.inputs, forest.tests
    named = {column for column in range(inputs.n_features) if inputs.book(column) is not None}
    named |= set(inputs.whole_numbers)
    asked = tests.feature[(tests.kind == Kind.SET) | (tests.kind == Kind.EQUAL)]
    return tuple(sorted(named | set(asked.tolist())))

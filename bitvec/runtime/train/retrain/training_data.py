"""The rows to train on and the rows to choose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict import tables
from bitvec.runtime.train.retrain import objective

VALIDATION = ("validation[0]", "validation[1]", "validation[2]")


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows in the forest's dtype, with targets as `objective.targets` reads them, and weights.

    `teacher` holds what another model answers for each row, if there is one.
    """

    X: Array
    target: Array
    weight: Array
    teacher: Array | None = None

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: Array) -> Data:
        """Return some rows."""
        teacher = None if self.teacher is None else self.teacher[rows]
        return Data(self.X[rows], self.target[rows], self.weight[rows], teacher)


def split(forest: Forest, data: Data, validation: Any, seed: int) -> tuple[Data, Data]:
    """Return the training rows and the validation rows; see `retrain`."""
    parts = _validation(validation)
    if isinstance(parts, float):
        order = np.random.default_rng(seed).permutation(len(data))
        n = round(len(data) * parts)
        return require_rows(data.take(order[n:]), "training"), validation_rows(data.take(order[:n]))
    held_out = read(forest, *parts, names=VALIDATION)
    return require_rows(data, "training"), validation_rows(held_out)


def held_out(forest: Forest, validation: Any) -> Data:
    """Return the validation rows of a training whose rows come from a loader.

    Raises
    ------
    InputError
        If `validation` does not hold rows of its own.
    """
    parts = _validation(validation)
    if isinstance(parts, float):
        raise InputError(
            "`validation` must be (X, y) where the rows come from a loader, got a share: hold "
            "rows out and pass them."
        )
    return validation_rows(read(forest, *parts, names=VALIDATION))


def validation_rows(data: Data) -> Data:
    """Return the rows of positive weight: what has none is not chosen by."""
    return require_rows(data.take(np.flatnonzero(data.weight > 0)), "validation")


def require_rows(data: Data, what: str) -> Data:
    """Return the rows if there are enough of them.

    Raises
    ------
    InputError
        If there are fewer than two rows or all weights are 0.
    """
    if (data.weight > 0).sum() < 2:
        raise InputError(
            f"at least 2 {what} rows of positive weight are needed, got "
            f"{int((data.weight > 0).sum())}: pass more rows."
        )
    return data


def _validation(validation: Any) -> float | tuple[Any, Any, Any]:
    """Return the share to hold out, or X, y and weights (None: all alike)."""
    if isinstance(validation, (tuple, list)) and len(validation) in (2, 3):
        X, y, *weight = validation
        return X, y, weight[0] if weight else None
    is_number = isinstance(validation, (float, int, np.floating, np.integer))
    if is_number and 0 < validation < 1:
        return float(validation)
    got = f"{type(validation).__name__}"
    if isinstance(validation, (tuple, list)):
        got += f" of {len(validation)}"
    elif is_number or isinstance(validation, str):
        got = repr(validation)
    raise InputError(
        "`validation` must be a share between 0 and 1, (X, y) or (X, y, sample_weight), "
        f"got {got}: pass one of them."
    )


def read(
    forest: Forest,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    names: tuple[str, str, str] = ("X", "y", "sample_weight"),
) -> Data:
    """Return rows as training reads them; `names` stand in messages.

    Raises
    ------
    InputError
        If a length, a label, a value or a weight is out of place.
    """
    X = _rows(forest, X, names[0])
    target = objective.targets(forest.output, y, len(X), names[1])
    return Data(X, target, _weights(sample_weight, len(X), names[2]))


def _weights(sample_weight: Any, n_rows: int, name: str) -> Array:
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = np.asarray(sample_weight)
    except ValueError:  # rows of several lengths
        weight = np.zeros(0, object)
    must = f"`{name}` must hold {n_rows} weights that are not negative and have a finite sum, got "
    if weight.dtype.kind not in "biuf" or weight.shape != (n_rows,):
        raise InputError(
            f"{must}dtype {weight.dtype} and shape {weight.shape}: pass one number for each row."
        )
    bad = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
    if bad.size:
        raise InputError(
            f"{must}{weight[bad[0]]} at row {bad[0]}: give it 0 to leave the row out, or mend it."
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum(dtype=np.float64)):
            raise InputError(f"{must}an infinite one: divide all weights by their largest.")
    return weight.astype(np.float64)


def _rows(forest: Forest, X: Any, name: str) -> Array:
    try:
        return tables.rows(X, forest.inputs, forest.dtype)
    except InputError as error:
        raise InputError(str(error).replace("`X`", f"`{name}`")) from None

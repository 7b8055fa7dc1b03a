"""The rows to train on and the rows to choose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.forest import Forest
from bitvec.runtime import tables
from bitvec.runtime.torch import objective
from bitvec.runtime.torch.objective import Objective


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows in the forest's dtype, with targets as `objective.targets` reads them, and weights."""

    X: Array
    target: Array
    weight: Array

    def take(self, rows: Array) -> Data:
        """Return some rows."""
        return Data(self.X[rows], self.target[rows], self.weight[rows])


def split(
    forest: Forest,
    X: Any,
    y: Any,
    sample_weight: Any,
    validation: Any,
    seed: int,
) -> tuple[Data, Data, Objective]:
    """Return the training rows, the validation rows and the objective; see `retrain`."""
    parts = _validation(validation)
    data = _data(forest, X, y, sample_weight, "X", "y", "sample_weight")
    goal = objective.build(forest.output, data.target) if len(data.X) else None
    if isinstance(parts, float):
        order = np.random.default_rng(seed).permutation(len(data.X))
        n = round(len(data.X) * parts)
        data, held_out = data.take(order[n:]), data.take(order[:n])
    else:
        held_out = _data(forest, *parts, "validation[0]", "validation[1]", "validation[2]")
    held_out = held_out.take(np.flatnonzero(held_out.weight > 0))
    for part, what in ((data, "training"), (held_out, "validation")):
        if len(part.X) < 2 or part.weight.sum() <= 0:
            raise InputError(
                f"at least 2 {what} rows of positive weight are needed, got {len(part.X)}: "
                "pass more rows."
            )
    assert goal is not None
    return data, held_out, goal


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


def _data(
    forest: Forest, X: Any, y: Any, sample_weight: Any, X_name: str, y_name: str, weight_name: str
) -> Data:
    X = _rows(forest, X, X_name)
    target = objective.targets(forest.output, y, len(X), y_name)
    return Data(X, target, _weights(sample_weight, len(X), weight_name))


def _weights(sample_weight: Any, n_rows: int, name: str) -> Array:
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = np.asarray(sample_weight)
    except ValueError:  # rows of several lengths
        weight = np.zeros(0, object)
    fits = weight.dtype.kind in "biuf" and weight.shape == (n_rows,) and not np.any(weight < 0)
    with np.errstate(over="ignore"):
        fits = fits and bool(np.isfinite(weight.sum(dtype=np.float64)))
    if not fits:
        raise InputError(
            f"`{name}` must hold {n_rows} weights that are not negative and have a finite sum, "
            f"got dtype {weight.dtype} and shape {weight.shape}: pass one number for each row."
        )
    return weight.astype(np.float64)


def _rows(forest: Forest, X: Any, name: str) -> Array:
    try:
        return tables.rows(X, forest.inputs, forest.dtype)
    except InputError as error:
        raise InputError(str(error).replace("`X`", f"`{name}`")) from None

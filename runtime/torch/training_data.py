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


def split(
    forest: Forest,
    X: Any,
    y: Array,
    sample_weight: Array | None,
    validation: float | tuple[Array, Array],
    seed: int,
) -> tuple[Data, Data, Objective]:
    """Return the training rows, the validation rows and the objective; see `retrain`."""
    X = _rows(forest, X, "X")
    target = objective.targets(forest.output, y, len(X))
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
    weight = weight.astype(np.float64) if weight.dtype.kind in "biuf" else np.full(1, np.nan)
    if weight.shape != (len(X),) or not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise InputError(
            f"`sample_weight` must hold {len(X)} finite weights that are not negative, "
            f"got others: pass one for each row."
        )
    goal = objective.build(forest.output, target) if len(X) else None
    if isinstance(validation, (tuple, list)):
        Xv = _rows(forest, validation[0], "the validation rows")
        target_v = objective.targets(forest.output, validation[1], len(Xv), "the validation y")
        held_out = Data(Xv, target_v, np.ones(len(Xv)))
        data = Data(X, target, weight)
    else:
        if not 0 < validation < 1:
            raise InputError(
                f"`validation` must be a share between 0 and 1, or (X, y), got {validation!r}."
            )
        order = np.random.default_rng(seed).permutation(len(X))
        n = round(len(X) * validation)
        parts = [Data(X[at], target[at], weight[at]) for at in (order[n:], order[:n])]
        data, held_out = parts
    for part, what in ((data, "training"), (held_out, "validation")):
        if len(part.X) < 2 or part.weight.sum() <= 0:
            raise InputError(
                f"at least 2 {what} rows of positive weight are needed, got {len(part.X)}: "
                "pass more rows."
            )
    assert goal is not None
    return data, held_out, goal


def _rows(forest: Forest, X: Any, name: str) -> Array:
    try:
        return tables.rows(X, forest.inputs, forest.dtype)
    except InputError as error:
        raise InputError(str(error).replace("`X`", f"`{name}`")) from None

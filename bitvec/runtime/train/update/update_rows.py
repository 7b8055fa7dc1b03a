"""The rows of an update: new ones to fit, the newest to choose by, and old ones to replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.train.retrain import training_data
from bitvec.runtime.train.retrain.training_data import Data

TRIED = (1.0, 0.0)
"""Weights of replayed rows that are tried where newest rows are to choose."""
LARGEST = 1e75
"""Size of a number to be predicted: squares of its squared errors are finite."""
REPLAY = ("replay[0]", "replay[1]", "replay[2]")


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """New rows, and replayed ones before them, multiplied by a weight.

    Parameters
    ----------
    replay : float
        The weight; NaN where no rows are replayed.
    fit : Data
        What candidates are fitted to.
    every : Data, optional
        What the chosen recipe is fitted to again; None where held-out rows were given.
    """

    replay: float
    fit: Data
    every: Data | None


@dataclass(frozen=True, slots=True, eq=False)
class UpdateRows:
    """Rows as an update uses them; weights of `Data` hold those of classes too.

    Parameters
    ----------
    new : Data
        All new rows as they were given.
    mixes : tuple of Mix
        Those that are tried, one for each weight of replayed rows.
    held_out : Data
        What is chosen by.
    judged : float64, (n_held_out,)
        Sample weights of `held_out` alone, for scores.
    old : Data, optional
        Replayed rows that are held out as well, to tell what was forgotten.
    """

    new: Data
    mixes: tuple[Mix, ...]
    held_out: Data
    judged: Array
    old: Data | None


def read(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    replay: Any,
    replay_weight: Any,
    sample_weight: Any,
    class_weight: Any,
    validation: Any,
    seed: int,
) -> UpdateRows:
    """Read and check all rows; see `update`.

    Raises
    ------
    InputError
        If rows are of another schema, labels are missing or unknown, or too few are left.
    """
    if y is None:
        raise InputError("`y` must hold a label for each row of X, got None: pass the labels.")
    new = training_data.read(forest, X, y, sample_weight)
    old, weights = _replayed(forest, replay, replay_weight)
    for data, name in ((new, "y"), (old, REPLAY[1])):
        if data is not None and not forest.output.is_classifier:
            _require_size(forest, data.target, name)
    weighted = _class_weights(forest, class_weight, new)
    share = float(validation) if isinstance(validation, (int, float, np.number)) else None
    if share is None:
        fit, held_out = training_data.split(forest, new, validation, seed)
    else:
        fit, held_out = _newest(new, validation)
    learned, kept = old, None
    if old is not None and share is not None and len(old) >= 4:
        order = np.random.default_rng(seed).permutation(len(old))
        n = max(1, round(len(old) * share))
        learned, kept = old.take(np.sort(order[n:])), old.take(np.sort(order[:n]))
        kept = kept if np.any(kept.weight > 0) else None
    mixes = tuple(
        Mix(
            weight,
            _counted(weighted(_joined(learned, weight, fit))),
            None if share is None else _counted(weighted(_joined(old, weight, new))),
        )
        for weight in weights
    )
    return UpdateRows(new, mixes, weighted(held_out), held_out.weight, kept)


def _require_size(forest: Forest, target: Array, name: str) -> None:
    """Refuse numbers whose squares, or whose sums of leaves, may overflow."""
    most = min(float(np.finfo(forest.output.dtype).max) / 4, LARGEST)
    found = np.abs(target).max(initial=0)
    if found > most:
        raise InputError(
            f"`{name}` must be at most {most:.3g} in size for a forest of {forest.output.dtype} "
            f"scores, got {found:.3g}: divide all of y by a number, and fit the forest anew."
        )


def _replayed(forest: Forest, replay: Any, weight: Any) -> tuple[Data | None, tuple[float, ...]]:
    """Return the old rows, and the weights that are tried of them."""
    if replay is None:
        return None, (np.nan,)
    if not isinstance(replay, (tuple, list)) or len(replay) not in (2, 3):
        raise InputError(
            "`replay` must be (X, y) or (X, y, sample_weight) of old rows, got "
            f"{type(replay).__name__}: pass one of them."
        )
    X, y, sample_weight = (*replay, None)[:3]
    old = training_data.read(forest, X, y, sample_weight, names=REPLAY)
    if isinstance(weight, str) and weight == "auto":
        return old, TRIED
    return old, (options.positive("replay_weight", weight),)


def _newest(new: Data, share: Any) -> tuple[Data, Data]:
    """Return all but the last rows, and the last ones that have a weight."""
    if isinstance(share, bool) or not 0 < float(share) < 1:
        raise InputError(
            "`validation` must be a share between 0 and 1, (X, y) or (X, y, sample_weight), got "
            f"{share!r}: pass one of them."
        )
    n = round(len(new) * float(share))
    rows = np.arange(len(new))
    return (
        training_data.require_rows(new.take(rows[: len(new) - n]), "training"),
        training_data.validation_rows(new.take(rows[len(new) - n :])),
    )


def _counted(data: Data) -> Data:
    """Return the rows of positive weight: pulls are in units of rows of mean weight."""
    return training_data.require_rows(data.take(np.flatnonzero(data.weight > 0)), "training")


def _joined(old: Data | None, weight: float, new: Data) -> Data:
    """Return old rows, if there are any of weight, and new ones."""
    if old is None or weight == 0:
        return new
    return Data(
        np.concatenate([old.X, new.X]),
        np.concatenate([old.target, new.target]),
        np.concatenate([weight * old.weight, new.weight]),
    )


def _class_weights(forest: Forest, given: Any, new: Data) -> Any:
    """Return what multiplies the weights of rows by those of their classes."""
    if given is None:
        return lambda data: data
    classes = forest.output.classes
    if classes is None or len(classes) != 1:
        raise InputError(
            "`class_weight` must be left out but for a classifier of one target, got "
            f"{given!r}: use `sample_weight`."
        )
    labels = classes[0].tolist()
    if isinstance(given, str) and given == "balanced":
        total = np.bincount(new.target[:, 0], new.weight, len(labels))
        factor = np.divide(
            total.sum(), len(labels) * total, out=np.ones(len(labels)), where=total > 0
        )
    elif isinstance(given, Mapping):
        factor = np.ones(len(labels))
        for label, weight in given.items():
            is_number = isinstance(weight, (int, float, np.number)) and not isinstance(weight, bool)
            if label not in labels or not is_number or not 0 <= weight < np.inf:
                raise InputError(
                    "`class_weight` must map the forest's classes, "
                    f"{', '.join(map(repr, labels[:10]))}, to weights that are not negative, got "
                    f"{label!r}: {weight!r}."
                )
            factor[labels.index(label)] = weight
    else:
        raise InputError(
            f'`class_weight` must be "balanced" or map classes to weights, got {given!r}.'
        )

    def weighted(data: Data) -> Data:
        return replace(data, weight=data.weight * factor[data.target[:, 0]])

    return weighted

"""Targets of training, read from labels, values or a loader."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.output import Output
from bitvec.errors import InputError

ROUNDING = 1e-3
"""By how much the sum of class probabilities may differ from 1."""


def targets(
    output: Output,
    y: Any,
    n_rows: int,
    name: str = "y",
    *,
    soft: bool = False,
    repeat: bool = False,
) -> Array:
    """Return class numbers, (batch, n_groups) int64, or values, (batch, n_outputs) float64.

    Parameters
    ----------
    soft : bool
        Whether y holds class probabilities; what is returned is then `probabilities`.
    repeat : bool
        Whether one column of values stands for all outputs (several quantiles of one target).

    Raises
    ------
    InputError
        If y has the wrong length or width, a label that the forest does not know, or a value that
        is no finite number.
    """
    if soft:
        return probabilities(output, y, n_rows, name)
    y = _array(y)
    if y.ndim == 0 or y.ndim > 2 or len(y) != n_rows:
        raise InputError(
            f"`{name}` must have one entry for each of the {n_rows} rows of X, got shape {y.shape}."
        )
    table = y.reshape(n_rows, -1) if n_rows else y.reshape(0, y.shape[1] if y.ndim == 2 else 1)
    width = output.n_outputs if output.classes is None else len(output.classes)
    if repeat and output.classes is None and table.shape[1] == 1:
        table = np.repeat(table, width, axis=1)
    if table.shape[1] != width:
        raise InputError(
            f"`{name}` must have {width} column{'s' if width > 1 else ''}, got shape {y.shape}."
        )
    if output.classes is not None:
        columns = [_codes(table[:, g], labels, name) for g, labels in enumerate(output.classes)]
        return np.stack(columns, axis=1)
    try:
        if table.dtype.kind in "cmM":  # complex numbers and times, which NumPy would cast
            raise TypeError
        values = table.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be numbers for a regressor, got dtype {y.dtype}: pass floats."
        ) from None
    if not np.all(np.isfinite(values)):
        raise InputError(f"`{name}` must be finite, got NaN or infinity: drop those rows.")
    return values


def probabilities(output: Output, given: Any, n_rows: int, name: str) -> Array:
    """Return class probabilities, (batch, number of classes over all groups) float64.

    Parameters
    ----------
    given : (batch, n_classes), or a list of one such array for each output group
        In the order of `output.classes`. Of two classes, the probability of the second one is
        enough, (batch,) or (batch, 1).

    Raises
    ------
    InputError
        If the forest is no classifier, a shape is out of place, or numbers are no probabilities.
    """
    if output.classes is None:
        raise InputError(
            f"`{name}` can hold class probabilities for a classifier only, got a regressor: pass "
            "its values."
        )
    n_classes = [len(labels) for labels in output.classes]
    is_list = len(n_classes) > 1 and isinstance(given, (list, tuple))
    if is_list and len(given) == len(n_classes):
        parts = [_group(part, n, n_rows, name) for part, n in zip(given, n_classes, strict=True)]
        return np.concatenate(parts, axis=1)
    if len(n_classes) == 1:
        return _group(given, n_classes[0], n_rows, name)
    whole = _array(given)
    if whole.shape != (n_rows, sum(n_classes)):
        raise InputError(
            f"`{name}` must hold the probabilities of {n_classes} classes for each of the {n_rows} "
            f"rows, got shape {whole.shape}: pass a list of one array for each output."
        )
    parts = np.split(whole, np.cumsum(n_classes)[:-1], axis=1)
    return np.concatenate(
        [_group(part, n, n_rows, name) for part, n in zip(parts, n_classes, strict=True)], axis=1
    )


def _group(given: Any, n_classes: int, n_rows: int, name: str) -> Array:
    array = _array(given)
    if n_classes == 2 and array.shape in ((n_rows,), (n_rows, 1)) and array.dtype.kind in "biuf":
        second = array.reshape(n_rows).astype(np.float64)
        array = np.stack([1 - second, second], axis=1)
    if array.shape != (n_rows, n_classes) or array.dtype.kind not in "biuf":
        raise InputError(
            f"`{name}` must hold the probabilities of {n_classes} classes for each of the {n_rows} "
            f"rows, got dtype {array.dtype} and shape {array.shape}."
        )
    p = array.astype(np.float64)
    total = p.sum(axis=1, keepdims=True)
    if not (np.all(p >= -ROUNDING) and np.all(np.abs(total - 1) <= ROUNDING)):
        raise InputError(
            f"`{name}` must hold probabilities, which are not negative and sum to 1 in each row, "
            "got others: apply softmax to scores first."
        )
    p = p.clip(0)
    p /= p.sum(axis=1, keepdims=True)
    return p


def _array(given: Any) -> Array:
    try:
        return np.asarray(given)
    except ValueError:  # rows of several lengths
        return np.asarray(given, object)


def _codes(column: Array, labels: Array, name: str) -> Array:
    position = {label: code for code, label in enumerate(labels.tolist())}
    try:
        codes = np.array([position.get(label, -1) for label in column.tolist()], np.int64)
    except TypeError:
        raise InputError(f"`{name}` must hold one label in each place, got lists.") from None
    if np.any(codes < 0):
        stranger = column[int(np.argmax(codes < 0))]
        stranger = stranger.item() if isinstance(stranger, np.generic) else stranger
        raise InputError(
            f"`{name}` must hold the forest's classes, {', '.join(map(repr, labels.tolist()[:10]))}"
            f", got {stranger!r}: map it to one of them, or drop those rows."
        )
    return codes

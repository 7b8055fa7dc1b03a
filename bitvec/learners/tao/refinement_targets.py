"""Targets of a refinement, and the sum of a forest's trees into its prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.links import SOFTMAXES
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.learners.sizes import require_moderate_values
from bitvec.learners.tao.score_losses import Link

_SIGMOIDS = (PostTransform.SIGMOID, PostTransform.LOGISTIC)


def factors(forest: Forest) -> Float64[Array, "n_trees n_outputs"]:
    """Return what each tree's vectors count in the raw score.

    Raises
    ------
    UnsupportedModelError
        If the raw score is no sum of the trees.
    """
    output = forest.output
    if forest.kernel is not None:
        raise UnsupportedModelError(
            "a forest to be refined must predict hard, got one with a prediction kernel: pass "
            "dataclasses.replace(forest, kernel=None) if that one is used."
        )
    if output.aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        raise UnsupportedModelError(
            "a forest to be refined must sum or average its trees, got aggregate "
            f"{output.aggregate}: refine one of its trees, forest[i]."
        )
    result = np.ones((forest.n_trees, forest.n_outputs))
    if output.scale is not None:
        result *= output.scale
    if output.tree_weight is not None:
        result *= output.tree_weight.astype(np.float64)[:, None]
    if output.aggregate is Aggregate.MEAN:
        result /= forest.n_trees if output.divisor is None else output.divisor
    return result


def link_of(forest: Forest) -> Link | None:
    """Return how raw scores become class probabilities, None for values.

    Raises
    ------
    UnsupportedModelError
        If there are several targets of classes, or another post-transform.
    """
    output = forest.output
    kind, size = output.post_transform, output.n_outputs
    if output.classes is None:
        if kind is not PostTransform.IDENTITY:
            raise UnsupportedModelError(
                "a forest of values to be refined must answer with its raw score, got the "
                f"post-transform {kind}: pass dataclasses.replace(forest, output=...) without it, "
                "and y in its units."
            )
        return None
    if len(output.classes) > 1:
        raise UnsupportedModelError(
            f"a forest to be refined must have one target of classes, got {len(output.classes)}."
        )
    n_classes = len(output.classes[0])
    name, slope = "", 1.0
    if kind is PostTransform.IDENTITY and (size > 1 or n_classes == 2):
        name = "identity"
    elif kind in _SIGMOIDS and size == 1:
        name = "sigmoid"
        slope = output.parameter if kind is PostTransform.SIGMOID else 1.0
    elif kind in SOFTMAXES and size > 1:
        name, slope = "softmax", 1.0 / output.parameter
    if name:
        labelling = (output.second_above, output.labels_from_raw, output.tie_to_second)
        return Link(name, slope, n_classes, *labelling)
    raise UnsupportedModelError(
        "a classifier to be refined must answer with probabilities, or with a sigmoid of one raw "
        f"score or a softmax of several, got the post-transform {kind} of {size}."
    )


def codes_or_values(forest: Forest, y: Any, n_rows: int) -> Array:
    """Return class numbers, (n_rows,) int64, or values, (n_rows, n_outputs) float64."""
    array = np.asarray(y)
    if array.ndim not in (1, 2) or len(array) != n_rows:
        raise InputError(
            f"`y` must have one entry for each of the {n_rows} rows of X, got shape {array.shape}."
        )
    classes = forest.output.classes
    if classes is None:
        return values(array, forest.n_outputs)
    column = array.reshape(n_rows, -1)
    if column.shape[1] != 1:
        raise InputError(f"`y` must hold one label for each row, got shape {array.shape}.")
    place = {label: code for code, label in enumerate(classes[0].tolist())}
    codes = np.array([place.get(label, -1) for label in column[:, 0].tolist()], np.int64)
    if np.any(codes < 0):
        stranger = column[int(np.argmax(codes < 0)), 0]
        raise InputError(
            f"`y` must hold the forest's classes, {', '.join(map(repr, classes[0].tolist()[:10]))}"
            f", got {stranger!r}: map it to one of them, or drop those rows."
        )
    return codes


def values(y: Array, n_outputs: int | None = None) -> Float64[Array, "n_rows n_outputs"]:
    """Return values as two axes of finite float64."""
    if y.dtype.kind not in "biuf":
        raise InputError(f"`y` must be numbers for a regressor, got dtype {y.dtype}: pass floats.")
    table: Array = y.reshape(len(y), -1).astype(np.float64)
    if n_outputs is not None and table.shape[1] != n_outputs:
        raise InputError(f"`y` must have {n_outputs} columns, got shape {y.shape}.")
    if not np.all(np.isfinite(table)):
        raise InputError("`y` must be finite, got NaN or infinity: drop those rows.")
    require_moderate_values("y", table)
    return table


def centre_of(
    Y: Float64[Array, "n_rows n_outputs"], weight: Float64[Array, " n_rows"]
) -> Float64[Array, " n_outputs"]:
    """Return what is taken from values while a tree is fitted, so that little is rounded.

    It is the mean, rounded to a power of two of the size of the largest distance from it, so that
    the differences of values of one magnitude are exact.
    """
    mean = np.average(Y, axis=0, weights=weight / weight.max())
    largest = np.abs(Y - mean).max(axis=0)
    step = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
    return np.where(np.ptp(Y, axis=0) > 0, np.rint(mean / step) * step, Y[0])

"""From raw scores to outputs, probabilities and labels."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array, copied
from bitvec.core.links import GROUPED, LINKS, Operations
from bitvec.core.output import Output
from bitvec.core.shape_annotations import Float


def transform(
    output: Output,
    raw: Float[Array, "batch n_outputs"],
    out: Float[Array, "batch n_outputs"] | None = None,
) -> Float[Array, "batch n_outputs"]:
    """Apply the post-transform to raw scores, in their dtype; fill and return `out` if it is given.

    Sigmoid and softmax follow the sources' order of operations and use their exponential, so that
    labels are the source's also where a probability is within an ulp of a tie.
    """
    link, f = LINKS[output.post_transform], _Operations(output, raw.dtype)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # infinities are legal
        if output.post_transform not in GROUPED or len(output.groups) == 1:
            return copied(link(f, raw), out)
        parts = np.split(raw, np.cumsum(output.groups)[:-1], axis=1)
        return np.concatenate([link(f, part) for part in parts], axis=1, out=out)


def c_exp(x: Array) -> Array:
    """Return exp as the C library has it, which differs from NumPy's in the last bits.

    NumPy vectorises the real exponential itself, but leaves the complex one to the C library, which
    takes exp(88) apart for float32 just below the largest number.
    """
    if x.dtype == np.float64:
        return np.exp(x.astype(np.complex128)).real
    small = np.exp(x.astype(np.complex64)).real
    return np.where(x > 88, np.exp(x.astype(np.float64)).astype(np.float32), small)


TABLE_SIZE = 2048
EXP_TABLE = np.array([2.0 ** (k / TABLE_SIZE) for k in range(TABLE_SIZE)])
STEPS = TABLE_SIZE / float(np.log(2.0))
"""Steps of the table in 1."""
STEP = 1 / STEPS
LEAST_EXP, MOST_EXP = -708.39641853226408, 709.78271289338397
"""Between these an exponential of float64 is a normal number."""
SQUARE, CUBE = 3.0000000027955394, 0.16666666685227835064
"""Coefficients of the Taylor series, of which the second is a factor of the first."""


def table_exp(x: Array) -> Array:
    """Return exp from a table, for float64 (batch, n): off by about 1 + |x| ulp.

    Notes
    -----
    exp(x) = 2 ** (k / 2048) · exp(-t) for the nearest k, of which the first is 2 ** (k // 2048)
    times an entry of a table, and the second a cubic (`expd_v` of MITSUNARI Shigeo's fmath). Four
    numbers of a row are taken together, and stop at the ends of the range; of what is left over of
    fours, numbers below it give 0.
    """
    wide = x.astype(np.float64)
    held = np.clip(wide, LEAST_EXP, MOST_EXP)
    nearest = np.rint(held * STEPS)
    t = nearest * STEP - held
    rest = (SQUARE - t) * (t * t) * CUBE - t + 1
    k = np.where(np.isnan(nearest), 0, nearest).astype(np.int64)
    result = rest * np.ldexp(EXP_TABLE[k % TABLE_SIZE], k // TABLE_SIZE)
    n = x.shape[1]
    left_over = np.arange(n) >= n - n % 4
    return np.where(left_over & (wide <= LEAST_EXP), 0.0, result).astype(x.dtype)


class _Operations(Operations):
    """Operations of NumPy."""

    c_exp, table_exp = staticmethod(c_exp), staticmethod(table_exp)
    log1p, sqrt, copysign = np.log1p, np.sqrt, np.copysign

    def exp(self, x: Array) -> Array:
        """Return exp, of float32 as the C library has it, of float64 as NumPy does."""
        return np.exp(x) if x.dtype == np.float64 else c_exp(x)

    def log(self, x: Array) -> Array:
        return np.log(x.astype(np.float64)).astype(x.dtype)

    def power(self, base: float, x: Array) -> Array:
        # exp2 differs from a power in the last bit.
        return np.power(x.dtype.type(base), x)

    def maximum(self, x: Array, bound: float) -> Array:
        return np.maximum(x, x.dtype.type(bound))

    def minimum(self, x: Array, bound: float) -> Array:
        return np.minimum(x, x.dtype.type(bound))

    def where(self, condition: Array, x: Array, other: Array | float) -> Array:
        return np.where(condition, x, np.asarray(other, x.dtype))

    def indicator(self, condition: Array) -> Array:
        return condition.astype(self.dtype)

    def cast(self, x: Array, dtype: np.dtype) -> Array:
        return x.astype(dtype)

    def largest(self, x: Array) -> Array:
        return x.max(axis=1, keepdims=True)

    def total(self, x: Array, *, wide: bool) -> Array:
        # In order by a cumulative sum: NumPy's own sum pairs its terms.
        if wide:
            return x.sum(axis=1, keepdims=True, dtype=np.float64).astype(x.dtype)
        return x.cumsum(axis=1)[:, -1:]


def probabilities(
    output: Output, raw: Float[Array, "batch n_outputs"]
) -> list[Float[Array, "batch n_classes"]]:
    """Return one matrix of class probabilities per output group of a classifier."""
    return class_columns(output, transform(output, raw))


def class_columns(
    output: Output, value: Float[Array, "batch n_outputs"]
) -> list[Float[Array, "batch n_classes"]]:
    """Return the same, given what `transform` has made of the raw scores."""
    assert output.classes is not None
    result = []
    start = 0
    for labels, size in zip(output.classes, output.groups, strict=True):
        part = value[:, start : start + size]
        if size == 1 and labels.size == 2:
            part = np.concatenate([value.dtype.type(1) - part, part], axis=1)
        result.append(part)
        start += size
    return result


def predictions(output: Output, raw: Float[Array, "batch n_outputs"]) -> Array:
    """Return labels, (batch,) or (batch, n_groups), or for a regressor the transformed scores.

    A label is the first class of highest probability, or of highest raw score if `labels_from_raw`;
    with a single output the second class wins where its probability exceeds one half, or its raw
    score 0, or either the output's `boundary`. A regressor of one output returns shape (batch,).
    """
    if output.classes is None:
        value = transform(output, raw)
        return value[:, 0] if output.n_outputs == 1 else value
    return class_labels(output, raw if output.labels_from_raw else transform(output, raw))


def class_labels(output: Output, value: Float[Array, "batch n_outputs"]) -> Array:
    """Return a classifier's labels, given its raw scores if `labels_from_raw`, else transformed."""
    assert output.classes is not None
    columns = []
    start = 0
    for labels, size in zip(output.classes, output.groups, strict=True):
        part = value[:, start : start + size]
        if size == 1 and labels.size == 2:
            at = output.second_above
            above = part[:, 0] >= at if output.tie_to_second else part[:, 0] > at
            index = above.astype(np.intp)
        else:
            index = part.argmax(axis=1)
        columns.append(labels[index])
        start += size
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

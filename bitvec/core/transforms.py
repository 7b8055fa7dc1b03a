"""From raw scores to outputs, probabilities and labels."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bitvec.core.arrays import Array
from bitvec.core.output import Output, PostTransform, SoftmaxSum


def transform(
    output: Output, raw: Float[Array, "batch n_outputs"]
) -> Float[Array, "batch n_outputs"]:
    """Apply the post-transform to raw scores, in their dtype.

    Sigmoid and softmax follow the sources' order of operations and use their exponential, so that
    labels are the source's also where a probability is within an ulp of a tie.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # infinities are legal
        return _TABLE[output.post_transform](output, raw)


def _identity(output: Output, raw: Array) -> Array:
    return raw


def _exp(x: Array) -> Array:
    """Return exp, of float32 as the C library has it, of float64 as NumPy (and scikit-learn) do."""
    return np.exp(x) if x.dtype == np.float64 else c_exp(x)


def c_exp(x: Array) -> Array:
    """Return exp as the C library has it, which differs from NumPy's in the last bits.

    NumPy vectorises the real exponential itself, but leaves the complex one to the C library, which
    takes exp(88) apart for float32 just below the largest number.
    """
    if x.dtype == np.float64:
        return np.exp(x.astype(np.complex128)).real
    small = np.exp(x.astype(np.complex64)).real
    return np.where(x > 88, np.exp(x.astype(np.float64)).astype(np.float32), small)


def _sigmoid(output: Output, raw: Array) -> Array:
    one = raw.dtype.type(1)
    scaled = raw * raw.dtype.type(output.parameter) if output.parameter != 1.0 else raw
    if raw.dtype == np.float32:
        scaled = np.maximum(scaled, np.float32(-88.7))  # xgboost keeps its exponential finite
    return one / (c_exp(-scaled) + one)


def _logistic(output: Output, raw: Array) -> Array:
    # In float32 also where scores are float64, as in onnxruntime.
    one = np.float32(1)
    above = one / (one + c_exp(-np.abs(raw.astype(np.float32))))
    return np.where(raw < 0, one - above, above).astype(raw.dtype)


def _softmax(output: Output, raw: Array) -> Array:
    result = np.empty_like(raw)
    scaled = raw / raw.dtype.type(output.parameter) if output.parameter != 1.0 else raw
    start = 0
    for size in output.groups:
        part = scaled[:, start : start + size]
        below = part - part.max(axis=1, keepdims=True)
        exp = c_exp(below) if output.softmax_sum is SoftmaxSum.IN_ORDER_C else _exp(below)
        if output.softmax_sum is SoftmaxSum.WIDE:
            total = exp.sum(axis=1, keepdims=True, dtype=np.float64).astype(raw.dtype)
        else:
            total = np.cumsum(exp, axis=1)[:, -1:]
        result[:, start : start + size] = exp / total
        start += size
    return result


def _softmax_of_halves(output: Output, raw: Array) -> Array:
    one = raw.dtype.type(1)
    exp = _exp(-np.abs(raw))
    return np.where(raw < 0, exp, one) / (exp + one)


def _softmax_unshifted(output: Output, raw: Array) -> Array:
    result = np.empty_like(raw)
    exp = c_exp(raw)
    start = 0
    for size in output.groups:
        part = exp[:, start : start + size]
        total = np.cumsum(part, axis=1)[:, -1:]
        result[:, start : start + size] = part * (raw.dtype.type(1) / total)
        start += size
    return result


def _softmax_zero(output: Output, raw: Array) -> Array:
    result = np.empty_like(raw)
    start = 0
    for size in output.groups:
        part = raw[:, start : start + size]
        top = part.max(axis=1, keepdims=True)
        counts = np.abs(part) > 1e-7
        exp = np.where(counts, _exp(part - top), raw.dtype.type(0))
        # One after the other, as onnxruntime adds them; NumPy's sum pairs them.
        total = exp.cumsum(axis=1)[:, -1:]
        result[:, start : start + size] = np.where(counts, exp, part * _exp(-top)) / total
        start += size
    return result


def _probit(output: Output, raw: Array) -> Array:
    # Winitzki's approximation of the inverse error function, in the dtype and order of onnxruntime.
    # Near one half it cancels, so that an ulp of the logarithm, rounded from float64 here, is many.
    F = np.float32
    x = F(2) * raw.astype(F) - F(1)
    log = np.log(((F(1) - x) * (F(1) + x)).astype(np.float64)).astype(F)
    v = F(2) / (F(np.pi) * F(0.147)) + F(0.5) * log
    root = np.sqrt(np.sqrt(v * v - F(1) / F(0.147) * log) - v)
    return (F(1.41421356) * np.where(x < 0, -root, root)).astype(raw.dtype)


def _exponential(output: Output, raw: Array) -> Array:
    return _exp(raw)


def _exponential_standard_ratio(output: Output, raw: Array) -> Array:
    # A power, as scikit-learn has it: exp2 differs from it in the last bit.
    return np.power(raw.dtype.type(2), -raw / raw.dtype.type(output.parameter))


def _logarithm_one_plus_exp(output: Output, raw: Array) -> Array:
    return np.log1p(c_exp(raw))


def _signed_square(output: Output, raw: Array) -> Array:
    return np.copysign(raw * raw, raw)


def _hinge(output: Output, raw: Array) -> Array:
    return (raw > 0).astype(raw.dtype)


def _at_most_one(output: Output, raw: Array) -> Array:
    return np.minimum(raw, raw.dtype.type(1))


_TABLE = {
    PostTransform.IDENTITY: _identity,
    PostTransform.SIGMOID: _sigmoid,
    PostTransform.LOGISTIC: _logistic,
    PostTransform.SOFTMAX: _softmax,
    PostTransform.SOFTMAX_OF_HALVES: _softmax_of_halves,
    PostTransform.SOFTMAX_UNSHIFTED: _softmax_unshifted,
    PostTransform.SOFTMAX_ZERO: _softmax_zero,
    PostTransform.PROBIT: _probit,
    PostTransform.EXPONENTIAL: _exponential,
    PostTransform.EXPONENTIAL_STANDARD_RATIO: _exponential_standard_ratio,
    PostTransform.LOGARITHM_ONE_PLUS_EXP: _logarithm_one_plus_exp,
    PostTransform.SIGNED_SQUARE: _signed_square,
    PostTransform.HINGE: _hinge,
    PostTransform.AT_MOST_ONE: _at_most_one,
}


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

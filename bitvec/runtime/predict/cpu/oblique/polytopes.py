"""Tests of several rows of S: sums of r * softplus(z - offset), decided by bounds where these do.

softplus(v) is max(v, 0) + log1p(exp(-|v|)), whose last term a few multiplications give to `ERROR`.
That decides almost every row in vectors; the rest is done as in the reference.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np

from bitvec.core.node_tests import Activation
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.softplus_kernel import softplus

_SOFTPLUS = int(Activation.SOFTPLUS)

ERROR = 4e-5
"""At least twice the greatest error of `tail`, in float32 and in float64."""
_FAR = 24.0
"""exp(-24) is below `ERROR`."""
_HUGE = 1e30
"""Sum of the terms' magnitudes from which on nothing is decided by bounds."""


@inner
def tail(u, kind):
    """Return log1p(exp(-u)) for u >= 0 to an error of `ERROR`, in the dtype `kind`; NaN of NaN."""
    one, two, far = kind(1), kind(2), kind(_FAR)
    # exp by its 64th root, of which five terms of the series are enough.
    w = (far if u > far else u) * kind(1 / 64)
    t = w * kind(1 / 24)
    t = w * (kind(1 / 6) - t)
    t = w * (kind(1 / 2) - t)
    t = one - w * (one - t)
    t = t * t
    t = t * t
    t = t * t
    t = t * t
    t = t * t
    t = t * t
    # log1p(t) is 2 artanh(t / (2 + t)), whose series is short below 1 / 3.
    y = t / (t + two)
    q = y * y
    series = kind(1 / 7) + q * kind(1 / 9)
    series = one + q * (kind(1 / 3) + q * (kind(1 / 5) + q * series))
    return two * y * series


@inner
def _exact(values, terms, activations, lanes, lane, kind):
    total = kind(0)
    for k in range(activations.shape[0]):
        value = values[k * lanes + lane] - terms[k, 0]
        if activations[k] == _SOFTPLUS:
            value = softplus(value, kind)
        term = terms[k, 1] * value
        total = term if k == 0 else total + term
    return total


@inner
def decide(values, terms, activations, way, bounds, out):
    """Fill `out` with bytes 0 or 1 for a chunk of rows of X.

    `values` holds the sums of the node's rows of S, a chunk after the other, and `terms` their
    offset, r and b. `way` is 1 for the relation >=, plus 2 if NaN goes right. `bounds` is
    scratch of two chunks, of the dtype of `values`.

    Notes
    -----
    With u the unit roundoff, n rows and A = sum of |r_k| (max(v_k, 0) + 1), or |r_k v_k| for a row
    without softplus: the reference's z errs by at most gamma_(n+8) A from the sum of real numbers,
    its softplus being good to a few units in the last place, and the sum with `tail` by at most
    (ERROR / 2 + gamma_(n+8)) A, where gamma_m = m u / (1 - m u) (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, Lemma 3.1 and section 4.2). So both lie on one
    side of b if the second is farther from it than (ERROR + 4 (n + 8) u) A, which also bears that
    A is itself rounded; the least normal number bears underflow. Comparisons with NaN decide
    nothing.
    """
    lanes = out.shape[0]
    n_rows = activations.shape[0]
    kind = values.dtype.type
    zero, one = kind(0), kind(1)
    about, size = bounds[:lanes], bounds[lanes : 2 * lanes]
    b = terms[0, 2]
    for lane in range(lanes):
        about[lane] = zero
        size[lane] = zero
    for k in range(n_rows):
        offset, r = terms[k, 0], terms[k, 1]
        part = values[k * lanes : (k + 1) * lanes]
        if activations[k] == _SOFTPLUS:
            for lane in range(lanes):
                v = part[lane] - offset
                positive = zero if v < zero else v
                about[lane] += r * (positive + tail(abs(v), kind))
                size[lane] += abs(r) * (positive + one)
        else:
            for lane in range(lanes):
                term = r * (part[lane] - offset)
                about[lane] += term
                size[lane] += abs(term)
    eps = np.finfo(values.dtype).eps
    bound = kind(ERROR + (2 * n_rows + 16) * eps)
    tiny = kind(np.finfo(values.dtype).tiny)
    huge = kind(_HUGE)
    for lane in range(lanes):
        gap = about[lane] - b
        if size[lane] < huge and abs(gap) > bound * size[lane] + tiny:
            out[lane] = gap > 0
            continue
        z = _exact(values, terms, activations, lanes, lane, kind)
        if z != z:
            out[lane] = way >> 1
        else:
            out[lane] = z > b or (way & 1 != 0 and z == b)

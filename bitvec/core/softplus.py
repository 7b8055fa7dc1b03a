"""softplus(x) = log(1 + exp(x)), of the same bits on every machine and in every runtime.

C libraries, vector units and devices differ in the last places of exp and log, and a margin one of
them off may fall on the other side of its threshold. Here softplus is made of additions, products,
quotients and comparisons alone, which IEEE 754 rounds in one way, in float64 and in a fixed order:

    softplus(x) = max(x, 0) + log1p(t),    t = exp(-|x|) = 2^-k · exp(k ln 2 - |x|)

with k the nearest whole number to |x| / ln 2, exp by its Taylor series, and log1p(t) = 2 artanh(s),
s = t / (2 + t), by the series of artanh, which is short for s of at most 1 / 3. The result is
within a few units in the last place; that of float32 is rounded from it once.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float

FAR: Final = 746.0
"""exp(-746) is 0 in float64."""
LOG2_E: Final = 1.4426950408889634
LN2_HIGH: Final = 6.93147180369123816490e-01
"""Its last bits are 0, so that products with k are exact."""
LN2_LOW: Final = 1.90821492927058770002e-10
EXP: Final = tuple(1 / math.factorial(n) for n in range(14))
"""Coefficients of exp in powers of k ln 2 - |x|, whose magnitude is below .35."""
ARTANH: Final = tuple(1 / (2 * n + 1) for n in range(18))
"""Coefficients of artanh(s) / s in powers of s², which is at most 1 / 9."""
POWERS: Final[Float[Array, " n"]] = np.ldexp(1.0, -np.arange(int(FAR * LOG2_E) + 2))
"""2^-k."""
POWERS.setflags(write=False)


def softplus(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return log(1 + exp(x)) in the dtype of x, float32 or float64; NaN of NaN.

    Examples
    --------
    >>> softplus(np.array([-800.0, 2.0**-60, 800.0])).round(12).tolist()
    [0.0, 0.69314718056, 800.0]
    """
    wide = x.astype(np.float64)
    magnitude = np.abs(wide)
    u = np.where(magnitude < FAR, magnitude, FAR)  # NaN too
    k = np.floor(u * LOG2_E + 0.5)
    r = (k * LN2_HIGH - u) + k * LN2_LOW
    t = _polynomial(EXP, r) * POWERS[k.astype(np.int64)]
    s = t / (2.0 + t)
    tail = (s + s) * _polynomial(ARTANH, s * s)
    found: Array = (np.where(wide < 0, 0.0, wide) + tail).astype(x.dtype)
    return found


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = np.full_like(x, coefficients[-1])
    for one in reversed(coefficients[:-1]):
        value *= x
        value += one
    return value

"""`bitvec.core.softplus` of one value, bit for bit."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from bitvec.core.softplus import ARTANH, EXP, FAR, LN2_HIGH, LN2_LOW, LOG2_E
from bitvec.runtime.predict.cpu.compiling import inner

_EXP, _ARTANH = np.array(EXP), np.array(ARTANH)


@inner
def softplus(value, kind):
    """Return log(1 + exp(value)) in the dtype `kind`, that of value."""
    wide = np.float64(value)
    if wide != wide:
        return value
    u = min(abs(wide), FAR)
    k = math.floor(u * LOG2_E + 0.5)
    r = (k * LN2_HIGH - u) + k * LN2_LOW
    t = _EXP[-1]
    for n in range(_EXP.size - 2, -1, -1):
        t = t * r + _EXP[n]
    t *= math.ldexp(1.0, -int(k))
    s = t / (2.0 + t)
    q = s * s
    series = _ARTANH[-1]
    for n in range(_ARTANH.size - 2, -1, -1):
        series = series * q + _ARTANH[n]
    return kind(max(wide, 0.0) + (s + s) * series)

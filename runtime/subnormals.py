"""Whether this thread computes with subnormal numbers, on which a test such as x > 0 rests."""

from __future__ import annotations

import warnings

import numpy as np

from bitvec.runtime.columns import outside_stacklevel

SUBNORMAL = 5e-324
"""A module's variable: a constant would be multiplied when the module is compiled."""


def flushes() -> bool:
    """Return whether the processor takes subnormal numbers for zero in the calling thread.

    The mode (flush-to-zero, denormals-are-zero) belongs to a thread, which inherits it from the
    thread that starts it; `torch.set_flush_denormal` and libraries built with -ffast-math turn it
    on. Asking costs one multiplication.
    """
    return SUBNORMAL * 1.0 == 0.0


def warn_where_flushed(dtype: np.dtype) -> None:
    """Warn if the processor is set to take subnormal numbers for zero in the calling thread."""
    if flushes():
        warnings.warn(
            "this thread rounds subnormal numbers to zero, so that rows with values below "
            f"{np.finfo(dtype).smallest_normal:.3g} in magnitude may go to other leaves: "
            "torch.set_flush_denormal(False) turns it off.",
            RuntimeWarning,
            stacklevel=outside_stacklevel(),
        )

"""Checks of a relaxation's options; see `bitvec.core.options`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bitvec.core.options import LARGEST as LARGEST
from bitvec.core.options import among as among
from bitvec.core.options import positive as positive
from bitvec.core.options import whole as whole
from bitvec.errors import InputError


def steepness(value: Any, *, name: str = "gamma") -> tuple[float, float]:
    """Return gamma as (first, last)."""
    is_pair = isinstance(value, (tuple, list)) or (
        isinstance(value, np.ndarray) and value.ndim == 1
    )
    if not is_pair or len(value) != 2:
        raise InputError(f"`{name}` must be two numbers, (first, last), got {value!r}.")
    first, last = value
    return positive(name, first), positive(name, last)


def names(trainable: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return what may move, as a tuple of names."""
    if not isinstance(trainable, Iterable):
        raise InputError(
            f"`trainable` must hold names among {', '.join(known)}, got {trainable!r}: pass a "
            "tuple."
        )
    found = (trainable,) if isinstance(trainable, str) else tuple(trainable)
    for name in found:
        if name not in known:
            raise InputError(
                f"`trainable` must hold names among {', '.join(known)}, got {name!r}: leave it out."
            )
    return found

"""Checks of a user's options, numbers and names, before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError

LARGEST = float(np.finfo(np.float32).max)
"""Largest float32: what trains is float32, and no larger number is of use elsewhere."""


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number from `least` on that arrays can count to."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or not least <= value < 2**63:
        raise InputError(f"`{name}` must be a whole number from {least} on, got {value!r}.")
    return int(value)


def positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """Return a number that float32 holds, above 0, or from 0 on."""
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    # Where it is NaN no comparison holds.
    if (
        not is_number
        or isinstance(value, bool)
        or not (0 < value <= LARGEST or (or_zero and value == 0))
    ):
        least = "not be negative" if or_zero else "be above 0"
        raise InputError(f"`{name}` must {least} and at most {LARGEST:.3g}, got {value!r}.")
    return float(value)


def among(name: str, value: Any, known: tuple[Any, ...]) -> None:
    """Raise InputError unless a value is one of those that are known."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in known):
        said = ", ".join(repr(one) if isinstance(one, str) else str(one) for one in known)
        raise InputError(f"`{name}` must be one of {said}, got {value!r}: choose one.")


def flag(name: str, value: Any) -> bool:
    """Return True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"`{name}` must be True or False, got {value!r}.")
    return bool(value)


def numbers(value: Any, *, flags: bool = False) -> Float64[np.ndarray, "..."] | None:
    """Return an array of numbers in float64, None where there is anything else: text, ragged lists.

    Parameters
    ----------
    flags : bool
        Whether True and False count as 1 and 0.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return None
    kinds = "biuf" if flags else "iuf"
    if array.dtype == object and all(np.asarray(one).dtype.kind in kinds for one in array.flat):
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            return None
    return array.astype(np.float64, copy=False) if array.dtype.kind in kinds else None


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

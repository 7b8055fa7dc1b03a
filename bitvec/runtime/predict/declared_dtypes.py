"""Dtypes of rows whose source computes with them: another dtype would give other answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array, is_masked
from bitvec.core.inputs import Domain, Inputs
from bitvec.errors import InputError

_WHOLE = 2**53
"""Whole numbers up to this are float64 exactly."""
_TOO_WIDE = (
    "{} must hold whole numbers of at most 2**53, which float64 holds exactly, got larger ones: "
    "drop such rows."
)


def require_array(X: Array, inputs: Inputs) -> None:
    """Refuse an array of another dtype than that in which the source computes.

    Raises
    ------
    InputError
    """
    wanted = inputs.number_dtype
    if wanted is None:
        return
    if is_masked(X):
        raise InputError(
            "`X` must be a plain array, got a masked one, whose mask the source would pass over: "
            "pass X.filled(numpy.nan)."
        )
    if X.dtype.kind in "OUS" and wanted == "float64":
        return
    _require(X.dtype, wanted, "`X`")
    _require_whole(X, "`X`")


def require_dense(inputs: Inputs) -> None:
    """Refuse a sparse matrix, in whose columns the source computes in another way.

    Raises
    ------
    InputError
    """
    if inputs.domains is not None:
        raise InputError(
            "`X` must be dense, got a sparse matrix, with which the steps before the trees compute "
            "in another way: pass X.toarray()."
        )


def require_numbers(values: Array, domain: Domain, name: str) -> None:
    """Refuse a column of numbers of another dtype than that in which the source computes.

    Raises
    ------
    InputError
    """
    where = f"{name} of `X`"
    if domain.dtype == "text":
        raise InputError(
            f"{where} must hold texts, got {values.dtype}: pass the column as it was trained on."
        )
    # Of a column of whole numbers with nulls objects are made.
    if domain.dtype != "any" and values.dtype.kind != "O":
        _require(values.dtype, domain.dtype, where)
        _require_whole(values, where)


def require_value(value: Any, domain: Domain, name: str) -> None:
    """Refuse a Python value that the source would read in another way than the forest.

    Raises
    ------
    InputError
    """
    if domain.dtype != "text":
        if type(value) is int and abs(value) > _WHOLE:
            raise InputError(_TOO_WIDE.format(f"{name} of `X`"))
        return
    is_nan = isinstance(value, float | np.floating) and value != value
    if isinstance(value, str) or (is_nan and domain.null != "none"):
        return
    if value is None and domain.null != "nan":
        return
    wanted = {"any": "", "nan": " and NaN", "none": " and None"}[domain.null]
    raise InputError(
        f"{name} of `X` must hold texts{wanted}, got {value!r}, which the steps before the trees "
        "take for something else: pass the column as it was trained on."
    )


def _require(dtype: np.dtype, wanted: str, where: str) -> None:
    if dtype == np.dtype(wanted) or (wanted == "float64" and dtype.kind in "biu"):
        return
    raise InputError(
        f"{where} must have dtype {wanted}, in which the steps before the trees compute, got "
        f"{dtype}: pass it as {wanted} where the source gets it so, or convert the model with "
        f'dtypes="{dtype}" where that is float32 or float64.'
    )


def _require_whole(X: Array, where: str) -> None:
    wide = X.dtype.kind in "iu" and X.dtype.itemsize == 8 and X.size > 0
    if wide and max(int(X.max()), -int(X.min())) > _WHOLE:
        raise InputError(_TOO_WIDE.format(where))

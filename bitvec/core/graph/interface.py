"""Inputs, outputs and versions of an exported graph."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.errors import InputError

INPUT_DTYPES: Final = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
INTEGER_DTYPES: Final = (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.float32))
OPSET: Final = 21
ML_OPSET: Final = 5
IR_VERSION: Final = 10
"""Pinned, since newer versions are written by default than runtimes load."""
LARGEST_BATCH: Final = 2**31 - 1
"""Rows that runtimes can count in the sizes of a tensor."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The inputs, outputs and versions of an exported graph.

    Parameters
    ----------
    input_dtype : numpy dtype, optional
        float16, float32 or float64, of X as it is handed in; the forest's if not given. It is cast
        to the forest's, as the forest's own library casts it.
    batch : int, optional
        The number of rows, where the runtime wants it fixed.
    outputs : tuple of str, optional
        Which outputs the file has, since runtimes compute all; by default all that the form makes.
    opset, ir_version : int
        Versions of the standard operators and of the file.
    integer_dtype : numpy dtype, optional
        int32, int64 or float32, of the whole numbers in outputs: leaves and labels; int64 if not
        given.
    plain : bool
        Whether the graph does without NaN, CumSum and BitwiseAnd, which small runtimes lack.

    Raises
    ------
    InputError
        If one of them is none of these.
    """

    input_dtype: np.dtype | None = None
    batch: int | None = None
    outputs: tuple[str, ...] | None = None
    opset: int = OPSET
    ir_version: int = IR_VERSION
    integer_dtype: np.dtype | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        if self.input_dtype is not None:
            dtype_of(self.input_dtype)
        if self.integer_dtype is not None:
            integer_dtype_of(self.integer_dtype)
        object.__setattr__(self, "batch", batch_of(self.batch))
        object.__setattr__(self, "outputs", outputs_of(self.outputs))


def batch_of(given: Any) -> int | None:
    """Return a number of rows as int, or None.

    Raises
    ------
    InputError
        If it is no whole number from 1 to `LARGEST_BATCH`.
    """
    try:
        rows = None if given is None else operator.index(given)
    except TypeError:
        rows = 0
    if isinstance(given, bool) or (rows is not None and not 1 <= rows <= LARGEST_BATCH):
        raise InputError(
            f"`batch` must be a number of rows from 1 to {LARGEST_BATCH}, or None where it may "
            f"vary, got {given!r}: give a whole number."
        )
    return rows


def outputs_of(given: Any) -> tuple[str, ...] | None:
    """Return names of outputs as a tuple, or None.

    Raises
    ------
    InputError
        If it is no list of at least one name.
    """
    if given is None:
        return None
    names = () if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"`outputs` must be a list of at least one name, got {given!r}: name the outputs as in "
            "['label', 'probabilities']."
        )
    return names


def dtype_of(given: Any) -> np.dtype:
    """Return the dtype of rows, of its name or type.

    Raises
    ------
    InputError
        If rows cannot be handed in as it.
    """
    return _dtype_among(
        INPUT_DTYPES,
        given,
        f"`input_dtype` must be float16, float32 or float64, got {given}: rows of whole numbers "
        "are handed in as one of them.",
    )


def integer_dtype_of(given: Any) -> np.dtype:
    """Return the dtype of leaves and labels, of its name or type.

    Raises
    ------
    InputError
        If they cannot be given in it.
    """
    return _dtype_among(
        INTEGER_DTYPES,
        given,
        f"`integer_dtype` must be int64, int32 or float32, got {given}: choose one of them.",
    )


def _dtype_among(known: tuple[np.dtype, ...], given: Any, refusal: str) -> np.dtype:
    try:
        dtype = np.dtype(given)
    except TypeError:
        dtype = np.dtype(object)
    if dtype not in known:
        raise InputError(refusal)
    return dtype


def is_text(value: object) -> bool:
    """Return whether a value is text that UTF-8 can hold, as files and pages want it.

    >>> is_text("größer"), is_text(chr(0xD800)), is_text(5)
    (True, False, False)
    """
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # a lone surrogate
        return False

"""What the caller of an exported graph hands in and gets back, and the versions it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.errors import InputError

INPUT_DTYPES: Final = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
OPSET: Final = 21
ML_OPSET: Final = 5
IR_VERSION: Final = 10
"""Pinned, since the onnx library writes newer versions by default than runtimes load."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The inputs, outputs and versions of an ONNX file.

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

    def __post_init__(self) -> None:
        if self.input_dtype is not None:
            dtype_of(self.input_dtype)
        if self.batch is not None and self.batch < 1:
            raise InputError(
                f"`batch` must be a number of rows from 1 on, or None where it may vary, got "
                f"{self.batch!r}."
            )
        if self.outputs is not None:
            if not self.outputs:
                raise InputError("`outputs` must name at least one output, got none.")
            object.__setattr__(self, "outputs", tuple(self.outputs))


def dtype_of(given: Any) -> np.dtype:
    """Return the dtype of rows, of its name or type.

    Raises
    ------
    InputError
        If rows cannot be handed in as it.
    """
    try:
        dtype = np.dtype(given)
    except TypeError:
        dtype = np.dtype(object)
    if dtype not in INPUT_DTYPES:
        raise InputError(
            f"`input_dtype` must be float16, float32 or float64, got {given}: rows of whole "
            "numbers are handed in as one of them."
        )
    return dtype

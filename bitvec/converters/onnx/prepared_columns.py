"""Columns on their way to the trees of an ONNX graph, and the operators that they pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx

from bitvec.converters.onnx.file import tensor, text
from bitvec.converters.pipelines.derived_columns import Derived
from bitvec.converters.pipelines.operations import DOUBLE, SINGLE, Require, Rising
from bitvec.core.arrays import Array
from bitvec.errors import UnsupportedModelError

FLOAT, WIDE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
STRING, BOOL = onnx.TensorProto.STRING, onnx.TensorProto.BOOL
TEXTS: Final = np.dtype(object)
WHOLE: Final[dict[int, float]] = {
    onnx.TensorProto.INT64: 2.0**53,
    onnx.TensorProto.INT32: 2.0**31 - 1,
    onnx.TensorProto.INT16: 2.0**15 - 1,
    onnx.TensorProto.INT8: 2.0**7 - 1,
}
"""Types of whole numbers and the largest magnitude that is read: what float64 holds at most."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A tensor on its way to the trees.

    Parameters
    ----------
    columns : tuple of Derived
    element : int
        Its ONNX type.
    n_axes : int
        1 for (rows,), 2 for (rows, columns), 3 for (rows, 1, columns).
    """

    columns: tuple[Derived, ...]
    element: int
    n_axes: int = 2

    def each(self, change: Callable[[int, Derived], Derived], element: int) -> Prepared:
        """Return the tensor with each column changed."""
        columns = tuple(change(*pair) for pair in enumerate(self.columns))
        return replace(self, columns=columns, element=element)


Value = Prepared | Array


@dataclass(frozen=True, eq=False)
class Preparing:
    """An operator before the trees, for its attributes and for messages.

    `version` is that of the domain ai.onnx.ml.
    """

    node: Any
    version: int = 0

    @property
    def kind(self) -> str:
        """The operator with its domain."""
        node = self.node
        return f"{node.domain}:{node.op_type}" if node.domain else str(node.op_type)

    def refuse(self, why: str) -> UnsupportedModelError:
        """Return the error for an operator that cannot be folded."""
        return UnsupportedModelError(
            f"operator {self.kind!r} (node {self.node.name!r}, outputs "
            f"{list(self.node.output)[:3]}) cannot be folded into the trees: {why}."
        )

    def _attribute(self, name: str) -> Any:
        return next((a for a in self.node.attribute if a.name == name), None)

    def whole(self, name: str, default: int) -> int:
        """Return an attribute of one whole number."""
        found = self._attribute(name)
        return default if found is None else int(found.i)

    def wholes(self, name: str) -> list[int]:
        """Return an attribute of whole numbers, empty if it is not there."""
        found = self._attribute(name)
        numbers = [] if found is None else [int(number) for number in found.ints]
        if any(abs(number) > WHOLE[onnx.TensorProto.INT64] for number in numbers):
            raise self.refuse(f"its {name} are whole numbers that float64 does not hold")
        return numbers

    def number(self, name: str, default: float) -> float:
        """Return an attribute of one float."""
        found = self._attribute(name)
        return default if found is None else float(found.f)

    def numbers(self, name: str, n: int) -> Array:
        """Return an attribute of one float for each of n columns, or one for all."""
        found = self._attribute(name)
        values = np.array([] if found is None else found.floats, np.float32)
        return self.spread(values, n, f"`{name}`")

    def texts(self, name: str) -> list[str]:
        """Return an attribute of texts, empty if it is not there."""
        found = self._attribute(name)
        return [] if found is None else [text(value, name) for value in found.strings]

    def tensor(self, name: str) -> Array | None:
        """Return an attribute that is a tensor of numbers."""
        found = self._attribute(name)
        return None if found is None else tensor(found.t, name)

    def spread(self, values: Array, n: int, name: str) -> Array:
        """Return one value for each of n columns."""
        flat = values.ravel()
        if flat.size not in (1, n) or (values.ndim > 1 and values.shape[-1] != flat.size):
            raise self.refuse(f"its {name} must be 1 or {n} numbers, got shape {values.shape}")
        result: Array = np.broadcast_to(flat, (n,))
        return result


def raw_column(at: int, element: int, dtype: np.dtype) -> Derived:
    """Return a column of a graph's input, read from rows of a float dtype.

    Numbers are rounded to the type of the input, and whole ones truncated, as a cast of the rows
    to that type does.
    """
    if element == STRING:
        return Derived(at, TEXTS).then(Require(DOUBLE, nan=False, infinite=True, none=False))
    column = Derived(at, dtype)
    if element in WHOLE:
        return truncated(column, WHOLE[element])
    return column.to(DOUBLE if element == WIDE else SINGLE)


def dtype_of(element: int) -> np.dtype:
    """Return the dtype of a column: float64 holds whole numbers, objects are texts."""
    return TEXTS if element == STRING else SINGLE if element == FLOAT else DOUBLE


def truncated(column: Derived, most: float) -> Derived:
    """Return a column as whole numbers of a magnitude up to `most`; others are refused."""
    own = column.values
    nearest = own.type(most)
    most = float(np.nextafter(nearest, own.type(0)) if float(nearest) > most else nearest)
    column = column.then(Require(own, nan=False, infinite=False, most=most))
    return column.then(Rising("truncate", (), own, DOUBLE), DOUBLE)

"""Post-transforms of raw scores, each written once for NumPy, operators of a graph, C and torch.

A link is a function of `f`, the operations of one of these forms, and of x, the raw scores of one
output group, (batch, size). The forms are `bitvec.core.transforms`, the literal reference, then
`bitvec.core.graph.transform_operators`, and those of the C headers and of the torch modules. All
have the same order of operations; exp, log and pow are those of each form's own library, so that
their last places differ. A new link is one more function here, named in `PostTransform`.

Three forms stand apart: compiled kernels of the CPU fuse the loops of the four commonest links, C
headers run softmaxes in place, and training has links of its own, whose gradients stay finite where
an exponential overflows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bitvec.core.output import Output, PostTransform, SoftmaxSum

Operation = Callable[..., Any]


class Operations:
    """Operations of a form; its values themselves know + - * / < > and abs."""

    exp: Operation
    c_exp: Operation
    """exp of the C library, where the form has several."""
    table_exp: Operation
    """exp from a table, where the form has several: see `bitvec.core.transforms.table_exp`."""
    log: Operation
    log1p: Operation
    sqrt: Operation
    power: Operation
    copysign: Operation
    """A value that is not negative with the sign of another, which is 0 only where it is."""
    maximum: Operation
    minimum: Operation
    where: Operation
    """Choice by a condition: a value where it holds, elsewhere another value or a number."""
    indicator: Operation
    """1 where a condition holds, else 0."""
    cast: Operation
    largest: Operation
    """Largest value of each row, (batch, 1)."""
    total: Operation
    """The sum of each row, (batch, 1): in order, or in float64 if `wide`."""

    def __init__(self, output: Output, dtype: Any) -> None:
        self.output, self.dtype = output, dtype

    @property
    def parameter(self) -> Any:
        """The parameter in the dtype of scores."""
        return self.dtype.type(self.output.parameter)

    def scaled(self, x: Any) -> Any:
        """Return x · parameter."""
        return x if self.output.parameter == 1 else x * self.parameter

    def ratio(self, x: Any) -> Any:
        """Return x / parameter."""
        return x if self.output.parameter == 1 else x / self.parameter

    def finite(self, x: Any) -> Any:
        """Hold x in float32 where exp(-x) is finite."""
        return self.maximum(x, -88.7) if self.dtype == np.float32 else x

    def exponential(self, x: Any) -> Any:
        """Return exp as the source has it."""
        kind = self.output.softmax_sum
        if kind is SoftmaxSum.IN_ORDER_C:
            return self.c_exp(x)
        return (self.table_exp if kind is SoftmaxSum.IN_ORDER_TABLE else self.exp)(x)

    def softmax(self, x: Any) -> Any:
        """Return the softmax of each row."""
        exp = self.exponential(x - self.largest(x))
        return exp / self.total(exp, wide=self.output.softmax_sum is SoftmaxSum.WIDE)

    def softplus(self, x: Any) -> Any:
        """Return log(1 + exp(x))."""
        return self.log1p(self.c_exp(x))


def _sigmoid(f: Operations, x: Any) -> Any:
    return 1 / (f.c_exp(-f.finite(f.scaled(x))) + 1)


def _logistic(f: Operations, x: Any) -> Any:
    x = f.cast(x, FLOAT32)
    above = 1 / (1 + f.c_exp(-abs(x)))
    return f.cast(f.where(x < 0, 1 - above, above), f.dtype)


def _softmax_of_halves(f: Operations, x: Any) -> Any:
    exp = f.exp(-abs(x))
    return f.where(x < 0, exp, 1) / (exp + 1)


def _softmax_unshifted(f: Operations, x: Any) -> Any:
    exp = f.c_exp(x)
    return exp * (1 / f.total(exp, wide=False))


def _softmax_zero(f: Operations, x: Any) -> Any:
    top = f.largest(x)
    counts = abs(x) > 1e-7
    exp = f.exp(x - top)
    total = f.total(f.where(counts, exp, 0), wide=False)
    return f.where(counts, exp, x * f.exp(-top)) / total


def _probit(f: Operations, x: Any) -> Any:
    # Winitzki's approximation of the inverse error function. Near one half it cancels, so that an
    # ulp of the logarithm, which is rounded from float64 where a form has that, is many.
    x = f.cast(x, FLOAT32) * 2 - 1
    log = f.log((1 - x) * (1 + x))
    v = log * 0.5 + SLOPE
    root = f.sqrt(f.sqrt(v * v - log * INVERSE) - v)
    return f.cast(f.copysign(root, x) * 1.41421356, f.dtype)


LINKS: Final[dict[PostTransform, Callable[[Any, Any], Any]]] = {
    PostTransform.IDENTITY: lambda f, x: x,
    PostTransform.SIGMOID: _sigmoid,
    PostTransform.LOGISTIC: _logistic,
    PostTransform.SOFTMAX: lambda f, x: f.softmax(f.ratio(x)),
    PostTransform.SOFTMAX_OF_HALVES: _softmax_of_halves,
    PostTransform.SOFTMAX_UNSHIFTED: _softmax_unshifted,
    PostTransform.SOFTMAX_ZERO: _softmax_zero,
    PostTransform.PROBIT: _probit,
    PostTransform.EXPONENTIAL: lambda f, x: f.exponential(x),
    PostTransform.EXPONENTIAL_STANDARD_RATIO: lambda f, x: f.power(2, f.ratio(-x)),
    PostTransform.LOGARITHM_ONE_PLUS_EXP: lambda f, x: f.softplus(x),
    PostTransform.SIGNED_SQUARE: lambda f, x: x * abs(x),
    PostTransform.HINGE: lambda f, x: f.indicator(x > 0),
    PostTransform.AT_MOST_ONE: lambda f, x: f.minimum(x, 1),
}
SIGMOIDS: Final = (
    PostTransform.SIGMOID,
    PostTransform.LOGISTIC,
    PostTransform.SOFTMAX_OF_HALVES,
)
SOFTMAXES: Final = (PostTransform.SOFTMAX, PostTransform.SOFTMAX_UNSHIFTED)
GROUPED: Final = (*SOFTMAXES, PostTransform.SOFTMAX_ZERO)
"""Links that mix the outputs of a group; all others take each output on its own."""
EXACT: Final = (
    PostTransform.IDENTITY,
    PostTransform.SIGNED_SQUARE,
    PostTransform.HINGE,
    PostTransform.AT_MOST_ONE,
)
"""Links without exp, log or pow: of equal raw scores they have the same bits in every form."""
FLOAT32: Final = np.dtype(np.float32)
SLOPE: Final = float(np.float32(2) / (np.float32(np.pi) * np.float32(0.147)))
INVERSE: Final = float(np.float32(1) / np.float32(0.147))


def _operator(kind: str, *, reflected: bool = False) -> Any:
    def write(self: Symbol, *other: Any) -> Any:
        return self.write(kind, *((*other, self) if reflected else (self, *other)))

    return write


class Symbol(ABC):
    """A value that is not computed but written down, as an operator of a graph or as code."""

    @abstractmethod
    def write(self, kind: str, *operands: Any) -> Any:
        """Return what the operator `kind` makes of symbols and numbers."""

    __neg__, __abs__ = _operator("Neg"), _operator("Abs")
    __add__, __radd__ = _operator("Add"), _operator("Add", reflected=True)
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", reflected=True)
    __mul__ = _operator("Mul")
    __truediv__, __rtruediv__ = _operator("Div"), _operator("Div", reflected=True)
    __lt__, __gt__ = _operator("Less"), _operator("Less", reflected=True)


def _function(kind: str) -> Any:
    def write(self: Writing, x: Symbol, *others: Any) -> Any:
        return x.write(kind, x, *others)

    return write


class Writing(Operations):
    """Operations of a form whose values are symbols."""

    exp = c_exp = table_exp = _function("Exp")
    log, log1p, sqrt = _function("Log"), _function("Log1p"), _function("Sqrt")
    maximum, minimum, copysign = _function("Max"), _function("Min"), _function("CopySign")

    def power(self, base: float, x: Symbol) -> Any:
        return x.write("Pow", base, x)

    def where(self, condition: Symbol, x: Symbol, other: Any) -> Any:
        return x.write("Where", condition, x, other)

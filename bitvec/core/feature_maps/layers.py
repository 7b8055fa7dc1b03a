"""The closed list of layers that a feature map may be made of, evaluated literally in NumPy.

Sums run term by term in a fixed order, so that a row's result does not depend on the rows around
it, as it would with a BLAS product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from bitvec.core.arrays import FLOATS, Array, read_only, require
from bitvec.core.shape_annotations import Float

Shape = tuple[int, ...]


def _checked_parameters(layer: Linear | Conv2d, n_axes: int) -> None:
    """Make `weight` and `bias` read-only fields: finite, of one float dtype and matching sizes."""
    dtype = np.asarray(layer.weight).dtype
    require(dtype in FLOATS, f"`weight` must have dtype float32 or float64, got {dtype}.")
    weight = read_only("weight", layer.weight, dtype, (None,) * n_axes)
    require(weight.size > 0, f"`weight` must not be empty, got shape {weight.shape}.")
    require(np.all(np.isfinite(weight)), "`weight` must be finite.")
    object.__setattr__(layer, "weight", weight)
    if layer.bias is not None:
        bias = read_only("bias", layer.bias, dtype, (weight.shape[0],))
        require(np.all(np.isfinite(bias)), "`bias` must be finite.")
        object.__setattr__(layer, "bias", bias)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """x -> weight · x + bias.

    Parameters
    ----------
    weight : F, (n_out, n_in)
    bias : F, (n_out,), optional
    """

    weight: Float[Array, "n_out n_in"]
    bias: Float[Array, " n_out"] | None = None

    def __post_init__(self) -> None:
        _checked_parameters(self, 2)

    def output_shape(self, shape: Shape) -> Shape:
        """Return the shape of one output; the input must be flat."""
        n_in = self.weight.shape[1]
        require(
            shape == (n_in,), f"a Linear layer of {n_in} inputs must read ({n_in},), got {shape}."
        )
        return (self.weight.shape[0],)

    def __call__(self, x: Float[Array, "batch n_in"]) -> Float[Array, "batch n_out"]:
        """Sum over inputs in their order, then add the bias."""
        weight = self.weight.astype(x.dtype, copy=False)
        total = weight[:, 0] * x[:, :1]
        for k in range(1, weight.shape[1]):
            total += weight[:, k] * x[:, k, None]
        return total if self.bias is None else total + self.bias.astype(x.dtype, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Conv2d:
    """Cross-correlation with zero padding, in one group and without dilation.

    Parameters
    ----------
    weight : F, (n_out, n_in, kernel_height, kernel_width)
    bias : F, (n_out,), optional
    stride, padding : pairs of int
        Rows and columns.
    """

    weight: Float[Array, "n_out n_in kernel_height kernel_width"]
    bias: Float[Array, " n_out"] | None = None
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        _checked_parameters(self, 4)
        _require_pair("stride", self.stride, 1)
        _require_pair("padding", self.padding, 0)

    def output_shape(self, shape: Shape) -> Shape:
        """Return the shape of one output; the input must be (n_in, height, width)."""
        n_out, n_in, *kernel = self.weight.shape
        require(
            len(shape) == 3 and shape[0] == n_in,
            f"a Conv2d layer must read ({n_in}, height, width), got {shape}.",
        )
        return (n_out, *_slid(shape[1:], tuple(kernel), self.stride, self.padding))

    def __call__(
        self, x: Float[Array, "batch n_in height width"]
    ) -> Float[Array, "batch n_out out_height out_width"]:
        """Sum over input channels, then kernel rows, then kernel columns; add the bias last."""
        weight = self.weight.astype(x.dtype, copy=False)
        n_out, n_in, *kernel = weight.shape
        _, height, width = self.output_shape(x.shape[1:])
        total = np.zeros((len(x), n_out, height, width), x.dtype)
        windows = _windows(x, tuple(kernel), self.stride, self.padding, 0.0)
        for channel in range(n_in):
            for (i, j), window in windows.items():
                total += weight[:, channel, i, j][:, None, None] * window[:, channel, None]
        if self.bias is not None:
            total += self.bias.astype(x.dtype, copy=False)[:, None, None]
        return total


@dataclass(frozen=True, slots=True)
class MaxPool2d:
    """The largest value of each window; NaN wins, padding never does.

    Parameters
    ----------
    kernel : pair of int
    stride : pair of int, optional
        The kernel's size if not given.
    padding : pair of int
        At most half the kernel.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] | None = None
    padding: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        _require_pair("kernel", self.kernel, 1)
        if self.stride is None:
            object.__setattr__(self, "stride", self.kernel)
        _require_pair("stride", self.step, 1)
        _require_pair("padding", self.padding, 0)
        require(
            all(2 * p <= k for p, k in zip(self.padding, self.kernel, strict=True)),
            f"`padding` must be at most half of the kernel {self.kernel}, got {self.padding}.",
        )

    @property
    def step(self) -> tuple[int, int]:
        """The stride."""
        return self.kernel if self.stride is None else self.stride

    def output_shape(self, shape: Shape) -> Shape:
        """Return the shape of one output; the input must be (channels, height, width)."""
        require(
            len(shape) == 3, f"a MaxPool2d layer must read (channels, height, width), got {shape}."
        )
        return (shape[0], *_slid(shape[1:], self.kernel, self.step, self.padding))

    def __call__(
        self, x: Float[Array, "batch channels height width"]
    ) -> Float[Array, "batch channels out_height out_width"]:
        """Take the maximum over each window."""
        windows = _windows(x, self.kernel, self.step, self.padding, -np.inf)
        return reduce(np.maximum, windows.values())


@dataclass(frozen=True, slots=True)
class ReLU:
    """max(x, 0); NaN stays NaN."""

    def output_shape(self, shape: Shape) -> Shape:
        """Return the shape unchanged."""
        return shape

    def __call__(self, x: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
        """Apply it to each element."""
        positive: Array = np.maximum(x, x.dtype.type(0))
        return positive


@dataclass(frozen=True, slots=True)
class Flatten:
    """(channels, height, width) -> (channels · height · width,)."""

    def output_shape(self, shape: Shape) -> Shape:
        """Return the one axis that is left."""
        return (math.prod(shape),)

    def __call__(self, x: Float[Array, "batch ..."]) -> Float[Array, "batch n"]:
        """Flatten each row in C order."""
        return x.reshape(len(x), math.prod(x.shape[1:]))


def _require_pair(name: str, pair: Shape, least: int) -> None:
    require(
        len(pair) == 2 and min(pair) >= least,
        f"`{name}` must be two numbers of at least {least}, got {pair}.",
    )


def _slid(size: Shape, kernel: Shape, stride: Shape, padding: Shape) -> Shape:
    """Return (height, width) of what a window leaves when it slides over (height, width)."""
    left = tuple(
        (n + 2 * p - k) // s + 1 for n, k, s, p in zip(size, kernel, stride, padding, strict=True)
    )
    require(min(left) >= 1, f"a window of {kernel} must fit into {size} padded by {padding}.")
    return left


def _windows(
    x: Array, kernel: Shape, stride: Shape, padding: Shape, fill: float
) -> dict[tuple[int, int], Array]:
    """Return for each offset in the kernel what all windows see there, row by row."""
    around = [(0, 0), (0, 0), *((p, p) for p in padding)]
    padded = np.pad(x, around, constant_values=x.dtype.type(fill))
    height, width = _slid(x.shape[2:], kernel, stride, padding)
    return {
        (i, j): padded[
            :, :, i : i + height * stride[0] : stride[0], j : j + width * stride[1] : stride[1]
        ]
        for i, j in product(range(kernel[0]), range(kernel[1]))
    }


Layer = Linear | Conv2d | MaxPool2d | ReLU | Flatten

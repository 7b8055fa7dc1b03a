"""Kernels as users name them, one for each feature, and their bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from bitvec.converters.native import gaussian_pieces
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.kernels import FeatureKernel
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError

FAMILIES: Final = ("box", "gaussian")


def kernel_shapes(
    kernel: Any, n_features: int, n_pieces: Any, *, name: str = "kernel"
) -> tuple[FeatureKernel, ...]:
    """Return the kernel of each feature, as it is for a bandwidth of 1.

    Parameters
    ----------
    kernel : "box", "gaussian", FeatureKernel, or one FeatureKernel per feature
        A FeatureKernel's own bandwidths, by location, are what a bandwidth multiplies.
    n_pieces : int
        Pieces of equal width that stand for a Gaussian, cut at 3 standard deviations.
    name : str
        What the caller calls the kernel.

    Raises
    ------
    InputError
        If it is no kernel, or `n_pieces` no number of pieces.
    """
    n_pieces = options.whole("n_pieces", n_pieces)
    if isinstance(kernel, str):
        if kernel not in FAMILIES:
            raise InputError(
                f"`{name}` must be one of {', '.join(FAMILIES)}, or FeatureKernels, got "
                f"{kernel!r}: choose one."
            )
        edges, weight = (
            (np.array([-1.0, 1.0]), np.ones(1)) if kernel == "box" else gaussian_pieces(n_pieces)
        )
        return (FeatureKernel(edges, weight, np.ones(1), np.zeros(0)),) * n_features
    if isinstance(kernel, FeatureKernel):
        return (kernel,) * n_features
    try:
        each = tuple(kernel)
    except TypeError:
        raise InputError(
            f"`{name}` must be one of {', '.join(FAMILIES)}, a FeatureKernel, or one for each of "
            f"the {n_features} features, got {kernel!r}: see bitvec.core.kernels."
        ) from None
    if len(each) != n_features or not all(isinstance(one, FeatureKernel) for one in each):
        kinds = ", ".join(sorted({type(one).__name__ for one in each}))
        raise InputError(
            f"`{name}` must be a FeatureKernel, or one for each of the {n_features} features, got "
            f"{len(each)} of {kinds or 'nothing'}: see bitvec.core.kernels."
        )
    return each


def scaled(
    shapes: Sequence[FeatureKernel], bandwidth: Float[Array, " n_features"]
) -> tuple[FeatureKernel, ...]:
    """Return kernels whose bandwidths are multiplied, each by its feature's number."""
    return tuple(
        replace(shape, bandwidth=shape.bandwidth * width)
        for shape, width in zip(shapes, bandwidth, strict=True)
    )


def deviation(shape: FeatureKernel) -> float:
    """Return the standard deviation of u, the density of a kernel of bandwidth 1."""
    low, high = shape.edges[:-1], shape.edges[1:]
    mean = float(shape.mass @ (low + high)) / 2
    return float(np.sqrt(shape.mass @ (low**2 + low * high + high**2) / 3 - mean**2))

"""Columns that a node reads: a number of random ones, or the pixels of a random patch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int64
from bitvec.errors import InputError
from bitvec.learners.draws import feature_count

Columns = Callable[[np.random.Generator], Int64[Array, " n_columns"]]
"""Draws the columns of a node, ascending and as many for each node, from its own generator."""


@dataclass(frozen=True, slots=True)
class RandomColumns:
    """Some columns, each set of so many equally likely.

    Parameters
    ----------
    n_columns, n_features : int
    """

    n_columns: int
    n_features: int

    def __call__(self, generator: np.random.Generator) -> Int64[Array, " n_columns"]:
        """Draw without replacement."""
        return np.sort(generator.choice(self.n_features, self.n_columns, replace=False))


@dataclass(frozen=True, slots=True)
class RandomPatch:
    """The pixels of a patch, in all channels; each place in the image is equally likely.

    Parameters
    ----------
    image : (n_channels, height, width)
    patch : (height, width)

    Notes
    -----
    Rows and columns of the image have an offset each, and the last offsets may be drawn.
    """

    image: tuple[int, int, int]
    patch: tuple[int, int]

    def __call__(self, generator: np.random.Generator) -> Int64[Array, " n_columns"]:
        """Draw the patch's first row and first column."""
        _, *sizes = self.image
        top, left = (
            int(generator.integers(0, size - part + 1))
            for size, part in zip(sizes, self.patch, strict=True)
        )
        pixels = np.arange(np.prod(self.image)).reshape(self.image)
        return pixels[:, top : top + self.patch[0], left : left + self.patch[1]].ravel()


def columns_of(
    max_features: Any, patch_shape: Any, image: tuple[int, int, int] | None, n_features: int
) -> Columns | None:
    """Return how a node's columns are drawn; None where each node reads all.

    Parameters
    ----------
    max_features : int, float, "sqrt", "log2" or None
        How many; not looked at where there is a patch.
    patch_shape : (height, width), optional
    image : (n_channels, height, width), optional
        What the columns are.

    Raises
    ------
    InputError
    """
    if patch_shape is None:
        n = feature_count(max_features, n_features)
        return None if n == n_features else RandomColumns(n, n_features)
    if image is None:
        raise InputError(
            "`image_shape` must be given where `patch_shape` is: say what image the columns are."
        )
    patch = tuple(patch_shape) if isinstance(patch_shape, (tuple, list)) else ()
    whole = len(patch) == 2 and all(isinstance(size, (int, np.integer)) for size in patch)
    if not whole or not all(1 <= a <= b for a, b in zip(patch, image[1:], strict=True)):
        raise InputError(
            "`patch_shape` must be (height, width) of a part of an image of "
            f"{image[1]} x {image[2]}, got {patch_shape!r}."
        )
    drawn = RandomPatch(image, (int(patch[0]), int(patch[1])))
    return None if drawn.patch == image[1:] else drawn

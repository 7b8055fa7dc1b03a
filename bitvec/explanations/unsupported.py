"""Forests that are not explained, by name: a table that messages and the docs are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import UnsupportedModelError


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A part of forests that explanations do not handle.

    Parameters
    ----------
    part : str
        What it is, as a plural.
    found : callable
        Whether a forest has it.
    reason : str
        Why it is refused.
    """

    part: str
    found: Callable[[Forest], bool]
    reason: str


UNSUPPORTED: Final = (
    Unsupported(
        "oblique nodes and polytopes",
        lambda forest: not bool(np.all(forest.tests.is_one_hot)),
        "a node that reads several columns is known or unknown in part",
    ),
    Unsupported(
        "feature maps",
        lambda forest: forest.feature_map is not None,
        "values of the map's columns are no values of columns of X",
    ),
    Unsupported(
        "prediction kernels",
        lambda forest: forest.kernel is not None,
        "rows reach several leaves of a tree in part",
    ),
    Unsupported(
        "linear leaves",
        lambda forest: forest.leaves.linear is not None,
        "the value of a leaf depends on columns itself",
    ),
    Unsupported(
        "minima, maxima and weighted medians over trees",
        lambda forest: forest.output.aggregate not in (Aggregate.SUM, Aggregate.MEAN),
        "values are added tree by tree",
    ),
    Unsupported(
        "infinite or NaN leaves",
        lambda forest: not bool(np.all(np.isfinite(forest.leaves.v))),
        "differences of infinities have no value",
    ),
)


def unsupported_table() -> str:
    """Return the table as Markdown."""
    rows = [f"| {one.part} | {one.reason} |" for one in UNSUPPORTED]
    return "\n".join(["| a forest with | because |", "| --- | --- |", *rows])


def require_supported(forest: Forest) -> None:
    """Refuse a forest that is not explained.

    Raises
    ------
    UnsupportedModelError
    """
    for one in UNSUPPORTED:
        if one.found(forest):
            raise UnsupportedModelError(
                f"a forest must have no {one.part} to be explained, got some ({one.reason}): "
                "explain a forest without them."
            )

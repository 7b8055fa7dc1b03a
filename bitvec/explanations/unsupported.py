"""Forests that are not explained, or not exactly: a table that messages and docs are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, get_args

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate, PostTransform
from bitvec.errors import UnsupportedModelError
from bitvec.explanations.contributions import leaf_contributions

Response = Literal["raw", "scores"]
RESPONSES: Final = get_args(Response)
MOST_COLUMNS: Final = 12
"""Columns over whose subsets predictions are summed, at most: 4,096 subsets."""


class Background(IntEnum):
    """Methods with background rows, each one more general than those before it."""

    BY_LEAF = 0
    LINEAR = 1
    BY_TREE = 2
    AT_ONCE = 3
    NONE = 4


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A part of forests, or of their answers, that explanations by cover do not handle.

    Parameters
    ----------
    part : str
        What it is, as a plural.
    found : callable
        Whether a forest has it, or its response.
    reason : str
        Why it is refused.
    background : Background
        The method for it with background rows.
    """

    part: str
    found: Callable[[Forest, Response], bool]
    reason: str
    background: Background


UNSUPPORTED: Final = (
    Unsupported(
        "leaves that are infinite or NaN, or add up to that",
        lambda forest, response: _overflows(forest),
        "differences of infinities have no value",
        Background.NONE,
    ),
    Unsupported(
        "linear leaves",
        lambda forest, response: forest.leaves.linear is not None,
        "the value of a leaf depends on columns itself",
        Background.LINEAR,
    ),
    Unsupported(
        "oblique nodes and polytopes",
        lambda forest, response: not bool(np.all(forest.tests.is_one_hot)),
        "a node that reads several columns is known or unknown in part",
        Background.BY_TREE,
    ),
    Unsupported(
        "prediction kernels",
        lambda forest, response: forest.kernel is not None,
        "rows reach several leaves of a tree in part",
        Background.BY_TREE,
    ),
    Unsupported(
        "feature maps",
        lambda forest, response: forest.feature_map is not None,
        "values of the map's columns are no values of columns of X",
        Background.AT_ONCE,
    ),
    Unsupported(
        "minima, maxima and weighted medians over trees",
        lambda forest, response: forest.output.aggregate not in (Aggregate.SUM, Aggregate.MEAN),
        "values are added tree by tree",
        Background.AT_ONCE,
    ),
    Unsupported(
        "scores after a link",
        lambda forest, response: (
            response == "scores" and forest.output.post_transform is not PostTransform.IDENTITY
        ),
        "values are added tree by tree, before the link",
        Background.AT_ONCE,
    ),
)


def _overflows(forest: Forest) -> bool:
    """Return whether sums and differences of leaves may have no finite value."""
    with np.errstate(over="ignore", invalid="ignore"):
        return not np.isfinite(4 * np.abs(leaf_contributions(forest)).sum())


_WORDS: Final = {
    Background.LINEAR: "exact",
    Background.BY_TREE: f"exact where no tree reads more than {MOST_COLUMNS} columns, else sampled",
    Background.AT_ONCE: f"exact where at most {MOST_COLUMNS} columns are read, else sampled",
}


def unsupported_table() -> str:
    """Return the table as Markdown."""
    rows = []
    for one in UNSUPPORTED:
        refused = f"refused: {one.reason}"
        rows.append(f"| {one.part} | {refused} | {_WORDS.get(one.background, refused)} |")
    head = ("| a forest with | by cover | with background rows |", "| --- | --- | --- |")
    return "\n".join([*head, *rows])


def require_supported(forest: Forest, response: Response = "raw") -> None:
    """Refuse a forest that is not explained by cover.

    Raises
    ------
    UnsupportedModelError
    """
    for one in UNSUPPORTED:
        if one.found(forest, response):
            _refuse(one)


def background_method(forest: Forest, response: Response) -> Background:
    """Return the method for a forest with background rows, which all its parts need.

    Raises
    ------
    UnsupportedModelError
        If there is none.
    """
    found = [one for one in UNSUPPORTED if one.found(forest, response)]
    for one in found:
        if one.background is Background.NONE:
            _refuse(one)
    return max((one.background for one in found), default=Background.BY_LEAF)


def _refuse(one: Unsupported) -> None:
    remedy = "explain a forest without them"
    if one.background is not Background.NONE:
        remedy = "pass rows as `background`"
    raise UnsupportedModelError(
        f"a forest must have no {one.part} to be explained, got some ({one.reason}): {remedy}."
    )

"""Explanations of a forest of which nobody has said how they are to be made."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

import bitvec
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.explanations.importances import split_importances
from bitvec.explanations.unsupported import Background, background_method

BACKGROUND = 100
"""Rows that stand for all, where the source recorded no cover."""
PERMUTATIONS = 10
"""Pairs of orders, where values are sampled."""
MOST_EXPLAINED = 2000
"""Rows of a picture."""
FEW = 10
"""Divides the rows of both, where predictions for mixed rows are summed."""


def explainer(forest: Forest, rows: Array) -> Any:
    """Return an explainer by the cover that the source recorded, else by the first of some rows."""
    few = _sums_predictions(forest)
    source = forest.source
    if source is not None and source.node_cover is not None and source.leaf_cover is not None:
        with suppress(UnsupportedModelError):  # with background rows it may be explained
            return bitvec.explain(forest)
    some = rows[: BACKGROUND // FEW if few else BACKGROUND]
    return bitvec.explain(forest, background=some, permutations=PERMUTATIONS)


def most_rows(forest: Forest) -> int:
    """Return how many rows of a picture are explained."""
    return MOST_EXPLAINED // FEW if _sums_predictions(forest) else MOST_EXPLAINED


def _sums_predictions(forest: Forest) -> bool:
    return background_method(forest, "raw") in (Background.BY_TREE, Background.AT_ONCE)


def importances(forest: Forest) -> tuple[Array, str]:
    """Return the recorded gain of each column, else the number of its nodes, and words for it."""
    try:
        gains = split_importances(forest, "gain")
    except InputError:  # none is recorded
        gains = None
    if gains is not None and np.isfinite(gains).all():
        return gains, "gain recorded in training"
    return split_importances(forest, "splits"), "nodes"

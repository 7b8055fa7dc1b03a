"""Explanations of a forest of which nobody has said how they are to be made."""

from __future__ import annotations

from typing import Any

import numpy as np

import bitvec
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.explanations.importances import split_importances

BACKGROUND = 100
"""Rows that stand for all, where the source recorded no cover."""


def explainer(forest: Forest, rows: Array) -> Any:
    """Return an explainer by the cover that the source recorded, else by the first of some rows."""
    source = forest.source
    if source is not None and source.node_cover is not None and source.leaf_cover is not None:
        return bitvec.explain(forest)
    return bitvec.explain(forest, background=rows[:BACKGROUND])


def importances(forest: Forest) -> tuple[Array, str]:
    """Return the recorded gain of each column, else the number of its nodes, and words for it."""
    try:
        gains = split_importances(forest, "gain")
    except InputError:  # none is recorded
        gains = None
    if gains is not None and np.isfinite(gains).all():
        return gains, "gain recorded in training"
    return split_importances(forest, "splits"), "nodes"

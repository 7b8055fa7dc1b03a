"""Choice of the form in which each tree runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.errors import InputError
from bitvec.runtime.predict.torch import matrix, padded_trees

MATRIX, PERFECT, LEVELS = "matrix", "perfect", "levels"
FORMS = ("auto", MATRIX, PERFECT, LEVELS)
MATRIX_LEAVES = {"cpu": 0, "cuda": 8}
"""Largest tree that is run as a product with B, by device.

On one core of a CPU a product is behind traversal from 2 leaves on. The figure for CUDA is an
estimate from the count of operations.
"""
LEVEL_COST = 1.4
"""Cost of a level of a ragged traversal in levels of a perfect one: four gathers for three."""
MAX_PADDING = 16
"""Places at the bottom of padded trees for each leaf, at most."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The form of each tree, (n_trees,) of names, and the reason in a few words."""

    form: Array
    why: str


def choose(B: Bitvectors, depth: Array, asked: str, device: str) -> Choice:
    """Return which form each tree runs in.

    Parameters
    ----------
    depth : int, (n_trees,)
    asked : str
        One of `FORMS`. Trees that a form cannot hold are walked by levels.
    device : str
        The type of the device.

    Raises
    ------
    InputError
        If the form is unknown.
    """
    if asked not in FORMS:
        raise InputError(
            f"the form of the engine torch must be one of {', '.join(FORMS)}, got {asked!r}: "
            "choose one of them."
        )
    n_leaves = np.diff(B.leaf_ptr)
    form = np.full(B.n_trees, LEVELS, "<U8")
    if asked == MATRIX or (asked == "auto" and MATRIX_LEAVES.get(device, 0)):
        limit = matrix.MAX_LEAVES if asked == MATRIX else MATRIX_LEAVES[device]
        small = np.flatnonzero(n_leaves <= limit)
        small = small[np.cumsum(4 * n_leaves[small] ** 2) <= matrix.DENSE_B]
        if asked == MATRIX or small.size == B.n_trees:
            form[small] = MATRIX
            return Choice(
                form, "asked for" if asked == MATRIX else f"at most {limit} leaves a tree"
            )
    if asked == PERFECT:
        form[depth <= padded_trees.MAX_DEPTH] = PERFECT
    if asked != "auto":
        return Choice(form, "asked for")
    deepest = int(depth.max(initial=0))
    if deepest > padded_trees.MAX_DEPTH:
        return Choice(form, f"depth {deepest} is too deep to pad")
    if B.n_trees << deepest > MAX_PADDING * int(n_leaves.sum()):
        return Choice(form, f"padding to depth {deepest} would hold too many places")
    if deepest * B.n_trees > LEVEL_COST * float(depth.sum()):
        return Choice(form, "the depths differ much")
    form[:] = PERFECT
    return Choice(form, f"depth {deepest} at most, and {n_leaves.sum()} leaves")

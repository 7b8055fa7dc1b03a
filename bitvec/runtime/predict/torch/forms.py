"""Choice of the form in which each tree runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.errors import InputError
from bitvec.runtime.predict.torch import matrix, padded_trees

MATRIX, PERFECT, LEVELS, PATHS = "matrix", "perfect", "levels", "paths"
FORMS = ("auto", MATRIX, PERFECT, LEVELS)
"""Forms that `TorchEngine` can be asked for; "paths" is for trees that have no other."""
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

    def trees(self, form: str) -> Array:
        """Return the trees that run in a form."""
        return np.flatnonzero(self.form == form)


def choose(B: Bitvectors, depth: Array, decides_ahead: Array, asked: str, device: str) -> Choice:
    """Return which form each tree runs in.

    Parameters
    ----------
    depth : int, (n_trees,)
    decides_ahead : bool, (n_trees,)
        Which trees are plain comparisons of compared columns; the others are followed node by node.
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
    form[~decides_ahead] = PATHS
    open_trees = np.flatnonzero(decides_ahead)
    if asked == MATRIX or (asked == "auto" and MATRIX_LEAVES.get(device, 0)):
        limit = matrix.MAX_LEAVES if asked == MATRIX else MATRIX_LEAVES[device]
        small = open_trees[n_leaves[open_trees] <= limit]
        small = small[np.cumsum(4 * n_leaves[small] ** 2) <= matrix.DENSE_B]
        if asked == MATRIX or small.size == open_trees.size:
            form[small] = MATRIX
            return Choice(
                form, "asked for" if asked == MATRIX else f"at most {limit} leaves a tree"
            )
    if asked == PERFECT:
        form[open_trees[depth[open_trees] <= padded_trees.MAX_DEPTH]] = PERFECT
    if asked != "auto":
        return Choice(form, "asked for")
    deepest = int(depth[open_trees].max(initial=0))
    if deepest > padded_trees.MAX_DEPTH:
        return Choice(form, f"depth {deepest} is too deep to pad")
    if open_trees.size << deepest > MAX_PADDING * int(n_leaves[open_trees].sum()):
        return Choice(form, f"padding to depth {deepest} would hold too many places")
    ragged = LEVEL_COST * float(depth[open_trees].sum())
    if deepest * open_trees.size > ragged:
        return Choice(form, "the depths differ much")
    form[open_trees] = PERFECT
    return Choice(form, f"depth {deepest} at most, and {n_leaves.sum()} leaves")

"""The planes of a whole forest: those of ranks, of sets and of margins, side by side."""

from __future__ import annotations

import numpy as np

from bitvec.forest import Forest
from bitvec.node_tests import Kind
from bitvec.runtime.cpu.planes import Planes, rank_planes
from bitvec.runtime.cpu.rank_trees import MOST_PLANES


def refusal(forest: Forest) -> str | None:
    """Return why a forest's nodes cannot read planes, or None."""
    tests = forest.tests
    if np.any(~tests.is_one_hot | (tests.kind == Kind.SET)):
        return "a node is not a test of one number"
    return None


def forest_planes(forest: Forest) -> Planes:
    """Return the planes of a forest for which `refusal` is None."""
    plane, least, n_planes, maker = rank_planes(forest, np.arange(forest.n_nodes))
    assert n_planes <= MOST_PLANES
    return Planes(plane, least, n_planes, (maker,))

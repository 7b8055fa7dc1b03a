"""The planes of a whole forest: those of ranks, of margins and of sets, side by side."""

from __future__ import annotations

import numpy as np

from bitvec.forest import Forest
from bitvec.node_tests import Kind
from bitvec.runtime.cpu import set_planes
from bitvec.runtime.cpu.margin_planes import margin_planes
from bitvec.runtime.cpu.planes import PlaneMaker, Planes, rank_planes
from bitvec.runtime.cpu.rank_trees import MOST_PLANES


def refusal(forest: Forest) -> str | None:
    """Return why a forest's nodes cannot read planes, or None."""
    reason = set_planes.refusal(forest)
    if reason is not None:
        return reason
    planes = forest.n_nodes
    if planes >= MOST_PLANES:
        planes = forest_planes(forest).n_planes  # nodes share planes: only a count tells
    return (
        None if planes < MOST_PLANES else f"its nodes read {planes} planes, {MOST_PLANES} or more"
    )


def forest_planes(forest: Forest) -> Planes:
    """Return the planes of a forest whose sets have some."""
    tests = forest.tests
    is_set = tests.kind == Kind.SET
    is_margin = ~tests.is_one_hot
    plane = np.zeros(forest.n_nodes, np.int32)
    least = np.zeros(forest.n_nodes, np.uint8)
    makers: list[PlaneMaker] = []
    n_planes = 0
    node = np.flatnonzero(~is_set & ~is_margin)
    if node.size:
        plane[node], least[node], n_planes, ranks = rank_planes(forest, node)
        makers.append(ranks)
    node = np.flatnonzero(is_margin)
    if node.size:
        plane[node], least[node], n_more, margins = margin_planes(forest, node, n_planes)
        makers.append(margins)
        n_planes += n_more
    node = np.flatnonzero(is_set)
    if node.size:
        plane[node], least[node], n_more, sets = set_planes.set_planes(forest, node, n_planes)
        makers.append(sets)
        n_planes += n_more
    return Planes(plane, least, n_planes, tuple(makers))

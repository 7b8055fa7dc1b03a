"""The planes of a whole forest: those of ranks, of margins and of sets, side by side."""

from __future__ import annotations

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.runtime.predict.cpu.bins import set_planes
from bitvec.runtime.predict.cpu.bins.makers import MOST_PLANES, PlaneMaker, Planes
from bitvec.runtime.predict.cpu.bins.margin_planes import margin_planes
from bitvec.runtime.predict.cpu.bins.rank_planes import MOST_THRESHOLDS, RankPlanes, rank_planes


def refusal(forest: Forest, *, counts: bool = True) -> str | None:
    """Return why a forest's nodes cannot read planes, or None.

    Without `counts`, what only making the planes would tell is left out.
    """
    reason = set_planes.refusal(forest)
    # A node reads one plane and adds at most two thresholds; beyond that only a count tells.
    if reason is not None or not counts or 2 * forest.n_nodes + 8 <= MOST_THRESHOLDS:
        return reason
    planes = forest_planes(forest)
    if planes.n_planes >= MOST_PLANES:
        return f"its nodes read {planes.n_planes} planes, {MOST_PLANES} or more"
    most = max((m.most_thresholds for m in planes.makers if isinstance(m, RankPlanes)), default=0)
    if most > MOST_THRESHOLDS:
        return f"a column has {most} thresholds, more than {MOST_THRESHOLDS}"
    return None


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

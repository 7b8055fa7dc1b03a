"""The ring of the page on Convex Polytope Trees, as a plot of its nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import svg
from bitvec.learners.cpt.sklearn import CPTClassifier


def draw(folder: Path) -> None:
    """Write the plot as SVG."""
    from bitvec.plots.polytope_nodes import draw_polytopes

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    radius = np.hypot(X[:, 0], X[:, 1])
    y = np.where((radius > 0.4) & (radius < 0.8), "ring", "off")
    model = CPTClassifier(
        growth="best", max_depth=None, max_leaves=3, steps=300, restarts=4, refine=0, random_state=0
    )
    model.fit(X[:1000], y[:1000])
    figure = draw_polytopes(model.tree_, X, y)
    for panel in figure.axes:
        for points in panel.collections:
            points.set_rasterized(len(points.get_offsets()) > 1)
    svg.write(figure, folder / "cpt.svg")

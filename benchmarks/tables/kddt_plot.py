"""Kernel Density Decision Trees as a plot: boundaries by bandwidth, and seconds by rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from benchmarks.tables.kddt import rises
from bitvec.learners.kddt.sklearn import KDDTClassifier

BANDWIDTHS = (0.05, 0.2, 0.6)
PIXELS = 160


def draw(report: dict[str, Any], path: Path) -> None:
    """Write the plot as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Texts stay texts, and two drawings of one run are the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bitvec"}):
        figure = Figure(figsize=(13, 2.9), layout="constrained")
        panels = figure.subplots(1, 5, width_ratios=[1, 1, 1, 1, 1.1])
        _boundaries(panels[:4])
        _growth(panels[4], rises(report))
        figure.savefig(path, format="svg", metadata={"Date": None})


def _boundaries(panels: Any) -> None:
    """Draw P(second class) of CART, and of soft trees by their bandwidths, on the same rows."""
    X, y = make_moons(200, noise=0.3, random_state=0)
    trees: dict[str, Any] = {"CART": DecisionTreeClassifier(random_state=0)}
    for bandwidth in BANDWIDTHS:
        trees[f"bandwidth {bandwidth}"] = KDDTClassifier(bandwidth=bandwidth)
    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    sides = [np.linspace(low[j], high[j], PIXELS) for j in (0, 1)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    test_X, test_y = make_moons(5000, noise=0.3, random_state=1)
    for panel, (name, tree) in zip(panels, trees.items(), strict=True):
        tree.fit(X, y)
        shown = tree.predict_proba(grid)[:, 1].reshape(PIXELS, PIXELS)
        extent = (low[0], high[0], low[1], high[1])
        panel.imshow(
            shown, extent=extent, origin="lower", cmap="coolwarm", aspect="auto", vmin=0, vmax=1
        )
        panel.scatter(*X.T, c=y, s=5, cmap="coolwarm", edgecolors="black", linewidths=0.2)
        panel.set(xticks=[], yticks=[])
        right = 100 * tree.score(test_X, test_y)
        panel.set_title(f"{name}: {right:.1f} % right", fontsize=10)


def _growth(panel: Any, points: list[tuple[int, float]]) -> None:
    """Draw the seconds of a tree of 256 leaves by rows, and what n log n would take."""
    if not points:
        panel.set_axis_off()
        return
    n, seconds = np.array(points, float).T
    panel.loglog(n, seconds, "o-", label="measured")
    ideal = n * np.log(n)
    panel.loglog(n, seconds[-1] * ideal / ideal[-1], "--", label="n log n")
    panel.set(xlabel="rows", ylabel="seconds, one core", title="256 leaves, 8 features")
    panel.legend(frameon=False)

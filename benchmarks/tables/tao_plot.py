"""The kept run of TAO as a plot: two boundaries, the path on mnist, and weights of its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from bitvec.learners.tao.sklearn import TAOClassifier

Array = np.ndarray[Any, Any]

DEPTH = 4
"""Depth of the trees of the plane."""
PIXELS = 160
TICKS = (200, 500, 1_000, 2_000, 5_000)
FULL = 30
"""Hundredths of a node's largest weight that are drawn in full colour: pixels at the border, which
few rows have, weigh most."""


def draw(report: dict[str, Any], path: Path) -> None:
    """Write the plot as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    points = [row for row in report["rows"] if row["part"] == "path"]
    chosen = [row for row in points if row.get("chosen")]
    # Texts stay texts, and two drawings of one run are the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bitvec"}):
        figure = Figure(figsize=(11, 3.4 + 2.2 * bool(chosen)), layout="constrained")
        heights = [3, 2] if chosen else [1]
        parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        panels = parts[0].subplots(1, 3, width_ratios=[1, 1, 1.3])
        _planes(panels[:2])
        _path(panels[2], points)
        for part, row in zip(parts[1:], chosen, strict=False):
            _weights(part, row)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _planes(panels: Any) -> None:
    """Draw what CART and oblique TAO of the same depth make of the same rows of the plane."""
    X, y = _rows()
    trees = {
        "CART": DecisionTreeClassifier(max_depth=DEPTH, random_state=0),
        "oblique TAO": TAOClassifier(max_depth=DEPTH, oblique=True, C=10, random_state=0),
    }
    side = np.linspace(-1, 1, PIXELS)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    for panel, (name, tree) in zip(panels, trees.items(), strict=True):
        tree.fit(X, y)
        leaves = tree.get_n_leaves() if name == "CART" else tree.forest_.n_leaves
        shown = tree.predict(grid).reshape(PIXELS, PIXELS)
        panel.imshow(shown, extent=(-1, 1, -1, 1), origin="lower", cmap="coolwarm", alpha=0.35)
        panel.scatter(*X.T, c=y, s=4, cmap="coolwarm", linewidths=0)
        panel.set(xticks=[], yticks=[])
        panel.set_title(f"{name}: {leaves} leaves, {100 * tree.score(X, y):.1f} % right")


def _rows() -> tuple[Array, Array]:
    """Return rows of the plane, those of a slanted square and those around it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    turned = X @ np.array([[0.8, -0.6], [0.6, 0.8]])
    return X, (np.abs(turned).max(axis=1) < 0.55).astype(int)


def _path(panel: Any, points: list[dict[str, Any]]) -> None:
    """Draw the error on test rows against parameters, and against operations."""
    for name, label, marker in (
        ("parameters", "parameters", "o"),
        ("operations", "operations a row, on average", "s"),
    ):
        at = [(row[name], 100 * row["test"]) for row in points]
        if at:
            panel.plot(*zip(*at, strict=True), marker=marker, label=label)
    panel.set(xscale="log", ylabel="test error, %", title="mnist, sparse oblique trees")
    panel.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
    panel.minorticks_off()
    if points:
        panel.legend(frameon=False)


def _weights(part: Any, row: dict[str, Any]) -> None:
    """Draw the weights of the first nodes as images: blue goes left, red goes right."""
    nodes = [np.array(node).reshape(28, 28) for node in row["nodes"]]
    for number, (panel, image) in enumerate(
        zip(part.subplots(1, len(nodes), squeeze=False)[0], nodes, strict=True)
    ):
        panel.imshow(image, cmap="RdBu_r", vmin=-FULL, vmax=FULL)
        panel.set(xticks=[], yticks=[])
        panel.set_title(("root", *(f"node {n}" for n in range(1, len(nodes))))[number])

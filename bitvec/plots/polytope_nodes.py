"""Plots of polytope nodes over two features: the convex set of each, and its facets.

`draw_polytopes` returns a `matplotlib.figure.Figure`, which needs no display; save it with
`savefig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitvec.converters.native import children
from bitvec.converters.native.cpt import CPT
from bitvec.core.arrays import Array, ArrayLike
from bitvec.errors import InputError, needs
from bitvec.plots.plane import INK, PIXELS, Plane, leaf_vectors, legend_columns, plane_of

with needs("matplotlib", "plot", "Drawing a tree"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

MOST_NODES = 24
COLUMNS = 4
MOST_INK = 18_000
"""Square points that all rows of a plot cover; the more rows, the smaller each."""
INSIDE, ELSEWHERE = "#f4e8c1", "#d3d7dc"
EDGE: Any = {"colors": [INK], "linewidths": 1.5}
FACET: Any = {"colors": ["0.35"], "linewidths": 0.7, "linestyles": "dashed"}


def draw_polytopes(
    tree: CPT,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    output: int = 0,
) -> Figure:
    """Draw each node of a tree of two features over the part of the plane that reaches it.

    The convex set {g <= τ} is filled, its edge drawn, and the line β · [x; 1] = 0 of each facet
    dashed; the last panel is the tree's answers. Rows have the colours of the answers.

    Parameters
    ----------
    tree : CPT
        Of at most 24 nodes, the `tree_` of an estimator for example.
    X : (n_rows, 2)
        Rows that say which part of the plane to draw, and stand in it.
    y : (n_rows,), or (n_rows, n_outputs) for a regressor, optional
        What colours the rows: labels of the tree, or values.
    feature_names : (2,), optional
        x0, x1 if not given.
    output : int
        Of a regressor of several.

    Raises
    ------
    InputError
        If the tree reads other than two features or has too many nodes, or rows, labels or names
        do not fit.
    """
    if not isinstance(tree, CPT):
        raise InputError(
            f"`tree` must be a CPT, got {type(tree).__name__}: pass `tree_` of an estimator."
        )
    if tree.n_nodes > MOST_NODES:
        raise InputError(
            f"`tree` must have at most {MOST_NODES} nodes to be drawn, got {tree.n_nodes}."
        )
    plane = plane_of([tree], X, y=y, feature_names=feature_names, output=output)
    grid = tree.columns(plane.grid)
    reaching, exits = _walk(tree, np.concatenate([grid, tree.columns(plane.rows)]))

    n_panels = tree.n_nodes + 1
    n_columns = min(COLUMNS, n_panels)
    n_lines = -(-n_panels // n_columns)
    figure = Figure(figsize=(3.2 * n_columns + 0.4, 3.2 * n_lines + 0.6), layout="constrained")
    panels = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for node, panel in enumerate(panels[: tree.n_nodes]):
        _draw_node(panel, tree, node, plane, grid, reaching[node, : len(grid)])
        _draw_rows(panel, plane, reaching[node, len(grid) :])
    values = leaf_vectors(tree)
    says = values[:, output] if tree.classes is None else values.argmax(axis=1)
    panels[tree.n_nodes].imshow(
        says[exits[: len(grid)]].reshape(PIXELS, PIXELS), cmap=plane.colours, norm=plane.scale,
        extent=plane.extent, origin="lower", aspect="auto",
        alpha=None if tree.classes is None else 0.6,
    )  # fmt: skip
    panels[tree.n_nodes].set_title(f"answers of {_count(tree.n_leaves, 'leaf', 'leaves')}", size=9)
    for number, panel in enumerate(panels):
        if number >= n_panels:
            panel.set_axis_off()
            continue
        # From middle to middle of the outermost pixels, as far as contours reach.
        across, up = plane.sides
        panel.set(xlim=(across[0], across[-1]), ylim=(up[0], up[-1]))
        plane.name(panel, up=number % n_columns == 0, across=number + n_columns >= n_panels)
    plane.explain(figure)
    if tree.n_nodes:
        _explain_nodes(figure)
    return figure


def _draw_node(
    panel: Axes, tree: CPT, node: int, plane: Plane, grid: Array, on_grid: Array
) -> None:
    shape = (PIXELS, PIXELS)
    over = (tree.g(node, grid) - tree.tau[node]).reshape(shape)
    reached = on_grid.reshape(shape)
    for where, colour in ((reached & (over <= 0), INSIDE), (~reached, ELSEWHERE)):
        panel.contourf(*plane.sides, where.astype(float), levels=[0.5, 1.5], colors=[colour])
    if over.min() <= 0 <= over.max():
        panel.contour(*plane.sides, over, levels=[0.0], **EDGE)
    facets = range(int(tree.facet_ptr[node]), int(tree.facet_ptr[node + 1]))
    with_edge = [k for k in facets if tree.r[k] > 0]
    for k in with_edge:
        line = (grid @ tree.beta[k, :-1] + tree.beta[k, -1]).reshape(shape)
        if line.min() < 0 < line.max():
            panel.contour(*plane.sides, line, levels=[0.0], **FACET)
    side = "right" if tree.inside_right[node] else "left"
    number = _count(len(with_edge), "facet", "facets")
    panel.set_title(f"node {node}: {number}, inside goes {side}", size=9)


def _draw_rows(panel: Axes, plane: Plane, own: Array) -> None:
    size = float(np.clip(MOST_INK / len(plane.rows), 1, 9))
    colours: Any = {"color": INK}
    if plane.told is not None:
        colours = {"c": plane.told[own], "cmap": plane.colours, "norm": plane.scale}
    # The highest values are as pale as the ground, and a rim parts them from it.
    rim = "white" if plane.told is None or plane.classes is not None else INK
    panel.scatter(
        plane.rows[own, 0], plane.rows[own, 1], s=size, linewidths=0.03 * size, edgecolors=rim,
        **colours,
    )  # fmt: skip


def _explain_nodes(figure: Figure) -> None:
    """Say what fills and lines of a node are."""
    marks = {
        "inside, g ≤ τ": Patch(fc=INSIDE, ec="none"),
        "edge, g = τ": Line2D([], [], color=EDGE["colors"][0], lw=EDGE["linewidths"]),
        "facet": Line2D([], [], color=FACET["colors"][0], lw=FACET["linewidths"], ls="--"),
        "not reached": Patch(fc=ELSEWHERE, ec="none"),
    }
    figure.legend(
        marks.values(), marks.keys(), loc="outside upper center", frameon=False, fontsize=8,
        ncols=legend_columns(list(marks), figure.get_figwidth()),
    )  # fmt: skip


def _walk(tree: CPT, Z: Array) -> tuple[Array, Array]:
    """Return which rows reach each node, (n_nodes, n_rows), and the leaf of each row."""
    found = np.zeros((tree.n_nodes, len(Z)), bool)

    def decide(node: int, rows: Array) -> Array:
        found[node, rows] = True
        return tree.goes_right(node, Z[rows])

    return found, children.walk(tree.left, tree.right, len(Z), decide)


def _count(n: int, one: str, several: str) -> str:
    return f"{n} {one if n == 1 else several}"

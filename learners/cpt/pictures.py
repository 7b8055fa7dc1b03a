"""Pictures of polytope nodes over two features: the convex set of each, and its facets.

`draw_polytopes` returns a `matplotlib.figure.Figure`, which needs no display; save it with
`savefig`.
"""

from __future__ import annotations

import numpy as np

from bitvec.arrays import Array, ArrayLike
from bitvec.converters.native import children
from bitvec.converters.native.cpt import CPT
from bitvec.errors import InputError, MissingLibraryError

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingLibraryError("matplotlib", "plot", "Drawing a tree") from error

MOST_NODES = 24
PIXELS = 240
COLUMNS = 4
INSIDE, EDGE, FACET = "#9ecae1", "#1f2933", "#d1495b"


def draw_polytopes(tree: CPT, X: ArrayLike, y: ArrayLike | None = None) -> Figure:
    """Draw each node of a tree of two features over the part of the plane that reaches it.

    The convex set {g <= τ} is filled, its edge drawn, and the line β · [x; 1] = 0 of each facet
    dashed; the last picture is the tree's answers.

    Parameters
    ----------
    tree : CPT
        Of at most 24 nodes, the `tree_` of an estimator for example.
    X : (n_rows, 2)
        Rows that say which part of the plane to draw, and stand in it.
    y : (n_rows,), optional
        What colours the rows: class numbers, labels or values.

    Raises
    ------
    InputError
        If the tree reads other than two features or has too many nodes, or rows do not fit.
    """
    rows = np.asarray(X, tree.dtype)
    if tree.n_features != 2:
        raise InputError(f"`tree` must read two features to be drawn, got {tree.n_features}.")
    if tree.n_nodes > MOST_NODES:
        raise InputError(
            f"`tree` must have at most {MOST_NODES} nodes to be drawn, got {tree.n_nodes}."
        )
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows) or not np.all(np.isfinite(rows)):
        raise InputError(f"`X` must be finite rows of two features, got shape {rows.shape}.")
    colour = None if y is None else _numbers(y, len(rows))
    margin = 0.05 * np.maximum(np.ptp(rows, axis=0), 1e-6)
    low, high = rows.min(axis=0) - margin, rows.max(axis=0) + margin
    across, up = (np.linspace(low[k], high[k], PIXELS) for k in (0, 1))
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2).astype(tree.dtype)
    reaching = _reaching(tree, np.concatenate([grid, rows]))

    n_panels = tree.n_nodes + 1
    n_columns = min(COLUMNS, n_panels)
    n_lines = -(-n_panels // n_columns)
    figure = Figure(figsize=(3.2 * n_columns, 3.3 * n_lines), layout="constrained")
    panels = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for node, panel in enumerate(panels[: tree.n_nodes]):
        on_grid, own = reaching[node, : len(grid)], reaching[node, len(grid) :]
        _draw_node(panel, tree, node, across, up, grid, on_grid)
        colours = {} if colour is None else {"c": colour[own], "cmap": "coolwarm", **_ends(colour)}
        panel.scatter(*rows[own].T, s=4, linewidths=0, **colours)
    answers = panels[tree.n_nodes]
    shown = _numbers(tree.predict(grid), len(grid)).reshape(PIXELS, PIXELS)
    answers.imshow(
        shown, extent=(low[0], high[0], low[1], high[1]), origin="lower", aspect="auto",
        cmap="coolwarm", alpha=0.5,
    )  # fmt: skip
    answers.set_title(f"answers of {tree.n_nodes + 1} leaves", fontsize=9)
    for panel in panels[n_panels:]:
        panel.set_axis_off()
    for panel in panels[:n_panels]:
        panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    return figure


def _draw_node(
    panel: Axes, tree: CPT, node: int, across: Array, up: Array, grid: Array, on_grid: Array
) -> None:
    shape = (PIXELS, PIXELS)
    over = (tree.g(node, grid) - tree.tau[node]).reshape(shape)
    reached = on_grid.reshape(shape)
    panel.contourf(
        across, up, np.where(reached & (over <= 0), 1.0, 0.0), levels=[0.5, 1.5], colors=[INSIDE]
    )
    if over.min() <= 0 <= over.max():
        panel.contour(across, up, over, levels=[0.0], colors=[EDGE], linewidths=1.5)
    panel.contourf(
        across, up, np.where(reached, 0.0, 1.0), levels=[0.5, 1.5], colors=["0.85"], alpha=0.8
    )
    facets = range(int(tree.facet_ptr[node]), int(tree.facet_ptr[node + 1]))
    with_edge = [k for k in facets if tree.r[k] > 0]
    for k in with_edge:
        line = (grid @ tree.beta[k, :-1] + tree.beta[k, -1]).reshape(shape)
        if line.min() < 0 < line.max():
            panel.contour(
                across, up, line, levels=[0.0], colors=[FACET], linewidths=0.7, linestyles="dashed"
            )
    side = "right" if tree.inside_right[node] else "left"
    panel.set_title(f"node {node}: {len(with_edge)} facets, inside goes {side}", fontsize=9)


def _reaching(tree: CPT, Z: Array) -> Array:
    """Return which rows reach each node: (n_nodes, n_rows)."""
    found = np.zeros((tree.n_nodes, len(Z)), bool)

    def decide(node: int, rows: Array) -> Array:
        found[node, rows] = True
        return tree.goes_right(node, Z[rows])

    children.walk(tree.left, tree.right, len(Z), decide)
    return found


def _numbers(y: ArrayLike, n_rows: int) -> Array:
    found = np.asarray(y)
    if found.shape != (n_rows,):
        raise InputError(f"`y` must hold one number or label a row, got shape {found.shape}.")
    if found.dtype.kind in "biuf":
        return found.astype(np.float64)
    return np.unique(found, return_inverse=True)[1].astype(np.float64)


def _ends(colour: Array) -> dict[str, float]:
    return {"vmin": float(colour.min()), "vmax": float(colour.max())}

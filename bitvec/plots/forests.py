"""Plots of a tree: its matrices, the path of a row, its boundary when hard and when soft.

Every function returns a `matplotlib.figure.Figure`, which needs no display; save it with `savefig`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bitvec.core import matrices, reference, structure, tree_paths
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, Relation, set_codes
from bitvec.errors import InputError, needs

with needs("matplotlib", "plot", "Drawing a tree"):
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

INK, PALE, ACCENT = "#1f2933", "#c9d1d9", "#d1495b"
FIRST, SECOND = "#30638e", ACCENT
MOST_LEAVES = 64


def draw_matrices(forest: Forest, tree: int = 0) -> Figure:
    """Draw the stored rows of S, thresholds or sets, B and v of one tree of at most 64 leaves."""
    part = _small(forest, tree)
    S, B, v = part.rows.toarray(), part.B, part.leaves.v
    width = min(13, 5 + 0.4 * (S.shape[1] + B.shape[1] + min(v.shape[1], 10)))
    height = max(3, 0.9 + 0.24 * max(S.shape[0], B.shape[0]))
    figure = Figure(figsize=(width, height), layout="constrained")
    widths = [max(4, S.shape[1]), 1.6, max(4, B.shape[1]), max(2.6, min(v.shape[1], 10) * 0.9)]
    axes = figure.subplots(1, 4, width_ratios=widths)
    names = _names(forest)
    limit = max(float(np.abs(S).max(initial=0)), 1e-12)
    _matrix(axes[0], S, "S · x selects", cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes[0].set_xticks(range(len(names)), names, rotation=90, fontsize=9)
    axes[0].set_ylabel("node, breadth first")
    _column(axes[1], [threshold_text(part, node) for node in range(part.n_nodes)], "b")
    _matrix(axes[2], B, "B: zeros on a node's left leaves", cmap=ListedColormap(["#fff", INK]))
    axes[2].set_xlabel("node")
    axes[2].set_ylabel("leaf, left to right")
    shown = v[:, :10]
    _matrix(axes[3], shown, "v", cmap="viridis")
    axes[3].set_xlabel("output")
    if shown.shape[1] <= 3:
        for (leaf, output), value in np.ndenumerate(shown):
            middle = (shown.max() + shown.min()) / 2
            colour = INK if value > middle else "white"
            axes[3].text(
                output, leaf, f"{value:.3g}", ha="center", va="center", color=colour, fontsize=8
            )
    figure.suptitle(r"$T(x) = v\,[\,\mathrm{argmax}(B \cdot \sigma(Sx - b))\,]$", fontsize=13)
    return figure


def draw_path(forest: Forest, x: ArrayLike, tree: int = 0) -> Figure:
    """Draw one tree of at most 64 leaves, the path that a row takes, and B · h below its leaves.

    Parameters
    ----------
    x : (n_features,)
    """
    part = _small(forest, tree)
    row = np.asarray(x)
    if row.shape != (forest.n_features,):
        raise InputError(
            f"`x` must be one row of {forest.n_features} features, got shape {row.shape}."
        )
    B = part.bitvectors
    h = reference.hard_tests(part, reference.columns(part, row[None]))
    exit_leaf = int(reference.exit_leaf_bitvector(B, h)[0, 0])
    on_path = {node for node, _ in tree_paths.path(B, exit_leaf)}
    depth = tree_paths.node_depth(B)
    deepest = int(tree_paths.leaf_depth(B).max(initial=0))

    figure = Figure(figsize=(max(8, 0.75 * B.n_leaves), 2.6 + 0.85 * deepest), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=[max(2, deepest), 1.1], sharex=True)
    centre = np.where(B.n_nodes, (B.lo + B.hi - 1) / 2, 0)
    for node, sides in enumerate(zip(*structure.children(B), strict=True)):
        for child, right in zip(sides, (False, True), strict=True):
            end = (centre[child], -depth[child]) if child >= 0 else (~child, -deepest)
            taken = node in on_path and bool(h[0, node]) == right
            top.plot(
                [centre[node], end[0]],
                [-depth[node], end[1]],
                color=ACCENT if taken else PALE,
                lw=3 if taken else 1.2,
                zorder=1,
            )
        text = _question(part, node)
        if node in on_path:
            text += "\nyes" if h[0, node] else "\nno"
        top.text(
            centre[node],
            -depth[node],
            text,
            ha="center",
            va="center",
            fontsize=8,
            color=INK,
            bbox={
                "boxstyle": "round,pad=0.3",
                "fc": "white",
                "ec": ACCENT if node in on_path else PALE,
            },
        )
    top.set_axis_off()
    top.set_title("yes goes right, no goes left", fontsize=9, color=INK, pad=14)
    score = matrices.scores(B, h)[0]
    colours = [ACCENT if leaf == exit_leaf else PALE for leaf in range(B.n_leaves)]
    bottom.bar(range(B.n_leaves), score, color=colours)
    bottom.set_ylabel("B · h")
    bottom.set_xlabel(
        f"leaf, left to right; the exit leaf is the first maximum: leaf {exit_leaf}, "
        f"v = {np.array2string(part.leaves.v[exit_leaf], precision=3, threshold=6)}"
    )
    bottom.set_xticks(range(B.n_leaves))
    bottom.spines[["top", "right"]].set_visible(False)
    return figure


def draw_boundaries(
    surfaces: Sequence[tuple[str, Callable[[Array], Array]]],
    X: Array,
    y: Array,
    names: Sequence[str] = ("x0", "x1"),
    *,
    resolution: int = 300,
) -> Figure:
    """Draw the probability of the second class of several models over the same two features.

    Parameters
    ----------
    surfaces : pairs of a title and a function
        The function takes rows, (batch, 2), and returns the probability, (batch,).
    X : (batch, 2)
    y : 0/1, (batch,)
    """
    if X.ndim != 2 or X.shape[1] != 2:
        raise InputError(f"a boundary is drawn over 2 features, got `X` of shape {X.shape}.")
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.05 * (high - low)
    grids = [
        np.linspace(a, z, resolution) for a, z in zip(low - margin, high + margin, strict=True)
    ]
    mesh = np.stack(np.meshgrid(*grids), axis=-1).reshape(-1, 2).astype(X.dtype)
    figure = Figure(figsize=(3.4 * len(surfaces), 3.3), layout="constrained")
    for axis, (title, probability) in zip(
        figure.subplots(1, len(surfaces), squeeze=False, sharey=True)[0], surfaces, strict=True
    ):
        surface = np.asarray(probability(mesh)).reshape(resolution, resolution)
        shown = axis.imshow(
            surface,
            origin="lower",
            extent=(grids[0][0], grids[0][-1], grids[1][0], grids[1][-1]),
            aspect="auto",
            cmap="RdBu_r",
            vmin=0,
            vmax=1,
            alpha=0.8,
            interpolation="nearest",  # as computed: smoothed, an image is large
        )
        for label, colour in ((0, FIRST), (1, SECOND)):
            axis.scatter(*X[y == label].T, s=9, color=colour, edgecolor="white", linewidth=0.3)
        axis.set_title(title)
        axis.set_xlabel(names[0])
    figure.axes[0].set_ylabel(names[1])
    figure.colorbar(shown, ax=figure.axes, label="probability of the second class", shrink=0.85)
    return figure


def _small(forest: Forest, tree: int) -> Forest:
    part = forest[tree]
    if part.n_leaves > MOST_LEAVES:
        raise InputError(
            f"a tree to be drawn must have at most {MOST_LEAVES} leaves, got {part.n_leaves}: "
            "draw a smaller one."
        )
    return part


def _names(forest: Forest) -> tuple[str, ...]:
    """Return the names of the columns that S reads: of X, or of the feature map."""
    if forest.feature_map is not None:
        return tuple(f"φ{j}" for j in range(forest.n_columns))
    return forest.inputs.feature_names or tuple(f"x{j}" for j in range(forest.n_features))


def threshold_text(forest: Forest, node: int) -> str:
    """Return the threshold of a node, or the codes of its set, in a few letters."""
    if forest.tests.kind[node] == Kind.SET:
        return "{" + ", ".join(map(str, set_codes(forest.tests, node)[:4])) + "}"
    return f"{forest.tests.b[node]:.4g}"


def _question(forest: Forest, node: int) -> str:
    """Return the test whose answer "yes" goes right."""
    names, feature = _names(forest), int(forest.tests.feature[node])
    kind = forest.tests.kind[node]
    left_side = f"w·x (node {node})" if feature < 0 else names[feature]
    if kind == Kind.SET:
        return f"{left_side} in {threshold_text(forest, node)}"
    greater = forest.tests.relation[node] == Relation.GREATER
    sign = "=" if kind == Kind.EQUAL else ">" if greater else "≥"
    return f"{left_side}\n{sign} {threshold_text(forest, node)}"


def _matrix(axis: Axes, values: Array, title: str, **options: object) -> None:
    axis.set_title(title, fontsize=10)
    if not values.size:  # a tree of one leaf tests nothing
        return
    axis.imshow(values, aspect="auto", interpolation="nearest", **options)  # type: ignore[arg-type]
    for which, size in zip((axis.set_yticks, axis.set_xticks), values.shape, strict=True):
        which(range(0, size, max(1, size // 12)))
    axis.tick_params(labelsize=7, length=2)


def _column(axis: Axes, texts: Sequence[str], title: str) -> None:
    axis.set_xlim(0, 1)
    axis.set_ylim(max(len(texts), 1) - 0.5, -0.5)
    for row, text in enumerate(texts):
        axis.text(0.5, row, text, ha="center", va="center", fontsize=7, color=INK)
    axis.set_title(title, fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])

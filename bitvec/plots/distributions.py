"""Plot of a small tree with the rows that reach its nodes and leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core import reference, structure, tree_paths
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, Relation
from bitvec.errors import InputError, UnsupportedModelError, needs
from bitvec.plots.attributions import short_names, short_text
from bitvec.plots.forests import threshold_text
from bitvec.plots.plane import distinct_colours
from bitvec.runtime.predict import tables

with needs("matplotlib", "plot", "Drawing a tree"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

INK, PALE, ONE = "#1f2933", "#c9d1d9", "#0072b2"
MOST_LEAVES, BINS = 32, 20
CELL = 1.35
"""Inches that a leaf takes."""


def draw_distributions(forest: Forest, X: Any, y: ArrayLike, *, tree: int = 0) -> Figure:
    """Draw one tree of at most 32 leaves with the rows that reach each node and leaf.

    A node shows the values of its column, stacked by class or over the target, and its threshold; a
    leaf shows the classes, or the targets and their mean, and the number of its rows.

    Parameters
    ----------
    forest : Forest
        Its nodes read one column of X each.
    X : table of rows, (batch, n_features)
    y : (batch,)
        Labels of a classifier of at most 20 classes, numbers of a regressor.
    tree : int

    Raises
    ------
    InputError
        If rows and targets do not fit, or the tree has more leaves.
    UnsupportedModelError
        If a node reads several columns.
    """
    part = forest[tree]
    if part.n_leaves > MOST_LEAVES:
        raise InputError(
            f"a tree to be drawn with its rows must have at most {MOST_LEAVES} leaves, got "
            f"{part.n_leaves}: draw a smaller one."
        )
    if part.feature_map is not None or not np.all(part.tests.is_one_hot):
        raise UnsupportedModelError(
            "a tree drawn with its rows must read one column at each node, got one that reads "
            "several: `draw_matrices` draws it."
        )
    rows = tables.rows(X, forest.inputs, forest.dtype)
    target = np.asarray(y)
    if target.shape != (len(rows),) or not len(rows):
        raise InputError(
            f"`y` must have one target for each of the {len(rows)} rows of `X`, one at least, got "
            f"shape {target.shape}."
        )
    if target.dtype.kind == "f" and not np.isfinite(target).all():
        raise InputError("`y` must be finite, got NaN or infinity: drop these rows.")
    drawing = _Drawing(part, rows, target)
    B = part.bitvectors
    depth, leaf_depth = tree_paths.node_depth(B), tree_paths.leaf_depth(B)
    deepest = int(leaf_depth.max(initial=0))
    figure = Figure(
        figsize=(max(4, CELL * B.n_leaves), 1.5 * (deepest + 1) + 0.4), layout="constrained"
    )
    axis = figure.subplots()
    axis.set_xlim(-0.6, B.n_leaves - 0.4)
    axis.set_ylim(-deepest - 0.55, 0.55)
    axis.set_axis_off()
    centre = (B.lo + B.hi - 1) / 2
    reached = reference.exit_leaves(part, rows)[:, 0]
    for node, sides in enumerate(zip(*structure.children(B), strict=True)):
        for child, right in zip(sides, (False, True), strict=True):
            end = (centre[child], -depth[child]) if child >= 0 else (~child, -leaf_depth[~child])
            start = centre[node], -depth[node]
            axis.plot(*zip(start, end, strict=True), color=PALE, lw=1.2, zorder=0)
            middle = (start[0] + end[0]) / 2, start[1] - 0.5
            axis.text(
                *middle, drawing.side(node, right=right), ha="center", va="center", fontsize=7,
                color=INK, bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"},
            )  # fmt: skip
        here = (B.lo[node] <= reached) & (reached < B.hi[node])
        drawing.node(_cell(axis, centre[node], -depth[node]), node, here)
    for leaf in range(B.n_leaves):
        drawing.leaf(_cell(axis, leaf, -leaf_depth[leaf]), leaf, reached == leaf)
    if drawing.classes is not None:
        handles = [
            Patch(color=colour, label=short_text(str(label)))
            for colour, label in zip(drawing.colours, drawing.classes, strict=True)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    return figure


def _cell(axis: Axes, x: float, y: float) -> Axes:
    part = axis.inset_axes((x - 0.36, y - 0.2, 0.72, 0.4), transform=axis.transData)
    part.spines[["top", "right"]].set_visible(False)
    part.tick_params(labelsize=6, length=1.5, pad=1)
    return part


class _Drawing:
    """Nodes and leaves of one tree, filled with rows."""

    def __init__(self, forest: Forest, rows: Array, target: Array) -> None:
        self.forest, self.rows = forest, rows
        self.names = short_names(forest)
        self.classes: Array | None = None
        self.colours: list[Any] = [ONE]
        self.target = target
        if forest.output.is_classifier:
            self.classes, self.target = np.unique(target, return_inverse=True)
            if self.classes.size > 20:
                raise InputError(
                    f"`y` must hold at most 20 classes to be drawn, got {self.classes.size}: "
                    "join some."
                )
            self.colours = [tuple(rgb) for rgb in distinct_colours(self.classes.size)]

    def side(self, node: int, *, right: bool) -> str:
        """Return the condition of one side of a node."""
        tests = self.forest.tests
        kind, text = tests.kind[node], threshold_text(self.forest, node)
        if kind == Kind.SET:
            return f"in {text}" if right else "others"
        if kind == Kind.EQUAL:
            return f"= {text}" if right else f"≠ {text}"
        greater = tests.relation[node] == Relation.GREATER
        signs = ("≤", ">") if greater else ("<", "≥")
        return f"{signs[right]} {text}"

    def node(self, axis: Axes, node: int, here: Array) -> None:
        """Draw the values of a node's column over the rows that reach it."""
        column = int(self.forest.tests.feature[node])
        x, target = self.rows[here, column], self.target[here]
        known = np.isfinite(x)
        title = self.names[column]
        if not known.all():
            title += f" ({np.sum(~known)} not finite)"
        axis.set_title(title, fontsize=8, pad=2, color=INK)
        x, target = x[known].astype(np.float64), target[known]
        book = self.forest.inputs.book(column)
        if self.classes is None:
            axis.scatter(x, target, s=3, color=ONE, linewidth=0, alpha=0.6)
        elif x.size:
            low, high = float(x.min()), float(x.max())
            edges = np.linspace(low, high if high > low else low + 1, BINS + 1).tolist()
            if book is not None:
                edges = (np.arange(len(book) + 1) - 0.5).tolist()
            parts = [x[target == label] for label in range(self.classes.size)]
            axis.hist(parts, edges, stacked=True, color=self.colours)
        if self.forest.tests.kind[node] != Kind.SET:
            axis.axvline(float(self.forest.tests.b[node]), color=INK, lw=1, ls="--")
        axis.locator_params(nbins=3)
        if book is not None and len(book) <= 6:
            axis.set_xticks(range(len(book)), [short_text(str(label))[:8] for label in book])

    def leaf(self, axis: Axes, leaf: int, here: Array) -> None:
        """Draw the targets of the rows that reach a leaf."""
        target, value = self.target[here], self.forest.leaves.v[leaf]
        if self.classes is None:
            jitter = np.random.default_rng(leaf).uniform(-0.3, 0.3, target.size)
            axis.scatter(jitter, target, s=3, color=ONE, linewidth=0, alpha=0.6)
            if target.size:
                axis.hlines(target.mean(), -0.4, 0.4, color=INK, lw=1.2)
            axis.set_xlim(-0.5, 0.5)
            axis.set_ylim(float(self.target.min()), float(self.target.max()))
        else:
            count = np.bincount(target, minlength=self.classes.size)
            axis.bar(range(count.size), count, color=self.colours)
        axis.set_xticks([])
        axis.locator_params(axis="y", nbins=3)
        shown = "" if value.size > 1 else f", v = {value[0]:.3g}"
        axis.set_xlabel(f"{target.size} rows{shown}", fontsize=7, labelpad=2, color=INK)

"""Plots of a tree: θ of its nodes as images, or its nodes with their leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bitvec.converters.native import children
from bitvec.converters.native.e2edt import E2EDT
from bitvec.converters.native.leaf_values import labels_of
from bitvec.core.arrays import Array, ArrayLike
from bitvec.errors import InputError, needs
from bitvec.learners.growth.penalties import image_shape
from bitvec.plots.drawable import Stages, require_small, require_tree, titled
from bitvec.plots.plane import (
    INK,
    MOST_NAMED,
    PALE,
    column_names,
    distinct_colours,
    leaf_vectors,
    legend_columns,
)
from bitvec.plots.tree_layout import Layout, layout_of

with needs("matplotlib", "plot", "Drawing a tree"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TESTS_UP_TO = 16
"""Leaves of a tree whose tests are written out."""
COLUMNS_WRITTEN = 4
"""That a test reads at most where it is written out."""
SIDE = 1.7
"""Longer side of an image, in widths of a leaf; two nodes of one depth are 2 apart at least."""


def draw_weights(tree: E2EDT | Stages, shape: tuple[int, ...]) -> Figure:
    """Draw θ of each node as an image, nodes laid out as the tree, with what the leaves say.

    Red pixels send a row right, blue ones left. Each node has a scale of its own, which its title
    gives; channels stand side by side.

    Parameters
    ----------
    tree : E2EDT, or pairs of a title and a tree
        Of nodes that are linear in x and at most 64 leaves; several stand side by side.
    shape : (height, width) or (n_channels, height, width)
        Of the image whose pixels the columns are.

    Raises
    ------
    InputError
        If a tree has other nodes or too many, or its columns are no such image.
    """
    trees = [("", tree)] if isinstance(tree, E2EDT) else titled("tree", tree)
    for _, one in trees:
        require_small(one)
        if one.phi is not None:
            raise InputError(
                "`tree` must ask θ · x at its nodes for θ to be an image, got nodes that read a "
                "feature map: grow it with split='linear'."
            )
    sizes = [image_shape(shape, one.n_features, "shape") for _, one in trees]
    layouts = [layout_of(one) for _, one in trees]
    widths = [one.n_leaves + 0.4 for _, one in trees]
    unit = float(np.clip(10 / sum(widths), 0.42, 0.9))
    heights = [
        _height(one, layout, size)
        for (_, one), layout, size in zip(trees, layouts, sizes, strict=True)
    ]
    inches = max(unit * sum(widths), 4.0), unit * max(heights) + 0.35
    figure = Figure(figsize=inches, layout="constrained")
    panels = figure.subplots(1, len(trees), width_ratios=widths, squeeze=False)[0]
    for panel, (title, one), layout, size in zip(panels, trees, layouts, sizes, strict=True):
        _draw_images(panel, one, layout, size)
        panel.set_title(title or "θ of each node: red sends a row right, blue left", fontsize=10)
    return figure


def draw_tree(
    tree: E2EDT, X: ArrayLike | None = None, *, feature_names: Sequence[str] | None = None
) -> Figure:
    """Draw the tree, and below each leaf its distribution over classes or its means, as bars.

    A node shows its number; in trees of at most 16 leaves over at most 4 columns its test too.

    Parameters
    ----------
    tree : E2EDT
        Of at most 64 leaves.
    X : (n_rows, n_features), optional
        Rows to be counted at nodes and leaves; where more rows go, lines are thicker.
    feature_names : (n_features,), optional
        x0, x1, ... if not given.

    Raises
    ------
    InputError
        If the tree has too many leaves, or rows or names do not fit.
    """
    require_tree(tree)
    require_small(tree)
    names = column_names(feature_names, tree.n_features)
    layout = layout_of(tree)
    reach = None if X is None else _counts(tree, X)
    texts = [f"node {node}" for node in range(tree.n_nodes)]
    if tree.n_leaves <= TESTS_UP_TO and tree.phi is None:
        texts = [f"{text}{_test(tree, node, names)}" for node, text in enumerate(texts)]
    if reach is not None:
        texts = [f"{text}\n{n:,} rows" for text, n in zip(texts, reach[0], strict=True)]
    lines = [line for text in texts for line in text.split("\n")]
    longest = max((len(line) for line in lines), default=0)
    unit = max(0.42, 0.04 * longest + 0.1)
    pitch = 0.45 + 0.14 * max((text.count("\n") + 1 for text in texts), default=0)
    says = [_answer(tree, leaf) for leaf in layout.order]
    upright = _longest(tree) * 0.085 > unit

    above = pitch * max(layout.deepest, 0.5)
    figure = Figure(figsize=(max(5, unit * tree.n_leaves + 0.8), above + 2.9), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=[above, 2.0], sharex=True)
    for node, child, x, y in layout.links(tree, leaf_depth=layout.deepest):
        share = 0.0
        if reach is not None:
            n = reach[0][child] if child >= 0 else reach[1][~child]
            share = float(n / max(reach[1].sum(), 1))
        ends = [layout.centre[node], x], [-layout.depth[node], -y]
        top.plot(*ends, color=PALE, lw=1 + 6 * share, zorder=1, solid_capstyle="round")
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": INK, "lw": 0.7}
    for node, text in enumerate(texts):
        where = layout.centre[node], -layout.depth[node]
        top.text(*where, text, ha="center", va="center", fontsize=7, color=INK, bbox=box)
    top.set(ylim=(-layout.deepest, 0.5), xlim=(-0.6, tree.n_leaves - 0.4))
    top.set_axis_off()
    asked = "θ · x" if tree.phi is None else "θ · φ(x)"
    top.set_title(f"a row goes right where {asked} + bias > 0", fontsize=9, color=INK)
    _draw_leaves(bottom, tree, layout.order)
    if reach is not None:
        counts = reach[1][layout.order]
        says = [f"{said}\n{n:,}" for said, n in zip(says, counts, strict=True)]
    bottom.set_xticks(range(tree.n_leaves), says, rotation=90 if upright else 0, fontsize=7)
    kind = "mean" if tree.pi is None else "label"
    bottom.set_xlabel(f"{kind}{'' if X is None else ', and rows,'} of each leaf", fontsize=9)
    named = bottom.get_legend_handles_labels()
    if 1 < len(named[0]) <= MOST_NAMED:
        n_columns = legend_columns(named[1], figure.get_figwidth())
        figure.legend(
            *named, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=8
        )
    return figure


def _pitch(size: tuple[int, int, int]) -> float:
    """Return the distance of two levels of images, in widths of a leaf."""
    return _sides(size)[1] + 0.95


def _sides(size: tuple[int, int, int]) -> tuple[float, float]:
    """Return the width and height of an image whose channels stand side by side."""
    n_channels, height, width = size
    scale = SIDE / max(n_channels * width, height)
    return n_channels * width * scale, height * scale


def _height(tree: E2EDT, layout: Layout, size: tuple[int, int, int]) -> float:
    """Return the height of a tree of images, in widths of a leaf."""
    return _pitch(size) * layout.deepest + 0.6 + (1.7 if _stands(tree) else 0.7)


def _stands(tree: E2EDT) -> bool:
    """Return whether answers are too long to lie below a leaf."""
    return _longest(tree) > 4


def _longest(tree: E2EDT) -> int:
    """Return the letters of the longest line of an answer."""
    answers = (_answer(tree, leaf) for leaf in range(tree.n_leaves))
    return max(len(line) for answer in answers for line in answer.split("\n"))


def _draw_images(panel: Axes, tree: E2EDT, layout: Layout, size: tuple[int, int, int]) -> None:
    pitch, (wide, tall) = _pitch(size), _sides(size)
    top_of_leaf = tall / 2
    for node, child, x, y in layout.links(tree):
        end = -pitch * y + (0 if child >= 0 else top_of_leaf + 0.05)
        ends = [layout.centre[node], x], [-pitch * layout.depth[node], end]
        panel.plot(*ends, color=PALE, lw=1, zorder=0)
    for node in range(tree.n_nodes):
        image = np.concatenate(list(tree.theta[node].reshape(size)), axis=1)
        limit = float(np.abs(image).max()) or 1.0
        x, y = layout.centre[node], -pitch * layout.depth[node]
        panel.imshow(
            image, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest", zorder=1,
            extent=(x - wide / 2, x + wide / 2, y - tall / 2, y + tall / 2),
        )  # fmt: skip
        edges = [x - wide / 2, x + wide / 2, x + wide / 2, x - wide / 2, x - wide / 2], [
            y - tall / 2, y - tall / 2, y + tall / 2, y + tall / 2, y - tall / 2
        ]  # fmt: skip
        panel.plot(*edges, color=INK, lw=0.5, zorder=2)
        above = f"node {node}: ±{limit:.2g}"
        white = {"fc": "white", "ec": "none", "pad": 0.6}
        panel.text(
            x, y + tall / 2 + 0.08, above, ha="center", va="bottom", fontsize=6.5, color=INK,
            bbox=white,
        )  # fmt: skip
    upright = _stands(tree)
    for leaf in range(tree.n_leaves):
        panel.text(
            layout.place[leaf], -pitch * layout.leaf_depth[leaf] + top_of_leaf,
            _answer(tree, leaf), ha="center", va="top", fontsize=7.5, color=INK,
            rotation=90 if upright else 0,
            bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": PALE, "lw": 0.7},
        )  # fmt: skip
    top = tall / 2 + 0.6
    bottom = top - _height(tree, layout, size)
    panel.set(xlim=(-0.7, tree.n_leaves - 0.3), ylim=(bottom, top), aspect="equal")
    panel.set_axis_off()


def _draw_leaves(panel: Axes, tree: E2EDT, order: Sequence[int]) -> None:
    values = leaf_vectors(tree)[order]
    at, n = np.arange(len(values)), values.shape[1]
    if tree.classes is not None:
        base = np.zeros(len(values))
        for k, colour in enumerate(distinct_colours(n)):
            panel.bar(at, values[:, k], 0.8, base, color=colour, label=str(tree.classes[k]))
            base += values[:, k]
        panel.set(ylim=(0, 1), ylabel="share of class")
    else:
        for k, colour in enumerate(distinct_colours(n)):
            offset = 0.8 * ((k + 0.5) / n - 0.5)
            panel.bar(at + offset, values[:, k], 0.8 / n, color=colour, label=f"output {k}")
        panel.axhline(0, color=INK, lw=0.6)
        panel.set(ylabel="mean")
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="y", labelsize=7)


def _counts(tree: E2EDT, X: ArrayLike) -> tuple[Array, Array]:
    """Return how many rows reach each node and each leaf."""
    Z = tree.columns(X)
    at_node = np.zeros(tree.n_nodes, int)

    def decide(node: int, rows: Array) -> Array:
        at_node[node] = rows.size
        goes_right: Array = tree.goes_right(node, Z[rows])
        return goes_right

    exits = children.walk(tree.left, tree.right, len(Z), decide)
    return at_node, np.bincount(exits, minlength=tree.n_leaves)


def _test(tree: E2EDT, node: int, names: Sequence[str]) -> str:
    """Return the lines of a node's test, none where it reads many columns."""
    reads = np.flatnonzero(tree.theta[node]).tolist()
    if len(reads) > COLUMNS_WRITTEN:
        return ""
    terms = [f"{_signed(tree.theta[node, j])} {names[j]}" for j in reads]
    return "\n" + "\n".join([*terms, f"{_signed(tree.bias[node])} > 0"])


def _signed(number: float) -> str:
    return f"{number:+.2g}".replace("-", "−")


def _answer(tree: E2EDT, leaf: int) -> str:
    if tree.classes is None:
        return "\n".join(f"{value:.3g}" for value in tree.values[leaf])
    return str(labels_of(tree.values[leaf : leaf + 1], tree.classes)[0])

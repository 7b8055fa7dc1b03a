"""Answers of trees of two features over the plane, soft and hard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.converters.native.e2edt import E2EDT
from bitvec.core.arrays import Array, ArrayLike
from bitvec.errors import InputError, needs
from bitvec.plots.drawable import Stages, require_tree, titled
from bitvec.plots.plane import INK, PIXELS, Plane, distinct_colours, leaf_vectors, plane_of

with needs("matplotlib", "plot", "Drawing a tree"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAMES_A_LINE = 5
GAMMAS = (1.0, 2.0, 4.0, 8.0)


def draw_annealing(
    tree: E2EDT,
    X: ArrayLike,
    y: ArrayLike | None = None,
    gammas: Sequence[float] = GAMMAS,
    *,
    feature_names: Sequence[str] | None = None,
    output: int = 0,
) -> Figure:
    """Draw the answers of a tree of two features as its steepness γ rises, and those of the hard.

    Colours are those of the classes, the paler the less certain; lines part the labels.

    Parameters
    ----------
    tree : E2EDT
    X : (n_rows, 2)
        Rows that say which part of the plane to draw, and stand in it.
    y : (n_rows,), or (n_rows, n_outputs) for a regressor, optional
        What colours the rows.
    gammas : sequence of float
        One frame for each; the frame of the hard tree comes last.
    feature_names : (2,), optional
    output : int
        Of a regressor of several.

    Raises
    ------
    InputError
        If the tree reads other than two features, or rows or numbers do not fit.
    """
    require_tree(tree)
    plane = plane_of([tree], X, y=y, feature_names=feature_names, output=output)
    given = np.asarray(gammas)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iuf":
        raise InputError(f"`gammas` must be positive numbers, one at least, got {gammas!r}.")
    if not np.all((given > 0) & (given < np.inf)):
        raise InputError(f"`gammas` must be positive and finite, got {gammas!r}: leave others out.")
    n_frames = given.size + 1
    n_columns = min(n_frames, FRAMES_A_LINE)
    n_lines = -(-n_frames // n_columns)
    figure = Figure(figsize=(2.5 * n_columns + 0.7, 2.7 * n_lines + 0.4), layout="constrained")
    panels = figure.subplots(n_lines, n_columns, squeeze=False)
    for number, panel in enumerate(panels.ravel()):
        if number >= n_frames:
            panel.set_axis_off()
            continue
        gamma = float(given[number]) if number < given.size else None
        _draw(panel, plane, tree, output, gamma)
        panel.set_title("hard" if gamma is None else f"γ = {gamma:g}", fontsize=10)
        plane.name(panel, up=number % n_columns == 0, across=number + n_columns >= n_frames)
    plane.explain(figure)
    return figure


def draw_posterior(
    stages: Stages,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    output: int = 0,
) -> Figure:
    """Draw what trees of two features answer, softly at their own steepness, and hard below.

    Parameters
    ----------
    stages : pairs of a title and an E2EDT
        A tree at several times of its training, for example; all with the same classes.
    X, y, feature_names, output
        See `draw_annealing`.

    Raises
    ------
    InputError
        If a tree reads other than two features, trees do not fit each other, or rows do not fit.
    """
    trees = titled("stages", stages)
    _require_alike([tree for _, tree in trees])
    plane = plane_of(
        [tree for _, tree in trees], X, y=y, feature_names=feature_names, output=output
    )
    figure = Figure(figsize=(2.5 * len(trees) + 0.9, 5.6), layout="constrained")
    panels = figure.subplots(2, len(trees), squeeze=False)
    for column, (title, tree) in enumerate(trees):
        for line, how in enumerate(("soft", "hard")):
            panel = panels[line, column]
            _draw(panel, plane, tree, output, None if line else tree.gamma)
            plane.name(panel, up=not column, across=bool(line))
            if not column:
                panel.set_ylabel(f"{how}: {plane.names[1]}")
        panels[0, column].set_title(f"{title}, γ = {tree.gamma:.3g}", fontsize=10)
    plane.explain(figure)
    return figure


def _require_alike(trees: Sequence[E2EDT]) -> None:
    first = trees[0]
    for tree in trees:
        if tree.n_outputs != first.n_outputs or not np.array_equal(_labels(tree), _labels(first)):
            raise InputError(
                "`stages` must hold trees of the same classes or outputs, got others: draw them "
                "apart."
            )


def _labels(tree: E2EDT) -> Array:
    return np.arange(0) if tree.classes is None else tree.classes


def _draw(panel: Axes, plane: Plane, tree: E2EDT, output: int, gamma: float | None) -> None:
    """Draw the answers at a steepness, or the hard ones, and the rows."""
    if gamma is None:
        answers = leaf_vectors(tree)[tree.decide(plane.grid)]
    else:
        answers = replace(tree, gamma=gamma).memberships(plane.grid) @ leaf_vectors(tree)
    if plane.classes is None:
        shown = answers[:, output]
    else:
        shown = _blend(answers, distinct_colours(plane.classes.size))
    panel.imshow(
        shown.reshape(PIXELS, PIXELS, *shown.shape[1:]), cmap=plane.colours, norm=plane.scale,
        extent=plane.extent, origin="lower", aspect="auto",
    )  # fmt: skip
    if plane.classes is not None and plane.classes.size > 1:
        label = answers.argmax(axis=1).reshape(PIXELS, PIXELS)
        for k in np.unique(label)[1:]:
            panel.contour(
                *plane.sides, (label == k).astype(float), levels=[0.5], colors=[INK], linewidths=0.7
            )
    _draw_rows(panel, plane)
    panel.set(xlim=plane.extent[:2], ylim=plane.extent[2:])


def _draw_rows(panel: Axes, plane: Plane) -> None:
    points: Any = {"markeredgecolor": "white", "markeredgewidth": 0.25, "markersize": 3}
    if plane.told is None:
        panel.plot(*plane.rows.T, "o", color=INK, **points)
    elif plane.classes is None:
        panel.scatter(
            plane.rows[:, 0], plane.rows[:, 1], s=9, c=plane.told, cmap=plane.colours,
            norm=plane.scale, edgecolors="white", linewidths=0.25, rasterized=True,
        )  # fmt: skip
    else:
        for k, colour in enumerate(distinct_colours(plane.classes.size)):
            panel.plot(*plane.rows[plane.told == k].T, "o", color=colour, **points)


def _blend(shares: Array, palette: Array) -> Array:
    """Return the mean colour of each distribution, the paler the less certain."""
    n = len(palette)
    certain = np.ones(len(shares)) if n == 1 else (shares.max(axis=1) - 1 / n) / (1 - 1 / n)
    strong = 0.6 * np.clip(certain, 0, 1)[:, None]
    return np.clip(strong * (shares @ palette) + 1 - strong, 0, 1)

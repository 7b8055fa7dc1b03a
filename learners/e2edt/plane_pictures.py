"""What trees of two features answer over the plane, softly and hard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.arrays import Array, ArrayLike
from bitvec.converters.native.e2edt import E2EDT
from bitvec.errors import InputError, MissingLibraryError
from bitvec.learners.e2edt.drawable import (
    INK,
    MOST_NAMED,
    Stages,
    column_names,
    distinct_colours,
    leaf_vectors,
    legend_columns,
    require_tree,
    titled,
)

try:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingLibraryError("matplotlib", "plot", "Drawing a tree") from error

PIXELS = 200
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
    plane = _plane([tree], X, y, feature_names, output)
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
        plane.draw(panel, tree, gamma)
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
    plane = _plane([tree for _, tree in trees], X, y, feature_names, output)
    figure = Figure(figsize=(2.5 * len(trees) + 0.9, 5.6), layout="constrained")
    panels = figure.subplots(2, len(trees), squeeze=False)
    for column, (title, tree) in enumerate(trees):
        for line, how in enumerate(("soft", "hard")):
            panel = panels[line, column]
            plane.draw(panel, tree, None if line else tree.gamma)
            plane.name(panel, up=False, across=bool(line))
            if not column:
                panel.set_ylabel(f"{how}: {plane.names[1]}")
        panels[0, column].set_title(f"{title}, γ = {tree.gamma:.3g}", fontsize=10)
    plane.explain(figure)
    return figure


@dataclass(frozen=True, slots=True, eq=False)
class _Plane:
    """A part of the plane, the rows in it, and the colours of answers.

    Parameters
    ----------
    extent : (left, right, bottom, top)
    grid : (PIXELS², 2)
        The middles of the pixels, line by line.
    rows : (n_rows, 2)
    told : (n_rows,), optional
        Class numbers or values.
    classes : (n_classes,), optional
    scale : Normalize, optional
        Of a regressor's values.
    output : int
    names : the two features'
    """

    extent: tuple[float, float, float, float]
    grid: Array
    rows: Array
    told: Array | None
    classes: Array | None
    scale: Normalize | None
    output: int
    names: tuple[str, ...]

    def draw(self, panel: Axes, tree: E2EDT, gamma: float | None) -> None:
        """Draw the answers at a steepness, or the hard ones, and the rows."""
        if gamma is None:
            answers = leaf_vectors(tree)[tree.decide(self.grid)]
        else:
            answers = replace(tree, gamma=gamma).memberships(self.grid) @ leaf_vectors(tree)
        if self.classes is None:
            shown: Any = {"X": answers[:, self.output], "cmap": "viridis", "norm": self.scale}
        else:
            shown = {"X": _blend(answers, distinct_colours(self.classes.size))}
        shown["X"] = shown["X"].reshape(PIXELS, PIXELS, *shown["X"].shape[1:])
        panel.imshow(**shown, extent=self.extent, origin="lower", aspect="auto")
        if self.classes is not None and self.classes.size > 1:
            label = answers.argmax(axis=1).reshape(PIXELS, PIXELS)
            across, up = self.grid[:PIXELS, 0], self.grid[::PIXELS, 1]
            for k in np.unique(label)[1:]:
                panel.contour(
                    across, up, (label == k).astype(float), levels=[0.5], colors=[INK],
                    linewidths=0.7,
                )  # fmt: skip
        self._draw_rows(panel)
        panel.set(xlim=self.extent[:2], ylim=self.extent[2:], xticks=[], yticks=[])

    def _draw_rows(self, panel: Axes) -> None:
        points: Any = {"markeredgecolor": "white", "markeredgewidth": 0.25, "markersize": 3}
        if self.told is None:
            panel.plot(*self.rows.T, "o", color=INK, **points)
        elif self.classes is None:
            panel.scatter(
                self.rows[:, 0], self.rows[:, 1], s=9, c=self.told, cmap="viridis", norm=self.scale,
                edgecolors="white", linewidths=0.25, rasterized=True,
            )  # fmt: skip
        else:
            for k, colour in enumerate(distinct_colours(self.classes.size)):
                panel.plot(*self.rows[self.told == k].T, "o", color=colour, **points)

    def name(self, panel: Axes, *, up: bool, across: bool) -> None:
        """Write the features' names where they are asked for."""
        panel.set(xlabel=self.names[0] if across else "", ylabel=self.names[1] if up else "")

    def explain(self, figure: Figure) -> None:
        """Say which colour is which class, or which value."""
        panels = figure.axes
        if self.classes is None:
            figure.colorbar(panels[0].images[0], ax=panels, label="mean", shrink=0.8)
            return
        if not 1 < self.classes.size <= MOST_NAMED:
            return
        colours = distinct_colours(self.classes.size)
        marks = [
            panels[0].plot([], [], "o", color=colours[k], label=str(name))[0]
            for k, name in enumerate(self.classes.tolist())
        ]
        figure.legend(
            handles=marks, loc="outside lower center", frameon=False, fontsize=8,
            ncols=legend_columns([str(name) for name in self.classes], figure.get_figwidth()),
        )  # fmt: skip


def _plane(
    trees: Sequence[E2EDT],
    X: ArrayLike,
    y: ArrayLike | None,
    feature_names: Sequence[str] | None,
    output: int,
) -> _Plane:
    for tree in trees:
        if tree.n_features != 2:
            raise InputError(
                f"`tree` must read two features to be drawn over the plane, got {tree.n_features}."
            )
    first = trees[0]
    classes = first.classes
    for tree in trees:
        if tree.n_outputs != first.n_outputs or not np.array_equal(_labels(tree), _labels(first)):
            raise InputError(
                "`stages` must hold trees of the same classes or outputs, got others: draw them "
                "apart."
            )
    if not 0 <= output < first.n_outputs:
        raise InputError(f"`output` must be 0 ... {first.n_outputs - 1}, got {output!r}.")
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows) or rows.dtype.kind not in "biuf":
        raise InputError(f"`X` must be rows of two features, got shape {rows.shape}.")
    if not np.all(np.isfinite(rows)):
        raise InputError("`X` must be finite, got NaN or infinity: leave such rows out.")
    rows = rows.astype(np.float64)
    margin = 0.06 * np.maximum(np.ptp(rows, axis=0), 1e-6)
    low, high = rows.min(axis=0) - margin, rows.max(axis=0) + margin
    middles = (np.arange(PIXELS) + 0.5) / PIXELS
    sides = [low[k] + (high[k] - low[k]) * middles for k in (0, 1)]
    told = None if y is None else _told(y, first, len(rows), output)
    scale = None
    if classes is None:
        means = np.concatenate([tree.values[:, output] for tree in trees])
        scale = Normalize(float(means.min()), float(means.max()))
    return _Plane(
        extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        grid=np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2),
        rows=rows,
        told=told,
        classes=classes,
        scale=scale,
        output=output,
        names=column_names(feature_names, 2),
    )


def _labels(tree: E2EDT) -> Array:
    return np.arange(0) if tree.classes is None else tree.classes


def _told(y: ArrayLike, tree: E2EDT, n_rows: int, output: int) -> Array:
    """Return the class number or the value of each row."""
    told = np.asarray(y)
    if tree.classes is None and told.ndim == 2 and told.shape[1] == tree.n_outputs:
        told = told[:, output]
    if told.shape != (n_rows,):
        raise InputError(f"`y` must hold one label or number a row, got shape {np.shape(y)}.")
    if tree.classes is None:
        if told.dtype.kind not in "biuf":
            raise InputError(f"`y` must hold numbers for a regressor, got {told.dtype}.")
        return told.astype(np.float64)
    number = {label: k for k, label in enumerate(tree.classes.tolist())}
    if unknown := [label for label in told.tolist() if label not in number]:
        raise InputError(f"`y` must hold labels of the tree, got {unknown[0]!r}: leave it out.")
    return np.array([number[label] for label in told.tolist()])


def _blend(shares: Array, palette: Array) -> Array:
    """Return the mean colour of each distribution, the paler the less certain."""
    n = len(palette)
    certain = np.ones(len(shares)) if n == 1 else (shares.max(axis=1) - 1 / n) / (1 - 1 / n)
    strong = 0.6 * np.clip(certain, 0, 1)[:, None]
    return np.clip(strong * (shares @ palette) + 1 - strong, 0, 1)

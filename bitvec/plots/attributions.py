"""Plots of explanations: Shapley values of many rows and of one, importances, dependence.

Every function returns a `matplotlib.figure.Figure`, which needs no display; save it with `savefig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.forest import Forest
from bitvec.core.plain_text import plain
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError, needs
from bitvec.explanations.dependence import PartialDependence, column_place
from bitvec.explanations.explainer import Explainer
from bitvec.runtime.predict import tables

with needs("matplotlib", "plot", "Drawing an explanation"):
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

INK, PALE = "#1f2933", "#c9d1d9"
LOWER, HIGHER = "#0072b2", "#d55e00"
"""Blue and vermillion, which readers with any colour vision tell apart (Okabe and Ito 2008)."""
LOW_TO_HIGH = "cividis"
BINS, ROW_INCHES, NAME_LENGTH = 100, 0.32, 28


def draw_beeswarm(
    explainer: Explainer, X: Any, *, values: Array | None = None, output: int = 0, most: int = 20
) -> Figure:
    """Draw the Shapley values of many rows, a line of points for each column.

    Columns come by their mean absolute value, largest first; points are coloured by the rank of the
    value that the row holds, grey where it is missing.

    Parameters
    ----------
    explainer : Explainer
    X : table of rows, (batch, n_features)
    values : (batch, n_features) or (batch, n_features, n_outputs), optional
        What `explainer.values(X)` gave, if it is there already.
    output : int
        Of several outputs.
    most : int
        Columns that are drawn; the sum of the others makes the last line.

    Raises
    ------
    InputError
        If X has no rows, or `values`, `output` or `most` do not fit.
    """
    rows, found = _explained(explainer, X, values, output)
    order, rest = _largest(np.abs(found).mean(axis=0), most)
    names = [short_names(explainer.forest)[column] for column in order]
    lines = [found[:, column] for column in order]
    if rest.size:
        names.append(f"sum of {rest.size} others")
        lines.append(found[:, rest].sum(axis=1))
    figure = Figure(figsize=(8, 1.3 + ROW_INCHES * len(lines)), layout="constrained")
    axis = figure.subplots()
    axis.axvline(0, color=PALE, zorder=0)
    for at, line in enumerate(lines):
        y = at + _spread(line)
        if at < len(order):
            rank = _ranks(rows[:, order[at]])
            missing = np.isnan(rank)
            axis.scatter(line[missing], y[missing], s=7, color=PALE, linewidth=0)
            known = ~missing
            axis.scatter(
                line[known], y[known], s=7, c=rank[known], cmap=LOW_TO_HIGH, vmin=0, vmax=1,
                linewidth=0,
            )  # fmt: skip
        else:
            axis.scatter(line, y, s=7, color=INK, linewidth=0)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    _plain_axis(axis, "Shapley value: what the column adds to the raw score")
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), LOW_TO_HIGH), ax=axis, aspect=30)
    bar.set_ticks([0, 1], labels=["low", "high"])
    bar.set_label("value of the column", labelpad=-12)
    return figure


def draw_bars(
    importances: ArrayLike,
    names: Sequence[str] | Forest,
    *,
    label: str = "importance",
    errors: ArrayLike | None = None,
    most: int = 20,
) -> Figure:
    """Draw importances of columns as bars, largest first.

    Parameters
    ----------
    importances : (n_features,)
        Gains, mean absolute Shapley values, permutation importances ...
    names : sequence of str, or the forest that has them
    label : str
        Names the quantity and its unit.
    errors : (n_features,), optional
        Half-widths of error bars, such as standard deviations over repeats.
    most : int
        Columns that are drawn.
    """
    given = np.asarray(importances, np.float64)
    known = (
        short_names(names)
        if isinstance(names, Forest)
        else [short_text(str(name)) for name in names]
    )
    spread = None if errors is None else np.asarray(errors, np.float64)
    if given.ndim != 1 or given.size != len(known) or not np.all(np.isfinite(given)):
        raise InputError(
            f"`importances` must be one finite number for each of {len(known)} columns, got shape "
            f"{given.shape}: pass one axis."
        )
    if spread is not None and spread.shape != given.shape:
        raise InputError(f"`errors` must have the shape of `importances`, got {spread.shape}.")
    order, rest = _largest(given, most)
    figure = Figure(figsize=(7, 1.0 + ROW_INCHES * order.size), layout="constrained")
    axis = figure.subplots()
    width = given[order]
    axis.barh(range(order.size), width, color=LOWER, height=0.7)
    if spread is not None:
        axis.errorbar(
            width, range(order.size), xerr=spread[order], fmt="none", ecolor=INK, elinewidth=1
        )
    else:
        for at, value in enumerate(width):
            axis.annotate(
                f"{value:.3g}", (value, at), (3 if value >= 0 else -3, 0), color=INK, fontsize=8,
                textcoords="offset points", va="center", ha="left" if value >= 0 else "right",
            )  # fmt: skip
        axis.margins(x=0.12)
    axis.set_yticks(range(order.size), [known[column] for column in order])
    axis.set_ylim(order.size - 0.4, -0.6)
    note = f"; {rest.size} smaller ones are not shown" if rest.size else ""
    _plain_axis(axis, label + note)
    return figure


def draw_waterfall(explainer: Explainer, row: Any, *, output: int = 0, most: int = 12) -> Figure:
    """Draw how the columns of one row lead from the base value to its raw score.

    Parameters
    ----------
    explainer : Explainer
    row : table of one row, (1, n_features)
    output : int
        Of several outputs.
    most : int
        Columns that are drawn, those of the largest values; the others make one step.
    """
    rows, found = _explained(explainer, row, None, output)
    if len(rows) != 1:
        raise InputError(f"`row` must be a table of one row, got {len(rows)}: pass X[i : i + 1].")
    order, rest = _largest(np.abs(found[0]), most)
    names = short_names(explainer.forest)
    texts = [f"{names[j]} = {_shown(explainer.forest, rows[0], j)}" for j in order]
    steps = found[0, order]
    if rest.size:
        texts.append(f"{rest.size} others")
        steps = np.append(steps, found[0, rest].sum())
    base = float(np.ravel(explainer.base_value)[output])
    ends = base + np.cumsum(steps)
    figure = Figure(figsize=(8, 1.4 + ROW_INCHES * len(steps)), layout="constrained")
    axis = figure.subplots()
    for at, (step, end) in enumerate(zip(steps, ends, strict=True)):
        axis.barh(at, step, left=end - step, color=HIGHER if step > 0 else LOWER, height=0.7)
        if at + 1 < len(steps):
            axis.plot([end, end], [at, at + 1], color=PALE, lw=1, zorder=0)
        axis.annotate(
            f"{step:+.3g}", (max(end, end - step), at), (4, 0), textcoords="offset points",
            va="center", fontsize=8, color=INK,
        )  # fmt: skip
    for value, text, at in ((base, "base value", -1), (ends[-1], "raw score", len(steps))):
        axis.axvline(value, color=INK, lw=0.8, ls=":", zorder=0)
        axis.annotate(
            f"{text} {value:.4g}", (value, at), ha="center", va="center", fontsize=9, color=INK
        )
    axis.set_yticks(range(len(steps)), texts)
    axis.set_ylim(len(steps) + 0.6, -1.6)
    axis.use_sticky_edges = False  # bars would hold the margins off
    axis.margins(x=0.14)
    _plain_axis(axis, "raw score")
    return figure


def draw_dependence(
    explainer: Explainer,
    X: Any,
    column: int | str,
    *,
    colour: int | str | None = None,
    values: Array | None = None,
    output: int = 0,
) -> Figure:
    """Draw the Shapley values of one column over its values, coloured by those of another.

    Parameters
    ----------
    explainer : Explainer
    X : table of rows, (batch, n_features)
    column, colour : int or str
    values, output
        As of `draw_beeswarm`.
    """
    rows, found = _explained(explainer, X, values, output)
    at = column_place(explainer.forest, column)
    names = short_names(explainer.forest)
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    axis.axhline(0, color=PALE, zorder=0)
    if colour is None:
        axis.scatter(rows[:, at], found[:, at], s=10, color=LOWER, linewidth=0)
    else:
        other = column_place(explainer.forest, colour)
        points = axis.scatter(
            rows[:, at], found[:, at], s=10, c=rows[:, other], cmap=LOW_TO_HIGH, linewidth=0
        )
        figure.colorbar(points, ax=axis, label=names[other])
    _name_codes(axis, explainer.forest, at)
    axis.set_ylabel("Shapley value")
    _plain_axis(axis, names[at])
    return figure


def draw_partial_dependence(
    found: PartialDependence, forest: Forest, *, output: int = 0, most_rows: int = 50
) -> Figure:
    """Draw partial dependence: a curve over one column, or a map over two.

    Parameters
    ----------
    found : PartialDependence
        What `partial_dependence` gave; individual curves are drawn pale, if it holds them.
    forest : Forest
        Names the columns and categories.
    output : int
        Of several outputs.
    most_rows : int
        Individual curves that are drawn, evenly among all.
    """
    names = short_names(forest)
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    average, first = found.average[output], found.columns[0]
    if len(found.columns) == 2:
        shown = axis.pcolormesh(
            found.grid[0], found.grid[1], average.T, cmap=LOW_TO_HIGH, shading="nearest"
        )
        figure.colorbar(shown, ax=axis, label="average prediction")
        axis.set_ylabel(names[found.columns[1]])
        _plain_axis(axis, names[first])
        return figure
    if found.individual is not None:
        every = found.individual[output]
        for curve in every[:: max(1, -(-len(every) // most_rows))]:
            axis.plot(found.grid[0], curve, color=PALE, lw=0.8)
    if forest.inputs.book(first) is None:
        axis.plot(found.grid[0], average, color=LOWER, lw=2.2)
    else:
        axis.plot(found.grid[0], average, "o", color=LOWER, ms=7)
    _name_codes(axis, forest, first)
    axis.set_ylabel("average prediction")
    _plain_axis(axis, names[first])
    return figure


def _explained(
    explainer: Explainer, X: Any, values: Array | None, output: int
) -> tuple[Array, Float[Array, "batch n_features"]]:
    """Return rows as the forest reads them and the values of one output."""
    forest = explainer.forest
    if not 0 <= output < forest.n_outputs:
        raise InputError(f"`output` must be below {forest.n_outputs}, got {output}.")
    rows = tables.rows(X, forest.inputs, forest.dtype)
    if not len(rows):
        raise InputError("`X` must have at least one row, got none: pass some rows.")
    found = explainer.values(rows) if values is None else np.asarray(values)
    shape = (*rows.shape, forest.n_outputs) if forest.n_outputs > 1 else rows.shape
    if found.shape != shape:
        raise InputError(
            f"`values` must have shape {shape}, got {found.shape}: explain these rows."
        )
    return rows, found[..., output] if forest.n_outputs > 1 else found


def _largest(size: Float[Array, " n"], most: int) -> tuple[Array, Array]:
    if most < 1:
        raise InputError(f"`most` must be at least 1, got {most}: pass the columns to draw.")
    order = np.argsort(-size, kind="stable")
    keep = most if size.size > most + 1 else size.size  # no line for the sum of one
    return order[:keep], order[keep:]


def _spread(line: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """Return offsets that pile points of about equal values up, symmetric about 0."""
    low, high = line.min(), line.max()
    if high <= low:
        return np.zeros(line.size)
    cell = np.minimum((line - low) / (high - low) * BINS, BINS - 1).astype(int)
    order = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[order], cell[order])
    place = np.empty(line.size, int)
    place[order] = np.arange(line.size) - first
    count = np.bincount(cell, minlength=BINS)
    side = np.where(place % 2 == 0, 1, -1) * ((place + 1) // 2)
    return side * (0.8 / max(int(count.max()), 12))


def _ranks(x: Array) -> Float[Array, " batch"]:
    rank = np.full(x.size, np.nan)
    known = np.flatnonzero(~np.isnan(x))
    distinct, inverse = np.unique(x[known], return_inverse=True)
    rank[known] = inverse / max(distinct.size - 1, 1)
    return rank


def short_names(forest: Forest) -> list[str]:
    """Return the names of the columns, short enough for an axis."""
    names = forest.inputs.feature_names
    if names is None:
        return [f"x{column}" for column in range(forest.n_features)]
    return [short_text(name) for name in names]


def short_text(name: str) -> str:
    """Return a text of one line that matplotlib draws as it is."""
    # A pair of dollars would be read as mathematics.
    text = plain(name).replace("$", r"\$")
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "…"


def _shown(forest: Forest, row: Array, column: int) -> str:
    value, book = row[column], forest.inputs.book(column)
    if np.isnan(value):
        return "missing"
    if book is not None and 0 <= value < len(book):
        return short_text(str(book[int(value)]))
    return f"{value:.4g}"


def _name_codes(axis: Axes, forest: Forest, column: int) -> None:
    book = forest.inputs.book(column)
    if book is not None and len(book) <= 30:
        many = len(book) > 6
        axis.set_xticks(
            range(len(book)), [short_text(str(label)) for label in book],
            rotation=90 if many else 0, fontsize=8 if many else 10,
        )  # fmt: skip


def _plain_axis(axis: Axes, label: str) -> None:
    axis.set_xlabel(label)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(length=2)

"""Colours, legends and the plane of two features, shared by the plots of native trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitvec.converters.native.native_tree import NativeTree
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError, needs

with needs("matplotlib", "plot", "Drawing a tree"):
    from matplotlib import colormaps
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, ListedColormap, Normalize, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MOST_NAMED = 30
"""Classes that a legend names."""
PIXELS = 200
"""Pixels of each side of the plane."""
MOST_TICKS = 5
EXTENDS = {
    (False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both",
}  # fmt: skip
"""Values of a colour bar's `extend`, by whether values lie below its scale and above."""
INK, PALE = "#1f2933", "#9fb3c8"
TWO_CLASSES = ("#30638e", "#d1495b")
FEW_CLASSES = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000",
)  # fmt: skip
"""Told apart with any colour vision (Okabe and Ito 2008)."""


def leaf_vectors(tree: NativeTree) -> Float64[Array, "n_leaves n_outputs"]:
    """Return the leaf vectors, with a column for each class."""
    values = tree.values.astype(np.float64)
    if tree.classes is not None and values.shape[1] < tree.classes.size:
        return np.concatenate([1 - values, values], axis=1)
    return values


def distinct_colours(n: int) -> Float64[Array, "n 3"]:
    """Return colours that can be told apart."""
    if n <= len(FEW_CLASSES):
        few = TWO_CLASSES if n == 2 else FEW_CLASSES[:n]
        return np.array([to_rgb(colour) for colour in few]).reshape(n, 3)
    if n <= 20:
        return colormaps["tab10" if n <= 10 else "tab20"](np.arange(n))[:, :3]
    return colormaps["turbo"](np.linspace(0, 1, n))[:, :3]


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return how many labels of a legend stand beside each other in so many inches."""
    longest = max(map(len, labels))
    return min(len(labels), max(1, int(width / (0.08 * longest + 0.55))))


def column_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    """Return the names of the columns, x0, x1, ... if there are none."""
    if names is None:
        return tuple(f"x{j}" for j in range(n_features))
    if isinstance(names, str) or len(names) != n_features:
        raise InputError(
            f"`feature_names` must hold {n_features} names, got {names!r}: name each column."
        )
    return tuple(str(name) for name in names)


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """A part of the plane of two features, the rows in it, and the colours of rows and answers.

    Parameters
    ----------
    extent : (left, right, bottom, top)
    grid : (PIXELS², 2)
        The middles of the pixels, line by line.
    rows : (n_rows, 2)
    told : (n_rows,), optional
        Class numbers or values.
    classes : (n_classes,), optional
    scale : Normalize
        Of class numbers, or of a regressor's values.
    output : str
        What a regressor's colours say.
    names : the two features'
    """

    extent: tuple[float, float, float, float]
    grid: Array
    rows: Array
    told: Array | None
    classes: Array | None
    scale: Normalize
    output: str
    names: tuple[str, ...]

    @property
    def colours(self) -> Colormap:
        """The colours of class numbers, or of values, on `scale`."""
        if self.classes is None:
            return colormaps["viridis"]
        return ListedColormap(distinct_colours(self.classes.size))

    @property
    def sides(self) -> tuple[Array, Array]:
        """The middles of the pixels along each feature."""
        return self.grid[:PIXELS, 0], self.grid[::PIXELS, 1]

    def name(self, panel: Axes, *, up: bool, across: bool) -> None:
        """Write the features' names and numbers where they are asked for."""
        panel.locator_params(nbins=MOST_TICKS)
        panel.tick_params(labelsize=7, length=2.5, labelleft=up, labelbottom=across)
        panel.set(xlabel=self.names[0] if across else "", ylabel=self.names[1] if up else "")

    def explain(self, figure: Figure) -> None:
        """Say which colour is which class, or which value."""
        if self.classes is None:
            place = np.zeros(1) if self.told is None else np.asarray(self.scale(self.told))
            beyond = bool(np.any(place < 0)), bool(np.any(place > 1))
            bar = figure.colorbar(
                ScalarMappable(self.scale, self.colours), ax=figure.axes, label=self.output,
                shrink=0.8, extend=EXTENDS[beyond],
            )  # fmt: skip
            bar.ax.tick_params(labelsize=7)
            return
        if not 1 < self.classes.size <= MOST_NAMED:
            return
        labels = [str(name) for name in self.classes.tolist()]
        marks = [
            Line2D([], [], ls="", marker="o", color=colour, label=label)
            for colour, label in zip(distinct_colours(len(labels)), labels, strict=True)
        ]
        figure.legend(
            handles=marks, loc="outside lower center", frameon=False, fontsize=8,
            ncols=legend_columns(labels, figure.get_figwidth()),
        )  # fmt: skip


def plane_of(
    trees: Sequence[NativeTree],
    X: ArrayLike,
    *,
    y: ArrayLike | None,
    feature_names: Sequence[str] | None,
    output: int,
) -> Plane:
    """Return the part of the plane that rows span, on one colour scale for them and the trees."""
    for tree in trees:
        if tree.n_features != 2:
            raise InputError(
                f"`tree` must read two features to be drawn over the plane, got {tree.n_features}."
            )
    first = trees[0]
    n_drawable = first.n_outputs if first.classes is None else 1
    if output not in range(n_drawable):
        allowed = "0" if n_drawable == 1 else f"0 ... {n_drawable - 1}"
        raise InputError(f"`output` must be {allowed}, got {output!r}.")
    rows = _rows(X)
    margin = 0.06 * np.maximum(np.ptp(rows, axis=0), 1e-6)
    low, high = rows.min(axis=0) - margin, rows.max(axis=0) + margin
    middles = (np.arange(PIXELS) + 0.5) / PIXELS
    sides = [low[k] + (high[k] - low[k]) * middles for k in (0, 1)]
    told = None if y is None else _told(y, first, len(rows), output)
    if first.classes is None:
        means = np.concatenate([tree.values[:, output] for tree in trees])
        # Of a tree that says one number, only the rows have a scale.
        spans = means if told is None or np.ptp(means) else told
        scale = Normalize(float(spans.min()), float(spans.max()))
    else:
        scale = Normalize(-0.5, first.classes.size - 0.5)
    return Plane(
        extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        grid=np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2),
        rows=rows,
        told=told,
        classes=first.classes,
        scale=scale,
        output="mean" if first.n_outputs == 1 else f"mean of output {output}",
        names=column_names(feature_names, 2),
    )


def _rows(X: ArrayLike) -> Array:
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows):
        raise InputError(f"`X` must be rows of two features, one at least, got shape {rows.shape}.")
    if rows.dtype.kind not in "biuf":
        raise InputError(f"`X` must hold numbers, got {rows.dtype}: convert the columns first.")
    rows = rows.astype(np.float64)
    broken = np.flatnonzero(~np.all(np.isfinite(rows), axis=1))
    if broken.size:
        what = "NaN" if np.any(np.isnan(rows[broken[0]])) else "infinity"
        raise InputError(
            f"`X` must be finite, got {what} in row {broken[0]}: leave such rows out, "
            f"{broken.size} of {len(rows)}."
        )
    return rows


def _told(y: ArrayLike, tree: NativeTree, n_rows: int, output: int) -> Array:
    """Return the class number or the value of each row."""
    told = np.asarray(y)
    if tree.classes is None and told.ndim == 2 and told.shape[1] == tree.n_outputs:
        told = told[:, output]
    if told.shape != (n_rows,):
        raise InputError(f"`y` must hold one label or number a row, got shape {np.shape(y)}.")
    if tree.classes is None:
        if told.dtype.kind not in "biuf":
            raise InputError(f"`y` must hold numbers for a regressor, got {told.dtype}.")
        if not np.all(np.isfinite(told)):
            raise InputError("`y` must be finite, got NaN or infinity: leave such rows out.")
        return told.astype(np.float64)
    number = {label: k for k, label in enumerate(tree.classes.tolist())}
    if unknown := [label for label in told.tolist() if label not in number]:
        raise InputError(f"`y` must hold labels of the tree, got {unknown[0]!r}: leave it out.")
    return np.array([number[label] for label in told.tolist()])

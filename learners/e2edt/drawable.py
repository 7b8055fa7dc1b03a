"""What pictures of End-to-End Decision Trees are made of: checked trees, leaf vectors, colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitvec.arrays import Array
from bitvec.converters.native.e2edt import E2EDT
from bitvec.errors import InputError, MissingLibraryError

try:
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb
except ImportError as error:
    raise MissingLibraryError("matplotlib", "plot", "Drawing a tree") from error

MOST_LEAVES = 64
MOST_NAMED = 30
"""Classes that a legend names."""
INK, PALE = "#1f2933", "#9fb3c8"
TWO_CLASSES = ("#30638e", "#d1495b")

Stages = Sequence[tuple[str, E2EDT]]
"""Trees, each with a title."""


def leaf_vectors(tree: E2EDT) -> Float64[Array, "n_leaves n_outputs"]:
    """Return the leaf vectors, with a column for each class."""
    values = tree.values.astype(np.float64)
    if tree.classes is not None and values.shape[1] < tree.classes.size:
        return np.concatenate([1 - values, values], axis=1)
    return values


def distinct_colours(n: int) -> Float64[Array, "n 3"]:
    """Return colours that can be told apart."""
    if n == 2:
        return np.array([to_rgb(colour) for colour in TWO_CLASSES])
    if n <= 20:
        return colormaps["tab10" if n <= 10 else "tab20"](np.arange(n))[:, :3]
    return colormaps["turbo"](np.linspace(0, 1, n))[:, :3]


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return how many labels of a legend stand beside each other in so many inches."""
    longest = max(map(len, labels))
    return min(len(labels), max(1, int(width / (0.08 * longest + 0.55))))


def titled(name: str, stages: Any) -> list[tuple[str, E2EDT]]:
    """Return pairs of a title and a tree, checked."""
    try:
        found = [(str(title), tree) for title, tree in stages]
    except (TypeError, ValueError):
        found = []
    if not found:
        raise InputError(
            f"`{name}` must be pairs of a title and an E2EDT, one at least, got "
            f"{type(stages).__name__}: pass `tree_` of an estimator, with a title."
        )
    for _, tree in found:
        require_tree(tree)
    return found


def require_tree(tree: Any) -> None:
    """Raise unless it is a tree of this paper."""
    if not isinstance(tree, E2EDT):
        raise InputError(
            f"`tree` must be an E2EDT, got {type(tree).__name__}: pass `tree_` of an estimator, or "
            "one of the `trees_` of a forest."
        )


def require_small(tree: E2EDT) -> None:
    """Raise if it has too many leaves for a picture."""
    if tree.n_leaves > MOST_LEAVES:
        raise InputError(
            f"`tree` must have at most {MOST_LEAVES} leaves to be drawn, got {tree.n_leaves}: grow "
            "it with `max_leaves`, or draw a smaller one."
        )


def column_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    """Return the names of the columns, x0, x1, ... if there are none."""
    if names is None:
        return tuple(f"x{j}" for j in range(n_features))
    if isinstance(names, str) or len(names) != n_features:
        raise InputError(
            f"`feature_names` must hold {n_features} names, got {names!r}: name each column."
        )
    return tuple(str(name) for name in names)

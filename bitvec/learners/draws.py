"""Random draws for each tree or node: rows with replacement, and the number of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError


def drawn_rows(n_rows: int, seed: Any) -> Float64[Array, " n_rows"]:
    """Return how often each row is drawn, of as many draws with replacement as there are rows."""
    drawn = np.random.default_rng(seed).integers(0, n_rows, n_rows)
    return np.bincount(drawn, minlength=n_rows).astype(np.float64)


def feature_count(max_features: Any, n_features: int) -> int:
    """Return how many columns a node reads, from a number, a share, "sqrt", "log2" or None for all.

    Examples
    --------
    >>> [feature_count(each, 16) for each in (None, 0.5, 3, "sqrt", "log2")]
    [16, 8, 3, 4, 4]

    Raises
    ------
    InputError
    """
    if max_features is None:
        return n_features
    if isinstance(max_features, str) and max_features in ("sqrt", "log2"):
        root = np.sqrt(n_features) if max_features == "sqrt" else np.log2(n_features)
        return max(1, int(root))
    if not isinstance(max_features, bool):
        if isinstance(max_features, (int, np.integer)) and 1 <= max_features <= n_features:
            return int(max_features)
        if isinstance(max_features, (float, np.floating)) and 0 < max_features <= 1:
            return max(1, int(max_features * n_features))
    raise InputError(
        "`max_features` must be None, 'sqrt', 'log2', a share in (0, 1] or a number from 1 to "
        f"{n_features}, got {max_features!r}."
    )

"""IsolationForest: the sum over its trees of how deep a row falls, with its sign turned.

scikit-learn adds, in tree order and float64, the path length of the leaf plus what an unfinished
tree would add, and answers -(2 ** -(sum / (n_trees · c))) with c the expected path length. Here the
depths are negative, so that a higher score is more of an outlier before and after the
post-transform; no rounding sees a sign.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.converters.sklearn import nodes as sklearn_nodes
from bitvec.converters.sklearn.unsupported import (
    inputs_of,
    members,
    numbers,
    real_number,
    whole_number,
)
from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, keys
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output, PostTransform
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InvalidForestError, UnsupportedModelError


def convert_isolation(model: Any, kind: str) -> Forest:
    """Convert an isolation forest.

    Returns
    -------
    Forest
        A classifier of the labels 1 (inlier) and -1 (outlier). Its raw score is minus the sum of
        the depths. After the post-transform it is the anomaly score of the paper, in (0, 1], high
        for outliers: scikit-learn's `score_samples` is minus that, and its `decision_function`
        what remains after `source.metadata["offset"]` is subtracted.

    Notes
    -----
    Eq. (1) and (2) of Liu, Ting and Zhou, "Isolation Forest" (2008).
    """
    trees = members(model, kind)
    inputs = inputs_of(model)
    columns: list[Array] | None = sklearn_nodes.tree_columns(model, len(trees), inputs.n_features)
    if whole_number(model, "_max_features") == inputs.n_features:
        columns = None  # they are then not looked at, in whatever order they were drawn
    expected = average_path_length(np.array([whole_number(model, "_max_samples")]))[0]
    if expected == 0:
        raise UnsupportedModelError(
            "an IsolationForest must have seen at least 2 rows per tree, got `max_samples` = 1, "
            "for which every score is the same: fit it with more rows."
        )
    arranged = sklearn_nodes.arrange_trees(
        model, trees, inputs.n_features, [(1,)] * len(trees), columns=columns
    )
    depth = _depths(model, np.diff(arranged.start))
    scale, offset = float(len(trees) * expected), real_number(model, "offset_")
    output = Output(
        1,
        np.dtype(np.float64),
        post_transform=PostTransform.EXPONENTIAL_STANDARD_RATIO,
        parameter=-scale,
        classes=(np.array([1, -1]),),
        labels_from_raw=True,
        boundary=highest_inlier(scale, offset),
    )
    source = replace(arranged.source, metadata={**arranged.source.metadata, "offset": offset})
    v = -depth[arranged.leaf][:, None]
    return Forest(arranged.tests, arranged.bitvectors, Leaves(v), output, inputs, source)


def highest_inlier(scale: float, offset: float) -> float:
    """Return the highest raw score that scikit-learn calls an inlier, or the lowest number.

    Its labels compare rounded powers of two with the offset, which often is the very score of a
    training row, so a boundary of powers that are rounded in another way would misplace such rows.
    """
    float64 = np.dtype(np.float64)
    largest = np.finfo(float64).max
    low, high = (int(key) for key in keys(np.array([-largest, largest])))
    while high - low > 1:
        middle = (low + high) // 2
        # More than one number, so that NumPy computes them as it does the scores of many rows.
        raw = np.repeat(floats(np.array([middle]), float64), 8)
        with np.errstate(over="ignore", under="ignore"):
            decision = -(2 ** (-(-raw / scale))) - offset
        low, high = (low, middle) if decision[0] < 0 else (middle, high)
    return float(floats(np.array([low]), float64)[0])


def _depths(model: Any, size: Array) -> Float64[Array, " n_positions"]:
    """Return what each position adds, from the arrays that the model keeps for its trees."""
    kept = []
    for name in ("_decision_path_lengths", "_average_path_length_per_tree"):
        parts = getattr(model, name, None)
        if not isinstance(parts, (tuple, list)) or len(parts) != size.size:
            raise InvalidForestError(
                f"`{name}` must hold an array for each of {size.size} trees: the model is damaged, "
                "or older than scikit-learn 1.2."
            )
        kept.append([_lengths(part, name, int(n)) for part, n in zip(parts, size, strict=True)])
    length, average = (np.concatenate(parts) for parts in kept)
    depths: Array = length + average - 1.0
    return depths


def _lengths(part: Any, name: str, size: int) -> Float64[Array, " n_positions"]:
    array = np.asarray(part)
    return numbers(array.astype(np.float64) if array.dtype.kind in "iu" else part, name, size)


def average_path_length(n: Array) -> Float64[Array, " n"]:
    """Return the expected path length of an unsuccessful search among n rows.

    >>> average_path_length(np.array([1, 2, 256])).tolist()
    [0.0, 1.0, 10.244770920119917]
    """
    result = np.where(n == 2, 1.0, 0.0)
    many = n > 2
    m = n[many]
    # In the order in which scikit-learn computes it.
    result[many] = 2.0 * (np.log(m - 1.0) + np.euler_gamma) - 2.0 * (m - 1.0) / m
    return result

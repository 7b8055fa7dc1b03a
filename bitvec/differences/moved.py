"""Changes of S, b, v, r and the base score, where two forests have a part in common."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import NodeTests
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.differences.spreads import in_units

RULES = ("kind", "relation", "missing_rule", "code_rule", "missing_right", "other_right")


@dataclass(frozen=True, slots=True)
class Change:
    """Change of one array.

    Parameters
    ----------
    name : str
        "S", "b", "v", "r" or "base_score".
    of : str
        What is counted: a row of S and a leaf count as one, by the largest change in them.
    compared, moved : int
    largest, mean : float
        Absolute changes, the mean over what moved; NaN where nothing finite did.
    largest_in_spreads, mean_in_spreads : float
        The same in units of spreads over X, as `diff` explains; NaN without X.
    """

    name: str
    of: str
    compared: int
    moved: int
    largest: float
    mean: float
    largest_in_spreads: float = np.nan
    mean_in_spreads: float = np.nan

    def in_spreads(self, change: Float[Array, " n"], moved: Bool[Array, " n"]) -> Change:
        """Return the change with these relative changes of what moved."""
        largest, mean = _extent(change[moved])
        return replace(self, largest_in_spreads=largest, mean_in_spreads=mean)


def change(name: str, of: str, absolute: Float[Array, " n"], moved: Bool[Array, " n"]) -> Change:
    """Return the summary of absolute changes."""
    largest, mean = _extent(absolute[moved])
    return Change(name, of, len(moved), int(np.count_nonzero(moved)), largest, mean)


def _extent(absolute: Array) -> tuple[float, float]:
    known = absolute[~np.isnan(absolute)]
    if not known.size:
        return np.nan, np.nan
    with np.errstate(over="ignore"):
        return float(known.max()), float(known.mean())


def between(before: Array, after: Array) -> tuple[Array, Array]:
    """Return |after − before| in float64, and whether a value is another: NaN is NaN, 0 is −0.

    A change from or to NaN has no size: it is NaN.
    """
    old, new = before.astype(np.float64), after.astype(np.float64)
    same: Array = (old == new) | np.isnan(old) & np.isnan(new)
    with np.errstate(invalid="ignore", over="ignore"):
        absolute = np.where(same, 0.0, np.abs(new - old))
    moved: Array = ~same
    return absolute, moved


def by_leaf(
    before: Forest, after: Forest, leaves: tuple[Array, Array], units: Float[Array, " n_outputs"]
) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
    """Return the largest change of each leaf's vector, in these units, and whether it moved."""
    old, new = (_dense(forest, leaf) for forest, leaf in zip((before, after), leaves, strict=True))
    absolute, moved = between(old, new)
    absolute = in_units(absolute, units)
    known = np.where(np.isnan(absolute), -1.0, absolute).max(axis=1, initial=-1.0)
    return np.where(known < 0, np.nan, known), np.logical_or.reduce(moved, axis=1)


def _dense(forest: Forest, leaf: Array) -> Array:
    v = forest.leaves.v[leaf]
    if forest.leaves.output is None:
        return v
    dense = np.zeros((len(leaf), forest.n_outputs), v.dtype)
    dense[np.arange(len(leaf)), forest.leaves.output[leaf]] = v[:, 0]
    return dense


def rows_of(tests: NodeTests, nodes: Array) -> Int64[Array, " n_rows"]:
    """Return the rows of S of some nodes, node by node."""
    return ranges(tests.node_ptr[nodes], np.diff(tests.node_ptr)[nodes])


@dataclass(frozen=True, slots=True, eq=False)
class RowWeights:
    """Weights of pairs of rows, before and after, wherever one of the two has one.

    `row` counts pairs; an entry of a pair has the same column, and the same category if it is an
    indicator's.
    """

    row: Int64[Array, " n_entries"]
    column: Int64[Array, " n_entries"]
    before: Float[Array, " n_entries"]
    after: Float[Array, " n_entries"]


def row_weights(
    before: NodeTests, after: NodeTests, rows: tuple[Array, Array], n_columns: int
) -> RowWeights:
    """Return the weights of pairs of rows of S; weights of one column and row are added up."""
    parts = []
    for tests, own in ((before, rows[0]), (after, rows[1])):
        count = np.diff(tests.row_ptr)[own]
        entry = ranges(tests.row_ptr[own], count)
        code = np.full(len(entry), -1) if tests.indicator is None else tests.indicator[entry]
        parts.append(
            (np.repeat(np.arange(len(own)), count), tests.column[entry], code, tests.weight[entry])
        )
    row, column, code = (
        np.concatenate([part[k].astype(np.int64) for part in parts]) for k in range(3)
    )
    _, code_number = np.unique(code, return_inverse=True)
    key = (row * n_columns + column) * (int(code_number.max(initial=0)) + 1) + code_number
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    weights = [np.zeros(len(first)), np.zeros(len(first))]
    n_before = len(parts[0][0])
    for weight, part, at in zip(
        weights, parts, (number[:n_before], number[n_before:]), strict=True
    ):
        np.add.at(weight, at, part[3].astype(np.float64))
    return RowWeights(row[first], column[first], *weights)


def distance(before: Array, after: Array) -> Array:
    """Return |after − before|, 0 between equal infinities and NaN where one is not known."""
    with np.errstate(invalid="ignore", over="ignore"):
        result: Array = np.where(before == after, 0.0, np.abs(after - before))
    return result


def largest_of_rows(row: Array, absolute: Array, n_rows: int) -> Array:
    """Return the largest value of each row, 0 of a row without any; NaN values are passed over."""
    largest = np.zeros(n_rows)
    np.fmax.at(largest, row, absolute)
    return largest


def rules_moved(
    before: NodeTests, after: NodeTests, nodes: tuple[Array, Array]
) -> Bool[Array, " n"]:
    """Return the nodes of which something else than numbers differs: kind, directions, sets."""
    old, new = nodes
    moved = np.zeros(len(old), bool)
    for name in RULES:
        moved |= getattr(before, name)[old] != getattr(after, name)[new]
    moved |= np.diff(before.node_ptr)[old] != np.diff(after.node_ptr)[new]
    n_words = np.diff(before.set_ptr)[old]
    same_size = n_words == np.diff(after.set_ptr)[new]
    moved |= ~same_size
    pair = np.repeat(np.flatnonzero(same_size), n_words[same_size])
    words = [
        tests.set_words[ranges(tests.set_ptr[own[same_size]], n_words[same_size])]
        for tests, own in ((before, old), (after, new))
    ]
    moved[pair[words[0] != words[1]]] = True
    return moved

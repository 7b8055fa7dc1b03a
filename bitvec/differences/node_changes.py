"""Changes of the tests of matched nodes in S, b and r, and the nodes that changed most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.differences import spreads, words
from bitvec.differences.moved import (
    Change,
    between,
    change,
    distance,
    largest_of_rows,
    row_weights,
    rows_of,
    rules_moved,
)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that moved.

    Parameters
    ----------
    where : str
        Its tree and its number in it, before.
    before, after : str
        What it asks; yes goes right.
    change : float
        The largest change of a weight or the threshold: in spreads with X, else absolute.
    """

    where: str
    before: str
    after: str
    change: float


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanges:
    """Changes in pairs of nodes.

    Parameters
    ----------
    nodes : two of int64, (n_pairs,)
    changes : tuple of Change
        Of S, b and r.
    rules : bool, (n_pairs,)
        Something else than numbers differs.
    moved : bool, (n_pairs,)
    size : float64, (n_pairs,)
        The largest change of a weight or the threshold, in spreads where they are known.
    """

    nodes: tuple[Int64[Array, " n_pairs"], Int64[Array, " n_pairs"]]
    changes: tuple[Change, ...]
    rules: Bool[Array, " n_pairs"]
    moved: Bool[Array, " n_pairs"]
    size: Float[Array, " n_pairs"]

    def listed(self, before: Forest, after: Forest, most: int) -> tuple[NodeChange, ...]:
        """Return the nodes that moved most, in words."""
        at = np.flatnonzero(self.moved)
        order = np.argsort(-np.where(np.isnan(self.size[at]), -1.0, self.size[at]), kind="stable")
        return tuple(
            NodeChange(
                words.place(before, int(self.nodes[0][k])),
                words.question(before, int(self.nodes[0][k])),
                words.question(after, int(self.nodes[1][k])),
                float(self.size[k]),
            )
            for k in at[order[:most]]
        )


def measure(
    before: Forest,
    after: Forest,
    nodes: tuple[Int64[Array, " n_pairs"], Int64[Array, " n_pairs"]],
    Z: tuple[Array, Array] | None,
) -> NodeChanges:
    """Return what moved in pairs of nodes; `Z` is what S reads of the rows to measure by."""
    old, new = before.tests, after.tests
    rules = rules_moved(old, new, nodes)
    n_rows = np.diff(old.node_ptr)[nodes[0]]
    same_rows = n_rows == np.diff(new.node_ptr)[nodes[1]]
    rows = rows_of(old, nodes[0][same_rows]), rows_of(new, nodes[1][same_rows])
    owner = np.repeat(np.flatnonzero(same_rows), n_rows[same_rows])
    n_columns = 1 + max(
        int(old.column.max(initial=0)), int(new.column.max(initial=0)), before.n_features
    )
    weights = row_weights(old, new, rows, n_columns)
    by_entry, _ = between(weights.before, weights.after)
    offset, _ = between(old.offset[rows[0]], new.offset[rows[1]])
    by_row = np.fmax(largest_of_rows(weights.row, by_entry, len(owner)), offset)
    S = change("S", "rows", by_row, by_row > 0)
    by_r, r_moved = between(old.r[rows[0]], new.r[rows[1]])
    r = change("r", "rows", by_r, r_moved)
    has_b = (old.kind[nodes[0]] != Kind.SET) & (new.kind[nodes[1]] != Kind.SET)
    by_b, b_moved = between(old.b[nodes[0]], new.b[nodes[1]])
    b_moved &= has_b
    b = change("b", "nodes", by_b[has_b], b_moved[has_b])
    size_of_row, size_of_b = by_row, np.where(has_b, by_b, 0.0)
    if Z is not None:
        with np.errstate(invalid="ignore", over="ignore"):  # values and spreads may be infinite
            (mean, spread), (new_mean, new_spread) = (
                spreads.of_margins(forest, part, own)
                for forest, part, own in zip((before, after), Z, nodes, strict=True)
            )
            column = spreads.of_columns(Z[0])[1][weights.column]
            pair = owner[weights.row]
            entry = distance(
                spreads.in_units(weights.before * column, spread[pair]),
                spreads.in_units(weights.after * column, new_spread[pair]),
            )
            size_of_b = distance(
                spreads.in_units(old.b[nodes[0]] - mean, spread),
                spreads.in_units(new.b[nodes[1]] - new_mean, new_spread),
            )
        size_of_row = largest_of_rows(weights.row, entry, len(owner))
        size_of_row[np.isnan(spread + new_spread)[owner]] = np.nan
        size_of_row = np.fmax(size_of_row, spreads.in_units(offset, spread[owner]))
        S = S.in_spreads(size_of_row, by_row > 0)
        b = b.in_spreads(size_of_b[has_b], b_moved[has_b])
        size_of_b = np.where(has_b, size_of_b, 0.0)
    size = np.fmax(largest_of_rows(owner, size_of_row, len(rules)), size_of_b)
    any_row = np.zeros(len(rules), bool)
    any_row[owner[(by_row > 0) | r_moved]] = True
    return NodeChanges(nodes, (S, b, r), rules, any_row | b_moved | rules, size)

"""Report of the differences between two forests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest, require_forest
from bitvec.differences import counts, node_changes, words
from bitvec.differences.matching import match
from bitvec.differences.moved import Change, between, by_leaf, change
from bitvec.differences.node_changes import NodeChange
from bitvec.differences.row_changes import RowChanges, compare_rows
from bitvec.differences.spreads import in_units, of_columns
from bitvec.differences.words import number, table
from bitvec.errors import InputError
from bitvec.runtime.predict import tables

LISTED = 10
"""Nodes that are listed by name."""
FEATURES = 10
"""Features that are listed by name."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Differences between two forests; `str` and `summary` put them into words.

    Parameters
    ----------
    trees, nodes, leaves : (int, int)
        How many there are, before and after.
    matched : str
        How nodes were paired: by "structure", by "source ids", or "nothing" was.
    matched_nodes, matched_leaves : int
    removed : tuple of str
        The first nodes, in words, that only the first forest has, where some are paired.
    changes : tuple of Change
        Of S, b, r, v and base_score.
    rules : int
        Paired nodes whose kind, relation, set or missing direction is another.
    others : tuple of str
        Further parts of the forests that differ.
    features : dict
        How many nodes read each column, before and after.
    row_sizes : (dict, dict)
        How many rows of S have so many weights, before and after.
    most_moved : tuple of NodeChange
    rows : RowChanges, optional
        With X: what changed in the answers.
    """

    trees: tuple[int, int]
    nodes: tuple[int, int]
    leaves: tuple[int, int]
    matched: str
    matched_nodes: int
    matched_leaves: int
    removed: tuple[str, ...]
    changes: tuple[Change, ...]
    rules: int
    others: tuple[str, ...]
    features: dict[str, tuple[int, int]]
    row_sizes: tuple[dict[int, int], dict[int, int]]
    most_moved: tuple[NodeChange, ...]
    rows: RowChanges | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON holds it: NaN is None, an infinity the text "inf"."""
        result: dict[str, Any] = _plain(asdict(self))
        return result

    def summary(self) -> str:
        """Return the report as text."""
        return "\n".join(lines(self))

    def __repr__(self) -> str:
        return f"Diff({headline(self)})"

    def __str__(self) -> str:
        return self.summary()


def diff(before: Forest, after: Forest, X: Any = None) -> Diff:
    """Report what moved between two forests, as a rule one and what retraining made of it.

    Parameters
    ----------
    before, after : Forest
        Trees of the same structure are compared node by node; where one forest is the other with
        nodes taken out, as `prune` takes them out, what is left is paired by the source's ids.
        Any other two are counted only, and their answers compared.
    X : array, sparse matrix or data frame, (batch, n_features), optional
        Rows to answer with both, and to measure by: changes of S, b and r are then given in
        standard deviations of each node's margin over X as well (so that a row of S and its
        threshold may be multiplied by a number), those of v and the base score in standard
        deviations of the raw score.

    Raises
    ------
    InputError
        If the forests have other numbers of features or outputs, or X has no rows or does not fit
        them.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stumps = [Forest.from_matrices([[1]], [b], [[0], [1]], [10, 20]) for b in (0.5, 0.75)]
    >>> report = diff(*stumps, X=[[0.0], [0.6], [1.0]])
    >>> report.most_moved[0].after, report.rows.predictions
    ('x0 > 0.75', 1)
    """
    for forest in (before, after):
        require_forest(forest)
    for what in ("features", "outputs"):
        sizes = [getattr(forest, f"n_{what}") for forest in (before, after)]
        if sizes[0] != sizes[1]:
            raise InputError(
                f"two forests that are compared must have as many {what}, got {sizes[0]} and "
                f"{sizes[1]}: pass a forest and what was made of it."
            )
    matching = match(before, after)
    rows, Z, unit = None, None, None
    if X is not None:
        read = tuple(tables.rows(X, forest.inputs, forest.dtype) for forest in (before, after))
        if not len(read[0]):
            raise InputError("`X` must have rows to compare answers by, got none: leave it out.")
        rows, raw = compare_rows(before, after, matching, (read[0], read[1]))
        unit = of_columns(raw)[1]
        Z = reference.columns(before, read[0]), reference.columns(after, read[1])
    nodes = node_changes.measure(before, after, matching.nodes, Z)
    features = counts.nodes_by_column(before), counts.nodes_by_column(after)
    gone = np.setdiff1d(np.arange(before.n_nodes), matching.nodes[0])[:LISTED]
    return Diff(
        trees=(before.n_trees, after.n_trees),
        nodes=(before.n_nodes, after.n_nodes),
        leaves=(before.n_leaves, after.n_leaves),
        matched=matching.how,
        matched_nodes=len(matching.nodes[0]),
        matched_leaves=len(matching.leaves[0]),
        removed=tuple(
            f"{words.place(before, node)}: {words.question(before, node)}"
            for node in gone.tolist()
            if matching.how != "nothing"
        ),
        changes=(*nodes.changes, *_leaf_changes(before, after, matching.leaves, unit)),
        rules=int(np.count_nonzero(nodes.rules)),
        others=counts.other_parts(before, after, same_trees=matching.how == "structure"),
        features=counts.side_by_side(before, after, *features),
        row_sizes=(counts.row_sizes(before), counts.row_sizes(after)),
        most_moved=nodes.listed(before, after, LISTED),
        rows=rows,
    )


def _leaf_changes(
    before: Forest, after: Forest, leaves: tuple[Array, Array], unit: Array | None
) -> Iterator[Change]:
    one = np.ones(before.n_outputs)
    absolute, moved = by_leaf(before, after, leaves, one)
    v = change("v", "leaves", absolute, moved)
    base_absolute, base_moved = between(before.output.base_score, after.output.base_score)
    base = change("base_score", "outputs", base_absolute, base_moved)
    if unit is not None:
        v = v.in_spreads(*by_leaf(before, after, leaves, unit))
        base = base.in_spreads(in_units(base_absolute, unit), base_moved)
    yield from (v, base)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def headline(report: Diff) -> str:
    """Return one line: the sizes, how many of each array moved, and how many answers changed."""
    moved = [f"{c.name} {c.moved} of {c.compared}" for c in report.changes if c.moved]
    if report.rules:
        moved.append(f"rules of {report.rules} nodes")
    told = [_sizes(report)]
    if report.matched == "nothing":
        told.append("no node can be paired")
    elif not moved and not report.others:
        told.append("nothing moved")
    if moved:
        told.append(f"moved: {', '.join(moved)}")
    if report.others:
        told.append(f"other parts that differ: {', '.join(report.others)}")
    if report.rows is not None:
        told.append(f"predictions changed: {report.rows.predictions} of {report.rows.rows} rows")
    return "; ".join(told)


def _sizes(report: Diff) -> str:
    return ", ".join(
        f"{what}: {was}" if was == now else f"{what}: {was} -> {now}"
        for what, (was, now) in (
            ("trees", report.trees),
            ("nodes", report.nodes),
            ("leaves", report.leaves),
        )
    )


def lines(report: Diff) -> Iterator[str]:
    """Yield the lines of the report."""
    yield _sizes(report)
    if report.matched == "nothing":
        yield "the trees are others: no node can be paired with another"
    elif report.matched == "source ids":
        yield (
            f"paired by the source's ids: {report.matched_nodes} nodes, "
            f"{report.matched_leaves} leaves"
        )
    for node in report.removed:
        yield f"  gone: {node}"
    more = max(report.nodes[0] - report.matched_nodes - len(report.removed), 0)
    if report.removed and more:
        yield f"  and {more} nodes more"
    yield ""
    with_X = report.rows is not None
    head = ["", "moved", "largest", "mean", *(["in spreads", "mean"] if with_X else [])]
    body = [
        [
            change.name,
            f"{change.moved} of {change.compared} {change.of}",
            *map(number, (change.largest, change.mean)),
            *map(
                number,
                (change.largest_in_spreads, change.mean_in_spreads) if with_X else (),
            ),
        ]
        for change in report.changes
    ]
    yield from table([head, *body])
    if report.rules:
        yield f"{report.rules} nodes have another kind, relation, set or missing direction"
    if report.others:
        yield f"other parts that differ: {', '.join(report.others)}"
    for title, lines in (
        ("features: nodes that read them", _feature_lines(report)),
        ("rows of S: features", _size_lines(report)),
        ("moved most", _node_lines(report)),
        ("answers", _row_lines(report)),
    ):
        told = [f"  {line}" for line in lines]
        if told:
            yield from ("", title, *told)


def _feature_lines(report: Diff) -> Iterator[str]:
    order = sorted(report.features.items(), key=lambda item: -max(item[1]))
    yield from (
        table([[name, str(was), "->", str(now)] for name, (was, now) in order[:FEATURES]])
        if order
        else ()
    )
    if len(order) > FEATURES:
        yield f"and {len(order) - FEATURES} features more"


def _size_lines(report: Diff) -> Iterator[str]:
    for when, sizes in zip(("before", "after"), report.row_sizes, strict=True):
        n_rows = sum(sizes.values())
        if n_rows:
            mean = sum(size * count for size, count in sizes.items()) / n_rows
            yield f"{when}: {min(sizes)} to {max(sizes)}, {number(mean)} on average"


def _node_lines(report: Diff) -> Iterator[str]:
    for node in report.most_moved:
        yield f"{node.where} ({number(node.change)}): {node.before}  ->  {node.after}"


def _row_lines(report: Diff) -> Iterator[str]:
    rows = report.rows
    if rows is None:
        return
    if rows.exits is not None:
        yield f"{rows.exits} of {rows.rows} rows come to another leaf"
    yield f"{rows.predictions} of {rows.rows} rows get another prediction"
    yield (
        f"{rows.raw} of {rows.rows} rows get another raw score, by at most "
        f"{number(rows.largest_raw)}"
    )

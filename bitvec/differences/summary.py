"""The report as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bitvec.differences.words import number, table

if TYPE_CHECKING:
    from bitvec.differences.forest_diff import Diff

FEATURES = 10
"""Features that are listed by name."""


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

"""Targets of the fits of End-to-End Decision Trees, and tables beside the papers'."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.report import Goal
from benchmarks.runner import DATA, Benchmark
from benchmarks.tables import e2edt, grown_summary
from benchmarks.tables.e2edt import EPOCHS, RISES
from benchmarks.tables.grown import DTSEMNET
from benchmarks.tables.grown_summary import at_least, in_time
from benchmarks.tables.grown_summary import rows as rows
from benchmarks.tables.grown_summary import values as values

Row = dict[str, Any]

PUBLISHED: Final = {
    **{name: f"DTSemNet {100 * figure:.1f}" for name, figure in DTSEMNET.items()},
    "letter": "86.3 with 543 leaves",
    "letter, forest of 70": "95.5, soft",
    "usps, forest of 30": "96.7 with 100 trees of patches, soft",
    "connect-4": "80.5 with 257 leaves; DTSemNet 82.0",
    "mnist": "96.1 with 357 leaves; DTSemNet 96.2",
    "mnist, CNN splits": "98.2 ± .3 with 10 leaves, soft",
}
"""Of trees as the tables of Convex Polytope Trees give them, of forests and the CNN as their own
paper does, whose trees were hard at the root alone when they answered."""
TABLE_1: Final = {
    ("letter", 0.0): (76.7, 81.1, 84.7),
    ("letter", 0.01): (81.8, 89.2, 92.5),
    ("letter", 0.1): (92.6, 94.5, 95.5),
    ("usps", 0.0): (88.5, 92.3, 94.1),
    ("usps", 0.01): (91.5, 95.3, 96.3),
    ("usps", 0.1): (96.1, 96.6, 96.7),
}
"""Accuracy on validation rows of the paper's forests, by data set, rise an epoch, and epochs."""
SECONDS: Final = 90


def measure(unit: tuple[Any, ...], options: Namespace) -> list[Row]:
    """Return the record of a unit."""
    return [e2edt.measured(unit, options.data)]


def goals(found: Sequence[Row]) -> list[Goal]:
    """Return the accuracy and time that are asked for."""
    return [
        *at_least(found, "tree", "letter", 0.92),
        *at_least(found, "forest", "letter", 0.955),
        *at_least(found, "forest", "usps", 0.955),
        *at_least(found, "forest", "usps", 0.955, of="held_out"),
        *at_least(found, "tree", "mnist", 0.955),
        *at_least(found, "cnn", "mnist", 0.98),
        grown_summary.beside_dtsemnet(found),
        *in_time(found, SECONDS),
        grown_summary.in_hours(found),
    ]


def table(report: Row) -> str:
    """Return the classifiers in Markdown."""
    return grown_summary.trees(report["rows"], PUBLISHED)


def forests(report: Row) -> str:
    """Return the first trees of each forest in Markdown, as the paper's Figure 6 draws them.

    Of all trees together also the accuracy on validation rows, which is what the paper tells, and
    by which the way is chosen.
    """
    lines = [
        "| data | forest | trees | test | validation | splits a row |", f"|---|---|{'---:|' * 4}"
    ]  # fmt: skip
    for row in report["rows"]:
        if row["part"] != "forest":
            continue
        for way in row["ways"]:
            told = [""] * (len(way["by_trees"]) - 1) + [f"{100 * way['held_out']:.1f}"]
            lines += [
                f"| {row['data']} | {_way(way['settings'])} | {one['trees']:.0f} | "
                f"{100 * one['test']:.1f} | {held_out} | {one['splits']:.1f} |"
                for one, held_out in zip(way["by_trees"], told, strict=True)
            ]
    return "\n".join(lines)


def _way(settings: Row) -> str:
    """Return what distinguishes a forest from others of the same data.

    Examples
    --------
    >>> _way({}), _way({"refine": 0, "split": "cnn"}), _way({"refine": 0, "joint": 2_000})
    ('each tree refined', 'CNN splits, not refined', 'all trees refined together')
    """
    splits = "CNN splits, " if settings.get("split") == "cnn" else ""
    if settings.get("joint"):
        return f"{splits}all trees refined together"
    return splits + ("each tree refined" if settings.get("refine", 1) else "not refined")


def steepness(report: Row) -> str:
    """Return the forests whose steepness rises by so much an epoch, beside the paper's Table 1."""
    found = {
        (row["data"], row["rise"], row["epochs"]): row
        for row in report["rows"]
        if row["part"] == "steepness"
    }
    lines = [
        "| data | rise an epoch | epochs | hard | soft | 1 tree, hard | leaves | seconds "
        "| paper, root hard |",
        f"|---|{'---:|' * 8}",
    ]
    for name in dict.fromkeys(name for name, _ in TABLE_1):
        for rise in RISES:
            for epochs, paper in zip(EPOCHS, TABLE_1[name, rise], strict=True):
                row = found.get((name, rise, epochs))
                if row is None:
                    continue
                lines.append(
                    f"| {name} | {rise:g} | {epochs} | {100 * row['hard']:.1f} | "
                    f"{100 * row['soft']:.1f} | {100 * row['by_trees'][0]['test']:.1f} | "
                    f"{row['leaves']:,.0f} | {row['seconds']:.0f} | {paper} |"
                )
    return "\n".join(lines)


BENCHMARK: Final = Benchmark(
    "tables-e2edt",
    lambda options: e2edt.units(quick=options.quick),
    measure,
    goals,
    {"table": table, "forests": forests, "steepness": steepness, "values": values},
    rows,
    options=DATA,
    needs=("data",),
    kept=True,
)

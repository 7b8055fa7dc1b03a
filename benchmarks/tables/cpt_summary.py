"""Targets of the fits of Convex Polytope Trees, and tables beside the paper's."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.report import Goal
from benchmarks.runner import DATA, Benchmark
from benchmarks.tables import cpt, grown_summary
from benchmarks.tables.grown import DTSEMNET
from benchmarks.tables.grown_summary import at_least, in_time
from benchmarks.tables.grown_summary import rows as rows
from benchmarks.tables.grown_summary import values as values

Row = dict[str, Any]

PUBLISHED: Final = {
    **{name: f"DTSemNet {100 * figure:.1f}" for name, figure in DTSEMNET.items()},
    "letter": "CPT 90.5 ± .8, 463 leaves",
    "connect-4": "CPT 81.2 ± .5, 4 leaves; DTSemNet 82.0",
    "connect-4, depth 2": "CPT 81.2 ± .5",
    "mnist": "CPT 97.0 ± .2, 98 leaves; DTSemNet 96.2",
}
AUC: Final = 0.98
FACETS: Final = 12
LEAVES: Final = 463
SECONDS: Final = 90


def measure(unit: tuple[Any, ...], options: Namespace) -> list[Row]:
    """Return the record of a unit."""
    return [cpt.measured(unit, options.data)]


def goals(found: Sequence[Row]) -> list[Goal]:
    """Return the accuracy, sizes and time that are asked for."""
    asked: list[Goal] = []
    for row in found:
        if row["part"] == "annulus":
            least, most = min(row["auc_by_seed"]), max(row["facets_by_seed"])
            leaves = max(row["leaves_by_seed"])
            asked += [
                Goal("annulus: least AUC of all seeds", f">= {AUC}", least),
                Goal("annulus: leaves", "<= 3", leaves),
                Goal("annulus: most facets of a node", f"<= {FACETS}", most),
            ]
        if (row["part"], row["data"]) == ("tree", "letter"):
            most = max(row["leaves_by_seed"])
            asked.append(Goal("letter: most leaves", f"<= {LEAVES}", most))
    asked += at_least(found, "tree", "letter", 0.92)
    asked += at_least(found, "depth 2", "connect-4", 0.805)
    asked += at_least(found, "tree", "connect-4", 0.8116)
    asked += at_least(found, "tree", "mnist", 0.965)
    asked += [grown_summary.beside_dtsemnet(found), *in_time(found, SECONDS)]
    return [*asked, grown_summary.in_hours(found)]


def table(report: Row) -> str:
    """Return the classifiers in Markdown."""
    return grown_summary.trees(report["rows"], PUBLISHED)


def annulus(report: Row) -> str:
    """Return the ring in the plane in Markdown."""
    lines = [
        "| AUC by seed | leaves | facets a node, most | seconds | paper |",
        "|---|---:|---:|---:|---|",
    ]
    for row in report["rows"]:
        if row["part"] == "annulus":
            by_seed = ", ".join(f"{auc:.3f}" for auc in row["auc_by_seed"])
            lines.append(
                f"| {by_seed} | {max(row['leaves_by_seed'])} | {max(row['facets_by_seed'])} | "
                f"{row['seconds']:.1f} | .962 |"
            )
    return "\n".join(lines)


BENCHMARK: Final = Benchmark(
    "tables-cpt",
    lambda options: cpt.units(quick=options.quick),
    measure,
    goals,
    {"table": table, "annulus": annulus, "values": values},
    rows,
    options=DATA,
    needs=("data",),
    kept=True,
)

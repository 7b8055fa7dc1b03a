"""What the fits of End-to-End Decision Trees amount to: targets, and tables beside the papers'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.report import Target
from benchmarks.tables import grown_summary
from benchmarks.tables.grown import DTSEMNET
from benchmarks.tables.grown_summary import at_least, in_time
from benchmarks.tables.grown_summary import rows as rows
from benchmarks.tables.grown_summary import values as values

Row = dict[str, Any]

PUBLISHED: Final = {
    **{name: f"DTSemNet {100 * figure:.1f}" for name, figure in DTSEMNET.items()},
    "letter": "86.3 with 543 leaves",
    "connect-4": "80.5 with 257 leaves; DTSemNet 82.0",
    "mnist": "96.1 with 357 leaves; DTSemNet 96.2",
}
"""Of End-to-End Decision Trees as the tables of Convex Polytope Trees give them."""
SECONDS: Final = 90


def targets(records: Sequence[Row], *, whole: bool) -> list[Target]:
    """Return one entry for each figure that is asked for."""
    found = rows(records)
    asked = [
        *at_least(found, "tree", "letter", 0.92),
        *at_least(found, "tree", "mnist", 0.955),
        grown_summary.beside_dtsemnet(found),
        *in_time(found, SECONDS),
    ]
    return grown_summary.undecided(asked, whole=whole)


def table(report: Row) -> str:
    """Return the classifiers in Markdown."""
    return grown_summary.trees(report["rows"], PUBLISHED)

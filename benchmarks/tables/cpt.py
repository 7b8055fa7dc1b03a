"""Convex Polytope Trees: settings that validation chooses from, targets, tables of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import bitvec
from benchmarks.report import Goal, Row
from benchmarks.tables import grown, grown_summary
from benchmarks.tables.grown import DTSEMNET, Settings, Unit
from benchmarks.tables.grown_summary import at_least, in_time

QUICK: Final = ("balance",)
HASTY: Final[list[Settings]] = [
    {"max_depth": depth, "n_facets": 4, "steps": 100, "restarts": 2, "refine": 300}
    for depth in (2, 4)
]
"""Settings that a quick run chooses from."""
ANNULUS_SEEDS: Final = 5
SHALLOW: Final = "depth 2"
USUAL: Final[list[Settings]] = [
    {"max_depth": depth, "n_facets": facets, "restarts": 3, "steps": 200}
    for depth, facets in ((2, 4), (2, 8), (4, 4), (6, 4))
]
"""Settings of data sets that are not named in `SETTINGS`."""
DIGITS: Final[list[Settings]] = [
    {"max_depth": depth, "n_facets": facets, "restarts": 2, "steps": 200}
    for depth, facets in ((4, 8), (6, 4), (8, 4))
]
SETTINGS: Final[dict[str, list[Settings]]] = {
    "annulus": [{"growth": "best", "max_depth": None, "max_leaves": 3, "refine": 0}],
    **dict.fromkeys(("optdigits", "pendigits", "satimage"), DIGITS),
    "letter": [
        {"max_depth": depth, "n_facets": facets, "max_leaves": 463, "restarts": 2, "steps": 150}
        for depth, facets in ((10, 4), (9, 8))
    ],
    "connect-4": [
        {"max_depth": depth, "n_facets": 16, "min_rows": 20, "restarts": 2, "steps": 300}
        for depth in (2, 3, 4, 6)
    ],
    "mnist": [
        {
            "max_depth": 8, "n_facets": 8, "min_rows": 20, "restarts": 1, "steps": 200,
            "refine": 8_000,
        }
    ],
    "fashion_mnist": [
        {"max_depth": 8, "n_facets": 8, "min_rows": 20, "restarts": 1, "steps": 200}
    ],
    "usps": [
        {"max_depth": depth, "n_facets": facets, "min_rows": 8, "restarts": 2, "steps": 200}
        for depth, facets in ((4, 8), (6, 8), (6, 4))
    ],
    "california": [
        {"max_depth": depth, "n_facets": 8, "restarts": 2, "min_rows": 20} for depth in (6, 8)
    ],
}  # fmt: skip
"""By data set; what is not named is as it is by default."""


def units(*, quick: bool) -> list[Unit]:
    """Return all that is to be measured: first what has a goal, and the smaller first."""
    names = QUICK if quick else tuple(reversed(DTSEMNET))
    found = grown.fits("annulus", "annulus", 2 if quick else ANNULUS_SEEDS, *SETTINGS["annulus"])
    for name in names:
        seeds = 1 if quick else None
        settings = HASTY if quick else SETTINGS.get(name, USUAL)
        found += grown.fits("tree", name, seeds, *settings)
    if not quick:
        found += grown.fits("seconds", grown.SECONDS, 1, SETTINGS["letter"][0])
        found += grown.fits("tree", "letter", None, *SETTINGS["letter"])
        found += grown.fits(SHALLOW, "connect-4", None, SETTINGS["connect-4"][0])
        found += grown.fits("tree", "connect-4", None, *SETTINGS["connect-4"][1:])
        found += grown.fits("tree", "mnist", None, *SETTINGS["mnist"])
        found += grown.fits("tree", "usps", None, *SETTINGS["usps"])
        found += grown.regressions("california", SETTINGS["california"])
        found += grown.fits("tree", "fashion_mnist", None, *SETTINGS["fashion_mnist"])
    return found


def _make(kind: str, **settings: Any) -> Any:
    return (bitvec.learners.CPTClassifier if kind == "labels" else bitvec.learners.CPTRegressor)(
        **settings
    )


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


BENCHMARK: Final = grown_summary.benchmark(
    "tables-cpt", units, partial(grown.measured, make=_make), goals, PUBLISHED, annulus=annulus
)

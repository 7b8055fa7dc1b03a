"""Convex Polytope Trees: what is measured, and the settings that validation chooses from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks.tables import grown
from benchmarks.tables.grown import DTSEMNET, Record, Settings, Unit

QUICK: Final = ("balance",)
HASTY: Final[list[Settings]] = [
    {"max_depth": depth, "n_facets": 4, "steps": 100, "restarts": 2, "refine": 300}
    for depth in (2, 4)
]
"""What a quick run chooses from."""
ANNULUS_SEEDS: Final = 5
SHALLOW: Final = "depth 2"
USUAL: Final[list[Settings]] = [
    {"max_depth": depth, "n_facets": facets, "restarts": 3, "steps": 200}
    for depth, facets in ((2, 4), (2, 8), (4, 4), (6, 4))
]
"""Of data sets that are not named."""
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


def measured(unit: Unit, data: Path) -> Record:
    """Return what one unit comes to."""
    return grown.measured(unit, data, _make)


def _make(kind: str, **settings: Any) -> Any:
    return (bitvec.learners.CPTClassifier if kind == "labels" else bitvec.learners.CPTRegressor)(
        **settings
    )

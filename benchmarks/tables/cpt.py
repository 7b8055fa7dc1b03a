"""Convex Polytope Trees: what is measured, and the settings that validation chooses from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks.tables import grown
from benchmarks.tables.grown import DTSEMNET, SEEDS, Record, Unit

QUICK: Final = ("balance",)
ANNULUS_SEEDS: Final = 5
SHALLOW: Final = "depth 2"
SETTINGS: Final[dict[str, list[dict[str, Any]]]] = {
    "annulus": [{"growth": "best", "max_depth": None, "max_leaves": 3, "refine": 0}],
    "letter": [
        {"max_depth": 10, "n_facets": 4, "min_rows": 4, "restarts": 2, "steps": 150},
        {"max_depth": 8, "n_facets": 8, "min_rows": 4, "restarts": 2, "steps": 150},
    ],
    "connect-4": [
        {"max_depth": depth, "n_facets": 16, "restarts": 2, "steps": 300} for depth in (2, 3, 4, 6)
    ],
    "mnist": [{"max_depth": 8, "n_facets": 8, "restarts": 1, "steps": 200, "min_rows": 40}],
    "usps": [
        {"max_depth": depth, "n_facets": 8, "restarts": 2, "steps": 200, "min_rows": 8}
        for depth in (4, 6)
    ],
    "california": [
        {"max_depth": depth, "n_facets": 8, "restarts": 2, "min_rows": 20} for depth in (6, 8)
    ],
}
SETTINGS["fashion_mnist"] = SETTINGS["mnist"]
"""By data set; `refine` is what it is by default."""
USUAL: Final = [
    {"max_depth": depth, "n_facets": facets, "min_rows": 4, "restarts": 3}
    for depth, facets in ((2, 4), (3, 8), (4, 4), (6, 4), (8, 4))
]
"""Of the other data sets."""


def units(*, quick: bool, only: str = "") -> list[Unit]:
    """Return (part, name, seed) of all that is to be measured, the smallest first."""
    names = QUICK if quick else tuple(reversed(DTSEMNET))
    seeds = range(2 if quick else ANNULUS_SEEDS)
    found: list[Unit] = [("annulus", "annulus", seed) for seed in seeds]
    found += [("tree", name, seed) for name in names for seed in range(1 if quick else SEEDS)]
    if not quick:
        found += [("values", "california", seed) for seed in range(SEEDS)]
        found += [("seconds", "letter", 0)]
        found += [("tree", name, seed) for name in ("letter", "usps") for seed in range(SEEDS)]
        found += [(part, "connect-4", seed) for part in (SHALLOW, "tree") for seed in range(SEEDS)]
        found += [("tree", name, 0) for name in ("mnist", "fashion_mnist")]
    return [unit for unit in found if only in unit[1]]


def measured(unit: Unit, data: Path) -> Record:
    """Return what one unit comes to."""
    return grown.measured(unit, data, _make, _settings)


def _make(kind: str, **settings: Any) -> Any:
    return (bitvec.CPTClassifier if kind == "labels" else bitvec.CPTRegressor)(**settings)


def _settings(part: str, name: str) -> list[dict[str, Any]]:
    found = SETTINGS.get(name, USUAL)
    return found[:1] if part == SHALLOW else found

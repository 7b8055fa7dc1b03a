"""End-to-End Decision Trees: what is measured, and the settings that validation chooses from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks.tables import grown
from benchmarks.tables.grown import DTSEMNET, SEEDS, Record, Unit

QUICK: Final = ("balance", "banknote")
SETTINGS: Final[dict[str, list[dict[str, Any]]]] = {
    "letter": [
        {"max_depth": 10, "min_rows": 4, "stump_loss": loss}
        for loss in ("likelihood", "information")
    ],
    "connect-4": [{"max_depth": depth} for depth in (4, 6, 8)],
    "mnist": [{"max_depth": 8, "restarts": 1, "steps": 200, "min_rows": 40}],
    "usps": [{"max_depth": depth, "min_rows": 8} for depth in (4, 6)],
    "california": [{"max_depth": depth, "min_rows": 20} for depth in (6, 8, 10)],
}
SETTINGS["fashion_mnist"] = SETTINGS["mnist"]
"""By data set; `refine` is what it is by default."""
USUAL: Final = [{"max_depth": depth, "min_rows": 4} for depth in (2, 3, 4, 6, 8)]
"""Of the other data sets."""


def units(*, quick: bool, only: str = "") -> list[Unit]:
    """Return (part, name, seed) of all that is to be measured, the smallest first."""
    names = QUICK if quick else tuple(reversed(DTSEMNET))
    found: list[Unit] = [
        ("tree", name, seed) for name in names for seed in range(1 if quick else SEEDS)
    ]
    if not quick:
        found += [("values", "california", seed) for seed in range(SEEDS)]
        found += [("seconds", "letter", 0)]
        for name in ("letter", "usps", "connect-4"):
            found += [("tree", name, seed) for seed in range(SEEDS)]
        found += [("tree", name, 0) for name in ("mnist", "fashion_mnist")]
    return [unit for unit in found if only in unit[1]]


def measured(unit: Unit, data: Path) -> Record:
    """Return what one unit comes to."""
    return grown.measured(unit, data, _make, _settings)


def _make(kind: str, **settings: Any) -> Any:
    return (bitvec.E2EDTClassifier if kind == "labels" else bitvec.E2EDTRegressor)(**settings)


def _settings(part: str, name: str) -> list[dict[str, Any]]:
    return SETTINGS.get(name, USUAL)

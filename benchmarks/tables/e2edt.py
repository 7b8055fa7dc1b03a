"""End-to-End Decision Trees: what is measured, and the settings that validation chooses from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks.datasets import read
from benchmarks.tables import forests, grown
from benchmarks.tables.grown import DTSEMNET, Record, Settings, Unit

QUICK: Final = ("balance", "banknote")
HASTY: Final[list[Settings]] = [
    {"max_depth": depth, "steps": 100, "refine": 300} for depth in (2, 4)
]
"""What a quick run chooses from."""
USUAL: Final[list[Settings]] = [
    *({"max_depth": depth} for depth in (2, 3, 4, 6)),
    {"max_depth": 3, "min_rows": 40},
]
"""Of data sets that are not named."""
IMAGES: Final[list[Settings]] = [
    {
        "max_depth": 8, "min_rows": 20, "restarts": 1, "weight_decay": 0.1, "refine": 8_000,
        "spatial": 0.003, "spatial_shape": (28, 28),
    }
]  # fmt: skip
LATE: Final[Settings] = {"steps": 8, "refine": 4_000}
"""Stumps that are hardly trained leave a larger tree to the refinement."""
SETTINGS: Final[dict[str, list[Settings]]] = {
    **{
        name: [{"max_depth": 8}, {"max_depth": 8, **LATE}, {"max_depth": 10, **LATE}]
        for name in ("optdigits", "pendigits", "satimage")
    },
    "letter": [{"max_depth": 10, "stump_loss": loss} for loss in ("likelihood", "information")],
    "connect-4": [{"max_depth": depth, "min_rows": 20} for depth in (4, 6)],
    "mnist": IMAGES,
    "fashion_mnist": IMAGES,
    "usps": [{"max_depth": depth, "min_rows": 8} for depth in (4, 6, 8)],
    "california": [{"max_depth": depth, "min_rows": 20} for depth in (6, 8, 10)],
}
"""By data set; what is not named is as it is by default."""
CNN: Final[Settings] = {
    "split": "cnn", "image_shape": (28, 28), "growth": "best", "max_depth": None,
    "max_leaves": 10, "restarts": 1, "batch_size": 1_024, "steps": 800, "refine": 3_000,
}  # fmt: skip
"""The paper's tree of ten leaves."""
FORESTS: Final[dict[str, Settings]] = {
    "usps": {
        "n_estimators": 100, "max_depth": 10, "image_shape": (16, 16), "patch_shape": (10, 10)
    },
    "letter": {"n_estimators": 70, "max_depth": 10, "max_features": 8},
}  # fmt: skip
"""The paper's."""
HASTY_TREES: Final[Settings] = {"steps": 25, "refine": 0}
"""Of forests: trees that differ more from each other, in a tenth of the time."""
NETWORKS: Final[Settings] = {
    "n_estimators": 30, "max_features": None, "split": "cnn", "image_shape": (16, 16),
    "growth": "best", "max_depth": None, "max_leaves": 10, "restarts": 1, "steps": 100, "refine": 0,
}  # fmt: skip
"""Trees as the paper's of ten leaves, which differ by the networks that they begin with."""
WAYS: Final[dict[str, list[Settings]]] = {
    "usps": [
        FORESTS["usps"] | HASTY_TREES,
        FORESTS["usps"] | HASTY_TREES | {"joint": 2_000},
        NETWORKS,
    ],
    "letter": [FORESTS["letter"]],
}
"""Of forests: trees refined not at all, all together, or each by itself."""
RISES: Final = (0.0, 0.01, 0.1)
"""Of the steepness in each epoch, as in the paper's Table 1."""
EPOCHS: Final = (15, 30, 45)
N_TREES: Final = 5
"""Of the forests whose steepness rises by each of these: the paper has 70 and 100."""


def units(*, quick: bool) -> list[Unit]:
    """Return all that is to be measured: first what has a goal, and the smaller first."""
    names = QUICK if quick else tuple(reversed(DTSEMNET))
    found: list[Unit] = []
    for name in names:
        seeds = 1 if quick else None
        settings = HASTY if quick else SETTINGS.get(name, USUAL)
        found += grown.fits("tree", name, seeds, *settings)
    if not quick:
        found += grown.fits("seconds", grown.SECONDS, 1, SETTINGS["letter"][0])
        found += grown.fits("tree", "letter", None, *SETTINGS["letter"])
        for name, ways in WAYS.items():
            found += grown.fits("forest", name, 1, *ways)
        found += grown.fits("tree", "mnist", None, *SETTINGS["mnist"])
        found += grown.fits("cnn", "mnist", None, CNN)
        found += grown.fits("tree", "usps", None, *SETTINGS["usps"])
        found += grown.regressions("california", SETTINGS["california"])
        for name, options in FORESTS.items():
            for epochs in EPOCHS:
                rises = [
                    {**options, "n_estimators": N_TREES, "rise": rise, "epochs": epochs}
                    for rise in RISES
                ]
                found += grown.fits("steepness", name, 1, *rises)
        found += grown.fits("tree", "fashion_mnist", None, *SETTINGS["fashion_mnist"])
        found += grown.fits("tree", "connect-4", None, *SETTINGS["connect-4"])
    return found


def measured(unit: Unit, data: Path) -> Record:
    """Return what one unit comes to."""
    part, name, seed, told = unit
    if part in ("forest", "steepness"):
        measure = forests.forest if part == "forest" else forests.steepness
        return measure(json.loads(told), read(data, name), seed)
    return grown.measured(unit, data, _make)


def _make(kind: str, **settings: Any) -> Any:
    return (
        bitvec.learners.E2EDTClassifier if kind == "labels" else bitvec.learners.E2EDTRegressor
    )(**settings)

"""End-to-End Decision Trees: settings that validation chooses from, targets, papers' tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks.datasets import read
from benchmarks.report import Goal, Row
from benchmarks.tables import forests as fits
from benchmarks.tables import grown, grown_summary
from benchmarks.tables.grown import DTSEMNET, Record, Settings, Unit
from benchmarks.tables.grown_summary import at_least, in_time

QUICK: Final = ("balance", "banknote")
HASTY: Final[list[Settings]] = [
    {"max_depth": depth, "steps": 100, "refine": 300} for depth in (2, 4)
]
"""Settings that a quick run chooses from."""
USUAL: Final[list[Settings]] = [
    *({"max_depth": depth} for depth in (2, 3, 4, 6)),
    {"max_depth": 3, "min_rows": 40},
]
"""Settings of data sets that are not named in `SETTINGS`."""
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
    "letter": {"n_estimators": 70, "max_depth": 10, "max_features": 8, "refine": 300},
}  # fmt: skip
"""The paper's."""
HASTY_TREES: Final[Settings] = {"steps": 25, "refine": 0}
"""Settings of forests whose trees differ more from each other, in a tenth of the time."""
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
"""Settings of forests: trees refined not at all, all together, or each by itself."""
RISES: Final = (0.0, 0.01, 0.1)
"""Rises of the steepness in each epoch, as in the paper's Table 1."""
EPOCHS: Final = (15, 30, 45)
N_TREES: Final = 5
"""Trees of the forests whose steepness rises by each of `RISES`: the paper has 70 and 100."""


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
        measure = fits.forest if part == "forest" else fits.steepness
        return measure(json.loads(told), read(data, name), seed)
    return grown.measured(unit, data, _make)


def _make(kind: str, **settings: Any) -> Any:
    return (
        bitvec.learners.E2EDTClassifier if kind == "labels" else bitvec.learners.E2EDTRegressor
    )(**settings)


PUBLISHED: Final = {
    **{name: f"DTSemNet {100 * figure:.1f}" for name, figure in DTSEMNET.items()},
    "letter": "86.3 with 543 leaves",
    "letter, forest of 70": "95.5, soft",
    "usps, forest of 30": "96.7 with 100 trees of patches, soft",
    "connect-4": "80.5 with 257 leaves; DTSemNet 82.0",
    "mnist": "96.1 with 357 leaves; DTSemNet 96.2",
    "mnist, CNN splits": "98.2 ± .3 with 10 leaves, soft",
}
"""Accuracy of trees as the tables of Convex Polytope Trees give it, of forests and the CNN as their
own paper does, whose trees were hard at the root alone when they answered."""
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


BENCHMARK: Final = grown_summary.benchmark(
    "tables-e2edt", units, measured, goals, PUBLISHED, forests=forests, steepness=steepness
)

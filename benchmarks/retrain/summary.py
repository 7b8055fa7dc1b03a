"""Targets, and how often selection was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.old_report import Row, Target, at_least, at_most, judged, none, undecided
from benchmarks.retrain import baselines, forests, trees
from benchmarks.retrain.rows import means

CHECK: Final = "selection"


def selection(rows: Sequence[Row]) -> Row:
    """Return how many retrainings were accepted, and how many of these were worse on test."""
    accepted = [row for row in rows if row.get("improved") and row.get("seed") is not None]
    worse = [row for row in accepted if row["gain"] < 0]
    return {
        "part": CHECK,
        "case": "accepted retrainings",
        "moved": "",
        "seed": None,
        "retrainings": sum("improved" in row for row in rows if row.get("seed") is not None),
        "accepted": len(accepted),
        "worse_on_test": len(worse),
        "worse": [{key: row[key] for key in ("case", "moved", "seed", "gain")} for row in worse],
    }


def targets(rows: Sequence[Row], *, whole: bool) -> list[Target]:
    """Return one entry for each figure that is asked for; `whole` says whether all was measured."""
    found = [*_of_trees(rows), *_of_forests(rows), *_of_baselines(rows), *_of_selection(rows)]
    return undecided(found, whole=whole)


def _found(rows: Sequence[Row], part: str, case: str, moved: str) -> Row:
    """Return the row of means, or an empty one."""
    matching = (row for row in means(rows, part) if (row["case"], row["moved"]) == (case, moved))
    return next(matching, {})


def _of_trees(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for case in trees.CASES:
        row = _found(rows, "trees", case.name, trees.MOVED)
        score, name = row.get("score"), f"{case.name}: test accuracy"
        if case.goal is not None:
            entries.append(at_least(name, case.goal, score))
        if case.published is not None:
            entries.append(at_least(f"{name} beside DTSemNet's published", case.published, score))
        if case.most_leaves is not None:
            own = [r for r in rows if r["case"] == case.name and r.get("seed") is not None]
            leaves = max((r["leaves"] for r in own if "leaves" in r), default=None)
            entries.append(at_most(f"{case.name}: most leaves", case.most_leaves, leaves))
        if case.never_worse:
            entries.append(at_least(f"{case.name}: least gain on test", 0.0, row.get("least_gain")))
    return entries


def _of_forests(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for case in forests.CASES:
        row = _found(rows, "forests", case.name, forests.ALL)
        name, value = f"{case.name}: mean gain on test", row.get("gain")
        if case.least_gain:
            entries.append(at_least(name, case.least_gain, value))
        elif case.least_gain is not None:
            entries.append(judged(name, "> 0", value, lambda gain: gain > 0))
            held_out = row.get("least_held_out_gain")
            entries.append(at_least(f"{case.name}: least gain in validation", 0.0, held_out))
    for case in forests.CASES:
        row = _found(rows, "forests", case.name, forests.ALL)
        name = f"{case.name}: rows that the library answers otherwise from the written file"
        entries.append(none(name, row.get("file_differences")))
    return entries


def _of_baselines(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for case in baselines.CASES:
        row = _found(rows, "baselines", case.name, forests.ALL)
        # What theirs has lost or won by being soft is in the tables; trees are compared hard.
        name = f"{case.name}: ours ahead of theirs, both hard"
        entries.append(at_least(name, 0.0, row.get("ahead")))
    return entries


def _of_selection(rows: Sequence[Row]) -> list[Target]:
    row = next((row for row in rows if row["part"] == CHECK), None)
    value = None if row is None else f"{row['worse_on_test']} of {row['accepted']}"
    return [Target("accepted retrainings that were worse on test", "told", value, None)]

"""What the fits of trees that grow by stumps amount to: rows and tables for each part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.report import Target
from benchmarks.tables.grown import DTSEMNET

Record = dict[str, Any]
Row = dict[str, Any]
SIZES = ("leaves", "rows_of_S", "facets", "operations", "seconds")


def rows(records: Sequence[Record]) -> list[Row]:
    """Return one row for each part and data set: means and deviations over seeds."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        part, name, _ = record["unit"]
        found.setdefault((part, name), []).append(record)
    return [_ROW[part](part, name, own) for (part, name), own in found.items()]


def _tree(part: str, name: str, own: Sequence[Record]) -> Row:
    return {
        "part": part,
        "data": name,
        "seeds": len(own),
        **_mean(own, ("test", "train", "held_out", *SIZES)),
        "test_by_seed": [round(record["test"], 4) for record in own],
        "chosen": [record["chosen"] for record in own],
        "settings": own[0]["settings"],
    }


def _annulus(part: str, name: str, own: Sequence[Record]) -> Row:
    return {
        "part": part,
        "data": name,
        "seeds": len(own),
        **_mean(own, ("auc", *SIZES)),
        "auc_by_seed": [round(record["auc"], 4) for record in own],
        "leaves_by_seed": [record["leaves"] for record in own],
        "facets_by_seed": [record["facets"] for record in own],
    }


def _values(part: str, name: str, own: Sequence[Record]) -> Row:
    cart, ours = ([record[method] for record in own] for method in ("cart", "ours"))
    return {
        "part": part,
        "data": name,
        "seeds": len(own),
        "cart": _mean(cart, ("rmse", "leaves", "seconds")),
        **_mean(ours, ("rmse", *SIZES)),
        "rmse_by_seed": [round(one["rmse"], 4) for one in ours],
        "chosen": [one["chosen"] for one in ours],
    }


def _seconds(part: str, name: str, own: Sequence[Record]) -> Row:
    return {"part": part, "data": name, **_mean(own, ("test", "seconds")), "threads": 2}


_ROW: dict[str, Callable[[str, str, Sequence[Record]], Row]] = {
    "annulus": _annulus,
    "tree": _tree,
    "depth 2": _tree,
    "values": _values,
    "seconds": _seconds,
}


def _mean(own: Sequence[Record], names: Sequence[str]) -> Row:
    return {name: round(float(np.mean([one[name] for one in own])), 4) for name in names}


def at_least(found: Sequence[Row], part: str, name: str, goal: float) -> list[Target]:
    """Return whether the mean test accuracy of a data set reaches a goal, if it was measured."""
    return [
        Target(_told(row), f">= {goal}", row["test"], row["test"] >= goal)
        for row in found
        if (row["part"], row["data"]) == (part, name)
    ]


def _told(row: Row) -> str:
    of_part = "" if row["part"] == "tree" else f", {row['part']}"
    return f"{row['data']}{of_part}: test accuracy"


def in_time(found: Sequence[Row], most: float) -> list[Target]:
    """Return whether one fit of letter was fast enough."""
    return [
        Target(
            "letter, depth 10: seconds on 2 threads", f"< {most}", row["seconds"],
            row["seconds"] < most,
        )
        for row in found
        if row["part"] == "seconds"
    ]  # fmt: skip


def beside_dtsemnet(found: Sequence[Row]) -> Target:
    """Return on how many data sets the mean reaches DTSemNet's figure."""
    own = {row["data"]: row["test"] for row in found if row["part"] == "tree"}
    there = [name for name in DTSEMNET if name in own]
    reached = sum(own[name] >= DTSEMNET[name] for name in there)
    goal = -(-len(DTSEMNET) // 2)
    return Target(
        "data sets at or above DTSemNet's figure",
        f">= {goal} of {len(DTSEMNET)}",
        f"{reached} of {len(there)}",
        reached >= goal,
    )


def undecided(asked: Sequence[Target], *, whole: bool) -> list[Target]:
    """Return targets, none of them met or missed where the run was not whole."""
    if whole:
        return list(asked)
    return [Target(target.name, target.goal, target.value, None) for target in asked]


def trees(found: Sequence[Row], published: Mapping[str, str]) -> str:
    """Return the classifiers in Markdown."""
    lines = [
        "| data | seeds | test | training | leaves | rows of S | multiply-adds a row | seconds,"
        " choosing and fitting | published |",
        f"|---|{'---:|' * 7}---|",
    ]
    for row in found:
        if row["part"] not in ("tree", "depth 2"):
            continue
        name = row["data"] if row["part"] == "tree" else f"{row['data']}, {row['part']}"
        spread = 100 * np.std(row["test_by_seed"])
        lines.append(
            f"| {name} | {row['seeds']} | {100 * row['test']:.1f} ± {spread:.1f} | "
            f"{100 * row['train']:.1f} | {row['leaves']:.0f} | {row['rows_of_S']:,.0f} | "
            f"{row['operations']:,.0f} | {row['seconds']:.0f} | {published.get(name, '')} |"
        )
    return "\n".join(lines)


def values(report: Row) -> str:
    """Return the regressors in Markdown, beside CART."""
    lines = ["| tree | RMSE | leaves | rows of S | seconds |", f"|---|{'---:|' * 4}"]
    for row in report["rows"]:
        if row["part"] != "values":
            continue
        cart = row["cart"]
        lines += [
            f"| CART, pruned by cross-validation | {cart['rmse']:.3f} | {cart['leaves']:.0f} | | "
            f"{cart['seconds']:.0f} |",
            f"| this tree | {row['rmse']:.3f} ± {np.std(row['rmse_by_seed']):.3f} | "
            f"{row['leaves']:.0f} | {row['rows_of_S']:.0f} | {row['seconds']:.0f} |",
        ]
    return "\n".join(lines)

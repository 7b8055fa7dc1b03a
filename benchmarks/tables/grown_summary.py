"""Rows and tables of the fits of trees that grow by stumps, for each part."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Goal, one
from benchmarks.runner import DATA, Benchmark
from benchmarks.tables.grown import BASELINES, DTSEMNET, Unit

Record = dict[str, Any]
Row = dict[str, Any]
SIZES = ("leaves", "rows_of_S", "facets", "splits", "operations", "seconds")
HOURS = 2
"""Hours that a table may take."""
KINDS = ("crisp", "soft")
"""Kinds of answers of a Kernel Density Decision Tree."""
TREES = ("tree", "depth 2", "cnn", "forest")
"""Parts that are classifiers with a test accuracy."""
SHALLOW = "depth 2"
"""A part of its own, and one of the depths that validation chooses from."""


def rows(records: Sequence[Record]) -> list[Row]:
    """Return one row for each part and data set: means and deviations over seeds.

    Of the fits of one seed the one that was best on validation rows counts. The last row tells the
    hours of all; what are rows already is returned.
    """
    if not any("unit" in record for record in records):
        return [*records]
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        part, name, _, settings = record["unit"]
        key = (part, name, settings) if part == "steepness" else (part, name)
        found.setdefault(key, []).append(record)
        if part == SHALLOW:
            found.setdefault(("tree", name), []).append(record)
    return [{"part": key[0], "data": key[1], **_ROW[key[0]](own)} for key, own in found.items()] + [
        {"part": "hours", "data": "all", "hours": hours(records)}
    ]


def chosen(own: Sequence[Record]) -> list[Record]:
    """Return the record of each seed that was best on validation rows, the first of equals."""
    seeds = dict.fromkeys(record["unit"][2] for record in own)
    return [
        max((record for record in own if record["unit"][2] == seed), key=_held_out)
        for seed in seeds
    ]


def _held_out(record: Record) -> float:
    score = record.get("held_out")
    return -np.inf if score is None else float(score)


def _tree(own: Sequence[Record]) -> Row:
    best = chosen(own)
    spent = sum(record["seconds"] + record.get("seconds_of_folds", 0.0) for record in own)
    row = {
        "seeds": len(best),
        "settings": len({record["unit"][3] for record in own}),
        **_mean(best, ("test", "train", "held_out", *SIZES)),
        "seconds_with_choice": round(spent / len(best), 1),
        "test_by_seed": _each(best, "test"),
        "leaves_by_seed": [record["leaves"] for record in best],
        "chosen": [json.loads(record["unit"][3]) for record in best],
    }
    if "by_trees" in best[0]:
        row["by_trees"] = _by_trees(best)
        row["ways"] = [
            {
                "settings": json.loads(record["unit"][3]),
                "by_trees": _by_trees([record]),
                **_mean([record], ("held_out", "seconds")),
            }
            for record in own
        ]
    return row


def _by_trees(own: Sequence[Record]) -> list[Row]:
    return [_mean(each, each[0]) for each in zip(*(r["by_trees"] for r in own), strict=True)]


def _annulus(own: Sequence[Record]) -> Row:
    return {
        "seeds": len(own),
        **_mean(own, ("auc", *SIZES)),
        "auc_by_seed": _each(own, "auc"),
        "leaves_by_seed": [record["leaves"] for record in own],
        "facets_by_seed": [record["facets"] for record in own],
        "chosen": [json.loads(record["unit"][3]) for record in own],
    }


def _values(own: Sequence[Record]) -> Row:
    best = chosen(own)
    return {
        "seeds": len(best),
        "settings": len({record["unit"][3] for record in own}),
        **_mean(best, ("rmse", "held_out", *SIZES)),
        "rmse_by_seed": _each(best, "rmse"),
        "chosen": [json.loads(record["unit"][3]) for record in best],
    }


def _cart(own: Sequence[Record]) -> Row:
    names = ("rmse", "leaves", "rows_of_S", "operations", "seconds")
    return {"seeds": len(own), **_mean(own, names), "rmse_by_seed": _each(own, "rmse")}


def _kddt(own: Sequence[Record]) -> Row:
    found: Row = {"seeds": len(own)}
    for kind in KINDS:
        each = [record[kind] for record in own]
        found[kind] = {
            **_mean(each, ("rmse", "leaves", "rows_of_S", "seconds")),
            "rmse_by_seed": _each(each, "rmse"),
        }
    return found


def _seconds(own: Sequence[Record]) -> Row:
    settings = json.loads(own[0]["unit"][3])
    return {**_mean(own, ("test", "seconds")), "threads": 2, "chosen": [settings]}


def _steepness(own: Sequence[Record]) -> Row:
    settings = json.loads(own[0]["unit"][3])
    return {
        "seeds": len(own),
        "rise": settings["rise"],
        "epochs": settings["epochs"],
        **_mean(own, ("hard", "soft", "sharper", "held_out", *SIZES)),
        "by_trees": _by_trees(own),
        "settings": settings,
    }


_ROW: dict[str, Callable[[Sequence[Record]], Row]] = {
    **dict.fromkeys(TREES, _tree),
    "annulus": _annulus,
    "values": _values,
    "cart": _cart,
    "kddt": _kddt,
    "seconds": _seconds,
    "steepness": _steepness,
}


def _mean(own: Sequence[Record], names: Sequence[str] | Mapping[str, Any]) -> Row:
    """Return the means of what all records tell."""
    found = {}
    for name in names:
        told = [one.get(name) for one in own]
        if None not in told:
            found[name] = round(float(np.mean(told)), 4)
    return found


def _each(own: Sequence[Record], name: str) -> list[float]:
    return [round(record[name], 4) for record in own]


ACCURACY = {"test": "test accuracy", "held_out": "accuracy on validation rows, as the paper's"}


def at_least(
    found: Sequence[Row], part: str, name: str, goal: float, *, of: str = "test"
) -> list[Goal]:
    """Return whether the mean accuracy of a data set reaches a goal, if it was measured."""
    return [
        Goal(f"{_told(row)}: {ACCURACY[of]}", f">= {goal}", row[of])
        for row in found
        if (row["part"], row["data"]) == (part, name)
    ]


def _told(row: Row) -> str:
    if row["part"] == "forest":
        return f"{row['data']}, forest of {row['by_trees'][-1]['trees']:.0f}"
    return {
        "tree": row["data"],
        SHALLOW: f"{row['data']}, {SHALLOW}",
        "cnn": f"{row['data']}, CNN splits",
    }[row["part"]]


def in_time(found: Sequence[Row], most: float) -> list[Goal]:
    """Return whether one fit of letter was fast enough."""
    return [
        Goal(f"{row['data']}: seconds on 2 threads", f"< {most}", row["seconds"])
        for row in found
        if row["part"] == "seconds"
    ]


def hours(records: Sequence[Record]) -> float:
    """Return what all fits took together, those of cross-validation among them."""
    spent = 0.0
    for record in records:
        parts = [record[kind] for kind in KINDS] if record["unit"][0] == "kddt" else [record]
        spent += sum(part["seconds"] + part.get("seconds_of_folds", 0.0) for part in parts)
    return round(spent / 3600 / 2, 2)


def in_hours(found: Sequence[Row]) -> Goal:
    """Return what all fits may take."""
    return Goal("hours on 2 cores", f"<= {HOURS}", one(found, part="hours").get("hours"))


def beside_dtsemnet(found: Sequence[Row]) -> Goal:
    """Return on how many data sets the mean reaches DTSemNet's figure."""
    own = {row["data"]: row["test"] for row in found if row["part"] == "tree"}
    there = [name for name in DTSEMNET if name in own]
    reached = sum(own[name] >= DTSEMNET[name] for name in there)
    goal = -(-len(DTSEMNET) // 2)
    return Goal(
        "data sets at or above DTSemNet's figure",
        f">= {goal} of {len(DTSEMNET)}",
        f"{reached} of {len(there)}",
    )


def trees(found: Sequence[Row], published: Mapping[str, str]) -> str:
    """Return the classifiers in Markdown, by the name that `published` has for them."""
    lines = [
        "| data | seeds | test | training | leaves | rows of S | multiply-adds a row | seconds "
        "| with choice | chosen | published |",
        f"|---|{'---:|' * 8}---|---|",
    ]
    for row in found:
        if row["part"] not in TREES:
            continue
        name = _told(row)
        lines.append(
            f"| {name} | {row['seeds']} | {100 * row['test']:.1f}{_spread(row, 'test', 100)} | "
            f"{100 * row['train']:.1f} | {row['leaves']:,.0f} | {row['rows_of_S']:,.0f} | "
            f"{row['operations']:,.0f} | {row['seconds']:.0f} | {row['seconds_with_choice']:.0f} | "
            f"{_choice(row)} | {published.get(name, '')} |"
        )
    return "\n".join(lines)


def _spread(row: Row, name: str, times: float = 1.0, digits: int = 1) -> str:
    """Return the deviation over seeds, nothing for one."""
    each = row[f"{name}_by_seed"]
    return f" ± {times * np.std(each):.{digits}f}" if len(each) > 1 else ""


def _choice(row: Row) -> str:
    """Return the settings that validation chose, the most frequent first."""
    told = Counter(
        ", ".join(f"{name} {_plain(value)}" for name, value in sorted(one.items()))
        for one in row["chosen"]
    )
    several = len(told) > 1
    return "; ".join(f"{text} ({n})" if several else text for text, n in told.most_common())


def _plain(value: Any) -> str:
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)


def values(report: Row) -> str:
    """Return the regressors in Markdown, beside CART and Kernel Density Decision Trees."""
    lines = ["| tree | RMSE | leaves | rows of S | seconds |", f"|---|{'---:|' * 4}"]
    found = {row["part"]: row for row in report["rows"] if row["part"] in ("values", *BASELINES)}
    shown: dict[str, Row] = {}
    if "cart" in found:
        shown["CART, tuned by cross-validation"] = found["cart"]
    if "kddt" in found:
        shown["Kernel Density Decision Tree, crisp"] = found["kddt"]["crisp"]
        shown["the same, soft"] = found["kddt"]["soft"]
    if "values" in found:
        shown["this tree"] = found["values"]
    lines += [
        f"| {name} | {row['rmse']:.3f}{_spread(row, 'rmse', digits=3)} | {row['leaves']:,.0f} | "
        f"{row['rows_of_S']:,.0f} | {row['seconds']:.0f} |"
        for name, row in shown.items()
    ]
    return "\n".join(lines)


def _measure(
    measured: Callable[[Unit, Path], Record], unit: Unit, options: Namespace
) -> list[Record]:
    return [measured(unit, options.data)]


def benchmark(
    name: str,
    units: Callable[..., list[Unit]],
    measured: Callable[[Unit, Path], Record],
    goals: Callable[[Sequence[Row]], list[Goal]],
    published: Mapping[str, str],
    **more: Callable[[Row], str],
) -> Benchmark:
    """Return the benchmark of a paper, with the tables that both have and more of its own."""
    return Benchmark(
        name,
        lambda options: units(quick=options.quick),
        partial(_measure, measured),  # which is sent to processes
        goals,
        {"table": lambda report: trees(report["rows"], published), **more, "values": values},
        rows,
        options=DATA,
        needs=("data",),
        kept=True,
    )

"""Mean and deviation over folds, and the paper's figure, of each method and data set."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.report import Column, Goal, Table, one
from benchmarks.runner import DATA, Benchmark
from benchmarks.tables import kddt_fits
from benchmarks.tables.kddt_fits import GROWTH, LETTER, METHODS, PAPER, REGRESSION

Record = dict[str, Any]

BASE = {"soft": "cart", "crisp": "cart", "rf soft": "rf", "rf crisp": "rf", "et soft": "et"}
BASE |= {"et crisp": "et"}
"""Rivals that each of ours is compared with, fold by fold."""
MARGIN = 1.0
"""Points below the paper within which a cell passes, or two standard errors if that is more."""


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row for each data set and method, and the hours of all."""
    if not any("unit" in record for record in records):
        return [*records]
    found = []
    for name in PAPER:
        own = [record for record in records if record["unit"][0] == name]
        if not own:
            continue
        for method, paper in zip(METHODS, PAPER[name], strict=True):
            found.append(_row(name, method, paper, own))
    spent = sum(sum(record["seconds"].values()) for record in records)
    hours = {"data": "hours", "method": "all", "hours": round(spent / 3600 / 2, 2)}
    return [*found, *_others(records), hours]


def _others(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the seconds of growth and of letter, and the errors of regressors."""
    found: list[dict[str, Any]] = []
    for record in records:
        name, _, n_rows = record["unit"]
        if name == GROWTH:
            found.append(
                {
                    "data": name,
                    "method": "soft",
                    "n_rows": n_rows,
                    "leaves": record["leaves"],
                    "seconds": record["seconds"]["soft"],
                }
            )
        elif name == LETTER:
            found.append({"data": name, "method": "soft", "seconds": record["seconds"]["soft"]})
    own = [record for record in records if record["unit"][0] == REGRESSION]
    for method in own[0]["rmse"] if own else ():
        errors = [record["rmse"][method] for record in own]
        leaves = [record["leaves"][method] for record in own]
        found.append(
            {
                "data": REGRESSION,
                "method": method,
                "rmse": round(float(np.mean(errors)), 4),
                "deviation_of_seeds": round(float(np.std(errors)), 4),
                "leaves": None if leaves[0] is None else round(float(np.mean(leaves)), 1),
                "seconds": round(float(np.mean([r["seconds"][method] for r in own])), 2),
            }
        )
    return found


def rises(report: dict[str, Any]) -> list[tuple[int, float]]:
    """Return the rows and the seconds of growth."""
    return [(row["n_rows"], row["seconds"]) for row in report["rows"] if row["data"] == GROWTH]


def _row(name: str, method: str, paper: float, own: Sequence[Record]) -> dict[str, Any]:
    accuracy = _accuracy(own, method)
    seeds = np.array([record["unit"][1] for record in own])
    by_seed = [float(accuracy[seeds == seed].mean()) for seed in np.unique(seeds)]
    row = {
        "data": name,
        "method": method,
        "mean": round(float(accuracy.mean()), 2),
        "deviation_of_folds": round(float(accuracy.std(ddof=1)), 2),
        "deviation_of_seeds": round(float(np.std(by_seed)), 2),
        "paper": paper,
        "folds": len(own),
        "seconds": round(float(np.mean([record["seconds"][method] for record in own])), 3),
    }
    leaves = [record["leaves"][method] for record in own if record["leaves"].get(method)]
    if leaves:
        row["leaves"] = round(float(np.mean(leaves)), 1)
    if method in BASE:
        kind = method.split()[-1]
        row["bandwidth"] = round(
            float(np.exp(np.mean(np.log([record["bandwidth"][kind] for record in own])))), 4
        )
        gap = accuracy - _accuracy(own, BASE[method])
        error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
        row["over_scikit_learn"] = round(float(gap.mean()), 2)
        row["standard_error"] = round(error, 3)
        row["passes"] = bool(accuracy.mean() >= paper - max(MARGIN, 2 * error))
    return row


def _accuracy(own: Sequence[Record], method: str) -> np.ndarray[Any, Any]:
    return 100 * np.array([record["accuracy"][method] for record in own])


def measure(unit: tuple[Any, ...], options: Namespace) -> list[Record]:
    """Return the record of a unit."""
    return [kddt_fits.measured(unit, options.data)]


def goals(found: Sequence[Record]) -> list[Goal]:
    """Return how many figures have to be near the paper's, and what growth may take."""
    of = {(row["data"], row["method"]): row for row in found}
    names = [name for name in PAPER if (name, "soft") in of]

    def count(method: str, holds: Any) -> str:
        return f"{sum(bool(holds(of[name, method])) for name in names)} of {len(names)}"

    asked = [
        Goal(f"{method} tree near the paper's", goal, count(method, lambda row: row["passes"]))
        for method, goal in (("soft", ">= 10 of 12"), ("crisp", ">= 9 of 12"))
    ]
    asked += [
        Goal(f"{method} near the paper's", "told", count(method, lambda row: row["passes"]))
        for method in ("rf soft", "rf crisp", "et soft", "et crisp")
    ]
    above = count("soft", lambda row: row["over_scikit_learn"] > 0)
    worse = count("soft", lambda row: row["over_scikit_learn"] < -2 * row["standard_error"])
    asked += [
        Goal("soft tree above scikit-learn's tuned tree", ">= 10 of 12", above),
        Goal("soft tree significantly below scikit-learn's tuned tree", "0", worse),
    ]
    growth = rises({"rows": found})
    if len(growth) > 1:
        n, seconds = np.array(growth, float).T
        power = float(np.polyfit(np.log(n * np.log(n)), np.log(seconds), 1)[0])
        asked.append(Goal("seconds as a power of n log n", "<= 1.1", round(power, 3)))
    letter, hours = one(found, data=LETTER), one(found, data="hours")
    name = "seconds on letter at bandwidth 0.1, one core"
    asked += [Goal(name, "< 20", letter["seconds"])] if letter else []
    return [*asked, Goal("hours on 2 cores", "<= 8", hours.get("hours"))]


def _by_method(rows: Sequence[Record]) -> list[Record]:
    """Return a row for each data set, which holds those of all methods."""
    found = {(row["data"], row["method"]): row for row in rows}
    names = [name for name in PAPER if (name, "soft") in found]
    return [{"data": name} | {m: found[name, m] for m in METHODS} for name in names]


def _of(method: str, key: str) -> Callable[[Record], Any]:
    return lambda row: row[method][key]


def _beside(method: str) -> Callable[[Record], str]:
    return lambda row: f"{row[method]['mean']:.1f} ({row[method]['paper']:.1f})"


def _over_cart(row: Record) -> str:
    soft = row["soft"]
    return f"{soft['over_scikit_learn']:+.1f} ± {2 * soft['standard_error']:.1f}"


_ACCURACY: Final = (Column("data", "data"), *(Column(m, _beside(m)) for m in METHODS))
_SIZES: Final = (
    Column("data", "data"),
    Column("leaves of CART", _of("cart", "leaves"), ".0f"),
    Column("soft", _of("soft", "leaves"), ".0f"),
    Column("crisp", _of("crisp", "leaves"), ".0f"),
    Column("bandwidth, soft", _of("soft", "bandwidth"), ".2g"),
    Column("crisp", _of("crisp", "bandwidth"), ".2g"),
    Column("seconds, soft", _of("soft", "seconds"), ".2f"),
    Column("100 trees, rf soft", _of("rf soft", "seconds"), ".1f"),
    Column("over CART, points", _over_cart),
)
_REGRESSIONS: Final = (
    Column("model", "method"),
    Column("RMSE", lambda row: f"{row['rmse']:.3f} ± {row['deviation_of_seeds']:.3f}"),
    Column("leaves", "leaves", ".0f"),
    Column("seconds", "seconds", ".1f"),
)
TABLES: Final = {
    "table": Table(_ACCURACY, _by_method),
    "sizes": Table(_SIZES, _by_method),
    "regressions": Table(_REGRESSIONS, {"data": REGRESSION}),
}
BENCHMARK: Final = Benchmark(
    "tables-kddt",
    lambda options: kddt_fits.units(quick=options.quick),
    measure,
    goals,
    TABLES,
    rows,
    options=DATA,
    needs=("data",),
    kept=True,
)

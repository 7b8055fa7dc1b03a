"""Gain of retraining by default, and whether accepted forests are significantly worse on test.

    python -m benchmarks.retrain recipes --data FOLDER [--quick] [--json] [--only NAME] [--save]

Sets, models, seed and numbers of rows were written down before the first run. A model is fitted on
1,000 rows, retrained with the defaults on them and chosen by 400 others; single trees then with
`refit=True` as well. They are compared with what else could be had of the same rows: a CART pruned
by the 400 rows and fitted anew on all 1,400, `tao_refine`, and `tao_refine(oblique=True)`. What is
significant is so by a paired test on the test rows, at 5 % on two sides.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bitvec
from benchmarks.datasets import Array
from benchmarks.report import Column, Goal, Report, Row, Table, measured_by, six_digits, where
from benchmarks.report import table as in_markdown
from benchmarks.retrain.data import Split, split
from benchmarks.retrain.libraries import LIBRARIES
from benchmarks.runner import DATA, Benchmark, Options
from benchmarks.worker import reason
from bitvec.core.forest import Forest

TREES: Final = (
    "pendigits",
    "satimage",
    "optdigits",
    "segment",
    "adult",
    "california",
    "banknote",
    "spambase",
    "yeast",
    "connect-4",
    "balance",
    "blood",
)
FORESTS: Final = ("adult", "california", "spambase", "banknote")
SEED: Final = 0
DEPTH: Final = 8
ROWS: Final = {"fit": 1000, "held_out": 400, "test": 5000}
SIGNIFICANT: Final = 1.96
CHANCE: Final = 0.025
"""Part of retrainings without an effect that a test on two sides calls significantly worse."""


class Work(NamedTuple):
    """A set and a model: "tree", or the name of a library."""

    data: str
    model: str

    def __str__(self) -> str:
        """Return both names."""
        return f"{self.data}, {self.model}"


def cases(options: Namespace) -> Iterator[Work]:
    """Yield every case."""
    if options.quick:
        yield Work("banknote", "tree")
        return
    yield from (Work(data, library.name) for data in FORESTS for library in LIBRARIES)
    yield from (Work(data, "tree") for data in TREES)


def rows_of(options: Namespace, name: str) -> Split:
    """Return the first rows of each part of a set, which the seed has shuffled."""
    return split(options.data, name, SEED).ordinal().head(**ROWS)


def measure(work: Work, options: Namespace) -> list[Row]:
    """Return the row of one case."""
    try:
        return [six_digits(_measured(work, options))]
    except Exception as error:
        traceback.print_exc()
        return [{"case": str(work), "model": work.model, "reason": reason(error)}]


def _measured(work: Work, options: Namespace) -> Row:
    rows = rows_of(options, work.data)
    library = next((each for each in LIBRARIES if each.name == work.model), None)
    if library is None:
        model = _tree(rows).fit(*rows.fit)
    else:
        model = library.grow(rows, SEED, library.size)
    forest = bitvec.convert(model)
    ways = (False, True) if library is None else (False,)
    results, seconds = _retrained(forest, rows, ways, quick=options.quick)
    default, again = results[0], results[-1]
    scored = "log_loss" if default.metric == "negative log loss" else "label"
    found = {
        "case": str(work),
        "data": work.data,
        "model": work.model,
        "metric": default.metric,
        "rows": len(rows.fit[1]),
        "leaves": forest.n_leaves,
        "leaves_after": default.forest.n_leaves,
        "start": _score(forest, rows),
        "score": _score(default.forest, rows),
        "refit_score": _score(again.forest, rows),
        "accepted": default.improved,
        "refitted": again.refitted,
        "z": _z(forest, default.forest, rows, scored),
        "z_refit": _z(forest, again.forest, rows, scored),
        "z_label": _z(forest, default.forest, rows, "label"),
        "seconds": seconds[0],
        "seconds_refit": seconds[-1],
        "recipe": default.chosen.recipe if default.chosen else "",
        "fresh_fit": "A fresh fit" in default.note,
    }
    if library is None:
        found |= _instead(forest, rows, default.forest, again.forest)
    return found


def _tree(rows: Split, **options: Any) -> Any:
    if rows.is_classifier:
        return DecisionTreeClassifier(
            criterion="entropy", max_depth=DEPTH, random_state=SEED, **options
        )
    return DecisionTreeRegressor(max_depth=DEPTH, random_state=SEED, **options)


def _retrained(
    forest: Forest, rows: Split, ways: tuple[bool, ...], *, quick: bool
) -> tuple[list[Any], list[float]]:
    """Return the result of the defaults and that with a refit, which goes on from the first."""
    results, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        for refit in ways:
            start = time.process_time()
            results.append(
                bitvec.retrain(
                    forest,
                    *rows.fit,
                    validation=rows.held_out,
                    refit=refit,
                    seed=SEED,
                    checkpoint_path=Path(folder) / "search.safetensors",
                    **({"budget": "quick"} if quick else {}),
                )
            )
            seconds.append(time.process_time() - start)
    return results, seconds


def _row_scores(forest: Forest, rows: Split, scored: str) -> Array:
    """Return what each test row scores: its label or minus its squared error, or its log loss."""
    X, y = rows.test
    predictor = bitvec.compile(forest, n_jobs=1)
    if not rows.is_classifier:
        return -np.square(predictor.predict(X).astype(np.float64) - y)
    if scored == "label":
        return (predictor.predict(X) == y).astype(np.float64)
    assert forest.output.classes is not None
    place = np.searchsorted(forest.output.classes[0], y).clip(max=len(forest.output.classes[0]) - 1)
    p = predictor.predict_proba(X)[np.arange(len(y)), place]
    return np.log(np.clip(p, 1e-15, None))


def _score(forest: Forest, rows: Split) -> float:
    mean = float(_row_scores(forest, rows, "label").mean())
    return mean if rows.is_classifier else float(np.sqrt(-mean))


def _z(before: Forest, after: Forest, rows: Split, scored: str) -> float:
    """Return the paired gain on the test rows in standard errors."""
    gain = _row_scores(after, rows, scored) - _row_scores(before, rows, scored)
    error = float(gain.std() / np.sqrt(len(gain)))
    return float(gain.mean()) / error if error > 0 else 0.0


def _instead(forest: Forest, rows: Split, default: Forest, again: Forest) -> Row:
    """Return the scores of what could be had instead, and the paired tests against the best."""
    from bitvec.learners import tao_refine

    X, y = (np.concatenate(parts) for parts in zip(rows.fit, rows.held_out, strict=True))
    path = _tree(rows).cost_complexity_pruning_path(*rows.fit).ccp_alphas
    alphas = path[np.unique(np.linspace(0, len(path) - 1, 15).astype(int))].clip(min=0)
    held_X, held_y = rows.held_out
    scores = [_tree(rows, ccp_alpha=a).fit(*rows.fit).score(held_X, held_y) for a in alphas]
    pruned = _tree(rows, ccp_alpha=alphas[int(np.argmax(scores))]).fit(X, y)
    others = {
        "pruned_cart": bitvec.convert(pruned),
        "tao": tao_refine(forest, *rows.fit).forest,
        "oblique_tao": tao_refine(forest, *rows.fit, oblique=True).forest,
    }
    found: Row = {name: _score(other, rows) for name, other in others.items()}
    best = (max if rows.is_classifier else min)(others, key=lambda name: found[name])
    found["best_instead"] = best
    found["z_instead"] = _z(others[best], default, rows, "label")
    found["z_instead_refit"] = _z(others[best], again, rows, "label")
    return found


def worse_by_chance(n: int) -> int:
    """Return how many of n retrainings without an effect seem significantly worse, at 95 %."""
    part, total, k = (1 - CHANCE) ** n, 0.0, 0
    while total + part < 0.95:
        total += part
        k += 1
        part *= (n - k + 1) / k * CHANCE / (1 - CHANCE)
    return k


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, and how many were accepted and worse."""
    measured = [row for row in rows if "z" in row]
    found = [row for row in rows if "summary" not in row]
    trees = where(measured, model="tree")
    for name, own, z in (
        ("defaults, single trees", trees, "z"),
        ("refit=True, single trees", trees, "z_refit"),
        ("defaults, forests", [row for row in measured if row["model"] != "tree"], "z"),
    ):
        accepted = [row for row in own if row["accepted"]]
        found.append(
            {
                "summary": name,
                "retrainings": len(own),
                "accepted": len(accepted),
                "refitted": sum(row["refitted"] for row in own),
                "better": sum(row[z] > SIGNIFICANT for row in accepted),
                "worse": sum(row[z] < -SIGNIFICANT for row in accepted),
                "worse_by_chance": worse_by_chance(len(accepted)),
            }
        )
    return found


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Return what is asked for of single trees, and of all that were accepted."""
    trees = [row for row in rows if row.get("model") == "tree" and "z_instead" in row]
    for name, key in (("defaults", "score"), ("refit=True", "refit_score")):
        text = f"single trees better than the best of the three others, {name}"
        better = sum(_is_better(row, key) for row in trees)
        yield Goal(text, ">= 10", better if trees else None)
    for row in rows:
        if "summary" in row:
            text = f"{row['summary']}: accepted, significantly worse on test"
            yield Goal(text, f"<= {row['worse_by_chance']}", row["worse"])


def _is_better(row: Row, key: str) -> bool:
    best = row[row["best_instead"]]
    return bool(row[key] < best if row["metric"].endswith("error") else row[key] > best)


_TREES: Final = (
    Column("data", "data"),
    Column("CART", "start", ".4f"),
    Column("retrained", "score", ".4f"),
    Column("refitted", "refit_score", ".4f"),
    Column("pruned CART, all rows", "pruned_cart", ".4f"),
    Column("tao_refine", "tao", ".4f"),
    Column("oblique", "oblique_tao", ".4f"),
    Column("z against the best of the three", "z_instead", ".1f"),
    Column("refitted", "z_instead_refit", ".1f"),
    Column("recipe", "recipe"),
    Column("CPU s", "seconds", ".1f"),
)
_FORESTS: Final = (
    Column("data, library", "case"),
    Column("before", "start", ".4f"),
    Column("retrained", "score", ".4f"),
    Column("z", "z", ".1f"),
    Column("z of labels", "z_label", ".1f"),
    Column("recipe", "recipe"),
    Column("CPU s", "seconds", ".1f"),
)


def summary(report: Report) -> str:
    """Return how many retrainings were accepted, and how many of them were worse."""
    columns = (
        Column("", "summary"),
        Column("retrainings", "retrainings", "d"),
        Column("accepted", "accepted", "d"),
        Column("refitted", "refitted", "d"),
        Column("significantly better", "better", "d"),
        Column("significantly worse", "worse", "d"),
        Column("worse by chance, at most", "worse_by_chance", "d"),
    )
    return in_markdown([row for row in report["rows"] if "summary" in row], columns)


def forests(report: Report) -> str:
    """Return a line for each forest and booster."""
    rows = [row for row in report["rows"] if "z" in row and row["model"] != "tree"]
    return in_markdown(rows, _FORESTS)


OPTIONS: Final[Options] = {**DATA}
BENCHMARK: Final = Benchmark(
    "retrain-recipes",
    cases,
    measure,
    goals,
    {
        "table": Table(_TREES, {"model": "tree"}, "case", measured_by),
        "forests": forests,
        "summary": summary,
    },
    figures,
    options=OPTIONS,
    needs=("data",),
    processes=True,
    kept=True,
)

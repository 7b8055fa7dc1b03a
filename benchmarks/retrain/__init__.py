"""Gain of retraining: test scores of hard forests before and after, on real data.

    python -m benchmarks.retrain --data FOLDER [--baselines-dir FOLDER] [--seeds 3] [--quick]
                                 [--json] [--only NAME] [--save]

Single trees with S, b and v free; forests and boosters with S fixed, written back into the library
that they came from; other libraries' fine-tuning beside ours. The source model is fitted on 85 % of
the rows to train on, everything is chosen by the other 15 %, and the rows to test on are scored
once for each figure. A figure is a mean over seeds, with its deviation.
"""

from __future__ import annotations

import statistics
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.datasets import READERS
from benchmarks.report import (
    Column,
    Goal,
    Report,
    Row,
    Table,
    groups,
    measured_by,
    one,
    six_digits,
    table,
)
from benchmarks.retrain import baselines, forests, instead, trees
from benchmarks.runner import DATA, Benchmark, Options, count
from benchmarks.worker import CannotRunError, reason

PARTS: Final[dict[str, Any]] = {"baselines": baselines, "forests": forests, "trees": trees}
"""By name, what takes longest first."""
QUICK: Final = ("banknote, depth 4", "satimage, RandomForest")
LEAST_SEEDS: Final = 3
OPTIONS: Final[Options] = {
    **DATA,
    "--seeds": {"type": count, "default": LEAST_SEEDS, "help": "of splits and of training"},
}
WITH_DEVIATION: Final = (
    "start", "score", "gain", "start_loss", "loss", "loss_gain", "theirs", "theirs_soft",
    "theirs_transferred",
)  # fmt: skip
AVERAGED: Final = (
    *WITH_DEVIATION,
    "ahead",
    "leaves_unpruned",
    "leaves",
    "parameters",
    "seconds",
    "theirs_seconds",
)


class Work(NamedTuple):
    """One case of a part, with one seed."""

    part: str
    case: Any
    seed: int

    def __str__(self) -> str:
        """Return the name of the case, and its part and seed."""
        return f"{self.case.name} ({self.part}, seed {self.seed})"


def cases(options: Namespace) -> Iterator[Work]:
    """Yield every case with every seed."""
    options.whole &= options.seeds >= LEAST_SEEDS
    for part, module in PARTS.items():
        for case in module.CASES:
            if not options.quick or case.name in QUICK:
                seeds = 1 if options.quick else options.seeds * getattr(case, "times", 1)
                yield from (Work(part, case, seed) for seed in range(seeds))


def measure(work: Work, options: Namespace) -> list[Row]:
    """Return the rows of a case and a seed, or why there are none; the others go on."""
    facts = {"part": work.part, "case": work.case.name, "seed": work.seed}
    folder = READERS[work.case.data][0]
    try:
        if not (options.data / folder).is_dir():
            raise CannotRunError(f"the folder of data has no {folder}")
        found = PARTS[work.part].measure(work.case, work.seed, options)
        return [six_digits(facts | row) for row in found]
    except Exception as error:
        if not isinstance(error, CannotRunError):
            traceback.print_exc()
        return [facts | {"reason": reason(error)}]


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return means over the seeds of each case, what could not be measured, and the selection."""
    own = [row for row in rows if "score" in row and "seeds" not in row]
    if not own:
        return [*rows]
    found = [_mean(group) for group in groups(own, "part", "case", "moved").values()]
    return [*found, *(row for row in rows if "reason" in row), _selection(own)]


def _mean(rows: list[Row]) -> Row:
    keys = ("part", "case", "moved", "measure", "source", "published")
    found = {key: rows[0].get(key) for key in keys} | {"seeds": len(rows)}
    for key in AVERAGED:
        values = [row[key] for row in rows if row.get(key) is not None]
        if values:
            found[key] = statistics.fmean(values)
            if key in WITH_DEVIATION:
                found[f"{key}_deviation"] = statistics.stdev(values) if values[1:] else 0.0
    found["least_gain"] = min(row["gain"] for row in rows)
    found["most_leaves"] = max(row["leaves"] for row in rows)
    if "held_out_gain" in rows[0]:
        found["least_held_out_gain"] = min(row["held_out_gain"] for row in rows)
    if any(row.get("file_differences") is not None for row in rows):
        found["file_differences"] = sum(row.get("file_differences") or 0 for row in rows)
    return six_digits(found)


def _selection(rows: Sequence[Row]) -> Row:
    """Return how many retrainings were accepted, and how many of these were worse on test."""
    accepted = [row for row in rows if row.get("improved")]
    # By what was chosen by: of forests that classify, the log loss.
    accepted = [row | {"gain": row.get("loss_gain", row["gain"])} for row in accepted]
    worse = [row for row in accepted if row["gain"] < 0]
    return {
        "part": "selection",
        "case": "accepted retrainings",
        "retrainings": sum("improved" in row for row in rows),
        "accepted": len(accepted),
        "worse_on_test": len(worse),
        "worse": [{key: row[key] for key in ("case", "moved", "seed", "gain")} for row in worse],
    }


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return the scores, gains and sizes that are asked for, case by case."""
    return [*_of_trees(rows), *_of_forests(rows), *_of_baselines(rows), _of_selection(rows)]


def _of_trees(rows: Sequence[Row]) -> Iterator[Goal]:
    for case in trees.CASES:
        row, name = one(rows, part="trees", case=case.name, moved=trees.MOVED), case.name
        score = row.get("score")
        if case.goal is not None:
            yield Goal(f"{name}: test accuracy", f">= {case.goal:g}", score)
        if case.published is not None:
            text = f"{name}: test accuracy beside DTSemNet's published"
            yield Goal(text, f">= {case.published:g}", score)
        if case.most_leaves is not None:
            yield Goal(f"{name}: most leaves", f"<= {case.most_leaves}", row.get("most_leaves"))
        if case.never_worse:
            yield Goal(f"{name}: least gain on test", ">= 0", row.get("least_gain"))


def _of_forests(rows: Sequence[Row]) -> Iterator[Goal]:
    found = [
        (case, one(rows, part="forests", case=case.name, moved=forests.ALL))
        for case in forests.CASES
    ]
    for case, row in found:
        if case.least_gain is not None:
            goal = f">= {case.least_gain:g}" if case.least_gain else "> 0"
            yield Goal(f"{case.name}: mean gain on test", goal, row.get("gain"))
        if case.least_gain == 0:
            least = row.get("least_held_out_gain")
            yield Goal(f"{case.name}: least gain in validation", ">= 0", least)
    for case, row in found:
        name = f"{case.name}: rows that the library answers otherwise from the written file"
        yield Goal(name, "0", row.get("file_differences"))


def _of_baselines(rows: Sequence[Row]) -> Iterator[Goal]:
    for case in baselines.CASES:
        row = one(rows, part="baselines", case=case.name, moved=forests.ALL)
        # What theirs has lost or won by being soft is in the tables; trees are compared hard.
        yield Goal(f"{case.name}: ours ahead of theirs, both hard", ">= 0", row.get("ahead"))


def _of_selection(rows: Sequence[Row]) -> Goal:
    row = one(rows, part="selection")
    value = f"{row['worse_on_test']} of {row['accepted']}" if row else None
    return Goal("accepted retrainings that were worse on test", "told", value)


def _with_deviation(head: str, key: str) -> Column:
    def cell(row: Row) -> str | None:
        mean = row.get(key)
        return None if mean is None else f"{mean:.4f} ± {row.get(f'{key}_deviation', 0.0):.4f}"

    return Column(head, cell)


def _pair(first: str, second: str, form: str, between: str) -> Any:
    def cell(row: Row) -> str:
        told = [format(row[key], form) if key in row else "" for key in (first, second)]
        return between.join(told)

    return cell


_BEFORE: Final = _with_deviation("before", "start")
_TREES: Final = (
    Column("data, tree", "case"),
    _BEFORE,
    _with_deviation("after", "score"),
    Column("DTSemNet's", "published", ".4f"),
    Column("leaves", _pair("leaves_unpruned", "leaves", ",.0f", " -> ")),
    Column("parameters", "parameters", ",.0f"),
    Column("CPU s", "seconds", ".1f"),
)
_FORESTS: Final = (
    Column("data, library", "case"),
    Column("measure", "measure"),
    Column("what moved", "moved"),
    _BEFORE,
    _with_deviation("after", "score"),
    _with_deviation("better by", "gain"),
    _with_deviation("log loss before", "start_loss"),
    _with_deviation("log loss after", "loss"),
    Column("rows otherwise from the file", "file_differences", ","),
    Column("leaves", "leaves", ",.0f"),
    Column("CPU s", "seconds", ".1f"),
)
_BASELINES: Final = (
    Column("data, library", "case"),
    Column("model", "source"),
    Column("measure", "measure"),
    _BEFORE,
    _with_deviation("ours", "score"),
    _with_deviation("theirs, hard", "theirs"),
    _with_deviation("theirs, soft", "theirs_soft"),
    _with_deviation("theirs, soft, untrained", "theirs_transferred"),
    Column("CPU s, ours / theirs", _pair("seconds", "theirs_seconds", ".1f", " / ")),
)
_WORSE: Final = (
    Column("case", "case"),
    Column("what moved", "moved"),
    Column("seed", "seed", "d"),
    Column("worse by", lambda row: -row["gain"], ".4f"),
)


def selection(report: Report) -> str:
    """Return how many retrainings were accepted, and which of them were worse on test."""
    row = one(report["rows"], part="selection")
    if not row:
        return ""
    text = (
        f"Of {row['retrainings']} retrainings {row['accepted']} were accepted, and "
        f"{row['worse_on_test']} of these were worse on the rows to test on than what they began "
        "with"
    )
    return f"{text}:\n\n{table(row['worse'], _WORSE)}" if row["worse"] else f"{text}."


BENCHMARK: Final = Benchmark(
    "retrain",
    cases,
    measure,
    goals,
    {
        "table": Table(_TREES, {"part": "trees"}, "case", measured_by),
        "forest_table": Table(_FORESTS, {"part": "forests"}, "case"),
        "baseline_table": Table(_BASELINES, {"part": "baselines"}, "case"),
        "instead": instead.table,
        "selection_table": selection,
    },
    figures,
    options=OPTIONS,
    needs=("data",),
    requirements=Path(__file__).parent / "requirements",
    processes=True,
)

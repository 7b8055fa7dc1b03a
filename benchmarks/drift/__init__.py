"""Models kept up to date on streams that drift: block after block, answers before labels.

    python -m benchmarks.drift --data FOLDER [--json] [--quick] [--save]

A model is fitted to the rows of the start. Of each block it then first answers, is scored, and
only then may learn; the last block is only answered. Every way begins with a booster of the same
size (see `methods`). Streams, blocks, seeds and settings are fixed in `streams` and `methods`;
the settings of `bitvec.update` are its defaults, which were found on other streams. Three
seeds, on one thread; processor time is that of learning, without the fit to the start.
"Better" is an exact paired permutation test over the blocks, each block's score being the mean of
its seeds: differences are few and far from normal, since ways break down on single blocks.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Final

import numpy as np

from benchmarks.drift import methods, streams
from benchmarks.drift.methods import (
    GROW,
    GROW_ALL,
    GROW_WINDOW,
    METHODS,
    UPDATE,
    UPDATE_WINDOW,
)
from benchmarks.report import Column, Goal, Report, Row, groups, measured_by, table
from benchmarks.runner import DATA, Benchmark
from bitvec.core.arrays import Array

SEEDS: Final = (0, 1, 2)
OURS: Final = (UPDATE, UPDATE_WINDOW, GROW, GROW_WINDOW, GROW_ALL)
LEVEL: Final = 0.05
SMALLEST: Final = 1e-15


def cases(options: Namespace) -> Iterable[tuple[str, int]]:
    """Return each stream with each seed."""
    seeds = SEEDS[:1] if options.quick else SEEDS
    names = ("bike_sharing", "SEA (made)") if options.quick else tuple(streams.STREAMS)
    return [(name, seed) for seed in seeds for name in names]


def measure(case: tuple[str, int], options: Namespace) -> Iterator[Row]:
    """Run every way along one stream."""
    name, seed = case
    stream = streams.STREAMS[name](options.data, seed)
    if options.quick:
        stream = stream.cut(2)
    for ours in (methods.Updated, methods.GrownWindow):  # compiles kernels
        ours(stream.cut(1), seed).learn(*stream.blocks()[0])
    found: Row = {"stream": name, "seed": seed, "drift": stream.drift, "ways": {}}
    found["measure"] = "accuracy" if stream.n_classes else "RMSE"
    found["deviation"] = float(stream.y.std())
    for way, made in METHODS.items():
        try:
            found["ways"][way] = _prequential(made(stream, seed), stream)
        except ImportError as error:
            found["ways"][way] = {"reason": f"{error.name} is not installed"}
    yield found


def _prequential(model: methods.Method, stream: streams.Stream) -> Row:
    scores, losses, seconds = [], [], 0.0
    blocks = stream.blocks()
    first_leaves = model.leaves
    for number, (X, y) in enumerate(blocks):
        score, loss = scored(model.answer(X), y)
        scores.append(score)
        losses.append(loss)
        if number + 1 < len(blocks):
            start = time.process_time()
            model.learn(X, y)
            seconds += time.process_time() - start
    kept = np.array(losses)
    return {
        "scores": [round(one, 6) for one in scores],
        "log_loss": None if np.isnan(kept).all() else round(float(kept.mean()), 5),
        "cpu_s": round(seconds, 3),
        "leaves": [first_leaves, model.leaves],
    }


def scored(answer: Array, y: Array) -> tuple[float, float]:
    """Return accuracy and log loss, or the squared error's mean and NaN."""
    if answer.ndim == 1:
        return float(np.mean((answer - y) ** 2)), np.nan
    right = float(np.mean(answer.argmax(axis=1) == y))
    p = np.clip(answer[np.arange(len(y)), y], SMALLEST, 1)
    return right, float(-np.log(p).mean())


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each stream and way: means over blocks and seeds. Such rows stay."""
    if rows and "ways" not in rows[0]:
        return list(rows)
    found: list[Row] = []
    for (name,), runs in groups(rows, "stream").items():
        known = {way for way, one in runs[0]["ways"].items() if "reason" not in one}
        blocks = {
            way: np.mean([run["ways"][way]["scores"] for run in runs], axis=0) for way in known
        }
        for way in METHODS:
            facts = {"stream": name, "drift": runs[0]["drift"], "way": way}
            if way not in known:
                found.append(facts | {"reason": runs[0]["ways"][way]["reason"]})
                continue
            found.append(facts | _figure(runs, way, blocks))
    return found


def _figure(runs: Sequence[Row], way: str, blocks: dict[str, Array]) -> Row:
    ours = [run["ways"][way] for run in runs]
    is_classifier = runs[0]["measure"] == "accuracy"
    mean = float(blocks[way].mean())
    losses = [one["log_loss"] for one in ours if one["log_loss"] is not None]
    row: Row = {
        "measure": runs[0]["measure"],
        "score": round(mean if is_classifier else mean**0.5, 5),
        "log_loss": round(float(np.mean(losses)), 5) if losses else None,
        "cpu_s": round(float(np.mean([one["cpu_s"] for one in ours])), 3),
        "leaves_first": round(float(np.mean([one["leaves"][0] for one in ours]))),
        "leaves_last": round(float(np.mean([one["leaves"][1] for one in ours]))),
        "seeds": len(runs),
    }
    if way not in OURS:
        return row
    sign = 1.0 if is_classifier else -1.0
    simple = {other: sign * value for other, value in blocks.items() if other not in OURS}
    best = max(simple, key=lambda other: simple[other].mean())
    p_least = [p_better(sign * blocks[way], value) for value in simple.values()]
    other_runs = [run["ways"][best]["cpu_s"] for run in runs]
    best_mean = float(blocks[best].mean())
    points = (
        100 * (mean - best_mean)
        if is_classifier
        else 100 * (best_mean**0.5 - mean**0.5) / runs[0]["deviation"]
    )
    return row | {
        "best_simple": best,
        "best_simple_score": round(best_mean if is_classifier else best_mean**0.5, 5),
        "points": round(points, 3),
        "beats_all": bool(all(p < LEVEL for p in p_least)),
        "p_best_simple": round(p_better(sign * blocks[way], simple[best]), 5),
        "cpu_ratio": round(row["cpu_s"] / float(np.mean(other_runs)), 1)
        if np.mean(other_runs) > 0
        else None,
    }


def p_better(ours: Array, theirs: Array) -> float:
    """Return p of the one-sided paired permutation test that ours is larger on average, exactly.

    Were both alike, each difference could as well have the other sign: p is the share of all
    choices of signs that give as large a mean.

    Examples
    --------
    >>> p_better(np.array([2.0, 3.0, 5.0]), np.array([1.0, 2.0, 3.5]))
    0.125
    """
    gap = ours - theirs
    signs = np.array([*product((1.0, -1.0), repeat=len(gap))])
    return float(np.mean(signs @ gap >= gap.sum() - SMALLEST * np.abs(gap).sum()))


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked of each way of this package."""
    found = []
    for way in OURS:
        ours = [row for row in rows if row["way"] == way]
        n = len(ours)
        best = sum(row["beats_all"] for row in ours)
        behind = sum(row["points"] < -0.5 for row in ours)
        ratios = [row["cpu_ratio"] for row in ours if row["cpu_ratio"] is not None]
        found += [
            Goal(f"{way}: streams on which it is better than every other", ">= 4", _of(best, n)),
            Goal(
                f"{way}: streams on which it is half a point behind the best other",
                "0",
                behind if n else None,
            ),
            Goal(
                f"{way}: processor time, in times of the best other's, at most",
                "<= 20",
                max(ratios, default=None),
            ),
        ]
    return found


def _of(count: int, n: int) -> str | None:
    return f"{count} of {n}" if n else None


_FORMS: Final = {"log_loss": ".4f", "cpu_s": ".1f", "leaves_last": ",.0f"}


def _cell(way: str, key: str) -> Callable[[Row], str | None]:
    def of(row: Row) -> str | None:
        one = row.get(way)
        if one is None or one.get(key) is None:
            return None
        of_score = ".4g" if one["measure"] == "RMSE" else ".4f"
        text = format(one[key], _FORMS.get(key, of_score))
        return f"**{text}**" if one.get("beats_all") and key == "score" else text

    return of


def _by_stream(rows: Sequence[Row]) -> list[Row]:
    return [
        {"stream": name, "drift": ways[0]["drift"]} | {row["way"]: row for row in ways}
        for (name,), ways in groups(rows, "stream").items()
    ]


def _pivot(key: str) -> Callable[[Report], str]:
    def made(report: Report) -> str:
        rows = report["rows"]
        missing = {row["way"] for row in rows if "reason" in row}
        columns = [
            Column("stream", "stream"),
            *(Column(way, _cell(way, key)) for way in METHODS if way not in missing),
        ]
        text = table(_by_stream(rows), columns)
        if key != "score":
            return text
        reasons = {f"{row['way']}: {row['reason']}" for row in rows if "reason" in row}
        drifts = "; ".join(f"{row['stream']}: {row['drift']}" for row in _by_stream(rows))
        notes = [f"Not measured: {', '.join(sorted(reasons))}."] if reasons else []
        notes += [f"Streams: {drifts}.", measured_by(report)]
        return "\n\n".join([text, " ".join(notes)])

    return made


def _against(report: Report) -> str:
    rows = report["rows"]
    columns = (
        Column("stream", "stream"),
        Column("way", "way"),
        Column("score", "score", ".4g"),
        Column("best other", "best_simple"),
        Column("its score", "best_simple_score", ".4g"),
        Column("points ahead", "points", "+.2f"),
        Column("p", "p_best_simple", ".2g"),
        Column("processor time, times", "cpu_ratio", ".1f"),
    )
    return table([row for row in rows if row["way"] in OURS], columns)


BENCHMARK: Final = Benchmark(
    "drift",
    cases,
    measure,
    goals,
    {
        "table": _pivot("score"),
        "against": _against,
        "log_loss": _pivot("log_loss"),
        "cpu": _pivot("cpu_s"),
        "size": _pivot("leaves_last"),
    },
    figures=figures,
    options=DATA,
    needs=("data",),
    kept=True,
)

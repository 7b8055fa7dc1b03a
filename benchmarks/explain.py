"""Explanations of boosted trees: equal to those of their libraries, and how long do they take?

    python -m benchmarks.explain [--json] [--quick] [--save]

100 xgboost trees of depth 6 on 28 columns, 500 LightGBM trees of 31 leaves on 50, trained on 20,000
rows of noise and a few products. Processor time of one thread, the least of several runs, of 10,000
rows; a library that is slow explains fewer, and both are told for one row of a batch. What
`bitvec.explain` does before it meets rows is counted.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import xgboost as xgb

import bitvec
from benchmarks.report import Column, Goal, Report, Row, Table, measured_by, six_digits
from benchmarks.runner import Benchmark, run
from bitvec.core.arrays import Array

ROWS: Final = 10_000
BACKGROUND: Final = 1_000
FLOAT32: Final = 2e-6
FLOAT64: Final = 1e-12


class Model(NamedTuple):
    """A model, what explains it in its library, and how far that is from exact sums.

    Parameters
    ----------
    explain : callable
        From rows and whether interactions are wanted, (n, n_features + 1) or its square; None of
        what the library lacks.
    rows : int
        Rows that the library explains; a tenth of them for interactions.
    """

    name: str
    forest: Any
    explain: Callable[[Array, bool], Array | None]
    rows: int
    tolerance: float


def _samples(n_columns: int, n_rows: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)).astype(np.float32)


def _label(X: Array) -> Array:
    return X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] + 0.2 * X[:, 4:].sum(axis=1)


@cache
def _xgboost() -> Model:
    X = _samples(28, 20_000, 0)
    given = {"max_depth": 6, "eta": 0.1, "nthread": 1}
    booster = xgb.train(given, xgb.DMatrix(X, _label(X)), 100)

    def explain(X: Array, pairs: bool) -> Array:
        wanted = {"pred_interactions" if pairs else "pred_contribs": True}
        return booster.predict(xgb.DMatrix(X, nthread=1), **wanted)

    name = "xgboost, 100 trees of depth 6"
    return Model(name, bitvec.convert(booster), explain, 1_000, FLOAT32)


@cache
def _lightgbm() -> Model:
    import lightgbm as lgb

    X = _samples(50, 20_000, 0).astype(np.float64)
    given = {"num_leaves": 31, "num_threads": 1, "verbose": -1}
    booster = lgb.train(given, lgb.Dataset(X, _label(X)), 500)

    def explain(X: Array, pairs: bool) -> Array | None:
        return None if pairs else booster.predict(X, pred_contrib=True, num_threads=1)

    name = "LightGBM, 500 trees of 31 leaves"
    return Model(name, bitvec.convert(booster), explain, 200, FLOAT64)


MODELS: Final = {"xgboost": _xgboost, "lightgbm": _lightgbm}
VALUES, PAIRS, BY_ROWS = "values by cover", "interactions by cover", "values, 1,000 background rows"


class Case(NamedTuple):
    """A kind of explanation of a model."""

    model: str
    what: str

    def __str__(self) -> str:
        return f"{self.model}, {self.what}"


CASES: Final = [Case(model, what) for model in MODELS for what in (VALUES, PAIRS, BY_ROWS)]


def _least_time(work: Callable[[], Any], times: int) -> float:
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def measured(case: Case, options: Namespace) -> Iterator[Row]:
    """Compare an explanation with that of the library, then time both."""
    model = MODELS[case.model]()
    n_rows = 1_000 if options.quick else ROWS // (5 if case.what == PAIRS else 1)
    X = _samples(model.forest.n_features, n_rows, 1).astype(model.forest.dtype)
    background = _samples(X.shape[1], BACKGROUND, 2) if case.what == BY_ROWS else None

    def prepare() -> Any:
        return bitvec.explain(model.forest, background=background, n_jobs=1)

    explainer = prepare()
    ours = explainer.interactions if case.what == PAIRS else explainer.values
    few = X[: model.rows // 10 if case.what == PAIRS else model.rows]
    found = ours(few)
    row: Row = {"model": model.name, "what": case.what}
    if case.what != BY_ROWS:
        theirs = model.explain(few, case.what == PAIRS)
        if theirs is not None:
            theirs = theirs[:, :-1, :-1] if case.what == PAIRS else theirs[:, :-1]
            row["difference"] = float(np.abs(found - theirs).max() / np.abs(theirs).max())
            if row["difference"] > model.tolerance:
                raise AssertionError(f"{case}: values differ by {row['difference']}")
            seconds = _least_time(lambda: model.explain(few, case.what == PAIRS), 2)
            row["library_us"] = seconds / len(few) * 1e6
    raw = explainer.base_value + found.sum(axis=tuple(range(1, found.ndim)))
    scores = bitvec.compile(model.forest, n_jobs=1).raw(few)[:, 0]
    row["gap_to_raw_score"] = float(np.abs(raw - scores).max() / np.abs(scores).max())
    row["prepare_ms"] = _least_time(prepare, 3) * 1e3
    seconds = _least_time(lambda: ours(X), 2 if case.what == BY_ROWS else 4)
    row["us"] = (seconds + row["prepare_ms"] / 1e3) / n_rows * 1e6
    row["one_row_ms"] = _least_time(lambda: ours(X[:1]), 5) * 1e3
    if "library_us" in row:
        one_row = _least_time(lambda: model.explain(X[:1], case.what == PAIRS), 5)
        row |= {"library_one_row_ms": one_row * 1e3, "times_faster": row["library_us"] / row["us"]}
    yield row


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked for."""

    def of(model: str, what: str, key: str) -> Any:
        return next((r.get(key) for r in rows if model in r["model"] and r["what"] == what), None)

    seconds = {m: of(m, BY_ROWS, "us") for m in ("xgboost", "LightGBM")}
    in_all = {m: None if us is None else us * ROWS / 1e6 for m, us in seconds.items()}
    return [
        Goal(
            "times faster than LightGBM's pred_contrib",
            ">= 60",
            of("LightGBM", VALUES, "times_faster"),
        ),
        Goal(
            "times faster than pred_contribs of xgboost before 3.4 (20 are asked of 3.4)",
            "told",
            of("xgboost", VALUES, "times_faster"),
        ),
        Goal(
            "times faster than pred_interactions of xgboost before 3.4 (25 are asked of 3.4)",
            "told",
            of("xgboost", PAIRS, "times_faster"),
        ),
        Goal("seconds of xgboost, 1,000 background rows", "< 0.1", in_all["xgboost"]),
        Goal("seconds of LightGBM, 1,000 background rows", "< 1.5", in_all["LightGBM"]),
    ]


def _after(report: Report) -> str:
    versions = report["versions"]
    xgboost = versions.get("xgboost", versions.get("xgboost-cpu"))
    return (
        "Processor time of one thread for a row of a batch, preparation included; differences are "
        "of the largest value, from xgboost's sums in float32 and LightGBM's in float64. xgboost "
        f"{xgboost}, LightGBM {versions.get('lightgbm')}. {measured_by(report)}"
    )


_COLUMNS: Final = (
    Column("model", "model"),
    Column("explanation", "what"),
    Column("µs a row", "us", ".1f"),
    Column("of its library", "library_us", ",.0f"),
    Column("times faster", "times_faster", ".0f"),
    Column("preparation, ms", "prepare_ms", ".0f"),
    Column("one row alone, ms", "one_row_ms", ".1f"),
    Column("of its library", "library_one_row_ms", ".1f"),
    Column("difference", "difference", ".0e"),
)
BENCHMARK: Final = Benchmark(
    "explain",
    lambda _: CASES,
    measured,
    goals,
    {"table": Table(_COLUMNS, list, after=_after)},
    figures=lambda rows: [six_digits(row) for row in rows],
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)

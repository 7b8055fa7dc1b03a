"""Oblique forests against tuned boosters of as many leaves, on rows that neither has seen.

    python -m benchmarks.oblique --data FOLDER [--seeds 1] [--quick] [--only NAME] [--json] [--save]

Twelve data sets, named before the first run: those of the prototype that the recipe comes from,
which was developed on validation rows of eight of them (letter, satimage, usps, higgs, california,
spambase, bike, adult). At most 5,000 rows are drawn by seed for training, a fifth of which is
validation; at most 4,000 other rows, the same for every seed, are for testing. Seeds are 0, 1 ...;
elec and bike are shuffled, so that rows of neighbouring hours stand on both sides. Nothing is
chosen by test rows.

Ours is `ObliqueForestClassifier` or `ObliqueForestRegressor` of `bitvec.learners`, defaults but for
the size: 32 trees of depth 5, or 8 of depth 4. Theirs is LightGBM: leaves a tree, learning rate and
the number of rounds are chosen by validation, and the best is fitted again on all rows. It may have
as many leaves as ours, once with a round of C trees counted as one tree, since our trees have one
vector a leaf (`rounds`), once with every leaf counted (`strict`), and once any number (`any size`).
Two models are compared by McNemar's exact test, or by a t test of paired squared errors, at 5 %,
not corrected for the number of tests.
"""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.datasets import READERS, Array, read
from benchmarks.report import Column, Goal, Report, Row, six_digits, table, where
from benchmarks.runner import DATA, Benchmark, UsageError, count, run

SETS: Final = (
    "letter", "satimage", "pendigits", "optdigits", "usps", "spambase", "adult", "covtype",
    "higgs", "elec", "california", "bike",
)  # fmt: skip
QUICK: Final = ("spambase", 128)
SIZES: Final = {1024: (32, 5), 128: (8, 4)}
"""Leaves of a forest to its trees and their depth."""
TRAINED, VALIDATED, TESTED = 5000, 0.2, 4000
"""Rows to fit, the share of them to choose by, and rows to test, at most."""
TEST_SEED: Final = 12345
BOOSTED: Final = {"leaves": (4, 8, 16, 32), "rates": (0.1, 0.3), "rounds": 400, "patience": 30}
"""Leaves and learning rates of LightGBM that are tried, most rounds, and rounds without a gain."""
LEVEL: Final = 0.05
RIVALS: Final = ("rounds", "strict", "any size")


class Case(NamedTuple):
    """A data set, a number of leaves and a seed."""

    data: str
    leaves: int
    seed: int


class Parts(NamedTuple):
    """Rows: to train on, to choose by, to test on; y holds class numbers or values."""

    train: tuple[Array, Array]
    validation: tuple[Array, Array]
    test: tuple[Array, Array]

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for values."""
        y = self.train[1]
        return int(y.max()) + 1 if y.dtype.kind == "i" else 0

    def all_rows(self) -> tuple[Array, Array]:
        """Return the rows to train on and to choose by."""
        X, y = (np.concatenate(pair) for pair in zip(self.train, self.validation, strict=True))
        return X, y


def cases(options: Namespace) -> Iterator[Case]:
    """Yield every data set, size and seed."""
    if options.quick:
        yield Case(*QUICK, 0)
        return
    for seed in range(options.seeds):
        for leaves in SIZES:
            yield from (Case(name, leaves, seed) for name in SETS)


def split(data: Path, name: str, seed: int) -> Parts:
    """Return the rows of a set, categories as a column each and -1 for what is missing."""
    given = read(data, name)
    columns = []
    for number, column in enumerate(given.X.T):
        if number in given.categorical:
            known = np.unique(column[~np.isnan(column)])
            columns.append((column[:, None] == known).astype(np.float64))
        else:
            columns.append(np.where(np.isnan(column), -1.0, column)[:, None])
    X, y = np.concatenate(columns, axis=1), given.y
    drawn = np.random.default_rng(TEST_SEED)
    if given.n_train is None:
        order = drawn.permutation(len(y))
        n_test = min(TESTED, len(y) // 3)
        test, rest = order[:n_test], order[n_test:]
    else:
        test = given.n_train + drawn.permutation(len(y) - given.n_train)[:TESTED]
        rest = np.arange(given.n_train)
    rows = np.random.default_rng(seed).permutation(rest)[:TRAINED]
    n_validation = round(VALIDATED * len(rows))
    places = rows[n_validation:], rows[:n_validation], test
    return Parts(*((X[place], y[place]) for place in places))


def measure(case: Case, options: Namespace) -> list[Row]:
    """Return one row: scores on the test rows, and how ours compares with each rival."""
    if not (options.data / READERS[case.data][0]).is_dir():
        raise UsageError(f"--data must hold {READERS[case.data][0]}")
    parts = split(options.data, case.data, case.seed)
    X, y = parts.test
    ours, facts = _ours(parts, case)
    row: Row = {"data": case.data, "leaves": case.leaves, "seed": case.seed, **facts}
    row |= {"ours": _score(ours, y), "columns": X.shape[1], "classes": parts.n_classes}
    for rival in RIVALS:
        began = time.process_time()
        theirs, how = _boosted(parts, _allowed(rival, case.leaves, parts.n_classes), case.seed)
        row |= {
            rival: _score(theirs, y),
            f"{rival}, seconds": time.process_time() - began,
            f"{rival}, chosen": how,
            f"{rival}, p": _p_value(ours, theirs, y),
        }
    return [six_digits(row)]


def _ours(parts: Parts, case: Case) -> tuple[Array, Row]:
    from bitvec.learners import ObliqueForestClassifier, ObliqueForestRegressor

    n_trees, depth = SIZES[case.leaves]
    make = ObliqueForestClassifier if parts.n_classes else ObliqueForestRegressor
    model = make(n_estimators=n_trees, depth=depth, random_state=case.seed)
    began = time.process_time()
    model.fit(*parts.all_rows())
    seconds = time.process_time() - began
    result = model.result_
    facts = {"seconds": seconds, "chosen": result.chosen, "step": result.step}
    return model.predict(parts.test[0]), facts


def _allowed(rival: str, leaves: int, n_classes: int) -> dict[int, int]:
    """Return the leaves of a tree to the most rounds of a rival."""
    if rival == "any size":
        return dict.fromkeys((8, 32), BOOSTED["rounds"])
    if rival == "strict" and n_classes > 2:
        leaves //= n_classes
    found = {each: leaves // each for each in BOOSTED["leaves"] if each <= leaves}
    return found or {max(leaves, 2): 1}


def _boosted(parts: Parts, allowed: dict[int, int], seed: int) -> tuple[Array, str]:
    """Return the answers for test rows of the best booster by validation, fitted on all rows."""
    import lightgbm

    n = parts.n_classes
    kind = "regression" if not n else "multiclass" if n > 2 else "binary"
    best: tuple[float, dict[str, Any], int] | None = None
    for leaves, rounds in allowed.items():
        for rate in BOOSTED["rates"]:
            options = {
                "objective": kind, "num_leaves": leaves, "learning_rate": rate, "seed": seed,
                "min_child_samples": 5, "lambda_l2": 1.0, "feature_fraction": 0.8,
                "bagging_fraction": 0.8, "bagging_freq": 1, "num_threads": 1, "verbose": -1,
                **({"num_class": n} if n > 2 else {}),
            }  # fmt: skip
            stop = lightgbm.early_stopping(BOOSTED["patience"], verbose=False)
            found = lightgbm.train(
                options,
                lightgbm.Dataset(*parts.train),
                rounds,
                valid_sets=[lightgbm.Dataset(*parts.validation)],
                callbacks=[stop],
            )
            (loss,) = found.best_score["valid_0"].values()
            if best is None or loss < best[0]:
                best = loss, options, found.best_iteration or rounds
    assert best is not None
    _, options, rounds = best
    answers = lightgbm.train(options, lightgbm.Dataset(*parts.all_rows()), rounds).predict(
        parts.test[0]
    )
    if n > 2:
        answers = answers.argmax(axis=1)
    elif n:
        answers = (answers > 0.5).astype(np.int64)
    how = f"{rounds} x {options['num_leaves']}, {options['learning_rate']}"
    return answers, how


def _score(answers: Array, y: Array) -> float:
    """Return the accuracy, or the RMSE of values."""
    if y.dtype.kind == "i":
        return float((answers == y).mean())
    return float(np.sqrt(((answers - y) ** 2).mean()))


def _p_value(ours: Array, theirs: Array, y: Array) -> float:
    """Return the probability that two models of one error differ as much."""
    from scipy.stats import binomtest, ttest_1samp

    if y.dtype.kind == "f":
        difference = (ours - y) ** 2 - (theirs - y) ** 2
        return float(ttest_1samp(difference, 0).pvalue) if difference.any() else 1.0
    won = int(((ours == y) & (theirs != y)).sum())
    lost = int(((ours != y) & (theirs == y)).sum())
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def sign(row: Row, rival: str) -> str:
    """Return "+" where ours is significantly better than a rival, "-" where worse, else "0"."""
    if row[f"{rival}, p"] >= LEVEL:
        return "0"
    ahead = row["ours"] > row[rival] if row["classes"] else row["ours"] < row[rival]
    return "+" if ahead else "-"


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield the targets: sets on which ours is better on every seed, worse on any, and the time."""
    for leaves in SIZES:
        own = where(rows, leaves=leaves)
        for rival, least in (("rounds", 4), ("strict", 7 if leaves == 1024 else 4)):
            signs = _signs(own, rival)
            better = sum(set(each) == {"+"} for each in signs.values())
            worse = sum("-" in each for each in signs.values())
            name = f"{leaves} leaves, {rival}"
            yield Goal(f"{name}: sets significantly better", f">= {least} of 12", better)
            yield Goal(f"{name}: sets significantly worse", "<= 1 of 12", worse)
    seconds = [row["seconds"] for row in where(rows, leaves=1024)]
    median = round(statistics.median(seconds), 1) if seconds else None
    yield Goal("CPU seconds of a fit of 5,000 rows, 1,024 leaves, median set", "< 30", median)


def _signs(rows: Sequence[Row], rival: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        found[row["data"]] = found.get(row["data"], "") + sign(row, rival)
    return found


def _table(report: Report, leaves: int) -> str:
    rows = where(report["rows"], leaves=leaves)
    found = []
    for name in SETS:
        own = where(rows, data=name)
        if own:
            means = {key: statistics.fmean(row[key] for row in own) for key in ("ours", *RIVALS)}
            signs = {f"{rival}, sign": _signs(own, rival)[name] for rival in RIVALS}
            seconds = statistics.fmean(row["seconds"] for row in own)
            chosen = ", ".join(dict.fromkeys(row["chosen"] for row in own))
            unit = "" if own[0]["classes"] else " (RMSE)"
            found.append(
                {"data": name + unit, **means, **signs, "seconds": seconds, "chosen": chosen}
            )
    columns = [Column("data", "data"), Column("ours", "ours", ".4f"), Column("chosen", "chosen")]
    for rival in RIVALS:
        columns += [Column(f"LightGBM, {rival}", rival, ".4f"), Column("sign", f"{rival}, sign")]
    columns.append(Column("CPU seconds", "seconds", ".1f"))
    return table(found, columns)


BENCHMARK: Final = Benchmark(
    name="oblique",
    cases=cases,
    measure=measure,
    goals=goals,
    tables={
        "table": lambda report: _table(report, 1024),
        "small": lambda report: _table(report, 128),
    },
    options={**DATA, "--seeds": {"type": count, "default": 1, "help": "of rows and of training"}},
    needs=("data",),
    processes=True,
    kept=True,
)

if __name__ == "__main__":
    import benchmarks.oblique as module

    run(module.BENCHMARK, __doc__)

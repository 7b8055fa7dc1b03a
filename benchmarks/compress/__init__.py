"""Models of 4, 16 and 64 KB: `bitvec.compress` beside what a user would take at these bytes.

    python -m benchmarks.compress --data FOLDER [--sizes 4 16 64] [--rows 3000] [--quick] [--save]

Of each set at most `--rows` rows are for training, a fifth of them to choose by, and at most 4,000
fixed rows for the test. Every way has the same rows: it is fitted to four fifths, every choice is
made by loss on the rest, and what was chosen is fitted anew to all of them, rivals as well. Bytes
are those of the tables of the smallest exact header of C99, for all trees, which are rounded to
float32; of the network one byte a weight and four a bias. The tuned booster is the best of
scikit-learn's, xgboost's and LightGBM's single ones over all settings that `compress` tries;
forests and CART may have leaves of 8 bits too. "Better" is McNemar's exact test, or a paired t-test
of squared errors, p < .05, by case.

Sets and seeds were named here before the first run. Recipes were developed on digits, segment and
optdigits; of boosters on higgs, connect-4 and two regressions, of Friedman's function and of a
column of higgs. The forest's score in fewer bytes is measured on four sets more, of which optdigits
and segment are of that development.
"""

from __future__ import annotations

import io
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks import datasets
from benchmarks.compress.figures_of_runs import COUNTS, KINDS, figures, forests, goals, sizes
from benchmarks.compress.rivals import Network, program_bytes
from benchmarks.drift import streams
from benchmarks.report import Row
from benchmarks.runner import DATA, Benchmark
from bitvec.compression.front import Point
from bitvec.compression.model_costs import table_bytes
from bitvec.compression.storage import plain
from bitvec.core.arrays import Array

SETS: Final = (
    "spambase", "california", "bike_sharing", "adult", "pendigits", "satimage", "covtype", "letter",
)  # fmt: skip
MORE_SETS: Final = ("optdigits", "usps", "elec", "segment")
"""Only the forest's score in a fiftieth of its bytes is measured here."""
NUMBERS: Final = ("california", "bike_sharing")
SEEDS: Final = (0, 1, 2)
SIZES: Final = (4, 16, 64)
"""KB."""
TEST, HELD_OUT = 4_000, 0.2
SMALLEST: Final = 1e-300
FIFTIETH: Final = 50


def cases(options: Namespace) -> Iterable[tuple[str, int]]:
    """Return each set with each seed."""
    if options.quick:
        return [(SETS[1], 0)]
    return [(name, seed) for names in (SETS, MORE_SETS) for seed in SEEDS for name in names]


def rows_of(name: str, options: Namespace, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return rows and labels to train on, and those to test on."""
    if name in ("bike_sharing", "covtype"):
        stream = streams.STREAMS[name](options.data, 0)
        X, y = stream.X, stream.y
    else:
        found = datasets.read(options.data, name)
        X, y = found.X, found.y
    X = X.astype(np.float32).astype(np.float64)
    fixed = np.random.default_rng(0).permutation(len(X))
    test, rest = fixed[: min(TEST, len(X) // 3)], fixed[min(TEST, len(X) // 3) :]
    train = rest[np.random.default_rng((1, seed)).permutation(len(rest))[: options.rows]]
    if options.quick:
        train = train[:600]
    return X[train], y[train], X[test], y[test]


def measure(case: tuple[str, int], options: Namespace) -> Iterator[Row]:
    """Compress the forest of one set, and compare."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    name, seed = case
    X, y, X_test, y_test = rows_of(name, options, seed)
    n_classes = 0 if name in NUMBERS else int(y.max()) + 1
    held = np.random.default_rng((2, seed)).permutation(len(X)) < HELD_OUT * len(X)
    if n_classes:  # each class is learned
        rare = np.isin(y, np.flatnonzero(np.bincount(y[~held], minlength=n_classes) < 2))
        held &= ~rare
    fit, by = (X[~held], y[~held]), (X[held], y[held])
    make = RandomForestClassifier if n_classes else RandomForestRegressor
    forest = bitvec.convert(make(100, random_state=seed, n_jobs=1).fit(*fit))
    start, cpu = time.monotonic(), time.process_time()
    result = bitvec.compress(
        forest, *fit, budget=f"{options.sizes[-1]} KB", validation=by, seed=seed
    )
    row: Row = {
        "set": name,
        "seed": seed,
        "measure": "accuracy" if n_classes else "RMSE",
        "deviation": float(y_test.std()),
        "seconds": round(time.monotonic() - start, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
        "n_rows": len(X),
        "sizes": {},
    }
    hits = _Hits(X_test, y_test, n_classes)
    refits = _Refits(result)
    row |= _beside_forest(make(100, random_state=seed, n_jobs=1).fit(X, y), refits, hits)
    if name in SETS:
        network = Network(fit, by, n_classes, seed)
        for size in options.sizes:
            row["sizes"][str(size)] = _at(size, refits, hits, network)
    yield row


class _Refits:
    """The points of a result, each fitted to all rows once for a limit."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self._known: dict[tuple[int, int], Point] = {}

    def within(self, limit: int) -> list[Point]:
        """Return the points of at most so many bytes, as they were tried."""
        return [point for point in self.result.tried if point.bytes <= limit]

    def best(self, points: Sequence[Point], limit: int) -> Point:
        """Return the point of least loss, refitted."""
        point = min(points, key=lambda one: one.loss)
        key = id(point), limit
        if key not in self._known:
            is_chosen = (
                point.recipe == self.result.chosen.recipe and limit >= self.result.budget.limit
            )
            self._known[key] = (
                self.result.chosen if is_chosen else self.result.refitted(point, limit)
            )
        return self._known[key]


def _beside_forest(model: Any, refits: _Refits, hits: _Hits) -> Row:
    """Return the forest's bytes and score, and those of the best model of a fiftieth of them."""
    forest = bitvec.convert(model)
    assert isinstance(forest, bitvec.Forest)
    size, of = saved_bytes(model)
    row: Row = {"saved by": of, "forest_score": hits.score(hits.of(forest))}
    for count, n in zip(COUNTS, (size, table_bytes(plain(forest))), strict=True):
        row[f"{count}_bytes"] = n
        limit = n // FIFTIETH
        points = refits.within(limit)
        if points:
            best = refits.best(points, min(limit, int(refits.result.budget.limit)))
            row[f"{count}_small"] = {"bytes": best.bytes, "score": hits.score(hits.of(best.forest))}
    return row


def saved_bytes(model: Any) -> tuple[int, str]:
    """Return the bytes of a scikit-learn model as it is saved, and by which library.

    That is skops, or joblib where skops is not installed; neither compresses by default.
    """
    try:
        from skops.io import dumps
    except ImportError:
        import joblib

        file = io.BytesIO()
        joblib.dump(model, file)
        return file.getbuffer().nbytes, "joblib"
    return len(dumps(model)), "skops"


def _at(size: int, refits: _Refits, hits: _Hits, network: Network) -> Row:
    """Return the scores of all ways at one size, and tests against the booster and network."""
    limit = 1024 * size
    fits = refits.within(limit)
    points = {"compress": fits}
    for way, begins in KINDS.items():
        points[way] = [p for p in fits if p.recipe.startswith(begins)]
    points["booster"] = [p for p in points["booster"] if p.recipe.endswith("rounds")]
    found: Row = {}
    answers: dict[str, Array] = {}
    for way, some in points.items():
        if not some:
            continue
        best = refits.best(some, limit)
        answers[way] = hits.of(best.forest)
        found[way] = {
            "bytes": best.bytes,
            "recipe": best.recipe,
            "loss": round(best.loss, 5),
            "refitted": best.refitted,
        }
        if way in ("compress", "booster"):
            found[way]["program"] = program_bytes(best)
    n = network.fit(limit)
    answers["MLP, 8 bits"] = hits.judged(network.answer(hits.X))
    found["MLP, 8 bits"] = {"bytes": None, "recipe": f"{n} units"}
    for way, answer in answers.items():
        found[way]["score"] = round(hits.score(answer), 5)
        if way != "compress":
            found[way]["p"] = hits.p(answers["compress"], answer)
    return found


class _Hits:
    """Rows of the test: right answers as 1, or squared errors, of each row."""

    def __init__(self, X: Array, y: Array, n_classes: int) -> None:
        self.X, self.y, self.n_classes = X, y, n_classes

    def judged(self, answer: Array) -> Array:
        """Return what each answer is worth."""
        if self.n_classes:
            return (answer == self.y).astype(np.float64)
        return np.asarray((answer.reshape(-1) - self.y) ** 2, np.float64)

    def of(self, forest: bitvec.Forest) -> Array:
        """Return what each answer of a forest is worth."""
        return self.judged(np.asarray(bitvec.compile(forest, n_jobs=1).predict(self.X)))

    def score(self, each: Array) -> float:
        """Return accuracy or RMSE."""
        return float(each.mean() if self.n_classes else np.sqrt(each.mean()))

    def p(self, ours: Array, theirs: Array) -> float:
        """Return p of the two-sided test, negative where ours is worse."""
        from scipy.stats import binomtest, ttest_rel

        gain = (ours - theirs) if self.n_classes else (theirs - ours)
        if not np.any(gain):
            return 1.0
        if self.n_classes:
            wins, losses = int((gain > 0).sum()), int((gain < 0).sum())
            value = binomtest(wins, wins + losses).pvalue
        else:
            value = ttest_rel(ours, theirs).pvalue
        value = max(float(value), SMALLEST)  # a sign tells who is better
        return value if gain.mean() >= 0 else -value


BENCHMARK: Final = Benchmark(
    "compress",
    cases,
    measure,
    goals,
    {"table": sizes, "forests": forests},
    figures=figures,
    options={
        **DATA,
        "--sizes": {"type": int, "nargs": "+", "default": SIZES, "help": "KB, rising"},
        "--rows": {"type": int, "default": 3_000, "help": "rows to train on and to choose by"},
    },
    needs=("data",),
    kept=True,
)

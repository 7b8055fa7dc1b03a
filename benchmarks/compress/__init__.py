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
optdigits, those of boosters on higgs, connect-4, fashion_mnist, yeast and two made regressions.
Beside the forest alone four more sets are measured, two of which are of that development.
"""

from __future__ import annotations

import io
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks import datasets
from benchmarks.compress.rivals import Network, program_bytes
from benchmarks.drift import streams
from benchmarks.report import Column, Goal, Report, Row, groups, measured_by, table
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
LEVEL: Final = 0.05
SMALLEST: Final = 1e-300
HALF_A_POINT: Final = 0.5
FIFTIETH: Final = 50
COUNTS: Final = ("file", "header")
"""Bytes of the forest: as scikit-learn's model is saved, and in our smallest exact header."""
KINDS: Final = {"booster": "booster of", "forest": "forest of", "CART": "CART of"}
WAYS: Final = ("compress", *KINDS, "MLP, 8 bits")


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


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each set and size: means over seeds, and tests by seed. Such rows stay."""
    if rows and "sizes" not in rows[0]:
        return list(rows)
    found: list[Row] = []
    for (name,), runs in groups(rows, "set").items():
        first = runs[0]
        shared = {"set": name, "measure": first["measure"], "seeds": len(runs)}
        shared["n_rows"] = first["n_rows"]
        for size in map(int, first["sizes"]):
            ways = [run["sizes"][str(size)] for run in runs]
            row = shared | {"what": "size", "kb": size}
            for way in WAYS:
                scores = [one[way]["score"] for one in ways if way in one]
                row[way] = round(float(np.mean(scores)), 5) if scores else None
                if way != "compress":
                    row[f"signs {way}"] = "".join(
                        _sign(one[way]["p"]) for one in ways if way in one
                    )
            row["recipe"] = ways[0]["compress"]["recipe"]
            for way in ("compress", "booster"):
                sizes = [one[way].get("program") for one in ways if way in one]
                known = [one for one in sizes if one]
                row[f"program {way}"] = round(float(np.mean(known))) if known else None
            found.append(row)
        found.append(shared | _forest_figures(runs))
    return found


def _forest_figures(runs: Sequence[Row]) -> Row:
    """Return means over seeds of the forest and of the models of a fiftieth of its bytes."""
    first = runs[0]
    row: Row = {"what": "forest", "saved by": first["saved by"]}
    row["forest"] = _mean([run["forest_score"] for run in runs], 5)
    sign = 1 if first["measure"] == "accuracy" else -1
    unit = 1.0 if sign == 1 else first["deviation"]
    for count in COUNTS:
        row[f"{count} bytes"] = _mean([run[f"{count}_bytes"] for run in runs], 0)
        small = [run.get(f"{count}_small") for run in runs]
        known = [(run, one) for run, one in zip(runs, small, strict=True) if one]
        whole = len(known) == len(runs)
        gaps = [100 * sign * (one["score"] - run["forest_score"]) / unit for run, one in known]
        row[f"{count} small"] = _mean([one["score"] for _, one in known], 5) if whole else None
        row[f"{count} small bytes"] = (
            _mean([one["bytes"] for _, one in known], 0) if whole else None
        )
        row[f"{count} points"] = _mean(gaps, 2) if whole else None
    for name in ("seconds", "cpu_s"):
        row[name] = _mean([run[name] for run in runs], 1)
    return row


def _mean(values: Sequence[float], digits: int) -> float:
    found = round(float(np.mean(values)), digits)
    return found if digits else int(found)


def most_by_chance(n: int) -> int:
    """Return the most runs of n that equally good models lose without it being a surprise.

    Each of n two-sided tests at `LEVEL` calls a model worse that is as good with a probability of
    `LEVEL` / 2: of 72 tests in 1.8. More than the returned number of them have a probability of at
    most .05: a one-sided bound of the binomial distribution, 4 of 72 (P(X > 4) = .036). The tests
    of one set share rows, which makes many losses at once likelier than this says.

    >>> most_by_chance(72)
    4
    """
    from scipy.stats import binom

    return int(binom.ppf(1 - LEVEL, n, LEVEL / 2))


def _sign(p: float) -> str:
    return "0" if abs(p) >= LEVEL else "+" if p > 0 else "-"


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked for."""
    sized = [row for row in rows if row["what"] == "size"]
    signs = "".join(row["signs booster"] for row in sized)
    n = len(signs)
    found = [
        Goal("runs better than the tuned booster", f">= {-(-n // 2)} of {n}", _of(signs, "+")),
        Goal(
            "runs worse than the tuned booster", f"<= {most_by_chance(n)} of {n}", _of(signs, "-")
        ),
    ]
    for way in ("forest", "CART"):
        here = [row for row in sized if row[way] is not None]
        good = sum(_gain(row, way) > 0 for row in here)
        found.append(
            Goal(f"means better than the {way}", f">= {len(here)} of {len(here)}",
                 f"{good} of {len(here)}" if here else None)
        )  # fmt: skip
    sets = groups(sized, "set")
    better = sum(np.mean([_gain(r, WAYS[-1]) for r in some]) > 0 for some in sets.values())
    worse = sum(
        "".join(r[f"signs {WAYS[-1]}"] for r in some).count("-")
        > "".join(r[f"signs {WAYS[-1]}"] for r in some).count("+")
        for some in sets.values()
    )
    n_sets = len(sets)
    found += [
        Goal("sets better than the MLP", f">= {-(-n_sets // 2)} of {n_sets}",
             f"{better} of {n_sets}" if n_sets else None),
        Goal("sets significantly worse than the MLP", f"<= {n_sets // 4} of {n_sets}",
             f"{worse} of {n_sets}" if n_sets else None),
    ]  # fmt: skip
    whole = [row for row in rows if row["what"] == "forest"]
    for count, told in zip(COUNTS, ("scikit-learn's file of it", "its exact header"), strict=True):
        points = [row[f"{count} points"] for row in whole]
        near = sum(one is not None and one >= -HALF_A_POINT for one in points)
        found.append(
            Goal(f"sets with RandomForest(100)'s score within half a point in 1/50 of {told}",
                 f">= {-(-2 * len(whole) // 3)} of {len(whole)}",
                 f"{near} of {len(whole)}" if whole else None)
        )  # fmt: skip
    return found


def _of(signs: str, sign: str) -> str | None:
    return f"{signs.count(sign)} of {len(signs)}" if signs else None


def _gain(row: Row, way: str) -> float:
    gain = row["compress"] - row[way]
    return float(gain if row["measure"] == "accuracy" else -gain)


def _cell(way: str) -> Callable[[Row], str | None]:
    def of(row: Row) -> str | None:
        if row.get(way) is None:
            return None
        text = format(row[way], ".4f" if row["measure"] == "accuracy" else ".4g")
        return text if way == "compress" else f"{text} {row[f'signs {way}']}"

    return of


def _sizes(report: Report) -> str:
    rows = [row for row in report["rows"] if row["what"] == "size"]
    columns = (
        Column("set", "set"),
        Column("KB", "kb"),
        *(Column(way, _cell(way)) for way in WAYS),
        Column("program", "program compress", ","),
        Column("of the booster", "program booster", ","),
        Column("chosen, first seed", "recipe"),
    )
    return "\n\n".join([table(rows, columns), measured_by(report)])


def _forests(report: Report) -> str:
    columns = [
        Column("set", "set"),
        Column("RandomForest(100)", "forest", ".4g"),
    ]
    for count, told in zip(COUNTS, ("scikit-learn's file", "our exact header"), strict=True):
        columns += [
            Column(f"bytes of {told}", f"{count} bytes", ","),
            Column("best of 1/50 of them", f"{count} small", ".4g"),
            Column("its bytes", f"{count} small bytes", ","),
            Column("points ahead", f"{count} points", "+.2f"),
        ]
    columns.append(Column("processor seconds of compress", "cpu_s", ".0f"))
    return table([row for row in report["rows"] if row["what"] == "forest"], columns)


BENCHMARK: Final = Benchmark(
    "compress",
    cases,
    measure,
    goals,
    {"table": _sizes, "forests": _forests},
    figures=figures,
    options={
        **DATA,
        "--sizes": {"type": int, "nargs": "+", "default": SIZES, "help": "KB, rising"},
        "--rows": {"type": int, "default": 3_000, "help": "rows to train on and to choose by"},
    },
    needs=("data",),
    kept=True,
)

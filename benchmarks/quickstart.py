"""Conversion, certificate, speed and retraining of real models: is it exact, how long does it take?

    python -m benchmarks.quickstart [--json] [--quick] [--save] [--models FOLDER]

FOLDER holds treelite's own example models (`treelite/mushroom`, `treelite/dermatology`).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier, XGBRegressor

import bitvec
from benchmarks.report import (
    Column,
    Goal,
    Report,
    Row,
    Table,
    groups,
    means,
    measured_by,
    one,
    six_digits,
    where,
)
from benchmarks.runner import MODELS, Benchmark, run


def conversion_time(quick: bool) -> Row:
    """A RandomForest of 100 unlimited trees fitted on 20,000 rows, 10 classes, 30 features."""
    X, y = datasets.make_classification(20_000, 30, n_informative=15, n_classes=10, random_state=0)
    model = RandomForestClassifier(20 if quick else 100, n_jobs=-1, random_state=0).fit(X, y)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        forest = bitvec.convert(model)
        times.append(time.perf_counter() - start)
    parts = (forest.tests, forest.bitvectors, forest.leaves)
    arrays = [getattr(part, name) for part in parts for name in part.__slots__]
    largest = max(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    return {
        "what": "convert",
        "model": f"RandomForestClassifier, {forest.n_trees} unlimited trees, 20,000 rows",
        "nodes": forest.n_nodes,
        "seconds": statistics.median(times),
        "largest_array_bytes_per_leaf": largest / forest.n_leaves,
    }


Model = tuple[str, Any, np.ndarray, Callable[[np.ndarray], np.ndarray]]
"""Name, model, rows, and the call that gives raw scores."""


def models(quick: bool) -> Iterator[Model]:
    """Yield real models on the data that scikit-learn carries."""
    n = 20 if quick else 100
    digits, diabetes, cancer = (
        (data.data, data.target)
        for data in (
            datasets.load_digits(),
            datasets.load_diabetes(),
            datasets.load_breast_cancer(),
        )
    )
    holes = np.random.default_rng(0).random(cancer[0].shape) < 0.1
    cancer = np.where(holes, np.nan, cancer[0]), cancer[1]

    def margin(model: Any) -> Callable[[np.ndarray], np.ndarray]:
        return lambda X: model.predict(X, output_margin=True)

    forest = RandomForestClassifier(n, random_state=0).fit(*digits)
    yield f"RandomForest, {n} unlimited trees, digits", forest, digits[0], forest.predict_proba
    values = RandomForestRegressor(n, random_state=0).fit(*diabetes)
    yield f"RandomForest, {n} trees, diabetes", values, diabetes[0], values.predict
    two = XGBClassifier(n_estimators=n, max_depth=6, n_jobs=1).fit(*cancer)
    name = f"xgboost, {n} trees depth 6, breast cancer with NaN"
    yield name, two, cancer[0], margin(two)
    ten = XGBClassifier(n_estimators=n // 2, max_depth=4, n_jobs=1).fit(*digits)
    yield f"xgboost, {n // 2} x 10 trees depth 4, digits", ten, digits[0], margin(ten)
    numbers = XGBRegressor(n_estimators=n, max_depth=6, n_jobs=1).fit(*diabetes)
    yield f"xgboost, {n} trees depth 6, diabetes", numbers, diabetes[0], numbers.predict


def certified(
    name: str, model: Any, X: np.ndarray, answer: Callable[[np.ndarray], np.ndarray]
) -> Row:
    """Convert and certify one model, then time raw scores against its library, one thread each."""
    forest = bitvec.convert(model)
    start = time.perf_counter()
    certificate = bitvec.certify(forest, model, X)
    seconds = time.perf_counter() - start
    raw = bitvec.compile(forest, n_jobs=1).raw
    many = np.tile(X, (-(-10_000 // len(X)), 1))[:10_000]
    theirs = np.asarray(answer(many))
    if not np.array_equal(raw(many), theirs.reshape(len(many), -1)):
        raise AssertionError(f"{name}: raw scores differ")
    ours_time, theirs_time = [], []
    for _ in range(7):
        for predict, times in ((raw, ours_time), (answer, theirs_time)):
            start = time.perf_counter()
            predict(many)
            times.append(time.perf_counter() - start)
    return {
        "what": "certify",
        "model": name,
        "nodes": forest.n_nodes,
        "probe_rows": certificate.n_probes,
        "coverage": certificate.coverage,
        "leaves_differ": certificate.n_leaf_mismatches,
        "max_ulp": certificate.max_ulp,
        "passed": certificate.passed,
        "seconds": seconds,
        "times_faster_at_10k": statistics.median(theirs_time) / statistics.median(ours_time),
    }


def retrained(seed: int, steps: int | None) -> Row:
    """A CART of depth 8 on digits, retrained end to end with S, b and v free."""
    X, y = datasets.load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    X, X_chosen, y, y_chosen = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
    model = DecisionTreeClassifier(criterion="entropy", max_depth=8, random_state=seed).fit(X, y)
    options = {} if steps is None else {"budget": None, "schedule": {"steps": steps}}
    start = time.perf_counter()
    result = bitvec.retrain(
        bitvec.convert(model), X, y, validation=(X_chosen, y_chosen), seed=seed, **options
    )
    seconds = time.perf_counter() - start
    after = np.mean(bitvec.compile(result.forest).predict(X_test) == y_test)
    return {
        "what": "retrain",
        "model": f"DecisionTree depth 8, digits, seed {seed}",
        "accuracy_before": float(model.score(X_test, y_test)),
        "accuracy_after": float(after),
        "seconds": seconds,
    }


def stored_outputs(folder: Path) -> Iterator[Row]:
    """treelite's own legacy models reproduce the outputs stored beside them."""
    import treelite

    for name, binary in (("mushroom", "mushroom.model"), ("dermatology", "dermatology.model")):
        home = folder / "treelite" / name
        model = treelite.frontend.load_xgboost_model_legacy_binary(home / binary)
        predictor = bitvec.compile(bitvec.convert(model))
        data = next(home.glob("*.test"))
        X = _libsvm(data, predictor.forest.n_features)
        for kind, ours in (("margin", predictor.raw(X)), ("prob", predictor.scores(X))):
            stored = np.loadtxt(f"{data}.{kind}").reshape(len(X), -1)
            yield {
                "what": "stored outputs",
                "model": f"{name}, {kind}",
                "largest_difference": float(np.abs(stored - ours).max()),
            }


def _libsvm(path: Path, n_features: int) -> np.ndarray:
    """Read LIBSVM text; absent entries are missing, as xgboost reads them."""
    lines = path.read_text().splitlines()
    X = np.full((len(lines), n_features), np.nan, np.float32)
    for row, line in enumerate(lines):
        for pair in line.split()[1:]:
            column, value = pair.split(":")
            if int(column) < n_features:
                X[row, int(column)] = float(value)
    return X


def help_seconds() -> Row:
    """Best of five of `bitvec --help` as a process."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        command = [str(Path(sys.executable).with_name("bitvec")), "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return {"what": "help", "model": "bitvec --help", "seconds": min(times)}


CASES: Final[dict[str, Callable[[Namespace], Iterator[Row]]]] = {
    "convert": lambda options: iter([conversion_time(options.quick)]),
    "help": lambda _: iter([help_seconds()]),
    "certify": lambda options: (certified(*model) for model in models(options.quick)),
    "retrain": lambda options: (
        retrained(seed, 200 if options.quick else None)
        for seed in ((0,) if options.quick else (0, 1, 2))
    ),
    "stored outputs": lambda options: (
        stored_outputs(options.models) if options.models else iter(())
    ),
}


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what converting, certifying, retraining and starting have to reach."""
    by = {key: found for (key,), found in groups(rows, "what").items()}
    built, start = one(rows, what="convert"), one(rows, what="help")
    certificates, again = by.get("certify", []), by.get("retrain", [])
    gained = [row["accuracy_after"] - row["accuracy_before"] for row in again]
    stored = [row["largest_difference"] for row in by.get("stored outputs", [])]
    least = min((row["coverage"] for row in certificates), default=None)
    differ = sum(row["leaves_differ"] for row in certificates) if certificates else None
    ulp = max((row["max_ulp"] for row in certificates), default=None)
    size = built.get("largest_array_bytes_per_leaf")
    mean = statistics.mean(gained) if gained else None
    return [
        Goal("seconds to convert 100 unlimited trees", "< 2", built.get("seconds")),
        Goal("bytes of the largest array per leaf, whatever the nodes", "< 1024", size, True),
        Goal("least coverage of a certificate", "1", least, True),
        Goal("leaves that differ", "0", differ, True),
        Goal("largest difference of raw scores in ulps", "0", ulp, True),
        Goal("largest difference from stored outputs", "<= 1e-9", max(stored, default=None), True),
        Goal("test accuracy gained by retraining, mean", "> 0", mean),
        Goal("seconds of bitvec --help", "< 0.3", start.get("seconds")),
    ]


def _after(report: Report) -> str:
    built = one(report["rows"], what="convert")
    again = where(report["rows"], what="retrain")
    mean = means(again, ("accuracy_before", "accuracy_after", "seconds"), digits=6)
    return (
        f"One thread, 10,000 rows, raw scores. Converting {built['model']} ({built['nodes']:,} "
        f"nodes) takes {built['seconds']:.2f} s. A CART of depth 8 on digits goes from "
        f"{mean['accuracy_before']:.3f} to {mean['accuracy_after']:.3f} test accuracy by "
        f"retraining (mean of {len(again)} seeds, {mean['seconds']:.0f} s each). "
        f"{measured_by(report)}"
    )


_COLUMNS: Final = (
    Column("model", "model"),
    Column("nodes", "nodes", ","),
    Column("probe rows", "probe_rows", ","),
    Column("coverage", "coverage", "g"),
    Column("leaves that differ", "leaves_differ", ","),
    Column("raw scores, ulp", "max_ulp", "g"),
    Column("times faster than its library", "times_faster_at_10k", ".1f"),
)
BENCHMARK: Final = Benchmark(
    "quickstart",
    lambda _: CASES,
    lambda case, options: CASES[case](options),
    goals,
    {"table": Table(_COLUMNS, {"what": "certify"}, after=_after)},
    figures=lambda rows: [six_digits(row) for row in rows],
    options=MODELS,
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)

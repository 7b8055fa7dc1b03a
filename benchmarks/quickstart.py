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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier, XGBRegressor

import bitvec
from benchmarks.old_report import (
    Report,
    Row,
    Target,
    below,
    judged,
    markdown,
    measured_by,
    none,
)
from benchmarks.old_runner import MODELS, run


def conversion_time(quick: bool) -> Row:
    """A RandomForest of 100 unlimited trees fitted on 20,000 rows, 10 classes, 30 features."""
    X, y = datasets.make_classification(20_000, 30, n_informative=15, n_classes=10, random_state=0)
    model = RandomForestClassifier(20 if quick else 100, n_jobs=-1, random_state=0).fit(X, y)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        forest = bitvec.convert(model)
        times.append(time.perf_counter() - start)
    largest = max(
        array.nbytes
        for part in (forest.tests, forest.bitvectors, forest.leaves)
        for array in (getattr(part, name) for name in part.__slots__)
        if isinstance(array, np.ndarray)
    )
    return {
        "what": "convert",
        "model": f"RandomForestClassifier, {forest.n_trees} unlimited trees, 20,000 rows",
        "nodes": forest.n_nodes,
        "seconds": statistics.median(times),
        "largest_array_bytes_per_leaf": largest / forest.n_leaves,
    }


def models(
    quick: bool,
) -> Iterator[tuple[str, Any, np.ndarray, Callable[[np.ndarray], np.ndarray]]]:
    """Real models on the data that scikit-learn carries, with the call that gives raw scores."""
    n_trees = 20 if quick else 100
    digits = datasets.load_digits()
    forest = RandomForestClassifier(n_trees, random_state=0).fit(digits.data, digits.target)
    yield (
        f"RandomForest, {n_trees} unlimited trees, digits",
        forest,
        digits.data,
        forest.predict_proba,
    )

    diabetes = datasets.load_diabetes()
    regressor = RandomForestRegressor(n_trees, random_state=0).fit(diabetes.data, diabetes.target)
    yield f"RandomForest, {n_trees} trees, diabetes", regressor, diabetes.data, regressor.predict

    cancer = datasets.load_breast_cancer()
    holes = np.random.default_rng(0).random(cancer.data.shape) < 0.1
    with_nan = np.where(holes, np.nan, cancer.data)
    booster = XGBClassifier(n_estimators=n_trees, max_depth=6, n_jobs=1).fit(
        with_nan, cancer.target
    )
    yield (
        f"xgboost, {n_trees} trees depth 6, breast cancer with NaN",
        booster,
        with_nan,
        lambda X: booster.predict(X, output_margin=True),
    )
    ten = XGBClassifier(n_estimators=n_trees // 2, max_depth=4, n_jobs=1).fit(
        digits.data, digits.target
    )
    yield (
        f"xgboost, {n_trees // 2} x 10 trees depth 4, digits",
        ten,
        digits.data,
        lambda X: ten.predict(X, output_margin=True),
    )
    linear = XGBRegressor(n_estimators=n_trees, max_depth=6, n_jobs=1).fit(
        diabetes.data, diabetes.target
    )
    yield f"xgboost, {n_trees} trees depth 6, diabetes", linear, diabetes.data, linear.predict


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
    options = {} if steps is None else {"steps": steps}
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


def targets(rows: list[Row]) -> list[Target]:
    """Return one entry for every figure that is asked for."""
    by = {kind: [row for row in rows if row["what"] == kind] for kind in _KINDS}
    built, start = by["convert"][0], by["help"][0]
    certified, size = by["certify"], built["largest_array_bytes_per_leaf"]
    gain = statistics.mean(r["accuracy_after"] - r["accuracy_before"] for r in by["retrain"])
    worst = max((row["largest_difference"] for row in by["stored outputs"]), default=None)
    coverage = min(row["coverage"] for row in certified)
    return [
        below("seconds to convert 100 unlimited trees", 2, built["seconds"]),
        judged(
            "bytes of the largest array per leaf",
            "does not grow with nodes",
            size,
            lambda found: found < 1024,
        ),
        judged("least coverage of a certificate", "1", coverage, lambda found: found == 1),
        none("leaves that differ", sum(row["leaves_differ"] for row in certified)),
        none("largest difference of raw scores in ulps", max(row["max_ulp"] for row in certified)),
        judged("stored outputs reproduced", "1e-9", worst, lambda found: found <= 1e-9),
        judged("test accuracy gained by retraining, mean", "> 0", gain, lambda found: found > 0),
        below("seconds of bitvec --help", 0.3, start["seconds"]),
    ]


_KINDS = ("convert", "help", "certify", "retrain", "stored outputs")


def table(report: Report) -> str:
    """Return the run as Markdown."""
    head = ["model", "nodes", "probe rows", "coverage", "leaves that differ", "raw scores, ulp"]
    rows = report["rows"]
    body = [
        [
            row["model"],
            f"{row['nodes']:,}",
            f"{row['probe_rows']:,}",
            f"{row['coverage']:g}",
            row["leaves_differ"],
            f"{row['max_ulp']:g}",
            f"{row['times_faster_at_10k']:.1f}",
        ]
        for row in rows
        if row["what"] == "certify"
    ]
    built = next(row for row in rows if row["what"] == "convert")
    gained = [row for row in rows if row["what"] == "retrain"]
    before = statistics.mean(row["accuracy_before"] for row in gained)
    after = statistics.mean(row["accuracy_after"] for row in gained)
    text = (
        f"One thread, 10,000 rows, raw scores. Converting {built['model']} ({built['nodes']:,} "
        f"nodes) takes {built['seconds']:.2f} s. A CART of depth 8 on digits goes from "
        f"{before:.3f} to {after:.3f} test accuracy by retraining (mean of {len(gained)} seeds, "
        f"{statistics.mean(row['seconds'] for row in gained):.0f} s each). {measured_by(report)}"
    )
    return markdown([*head, "times faster than its library"], body) + "\n\n" + text


def measure(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return the rows of all parts, and the targets."""
    rows = [conversion_time(options.quick), help_seconds()]
    rows += [certified(*case) for case in models(options.quick)]
    seeds, steps = ((0,), 200) if options.quick else ((0, 1, 2), None)
    rows += [retrained(seed, steps) for seed in seeds]
    if options.models is not None:
        rows += stored_outputs(options.models)
    return rows, targets(rows)


if __name__ == "__main__":
    run("quickstart", __doc__, measure, tables=lambda _: [table], options=MODELS)

"""The run of the quickstart: four models through the whole workflow, with plots."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

import bitvec
from bitvec import api, files
from bitvec.converters.dispatch import convert_forest
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.distribution import left_out
from bitvec.errors import MissingLibraryError, needs
from bitvec.runtime.export import exports
from bitvec.verify.certificates.certificate import Certificate

with needs("scikit-learn", "sklearn", "The quickstart"):
    from sklearn import datasets
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.model_selection import train_test_split
    from sklearn.tree import DecisionTreeClassifier
with needs("xgboost", "xgboost", "The quickstart"):
    from xgboost import XGBClassifier

SPEED_ROWS = 10_000
REPEATS = 7


@dataclass(frozen=True, slots=True)
class Case:
    """A trained model, rows to test it on, and how its owner asks it for raw scores."""

    title: str
    stem: str
    model: Any
    X_test: Array
    answer: Callable[[Array], Array]


@dataclass(slots=True)
class Row:
    """Findings about one model."""

    model: str
    trees: int
    leaves: int
    coverage: float
    probes: int
    leaves_differ: int
    ulp: float
    speed: float
    onnx_agrees: bool | None  # None where it cannot be run
    files: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Everything that the quickstart prints; written beside the files as `report.json`."""

    rows: list[Row] = field(default_factory=list)
    accuracy_before: float = 0.0
    accuracy_after: float = 0.0
    plots: list[str] = field(default_factory=list)
    seconds: float = 0.0


def cases(seed: int, n_trees: int) -> list[Case]:
    """Train the stand-ins for what a user has, on data that scikit-learn carries."""
    X, y, _, _, X_test, _ = _digits(seed)
    forest = (
        RandomForestClassifier(n_trees, random_state=seed, n_jobs=-1).fit(X, y).set_params(n_jobs=1)
    )
    tree = DecisionTreeClassifier(criterion="entropy", max_depth=8, random_state=seed).fit(X, y)

    diabetes = datasets.load_diabetes()
    Xd, Xd_test, yd, _ = train_test_split(diabetes.data, diabetes.target, random_state=seed)
    regressor = RandomForestRegressor(n_trees, random_state=seed).fit(Xd, yd)

    cancer = datasets.load_breast_cancer()
    holes = np.random.default_rng(seed).random(cancer.data.shape) < 0.1
    with_nan = np.where(holes, np.nan, cancer.data)
    Xc, Xc_test, yc, _ = train_test_split(with_nan, cancer.target, random_state=seed)
    booster = XGBClassifier(n_estimators=n_trees, max_depth=4, n_jobs=1, random_state=seed)
    booster.fit(Xc, yc)
    return [
        Case("sklearn tree, digits", "digits-tree", tree, X_test, tree.predict_proba),
        Case("sklearn forest, digits", "digits-forest", forest, X_test, forest.predict_proba),
        Case(
            "sklearn forest, diabetes",
            "diabetes-forest",
            regressor,
            Xd_test,
            regressor.predict,
        ),
        Case(
            "xgboost, cancer with NaN",
            "cancer-xgboost",
            booster,
            Xc_test,
            lambda X: booster.predict(X, output_margin=True),
        ),
    ]


def visit(case: Case, directory: Path) -> tuple[Row, Forest]:
    """Convert, certify, time, save and export one model."""
    forest = convert_forest(case.model)
    certificate = api.certify(forest, case.model, case.X_test)
    predictor = api.compile(forest, n_jobs=1)
    paths = [
        directory / f"{case.stem}.safetensors",
        directory / f"{case.stem}.certificate.json",
        directory / f"{case.stem}.onnx",
    ]
    files.save(forest, paths[0])
    certificate.save(paths[1])
    exports.export(forest, paths[2])
    exported = _of_onnx(forest, paths[2], case.X_test)
    row = Row(
        model=case.title,
        trees=forest.n_trees,
        leaves=forest.n_leaves,
        coverage=certificate.coverage,
        probes=certificate.n_probes,
        leaves_differ=certificate.n_leaf_mismatches,
        ulp=certificate.max_ulp,
        speed=_speed(case, predictor.raw),
        onnx_agrees=None if exported is None else exported.passed,
        files=[path.name for path in paths],
    )
    return row, forest


def _of_onnx(forest: Forest, path: Path, X: Array) -> Certificate | None:
    """Return the certificate of an exported file, or None without a wheel of what runs it."""
    try:
        return api.certify(forest, path, X, allow_values_only=True)
    except MissingLibraryError as error:
        if not left_out(error.library):
            raise
        return None


def _speed(case: Case, raw: Callable[[Array], Array]) -> float:
    """Return the source's time divided by ours, one thread each, medians of interleaved runs."""
    X = np.tile(case.X_test, (-(-SPEED_ROWS // len(case.X_test)), 1))[:SPEED_ROWS]
    ours = raw(X)
    theirs = np.asarray(case.answer(X)).reshape(ours.shape)
    if not np.array_equal(ours, theirs):
        raise AssertionError(f"{case.title}: raw scores differ from the source's")
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(REPEATS):
        for name, run in (("ours", raw), ("theirs", case.answer)):
            start = time.perf_counter()
            run(X)
            times[name].append(time.perf_counter() - start)
    return statistics.median(times["theirs"]) / statistics.median(times["ours"])


def _digits(seed: int) -> tuple[Array, ...]:
    """Return X, y to fit on, to choose by and to test on."""
    X, y = datasets.load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=seed, stratify=y)
    X, X_chosen, y, y_chosen = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
    return X, y, X_chosen, y_chosen, X_test, y_test


def improve(
    case: Case, forest: Forest, directory: Path, seed: int, progress: Callable[[float], None]
) -> tuple[float, float]:
    """Retrain the digits tree end to end; return its test accuracy before and after."""
    X, y, X_chosen, y_chosen, X_test, y_test = _digits(seed)
    result = bitvec.retrain(
        forest,
        X,
        y,
        validation=(X_chosen, y_chosen),  # rows that the tree was not fitted on
        seed=seed,
        progress=lambda done: progress(done.step / max(done.steps, 1)),
    )
    files.save(result.forest, directory / f"{case.stem}-retrained.safetensors")
    path = exports.export(result.forest, directory / f"{case.stem}-retrained.onnx")
    if (certificate := _of_onnx(result.forest, path, X_test)) is not None:
        certificate.save(path.with_suffix(".certificate.json"))
    before, after = (
        float(np.mean(api.compile(tree).predict(X_test) == y_test))
        for tree in (forest, result.forest)
    )
    return before, after


def _named(forest: Forest, names: Sequence[str]) -> Forest:
    """Return a forest whose columns have names; scikit-learn keeps those of a pandas frame only."""
    inputs = replace(forest.inputs, feature_names=tuple(map(str, names)))
    return replace(forest, inputs=inputs)


def draw(directory: Path, seed: int) -> list[str]:
    """Draw S and B of a small tree, the path of a row, and its boundary hard, soft, retrained."""
    import torch

    from bitvec.plots import forests

    cancer = datasets.load_breast_cancer()
    small = DecisionTreeClassifier(max_depth=4, random_state=seed).fit(cancer.data, cancer.target)
    forest = _named(convert_forest(small), cancer.feature_names)
    figures = {
        "matrices.png": forests.draw_matrices(forest),
        "path.png": forests.draw_path(forest, cancer.data[20]),
    }
    names = ["worst area", "worst smoothness"]
    columns = [list(cancer.feature_names).index(name) for name in names]
    X, y = cancer.data[:, columns].astype(np.float32), cancer.target
    X_fit, X_chosen, y_fit, y_chosen = train_test_split(
        X, y, test_size=0.4, random_state=seed, stratify=y
    )
    flat = convert_forest(DecisionTreeClassifier(max_depth=3, random_state=seed).fit(X_fit, y_fit))
    soft = api.to_torch(flat, relaxation="sigmoid", gamma=2.0)
    soft.calibrate(X_fit)
    retrained = bitvec.retrain(
        flat, X_fit, y_fit, validation=(X_chosen, y_chosen), seed=seed, schedule={"steps": 400}
    ).forest

    def second_class(tree: Forest) -> Callable[[Array], Array]:
        return lambda rows: api.compile(tree).predict_proba(rows)[:, 1]

    def relaxed(rows: Array) -> Array:
        with torch.no_grad():
            values: Array = soft(torch.from_numpy(rows))[:, 1].numpy()
        return values

    figures["boundaries.png"] = forests.draw_boundaries(
        [
            ("hard: the tree as trained", second_class(flat)),
            ("soft: its sigmoid relaxation", relaxed),
            ("retrained and hardened", second_class(retrained)),
        ],
        X,
        y,
        names,
    )
    for name, figure in figures.items():
        figure.savefig(directory / name, dpi=110)
    return list(figures)


def run(directory: Path, *, seed: int = 0, n_trees: int = 100) -> Report:
    """Take four models through the whole workflow and print the results.

    Parameters
    ----------
    directory : path
        Where models, certificates, plots and `report.json` are written; made if absent.
    n_trees : int
        Of each ensemble.
    """
    console = Console()
    start = time.perf_counter()
    directory.mkdir(parents=True, exist_ok=True)
    report = Report()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("training four models", total=8)

        def step(what: str) -> None:
            progress.update(task, advance=1, description=what)

        trained = cases(seed, n_trees)
        forests = {}
        for case in trained:
            step(f"converting, certifying, exporting: {case.title}")
            row, forests[case.stem] = visit(case, directory)
            report.rows.append(row)
        step("retraining the digits tree end to end")
        inner = progress.add_task("  steps", total=1.0)
        report.accuracy_before, report.accuracy_after = improve(
            trained[0],
            forests[trained[0].stem],
            directory,
            seed,
            lambda done: progress.update(inner, completed=done),
        )
        step("drawing")
        report.plots = draw(directory, seed)
    report.seconds = time.perf_counter() - start
    (directory / "report.json").write_text(
        json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8"
    )
    show(console, report, directory)
    return report


def show(console: Console, report: Report, directory: Path) -> None:
    """Print the findings, and where the files are."""
    title = Text("Four trained models as T(x) = v[argmax(B · σ(Sx − b))]")
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("model", no_wrap=True)
    for name in ("trees", "leaves", "probes", "coverage", "differ", "ulp", "speed"):
        table.add_column(name, justify="right")
    table.add_column("ONNX")
    for row in report.rows:
        table.add_row(
            row.model,
            str(row.trees),
            f"{row.leaves:,}",
            f"{row.probes:,}",
            f"{row.coverage:.0%}",
            str(row.leaves_differ),
            f"{row.ulp:g}",
            f"{row.speed:.1f}x",
            {True: "same", False: "differs", None: "not run"}[row.onnx_agrees],
        )
    console.print(table)
    console.print(
        "Probes: rows made for the nodes. Coverage: nodes that were seen on every outcome, ties "
        "and missing values included. Differ: leaves other than the model's own library gives. "
        "Ulp: the largest difference of raw scores. Speed: that library's time / ours, 10,000 "
        "rows, one thread.\n"
    )
    if any(row.onnx_agrees is None for row in report.rows):
        console.print(
            "ONNX files are written and not run, since onnxruntime had no wheel for this Python "
            "when this release was made.\n"
        )
    console.print(
        f"The digits tree, retrained end to end and hardened: test accuracy "
        f"[bold]{report.accuracy_before:.1%} -> {report.accuracy_after:.1%}[/bold], "
        "still one tree of the same shape."
    )
    console.print(
        f"Models, certificates, ONNX files and plots ({', '.join(report.plots)}) are in "
        f"{directory}/, after {report.seconds:.0f} s."
    )

"""Explanations of trees: equal to those of other libraries, and how long do they take?

    python -m benchmarks.explain [--json] [--quick] [--save] [--baselines-dir DIR]

Models of 20,000 rows of noise and a few products. Processor time of one thread, the least of
several runs, of 10,000 rows, 2,000 for interactions, 1,000 at depth 12 with background rows;
xgboost and LightGBM explain as many of them as take a second, and all are told for one row of a
batch. What `bitvec.explain` does before it meets rows is counted. `--baselines-dir DIR
--make-baselines` makes environments for xgboost 3.4 and woodelf-explainer; without them the
installed xgboost is measured, and no woodelf. Processes there import this package: what needs more
than NumPy is imported late.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from benchmarks.explain import baselines
from benchmarks.explain.baselines import Job, least_time
from benchmarks.report import Column, Goal, Report, Row, Table, measured_by, one, six_digits
from benchmarks.runner import Benchmark
from benchmarks.worker import CannotRunError
from benchmarks.workers import alone, in_environment

if TYPE_CHECKING:
    from bitvec.explanations.explainer import Dtype

Array = np.ndarray
ROWS: Final = 10_000
BACKGROUND: Final = 1_000
SECONDS: Final = 120.0
FLOAT32: Final = 1e-6
"""Difference of values by cover in float32 from those in float64, of the largest, at most."""
VALUES, PAIRS, BY_ROWS = "values by cover", "interactions by cover", "values, 1,000 background rows"
_JOBS: Final = {VALUES: "values", PAIRS: "pairs", BY_ROWS: "background"}
XGBOOST, LIGHTGBM = "xgboost, 100 trees of depth 6", "LightGBM, 500 trees of 31 leaves"
DEEP: Final = "xgboost, 50 trees of depth 12"
WIDE: Final = ("LightGBM, 100 trees of 255 leaves", "LightGBM, 20 trees of depth 20")
OTHERS: Final = (
    "xgboost, 5 classes, 100 trees",
    "xgboost, 100 trees of vectors of 5",
    "xgboost, DART, 100 trees",
    "LightGBM, category sets, 100 trees",
    "scikit-learn, 100 averaged trees of depth 8",
    "xgboost, 127 columns",
)


class Case(NamedTuple):
    """A kind of explanation of a model."""

    model: str
    what: str

    def __str__(self) -> str:
        return f"{self.model}, {self.what}"


def cases(options: Namespace) -> list[Case]:
    """Return what is measured; quickly, the two main models alone."""
    main = [Case(name, what) for name in (XGBOOST, LIGHTGBM) for what in _JOBS]
    if options.quick:
        return main
    deep = [Case(DEEP, VALUES), Case(DEEP, BY_ROWS), *(Case(name, VALUES) for name in WIDE)]
    return [*main, *deep, *(Case(name, VALUES) for name in OTHERS)]


def measured(case: Case, options: Namespace) -> Iterator[Row]:
    """Compare an explanation with those of other libraries, and time all."""
    import bitvec
    from benchmarks.explain.models import trained

    model = trained(case.model)
    forest = bitvec.convert(model.model)
    n_rows = 1_000 if options.quick else _rows(case)
    X = model.sample(n_rows, 1).astype(forest.dtype)
    background = model.sample(BACKGROUND, 2).astype(forest.dtype) if case.what == BY_ROWS else None

    def prepare(dtype: Dtype = "float32") -> Any:
        return bitvec.explain(forest, background=background, dtype=dtype, n_jobs=1)

    def explain(rows: Array, explainer: Any) -> Array:
        found: Array = (explainer.interactions if case.what == PAIRS else explainer.values)(rows)
        return found

    explainer = prepare()
    row: Row = {"model": case.model, "what": case.what, "leaves": forest.n_leaves}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.save(folder / "X.npy", X)
        if background is not None:
            np.save(folder / "background.npy", background)
        found, wide = explain(X, explainer), explain(X, prepare("float64"))
        if model.library:
            row |= _beside(wide, model, case, folder, options)
    axes = tuple(range(1, found.ndim if forest.n_outputs == 1 else found.ndim - 1))
    raw = explainer.base_value + found.sum(axis=axes)
    scores = bitvec.compile(forest, n_jobs=1).raw(X).reshape(raw.shape)
    row["gap_to_raw_score"] = float(np.abs(raw - scores).max() / np.abs(scores).max())
    times = 2 if case.what == BY_ROWS else 4
    row["prepare_ms"] = least_time(prepare, times) * 1e3
    row["us"] = least_time(lambda: explain(X, prepare()), times) / n_rows * 1e6
    row["one_row_ms"] = least_time(lambda: explain(X[:1], explainer), baselines.SINGLE_ROWS) * 1e3
    if case.what == BY_ROWS:
        row["peak_mb"] = _peak(forest, X, background)
    else:
        row["float32_difference"] = _difference(found, wide, FLOAT32, str(case))
        seconds = least_time(lambda: explain(X, prepare("float64")), times)
        row["float64_us"] = seconds / n_rows * 1e6
    if "library_us" in row:
        row["times_faster"] = row["library_us"] / row["us"]
    yield row


def _rows(case: Case) -> int:
    is_slow = case == Case(DEEP, BY_ROWS)
    return ROWS // (10 if is_slow else 5 if case.what == PAIRS else 1)


def _beside(found: Array, model: Any, case: Case, folder: Path, options: Namespace) -> Row:
    """Return what the model's own library and woodelf tell, if equal to what was found."""
    row = Row()
    Job(model.save(folder), _JOBS[case.what]).write(folder)
    if case.what != BY_ROWS and not (model.library == "lightgbm" and case.what == PAIRS):
        theirs = _told(model.library, folder, options)
        row = {key if key == "library" else f"library_{key}": theirs[key] for key in theirs}
        row["difference"] = _difference(found, _theirs(folder), model.tolerance, str(case))
    beside_woodelf = (XGBOOST,) if options.quick else (XGBOOST, LIGHTGBM, OTHERS[-1])
    is_deep = case == Case(DEEP, VALUES)
    if options.baselines_dir is not None and (case.model in beside_woodelf or is_deep):
        try:
            theirs = in_environment(
                "benchmarks.explain.baselines:woodelf", folder, baselines=options.baselines_dir,
                baseline="woodelf", within=SECONDS,
            )  # fmt: skip
            row["woodelf_us"] = theirs["us"]
            # Only told: the values that are right are those of the library.
            told = f"{case}, woodelf"
            row["woodelf_difference"] = _difference(found, _theirs(folder), np.inf, told)
        except CannotRunError as error:
            row["woodelf_reason"] = str(error).partition(":")[0]
    return row


def _told(library: str, folder: Path, options: Namespace) -> Row:
    if library == "xgboost" and options.baselines_dir is not None:
        return in_environment(
            "benchmarks.explain.baselines:xgboost", folder, baselines=options.baselines_dir,
            baseline="xgboost", within=SECONDS,
        )  # fmt: skip
    told: Row = getattr(baselines, library)(str(folder))
    return told


def _theirs(folder: Path) -> Array:
    found: Array = np.load(folder / "found.npy")
    return found


def _difference(found: Array, theirs: Array, tolerance: float, what: str) -> float:
    found = found[: len(theirs)]
    if theirs.shape != found.shape:  # outputs come before columns
        theirs = np.moveaxis(theirs, 1, -1)
    difference = float(np.abs(found - theirs).max() / np.abs(theirs).max())
    if difference > tolerance:
        raise AssertionError(f"{what}: values differ by {difference}")
    return difference


def _peak(forest: Any, X: Array, background: Array | None) -> float:
    """Return the MB that a process of its own takes at most to explain rows, answers included."""
    import bitvec

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bitvec.save(forest, folder / "forest.safetensors")
        np.savez(folder / "rows.npz", X=X, background=background)
        return float(alone("benchmarks.explain:memory", place, within=SECONDS)["peak_mb"])


def memory(place: str) -> Row:
    """Explain the rows of a folder, and tell the peak of memory above what was held before."""
    import bitvec
    from benchmarks.worker import held, reset_peak

    forest = bitvec.load(Path(place) / "forest.safetensors")
    with np.load(Path(place) / "rows.npz") as rows:
        X, background = rows["X"], rows["background"]
    bitvec.explain(forest, background=background[:2]).values(X[:1])  # loads the kernels
    before = reset_peak()
    bitvec.explain(forest, background=background).values(X)
    return {"peak_mb": (held() - before) / 1e6}


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked for."""

    def faster(model: str, what: str, key: str, beside: str = "us") -> float | None:
        row = one(rows, model=model, what=what)
        theirs = row.get(f"{key}_{beside}")
        if theirs is None or (key == "library" and "xgboost" in model and not _is_new(row)):
            return None
        return float(theirs / row[beside])

    def in_float64(model: str) -> float | None:
        times, row = faster(model, VALUES, "library"), one(rows, model=model, what=VALUES)
        if times is None or "float64_us" not in row:
            return None
        return times * float(row["us"] / row["float64_us"])

    def in_all(model: str) -> float | None:
        us = one(rows, model=model, what=BY_ROWS).get("us")
        return None if us is None else us * ROWS / 1e6

    per_leaf = [row["us"] / row["leaves"] for row in rows if row["model"] in OTHERS]
    usual = one(rows, model=XGBOOST, what=VALUES)
    new, old = "times faster than xgboost 3.4", "times faster than LightGBM"
    return [
        Goal(f"{old}, 500 trees", ">= 100", faster(LIGHTGBM, VALUES, "library")),
        Goal(f"{old}, 500 trees, float64", ">= 60", in_float64(LIGHTGBM)),
        *(Goal(f"{old}, {name[10:]}", ">= 200", faster(name, VALUES, "library")) for name in WIDE),
        Goal(f"{new}, depth 6", ">= 30", faster(XGBOOST, VALUES, "library")),
        Goal(f"{new}, depth 6, float64", ">= 20", in_float64(XGBOOST)),
        Goal(f"{new}, depth 12", ">= 30", faster(DEEP, VALUES, "library")),
        Goal(f"{new}, interactions", ">= 25", faster(XGBOOST, PAIRS, "library")),
        Goal(f"{new}, one row", ">= 2", faster(XGBOOST, VALUES, "library", "one_row_ms")),
        Goal(f"{old}, one row", ">= 2", faster(LIGHTGBM, VALUES, "library", "one_row_ms")),
        *(
            Goal(f"times faster than woodelf, {name}", ">= 20", faster(name, VALUES, "woodelf"))
            for name in (XGBOOST, LIGHTGBM)
        ),
        Goal("times faster than woodelf, interactions", ">= 10", faster(XGBOOST, PAIRS, "woodelf")),
        Goal("seconds of xgboost, 1,000 background rows", "< 0.1", in_all(XGBOOST)),
        Goal("seconds of LightGBM, 1,000 background rows", "< 1.5", in_all(LIGHTGBM)),
        Goal(
            "MB of LightGBM, 1,000 background rows",
            "< 200",
            one(rows, model=LIGHTGBM, what=BY_ROWS).get("peak_mb"),
        ),
        Goal(
            "times the µs a leaf of xgboost, depth 6, that other kinds take at most",
            "<= 5",
            max(per_leaf) / (usual["us"] / usual["leaves"]) if per_leaf and usual else None,
        ),
    ]


def _is_new(row: Row) -> bool:
    """Return whether xgboost 3.4 or later was measured, which explains several times faster."""
    version = str(row.get("library", "xgboost 0.0")).split()[1]
    return tuple(map(int, version.split(".")[:2])) >= (3, 4)


def _after(report: Report) -> str:
    told = dict.fromkeys(row["library"] for row in report["rows"] if "library" in row)
    return (
        "Processor time of one thread for a row of a batch, preparation included, by cover in "
        "float32. Differences are of the largest value: of our float64 from xgboost's sums in "
        "float32 and LightGBM's in float64, and of our float32 from our float64. "
        f"{', '.join(told or _installed(report))}. {measured_by(report)}"
    )


def _installed(report: Report) -> list[str]:
    versions = report["versions"]
    names = {"xgboost": ("xgboost", "xgboost-cpu"), "LightGBM": ("lightgbm",)}
    found = {
        name: [versions[key] for key in keys if key in versions] for name, keys in names.items()
    }
    return [f"{name} {known[0]}" for name, known in found.items() if known]


_COLUMNS: Final = (
    Column("model", "model"),
    Column("explanation", "what"),
    Column("µs a row", "us", ".1f"),
    Column("in float64", "float64_us", ".1f"),
    Column("of its library", "library_us", ",.0f"),
    Column("times faster", "times_faster", ".0f"),
    Column("of woodelf", lambda row: row.get("woodelf_us", row.get("woodelf_reason")), ",.0f"),
    Column("preparation, ms", "prepare_ms", ".0f"),
    Column("one row alone, ms", "one_row_ms", ".2f"),
    Column("of its library", "library_one_row_ms", ".2f"),
    Column("peak, MB", "peak_mb", ".0f"),
    Column("difference", "difference", ".0e"),
    Column("of float32", "float32_difference", ".0e"),
)
BENCHMARK: Final = Benchmark(
    "explain",
    cases,
    measured,
    goals,
    {"table": Table(_COLUMNS, list, after=_after)},
    figures=lambda rows: [six_digits(row) for row in rows],
    requirements=Path(__file__).parent / "requirements",
)

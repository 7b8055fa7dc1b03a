"""Exactness of conversions: a row a model, over all options that `converters` name.

    python -m benchmarks.exactness --models FOLDER --data FOLDER [--json] [--quick] [--save]

`--data` holds real data (adult, california, covtype, letter, ...), `--models` models that others
serialized, with the outputs that they stored. A figure is of all models of a format.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.exactness.cases import OPTIONS, Case
from benchmarks.exactness.measure import measure_model, of_mutants
from benchmarks.exactness.mutant_models import LIBRARIES
from benchmarks.exactness.verdicts import VERDICTS, WRONG
from benchmarks.frames import Data
from benchmarks.report import Column, Goal, Report, Row, Table, groups, measured_by
from benchmarks.runner import DATA, MODELS, Benchmark

MAKERS: Final = (
    "of_sklearn",
    "of_pipelines",
    "of_compositions",
    "of_xgboost",
    "of_lightgbm",
    "of_catboost",
    "of_catboost_ctr",
    "of_treelite",
    "of_onnx",
    "of_ydf",
    "of_native",
    "of_others",
)
"""Modules of this package; each has `cases(data, models)`."""
QUICK: Final = 48
"""Models of which a quick run takes one, and mutants that it takes of all libraries together."""
ORDINARY_ULPS: Final = 8
"""Ulps that certificates allow where a source computes exponentials by the usual means."""


class Work(NamedTuple):
    """A part of the run, by its name."""

    name: str

    def __str__(self) -> str:
        """Return the name."""
        return self.name


def cases(options: Namespace) -> list[Work]:
    """Return the models of all libraries, the mutants of each, and what must be refused."""
    return [Work(name) for name in _measures(options.data, options.models, options.quick)]


def measured(work: Work, options: Namespace) -> Iterator[Row]:
    """Yield the row of a part."""
    yield _measures(options.data, options.models, options.quick)[work.name]()


def models_of(data: Data, models: Path) -> list[Case]:
    """Return the models of all libraries."""
    modules = [import_module(f"benchmarks.exactness.{name}") for name in MAKERS]
    return [case for module in modules for case in module.cases(data, models)]


@cache
def _measures(folder: Path, models: Path, quick: bool) -> dict[str, Callable[[], Row]]:
    """Return what measures each part, by its name."""
    step = QUICK if quick else 1
    found: dict[str, Callable[[], Row]] = {
        f"{case.format}: {case.name}": partial(_of_case, case)
        for case in models_of(Data(folder), models)[::step]
    }
    for library in LIBRARIES:
        n = QUICK // len(LIBRARIES) if quick else None
        found[f"{library}: mutants"] = partial(of_mutants, library, n)
    return found | {"LightGBM: texts before v2": partial(_refused, models)}


def _of_case(case: Case) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        return measure_model(case, Path(folder))


def _refused(models: Path) -> Row:
    from benchmarks.exactness.of_others import refusals

    found = refusals(models)
    refused = sum(message != "" for _, message in found)
    return {"format": "LightGBM", "texts": len(found), "refused": refused}


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each format, of all its models, and those of mutants and refusals."""
    models = [row for row in rows if "options" in row and "models" not in row]
    return [_of_format(own) for own in groups(models, "format").values()] + [
        row for row in rows if "options" not in row or "models" in row
    ]


def _of_format(rows: Sequence[Row]) -> Row:
    stored = [row["stored_difference"] for row in rows if row["stored_difference"] is not None]
    used = Counter(option for row in rows for option in row["options"])
    # A library that approximates exponentials says so in its certificates, which allow more.
    ordinary = [row["score_ulp"] for row in rows if row["score_ulp_allowed"] <= ORDINARY_ULPS]
    return {
        "format": rows[0]["format"],
        "models": len(rows),
        "options": {option: used[option] for option in OPTIONS[rows[0]["format"]]},
        "coverage": min(row["coverage"] for row in rows),
        "raw_ulp": max(row["raw_ulp"] for row in rows),
        "exact_raw_ulp": max((row["raw_ulp"] for row in rows if row["exact"]), default=None),
        "score_ulp": max(row["score_ulp"] for row in rows),
        "ordinary_score_ulp": max(ordinary, default=None),
        **{key: sum(row[key] for row in rows) for key in _SUMS},
        "failed": sum(not row["passed"] for row in rows),
        "stored_difference": max(stored, default=None),
        "written_back": sum(row["write_back_ulp"] is not None for row in rows),
        "written_back_equal": sum(row["write_back"] == "passed" for row in rows),
        "frames_compared": len({kind for row in rows for kind in row["frames_compared"]}),
    }


_SUMS: Final = ("rows_probed", "leaves_differ", "labels_differ", "frames_differ", "seconds")


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked for; a part of the cases cannot show how many there are."""
    models, changed = _models(rows), [row for row in rows if "mutants" in row]
    rare = [
        f"{name}: {option}"
        for name, options in OPTIONS.items()
        for option in options
        if sum(row["options"].get(option, 0) for row in models if row["format"] == name) < 2
    ]

    def over(of: Callable[..., float], key: str) -> float | None:
        told = [row[key] for row in models if row[key] is not None]
        return of(told) if told else None

    unequal = sum(row["written_back"] - row["written_back_equal"] for row in models)
    wrong = sum(row["verdicts"][WRONG] for row in changed)
    refused = next((row for row in rows if "refused" in row), {"texts": 2, "refused": None})
    exact = "largest raw difference, ulp, where sums are deterministic"
    scores = "largest difference of probabilities and predictions, ulp"
    stored = "largest difference from stored outputs"
    return [
        Goal("least coverage", "1", over(min, "coverage"), True),
        Goal("leaves that differ", "0", over(sum, "leaves_differ"), True),
        Goal("labels that differ", "0", over(sum, "labels_differ"), True),
        Goal("certificates that failed", "0", over(sum, "failed"), True),
        Goal(exact, "0", over(max, "exact_raw_ulp"), True),
        Goal(scores, "<= 1", over(max, "ordinary_score_ulp"), True),
        Goal("rows of data frames that differ", "0", over(sum, "frames_differ"), True),
        Goal("mutants that passed wrongly", "0", wrong, True),
        Goal("models written back that predict otherwise", "0", unequal, True),
        Goal(stored, "< 1e-9", over(max, "stored_difference"), True),
        Goal("mutants", ">= 5000", sum(row["mutants"] for row in changed)),
        Goal("models", ">= 120", over(sum, "models")),
        Goal("options in fewer than 2 models", "none", ", ".join(rare) or "none"),
        Goal(
            "LightGBM texts before v2 that are refused",
            str(refused["texts"]),
            refused["refused"],
            True,
        ),
    ]


def _models(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if "models" in row]


def _written_back(row: Row) -> str:
    return f"{row['written_back_equal']} of {row['written_back']}" if row["written_back"] else "-"


def _after(report: Report) -> str:
    n_models = sum(row["models"] for row in _models(report["rows"]))
    return f"{n_models} models. {measured_by(report)}"


_COLUMNS: Final = (
    Column("source", "format"),
    Column("models", "models", ","),
    Column("rows probed", "rows_probed", ","),
    Column("least coverage", "coverage", "g"),
    Column("leaves that differ", "leaves_differ", ","),
    Column("raw scores, ulp", "raw_ulp", ","),
    Column("probabilities, ulp", "score_ulp", ","),
    Column("written back and equal", _written_back),
)
_FRAMES: Final = (
    Column("source", "format"),
    Column("kinds of frames compared", "frames_compared", ","),
    Column("rows that differ", "frames_differ", ","),
)
_MUTANTS: Final = (
    Column("source", "format"),
    Column("mutants", "mutants", ","),
    *(Column(name, lambda row, name=name: row["verdicts"][name], ",") for name in VERDICTS),
)
BENCHMARK: Final = Benchmark(
    "exactness",
    cases,
    measured,
    goals,
    {
        "table": Table(_COLUMNS, _models, after=_after),
        "frames": Table(_FRAMES, lambda rows: [r for r in rows if r.get("frames_compared")]),
        "mutants": Table(_MUTANTS, lambda rows: [row for row in rows if "mutants" in row]),
    },
    figures,
    options={**DATA, **MODELS},
    needs=("data", "models"),
    kept=True,
)

"""Run the cases, and judge every figure that is asked for."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import benchmarks.exactness as package
from benchmarks.exactness.cases import Case
from benchmarks.exactness.measure import measure, of_mutants
from benchmarks.exactness.mutant_models import LIBRARIES
from benchmarks.exactness.of_others import BEFORE_V2, refusals
from benchmarks.exactness.summary import figures, frames, mutants, table, targets
from benchmarks.frames import Data
from benchmarks.old_report import Row, Target, judged
from benchmarks.old_runner import DATA, MODELS, ONLY, UsageError, run, say

MAKERS = (
    "of_sklearn",
    "of_xgboost",
    "of_lightgbm",
    "of_catboost",
    "of_treelite",
    "of_onnx",
    "of_ydf",
    "of_native",
    "of_others",
)
"""Modules of this package; each has `cases(data, models)`."""
QUICK_MUTANTS = 19
"""Mutants of each library in a quick run."""


def cases(data: Path, models: Path) -> Iterator[Case]:
    """Yield the cases of all libraries."""
    tables = Data(data)
    for name in MAKERS:
        yield from import_module(f"benchmarks.exactness.{name}").cases(tables, models)


def measured(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return a row for each model, and one for the mutants of each library."""
    if options.data is None or options.models is None:
        raise UsageError("--data and --models must name the folders of data and of models")
    chosen = [
        case
        for case in cases(options.data, options.models)
        if options.only.lower() in case.format.lower()
    ]
    if options.quick:
        chosen = chosen[::8]
    rows = []
    for number, case in enumerate(chosen, 1):
        say(f"{number}/{len(chosen)} {case.format}: {case.name}")
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(case, Path(folder)))
    for library in LIBRARIES:
        if options.only.lower() in library.lower():
            say(f"mutants of {library}")
            rows.append(of_mutants(library, QUICK_MUTANTS if options.quick else None))
    refused = sum(message != "" for _, message in refusals(options.models))
    wanted = len(BEFORE_V2)
    name = "LightGBM texts before v2 that are refused"
    asked = judged(name, str(wanted), refused, lambda found: found == wanted)
    return rows, [*targets(rows, whole=options.whole), asked]


if __name__ == "__main__":
    run(
        "exactness",
        package.__doc__,
        measured,
        tables=lambda _: (table, frames, mutants),
        options={**DATA, **MODELS, **ONLY},
        figures=figures,
    )

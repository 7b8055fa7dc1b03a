"""Export every model in every form, and judge every figure that is asked for."""

from __future__ import annotations

import tempfile
import warnings
from argparse import Namespace
from pathlib import Path

import benchmarks.export as package
from benchmarks.export import big, emulators, forms
from benchmarks.export.baselines import REQUIREMENTS
from benchmarks.export.measure import FULL, QUICK, measured, say
from benchmarks.export.models import MODELS
from benchmarks.export.models import QUICK as QUICK_MODELS
from benchmarks.export.summary import targets
from benchmarks.export.tables import TABLES
from benchmarks.old_report import Row, Target
from benchmarks.old_runner import ONLY, UsageError, run


def everything(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return a row for each form, model and runtime, the large forest and the emulators."""
    chosen = [
        model
        for model in MODELS
        if options.only.lower() in model.name.lower()
        and (not options.quick or model.name in QUICK_MODELS)
    ]
    if not chosen:
        raise UsageError(f"--only must be part of the name of a model, got {options.only!r}")
    # Exporters warn of their own old calls.
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        forms.warm_up(Path(folder))
    size = QUICK if options.quick else FULL
    places = None if options.quick else options.baselines_dir
    rows = [row for model in chosen for row in measured(model, size, environments=places)]
    if not options.only:
        say("big")
        rows += big.measured(0.01 if options.quick else 1.0)
    if options.whole:
        say("emulators")
        rows += emulators.measured()
    return rows, targets(rows, whole=options.whole)


if __name__ == "__main__":
    run(
        "export",
        package.__doc__,
        everything,
        tables=lambda _: TABLES,
        options=ONLY,
        requirements=REQUIREMENTS,
    )

"""Retrain what was chosen, and judge every figure that is asked for."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

import benchmarks.retrain as package
from benchmarks.old_report import Row, Target
from benchmarks.old_runner import DATA, ONLY, Options, UsageError, count, run
from benchmarks.retrain import work
from benchmarks.retrain.baselines import REQUIREMENTS
from benchmarks.retrain.rows import figures, with_means
from benchmarks.retrain.summary import selection, targets
from benchmarks.retrain.tables import TABLES

QUICK = ("segment, depth 8", "banknote, depth 4", "california, RandomForest")
LEAST_SEEDS = 3
OPTIONS: Final[Options] = {
    **DATA,
    **ONLY,
    "--seeds": {"type": count, "default": LEAST_SEEDS, "help": "of splits and of training"},
}


def measured(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return a row for each case and seed, and one of means for each case."""
    if options.data is None:
        raise UsageError("--data must name the folder of real data")
    works = work.everything(
        options.data,
        1 if options.quick else options.seeds,
        environments=options.baselines_dir,
        quick=options.quick,
    )
    works = [one for one in works if options.only.lower() in one.case.lower()]
    if options.quick:
        works = [one for one in works if one.case in QUICK]
    if not works:
        raise UsageError(f"--only must be part of the name of a case, got {options.only!r}")
    rows = with_means(work.run(works, options.data))
    rows.append(selection(rows))
    return rows, targets(rows, whole=options.whole and options.seeds >= LEAST_SEEDS)


if __name__ == "__main__":
    run(
        "retrain",
        package.__doc__,
        measured,
        tables=lambda _: TABLES,
        figures=figures,
        options=OPTIONS,
        requirements=REQUIREMENTS,
    )

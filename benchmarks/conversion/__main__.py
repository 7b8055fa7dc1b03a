"""Make the models, convert them, and judge every figure that is asked for."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

import benchmarks.conversion as package
from benchmarks.conversion.cases import cases
from benchmarks.conversion.chains import CHAINS, measure_chain
from benchmarks.conversion.measure import measure
from benchmarks.conversion.models import GROWN, LEAVES
from benchmarks.conversion.summary import DEPTH, table, targets
from benchmarks.old_report import Row, Target
from benchmarks.old_runner import ONLY, run, say

TREES = 100


def measured(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return a row for each format, and for a chain of each."""
    times, leaves, depth = TREES // GROWN, LEAVES, DEPTH
    if options.quick:
        times, leaves, depth = 2, LEAVES // 8, DEPTH // 50
    rows = []
    for case in cases(times, leaves):
        if options.only.lower() in case.format.lower():
            say(f"{case.format}, {case.what}")
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(case, Path(folder)))
    for name in CHAINS:
        if options.only.lower() in name.lower():
            say(f"{name}, chain")
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure_chain(name, depth, Path(folder)))
    return rows, targets(rows, whole=options.whole)


if __name__ == "__main__":
    run("conversion", package.__doc__, measured, tables=lambda _: [table], options=ONLY)

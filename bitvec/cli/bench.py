"""`bitvec bench`: time a model's predictions on this machine, beside what else runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bitvec.cli.given_files import open_forest, read_matrix
from bitvec.cli.shared_options import as_command, data_option, forest_argument, header_option
from bitvec.errors import InputError

if TYPE_CHECKING:
    from bitvec.cli.bench_run import Times

MOST_ROWS = 1 << 20


@as_command("bench", "Time a model here, beside its library and onnxruntime.")
@forest_argument
@data_option(help="Rows to predict; drawn around the forest's thresholds if not given.")
@header_option
@click.option(
    "--batch",
    "batches",
    type=click.IntRange(1, MOST_ROWS),
    multiple=True,
    default=(1, 100, 10_000),
    show_default=True,
    metavar="N",
    help="Rows of a call; may be given several times.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.01, 3600),
    default=1.0,
    show_default=True,
    metavar="S",
    help="For each engine and number of rows.",
)
def command(
    path: Path,
    data: Path | None,
    header: bool | None,
    batches: tuple[int, ...],
    seconds: float,
    as_json: bool,
) -> None:
    """Time predictions of a model on this machine, beside its library, onnxruntime and torch.

    What is timed are probabilities of classifiers and predictions of others, raw scores where the
    library gives no such, on one core, from arrays; a library and onnxruntime run in processes of
    their own and are timed there. The engines take turns, each call gets other rows, and medians
    are told. The difference is the largest of all answers from bitvec's.

    \b
    Examples:
        bitvec bench model.ubj
        bitvec bench model.txt --data test.csv --batch 1 --batch 1000 --json
    """
    forest = open_forest(path)
    from bitvec.core.forest import require_forest

    require_forest(forest)
    import numpy as np

    from bitvec.cli import bench_run
    from bitvec.cli.answer import print_json
    from bitvec.converters.dispatch import is_forest_file
    from bitvec.verify.progress_bar import progress

    if data is None:
        X = bench_run.drawn_rows(forest, max(batches))
    else:
        X, _ = read_matrix(data, forest, header)
        if not len(X):
            raise InputError(f"{data} must hold rows, got none: name a file of rows.")
        X = X[np.arange(max(len(X), *batches)) % len(X)]
    with bench_run.one_core() as pinned, progress("timing", quiet=as_json) as advance:
        verb, found = bench_run.measure(
            forest, path, X, batches, seconds, is_model=not is_forest_file(path), advance=advance
        )
    if as_json:
        engines = [
            {
                "engine": one.name,
                "seconds": dict(zip(map(str, batches), one.seconds, strict=False)),
                "largest_difference": None if one.why else one.difference,
                "why_not": one.why or None,
            }
            for one in found
        ]
        timed = bench_run.TIMED[verb]
        facts = {"file": str(path), "timed": timed, "one_core": pinned, "rows": len(X)}
        print_json({**facts, "engines": engines})
        return
    _show(found, batches, bench_run.TIMED[verb])
    if not pinned:
        click.echo("This system keeps no process on one core: engines may have used several.")


def _show(found: list[Times], batches: tuple[int, ...], timed: str) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(timed, *(f"{n:,} row{'s' * (n > 1)}" for n in batches), "difference")
    for column in table.columns[1:]:
        column.justify = "right"
    ran = [one for one in found if not one.why]
    for one in ran:
        times = [_time(value) for value in one.seconds]
        table.add_row(Text(one.name), *times, "" if one is found[0] else f"{one.difference:.2g}")
    others = [one.seconds for one in ran[1:] if not one.name.startswith("bitvec")]
    if others:
        ratios = np.min(others, axis=0) / found[0].seconds
        best = [f"{ratio:.3g} x" for ratio in ratios]
        table.add_row("best other / bitvec", *best, "", style="bold")
    Console().print(table)
    for one in found:
        if one.why:
            click.echo(f"{one.name}: not timed. {one.why}")


def _time(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"

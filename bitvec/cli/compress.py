"""`bitvec compress`: find the best model within a budget of bytes, leaves or microseconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli.given_files import open_forest, read_weighted, readable, writable
from bitvec.cli.shared_options import (
    PATH,
    as_command,
    certify_option,
    forest_argument,
    header_option,
    monotone_option,
    out_option,
    rows_argument,
    seed_option,
)
from bitvec.cli.training import share, target_option

if TYPE_CHECKING:
    from bitvec.compression.compress_result import CompressResult
    from bitvec.compression.front import Point

SUFFIXES = (".safetensors", ".h", ".onnx")


@as_command("compress", "Find the best model within a budget of bytes.")
@forest_argument
@rows_argument
@target_option
@click.option(
    "--budget",
    required=True,
    metavar="SIZE",
    help='Bytes of tables in C, as "16 KB" or 16384; or "500 leaves", or "20 us" for a row.',
)
@out_option(
    required=True,
    help="The file of the new model: .safetensors, a C header (.h) or .onnx; replaced if it "
    "exists.",
)
@click.option(
    "--sample-weight",
    metavar="COLUMN",
    help="The column of DATA, and of --validation, that holds the weights of rows.",
)
@click.option(
    "--validation",
    default="0.2",
    show_default=True,
    metavar="SHARE|FILE",
    help="The share of rows to choose by, or a file of rows that the model has not seen.",
)
@monotone_option
@click.option(
    "--time",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Try nothing more after about so long.",
)
@click.option(
    "--refit/--no-refit",
    default=True,
    show_default=True,
    help="Fit the chosen recipe once more to all rows.",
)
@click.option(
    "--checkpoint",
    type=PATH,
    metavar="FOLDER",
    help="Keep finished candidates here, and go on from them after a kill.",
)
@click.option(
    "--name", default="model", show_default=True, help="Of a C header: what all names begin with."
)
@certify_option(
    help="Compile the C header of the model, compare it with the forest before anything is "
    "written, and write OUT.certificate.json.",
)
@seed_option(help="Of the rows held out, and of what is fitted.")
@header_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    path: Path,
    data: Path,
    target: str,
    out: Path,
    sample_weight: str | None,
    validation: str,
    name: str,
    proves: bool,
    header: bool | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Fit small models of many kinds to the rows of DATA and keep the best within the budget.

    Candidates are boosters, forests and single trees of this size, and MODEL itself with fewer
    trees, branches and bits; each is rounded first and judged by rows held out afterwards. Needs
    scikit-learn. Exit status 1: the certificate failed, and nothing was written.

    \b
    Examples:
        bitvec compress model.ubj rows.parquet --target y --budget "16 KB" -o model.h
        bitvec compress forest.skops rows.csv --target y --budget 4096 -o small.safetensors
    """
    from bitvec.runtime.export.c.unsupported import require_options

    held_share = share(validation)
    held_out = None if held_share is not None else readable(Path(validation))
    inputs = tuple(one for one in (path, data, held_out) if one is not None)
    writable(out, SUFFIXES, replace=True, inputs=inputs)
    require_options("tables", name, "exact", "values")
    forest = open_forest(path)

    def rows(file: Path) -> tuple[Any, ...]:
        return read_weighted(file, forest, header, target, sample_weight)

    X, y, weight = rows(data)
    by: Any = held_share if held_out is None else rows(held_out)
    import bitvec
    from bitvec.verify.progress_bar import progress

    with progress("compressing", quiet=as_json, lines=False) as advance:
        result = bitvec.compress(
            forest, X, y, sample_weight=weight, validation=by, progress=advance, **given
        )
    if proves:
        from bitvec.cli import certificates

        certificate = result.chosen.certificate()
        if not certificate.passed:
            certificates.show(certificate, as_json=as_json)
            ctx.exit(1)
    _write(result.chosen, out, name)
    if proves:
        certificate.save(certificates.beside(out))
    _report(result, out, as_json)


def _write(chosen: Point, out: Path, name: str) -> None:
    import bitvec

    if out.suffix.lower() == ".h":
        chosen.header(name).save(out)
    elif out.suffix.lower() == ".onnx":
        bitvec.export(chosen.forest, out)
    else:
        bitvec.save(chosen.forest, out)


def _report(result: CompressResult, out: Path, as_json: bool) -> None:
    from bitvec.cli.answer import print_json

    if as_json:
        print_json({"file": str(out), **result.record()})
        return
    click.echo(repr(result.front))
    given, chosen = result.given, result.chosen
    click.echo(
        f"given model: {given.bytes:,} bytes, {result.metric} {given.score:.4g}; chosen: "
        f"{chosen.bytes:,} bytes, {result.metric} {chosen.score:.4g}, {chosen.recipe}"
    )
    for note in result.notes:
        click.echo(note, err=True)
    click.echo(f"the compressed model is in {out}")

"""`bitvec predict`: run a forest on files of rows."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli import standard_input
from bitvec.cli.given_files import readable, writable
from bitvec.cli.shared_options import (
    as_command,
    device_option,
    engine_option,
    forest_argument,
    header_option,
    out_option,
)

if TYPE_CHECKING:
    from bitvec.services.batch_predictor import BatchPredictor

OUTPUTS = ("label", "proba", "raw", "score", "leaves", "shap")
FORMATS = ("csv", "tsv", "parquet", "arrow", "ndjson", "npy")


@as_command("predict", "Run a forest on files of rows.")
@forest_argument
@click.argument("data", metavar="DATA...", nargs=-1, required=True, type=click.Path())
@out_option(
    help="Write to the file OUT instead of stdout (-), replaced if it exists; or to the folder "
    "OUT, one file for each of DATA."
)
@click.option(
    "--outputs",
    default="label",
    show_default=True,
    metavar="LIST",
    help="What to predict, as label,proba: label (of a regressor: values), proba (class "
    "probabilities), raw (raw scores), score (raw scores after the link), leaves (the source "
    "library's leaf ids of each tree) and shap (Shapley values of raw scores).",
)
@click.option(
    "--keep", multiple=True, metavar="COLUMN", help="Columns that the answers begin with."
)
@click.option(
    "--drop", multiple=True, metavar="COLUMN", help="Columns that are not read, such as labels."
)
@click.option(
    "--format",
    "written",
    type=click.Choice(FORMATS),
    help="Of what is written: by default as OUT ends, in a folder as each of DATA, on stdout csv; "
    "arrow on stdout is an Arrow stream.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that predict files into a folder.",
)
@click.option("--resume", is_flag=True, help="Go on with a run into a folder that was stopped.")
@click.option("--force", is_flag=True, help="Replace what a folder holds.")
@engine_option
@click.option(
    "--kernel",
    metavar="NAME",
    help="Of the engine numba, or the form of the engine torch; by default chosen by the forest.",
)
@click.option(
    "--n-jobs",
    type=int,
    metavar="N",
    help="Threads of the numba engine; all cores by default, one with several processes.",
)
@device_option(help='Where torch or triton runs, for example "cuda".')
@header_option
def command(
    path: Path,
    data: tuple[str, ...],
    out: Path | None,
    outputs: str,
    keep: tuple[str, ...],
    drop: tuple[str, ...],
    written: str | None,
    processes: int,
    resume: bool,
    force: bool,
    as_json: bool,
    header: bool | None,
    **options: Any,
) -> None:
    """Predict each row of DATA, and print the answers as CSV or write them to a file or a folder.

    DATA is a file of rows: .csv, .tsv, .parquet, .arrow, .feather, .ipc, .arrows, .ndjson, .jsonl
    or .npy; or "-" for standard input, CSV or an Arrow stream. Columns with names are found by
    name, if the forest knows its features by name; otherwise they stand in the training order. In
    text an empty cell, NA or nan is missing, unless it is a category of its column.

    Several files, a folder of them or a quoted pattern are predicted into a folder: Parquet, Arrow
    and NDJSON in bounded memory, each part written aside and renamed when it is whole. A run that
    was killed goes on with --resume.

    \b
    Examples:
        bitvec predict model.safetensors rows.csv
        bitvec predict model.ubj rows.parquet --outputs label,proba --keep id -o answers.parquet
        bitvec predict model.ubj data/*.parquet -o answers/ --processes 2
        cat rows.csv | bitvec predict model.ubj - > answers.csv
    """
    from bitvec.services import input_files, process_copies

    if out == Path("-"):
        out = None
    into_folder = out is not None and (out.is_dir() or len(data) > 1 or not out.suffix)
    if not into_folder and (resume or force or processes > 1):
        raise click.UsageError(
            "--resume, --force and --processes need a folder of answers, -o OUT/."
        )
    if not into_folder and len(data) > 1:
        raise click.UsageError("several files are predicted into a folder: name it by -o OUT/.")
    suffix = None if written is None else f".{written}"
    readable(path, directory=True)
    if out is not None and not into_folder:
        given = tuple(Path(name) for name in data if name != "-")
        writable(out, input_files.SUFFIXES, replace=True, inputs=(path, *given))
    files = input_files.find(data, out) if into_folder else []
    known: Any = dict
    if processes > 1:
        process_copies.stay_single()
        sources = [str(source.absolute()) for source, _ in files]
        known = process_copies.ahead(input_files.state_and_digest, sources)
        if options["n_jobs"] is None:
            options["n_jobs"] = 1
    from bitvec.services import answer_files, part_files, row_files
    from bitvec.services.batch_predictor import BatchPredictor
    from bitvec.verify.progress_bar import progress

    chosen = tuple(name.strip() for name in outputs.split(","))
    predict = BatchPredictor(path, outputs=chosen, keep=keep, drop=drop, **options)
    if into_folder:
        assert out is not None
        with progress("predicting", quiet=as_json, at_once=processes == 1) as advance:
            n_rows = part_files.predict_parts(
                predict,
                files,
                out,
                suffix=suffix,
                header=header,
                n_processes=processes,
                resume=resume,
                force=force,
                known=known,
                advance=advance,
            )
        _tell(predict, n_rows, out, as_json=as_json)
        return
    with ExitStack() as stack:
        read = partial(row_files.batches, inputs=predict.model.inputs, header=header, keep=keep)
        if data[0] == "-":
            batches = stack.enter_context(standard_input.batches(read))
        else:
            batches = read(readable(Path(data[0])))
        answers = map(predict, batches)
        if out is not None:
            n_rows = answer_files.save(out, answers, suffix=suffix)
            _tell(predict, n_rows, out, as_json=as_json)
        elif as_json:
            _print_columns(predict, answer_files.columns(answers))
        else:
            streamed = ".arrows" if suffix == ".arrow" else suffix or ".csv"
            answer_files.write(sys.stdout.buffer, streamed, answers)


def _tell(predict: BatchPredictor, n_rows: int, out: Path, *, as_json: bool) -> None:
    if not as_json:
        click.echo(f"{n_rows:,} rows of {', '.join(predict.outputs)} -> {out}")
        return
    from bitvec.cli.answer import print_json

    print_json({**_facts(predict, n_rows), "file": str(out)})


def _print_columns(predict: BatchPredictor, columns: dict[str, Any]) -> None:
    from bitvec.cli.answer import print_json

    n_rows = len(next(iter(columns.values())))
    print_json({**_facts(predict, n_rows), "columns": columns})


def _facts(predict: BatchPredictor, n_rows: int) -> dict[str, Any]:
    predictor: Any = predict.predictor
    while hasattr(predictor, "members"):  # of a composition, which all run alike
        predictor = predictor.members[0]
    return {"rows": n_rows, "outputs": predict.outputs, "engine": predictor.engine.name}

"""`bitvec predict`: run a forest on a file of rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli.given_files import open_forest, read_rows, writable
from bitvec.cli.shared_options import (
    as_command,
    device_option,
    forest_argument,
    header_option,
    out_option,
    rows_argument,
)
from bitvec.errors import InputError

if TYPE_CHECKING:
    from bitvec.core.arrays import Array
    from bitvec.core.output import Output
    from bitvec.runtime.predict.predictor import Predictor

ENGINES = ("auto", "numba", "torch", "reference")


@as_command("predict", "Run a forest on a file of rows.")
@forest_argument
@rows_argument
@out_option(
    help="Write to OUT (.csv, .tsv, .npy or .parquet) instead of stdout; replaced if it exists."
)
@click.option(
    "--output",
    "kind",
    type=click.Choice(["labels", "probabilities", "raw", "leaves", "transformed"]),
    default="labels",
    show_default=True,
    help="What to predict: labels (for a regressor: values), class probabilities, raw scores, the "
    "source library's leaf ids of each tree, or raw scores after the post-transform.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="What computes the answer; all engines give the same.",
)
@click.option(
    "--kernel",
    metavar="NAME",
    help="Of the engine numba, or the form of the engine torch; by default chosen by the forest.",
)
@click.option(
    "--n-jobs", type=int, metavar="N", help="Threads of the numba engine; all cores by default."
)
@device_option(help='Where torch runs, for example "cuda".')
@header_option
def command(
    path: Path,
    data: Path,
    out: Path | None,
    kind: str,
    engine: str,
    kernel: str | None,
    n_jobs: int | None,
    device: str | None,
    header: bool | None,
    as_json: bool,
) -> None:
    """Predict each row of DATA and print the answers as CSV, or write them to a file.

    DATA is a .csv, .tsv, .parquet or .npy file. Columns with names are found by name, if the
    forest knows its features by name; otherwise they stand in the training order. In text an empty
    cell, NA or nan is missing, unless it is a category of its column.

    \b
    Examples:
        bitvec predict model.safetensors rows.csv
        bitvec predict model.ubj rows.parquet --output probabilities -o answers.csv
    """
    from bitvec.runtime.predict.datafiles import SUFFIXES, write, write_text
    from bitvec.runtime.predict.predictor import compile

    if out is not None:
        writable(out, SUFFIXES, replace=True, inputs=(path, data))
    forest = open_forest(path)
    rows = read_rows(data, forest, header)
    predictor = compile(forest, engine=engine, kernel=kernel, n_jobs=n_jobs, device=device)
    answers = KINDS[kind](predictor, rows)
    n_rows = len(next(iter(answers.values())))
    if out is not None:
        write(out, answers)
    if as_json:
        from bitvec.cli.answer import print_json

        facts = {"rows": n_rows, "output": kind, "engine": predictor.engine.name}
        print_json({**facts, **({"columns": answers} if out is None else {"file": str(out)})})
    elif out is None:
        write_text(sys.stdout.buffer, answers)
    else:
        click.echo(f"{n_rows:,} rows of {kind} -> {out}")


def _labels(predictor: Predictor, rows: Any) -> dict[str, Array]:
    return _columns("prediction", predictor.predict(rows))


def _probabilities(predictor: Predictor, rows: Any) -> dict[str, Array]:
    if predictor.forest.output.classes is None:
        raise InputError(
            "--output probabilities needs a classifier, got a regressor: use --output labels, raw "
            "or transformed."
        )
    found = predictor.predict_proba(rows)
    names = _class_names(predictor.forest.output)
    matrices = found if isinstance(found, list) else [found]
    columns = [column for matrix in matrices for column in matrix.T]
    return {f"probability_{name}": column for name, column in zip(names, columns, strict=True)}


def _class_names(output: Output) -> list[str]:
    groups = output.classes or ()
    return [
        f"{group}_{label}" if len(groups) > 1 else str(label)
        for group, labels in enumerate(groups)
        for label in labels.tolist()
    ]


def _raw(predictor: Predictor, rows: Any) -> dict[str, Array]:
    return _columns("raw", predictor.raw(rows))


def _leaves(predictor: Predictor, rows: Any) -> dict[str, Array]:
    exits = predictor.apply(rows)
    return {f"tree_{tree}": column for tree, column in enumerate(exits.T)}


def _transformed(predictor: Predictor, rows: Any) -> dict[str, Array]:
    return _columns("score", predictor.scores(rows))


KINDS: dict[str, Callable[[Predictor, Any], dict[str, Array]]] = {
    "labels": _labels,
    "probabilities": _probabilities,
    "raw": _raw,
    "leaves": _leaves,
    "transformed": _transformed,
}


def _columns(name: str, values: Array) -> dict[str, Array]:
    if values.ndim == 1:
        return {name: values}
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}_{at}": column for at, column in enumerate(values.T)}

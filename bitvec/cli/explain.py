"""`bitvec explain`: what each column adds to the raw scores of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bitvec.cli.given_files import open_forest, read_rows, writable
from bitvec.cli.shared_options import (
    PATH,
    as_command,
    forest_argument,
    header_option,
    out_option,
    rows_argument,
)

if TYPE_CHECKING:
    from bitvec.explanations.explainer import Dtype
    from bitvec.explanations.unsupported import Response


@as_command("explain", "Say what each column adds to a prediction.")
@forest_argument
@rows_argument
@out_option(required=True, help="The file of values, in any format of `bitvec predict`; replaced.")
@click.option(
    "--background",
    type=PATH,
    metavar="DATA",
    help="Rows whose values unknown columns take; by default tests of unknown columns average "
    "their sides by the training weight that the model holds.",
)
@click.option(
    "--response",
    type=click.Choice(["raw", "scores"]),
    default="raw",
    show_default=True,
    help="Raw scores, or scores after the link, such as probabilities, which need --background.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Of products and sums without --background: float64 takes about twice the time.",
)
@click.option(
    "--permutations",
    type=click.IntRange(2),
    metavar="N",
    help="Pairs of random orders of the columns, by which values that cannot be exact, such as "
    "those of oblique trees or probabilities of many columns, are sampled.",
)
@click.option("--n-jobs", type=int, metavar="N", default=1, show_default=True, help="Threads.")
@header_option
def command(
    path: Path,
    data: Path,
    out: Path,
    background: Path | None,
    response: Response,
    dtype: Dtype,
    permutations: int | None,
    n_jobs: int,
    header: bool | None,
    as_json: bool,
) -> None:
    """Write the Shapley values of each row of DATA: with the base value they sum to its raw score.

    There is one column for each column of DATA, called by its name, or by its number; of several
    outputs one for each of them, as in age_0, age_1. With --response scores rows sum to scores. The
    base value is printed, and the largest standard error of values that are sampled.

    \b
    Examples:
        bitvec explain model.ubj rows.csv -o values.csv
        bitvec explain model.safetensors rows.csv -o values.parquet --background train.csv
        bitvec explain model.ubj rows.csv -o values.csv --background train.csv --response scores
    """
    from bitvec.services.answer_columns import shap_columns
    from bitvec.services.answer_files import save
    from bitvec.services.input_files import SUFFIXES

    inputs = (path, data) if background is None else (path, data, background)
    writable(out, SUFFIXES, replace=True, inputs=inputs)
    forest = open_forest(path)
    X = read_rows(data, forest, header)
    given = None if background is None else read_rows(background, forest, header)
    import numpy as np

    import bitvec
    from bitvec.cli.answer import print_json
    from bitvec.verify.progress_bar import progress

    explainer = bitvec.explain(
        forest, background=given, response=response, dtype=dtype, permutations=permutations,
        n_jobs=n_jobs,
    )  # fmt: skip
    with progress("explaining", quiet=as_json, lines=False) as advance:
        values, errors = explainer.estimates(X, progress=advance)
    save(out, [shap_columns(forest, values)])
    base = np.atleast_1d(explainer.base_value).tolist()
    largest = float(errors.max(initial=0.0))
    if as_json:
        facts = {"rows": len(values), "base_value": base, "standard_error": largest}
        print_json({**facts, "file": str(out)})
        return
    sampled = "" if explainer.is_exact else f"; standard errors up to {largest:.3g}"
    click.echo(f"{len(values):,} rows -> {out}; base value {', '.join(map(str, base))}{sampled}")

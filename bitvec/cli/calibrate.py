"""`bitvec calibrate`: make a classifier's probabilities agree with rows that it has not seen."""

from __future__ import annotations

from pathlib import Path

import click

from bitvec.cli.given_files import open_forest, read_weighted, writable
from bitvec.cli.shared_options import (
    as_command,
    forest_argument,
    header_option,
    out_option,
    rows_argument,
    seed_option,
)
from bitvec.cli.training import target_option


@as_command("calibrate", "Make a classifier's probabilities agree with rows it has not seen.")
@forest_argument
@rows_argument
@target_option
@out_option(required=True, help="The .safetensors file of the model; replaced if it exists.")
@click.option(
    "--method",
    type=click.Choice(["temperature", "isotonic"]),
    default="temperature",
    show_default=True,
    help="temperature: divide raw scores by one number, within the link; isotonic: a rising curve "
    "behind each class, which makes a composition.",
)
@click.option(
    "--fold",
    is_flag=True,
    help="Divide leaves and base score by the temperature in place of what the link reads; files "
    "of xgboost hold that.",
)
@click.option(
    "--sample-weight", metavar="COLUMN", help="The column of DATA that holds the weights of rows."
)
@seed_option(help="Of the folds in which calibrations are judged.")
@header_option
def command(
    path: Path,
    data: Path,
    target: str,
    out: Path,
    method: str,
    fold: bool,
    sample_weight: str | None,
    seed: int,
    header: bool | None,
    as_json: bool,
) -> None:
    """Calibrate a classifier by the rows of DATA, which it must not have been fitted on.

    In 5 folds the calibration made of the other rows is judged; where the log loss is not clearly
    lower, OUT holds the forest as it was. Needs torch.

    \b
    Examples:
        bitvec calibrate model.ubj new.csv --target y -o calibrated.safetensors
        bitvec calibrate forest.skops new.csv --target y --method isotonic -o both.safetensors
    """
    writable(out, (".safetensors",), replace=True, inputs=(path, data))
    forest = open_forest(path)
    X, y, weight = read_weighted(data, forest, header, target, sample_weight)
    import bitvec
    from bitvec.cli.answer import print_json

    result = bitvec.calibrate(
        forest, X, y, method=method, sample_weight=weight, fold=fold, seed=seed
    )
    bitvec.save(result.model, out)
    if as_json:
        print_json({"file": str(out), **result.record()})
        return
    click.echo(result.said)
    if result.note:
        click.echo(result.note, err=True)
    click.echo(f"the {'calibrated model' if result.calibrated else 'model as it was'} is in {out}")

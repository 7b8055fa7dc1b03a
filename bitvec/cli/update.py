"""`bitvec update`: move a model to new rows, in its own format."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli.given_files import open_forest, read_weighted, readable, writable
from bitvec.cli.shared_options import (
    PATH,
    Parts,
    as_command,
    certify_option,
    device_option,
    directions_text,
    forest_argument,
    header_option,
    monotone_option,
    out_option,
    rows_argument,
    seed_option,
    values_only_option,
)
from bitvec.cli.training import LOSSES, share, target_option, watch
from bitvec.errors import InputError

if TYPE_CHECKING:
    from bitvec.runtime.train.update import UpdateResult
    from bitvec.runtime.train.update.update_result import Trial


class Weight(click.ParamType):  # type: ignore[type-arg]
    """A number, or `auto`."""

    name = "weight"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        try:
            return value if value == "auto" else float(value)
        except ValueError:
            self.fail(f"must be a number or auto, got {value!r}.", param, ctx)


METRICS = ("auto", "log_loss", "accuracy", "balanced_accuracy", "f1", "auc", "rmse", "mae")


@as_command("update", "Move a model to new rows, in its own format.")
@forest_argument
@rows_argument
@target_option
@out_option(
    required=True,
    help="The file of the updated model, of the format of MODEL; replaced if it exists, be it "
    "MODEL itself.",
)
@click.option(
    "--replay",
    type=PATH,
    metavar="FILE",
    help="Old rows, with the same columns, that are learned again beside the new ones.",
)
@click.option(
    "--replay-weight",
    type=Weight(),
    metavar="WEIGHT|auto",
    help="What the weights of old rows are multiplied by; auto: 1 or 0, by the newest rows. By "
    "default auto with --grow, else 1.",
)
@click.option(
    "--sample-weight",
    metavar="COLUMN",
    help="The column of DATA, and of --replay and --validation, that holds the weights of rows.",
)
@click.option(
    "--class-weight",
    type=click.Choice(["balanced"]),
    help="Let every class weigh as much as any other.",
)
@click.option(
    "--validation",
    default="0.2",
    show_default=True,
    metavar="SHARE|FILE",
    help="The share of the newest rows, the last of DATA, to choose by; or a file of such rows.",
)
@click.option(
    "--trainable",
    type=Parts(),
    metavar="b,v",
    help="What may move: b the thresholds, v the leaves; by default both.",
)
@click.option(
    "--loss",
    type=click.Choice(LOSSES),
    default="auto",
    show_default=True,
    help="What is made small; auto: log loss for classes, squared error for numbers.",
)
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    default="auto",
    show_default=True,
    help="What candidates are chosen by on the rows held out; auto: the loss.",
)
@monotone_option
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of the joint training; by default one for 50 rows, from 60 to 120.",
)
@click.option(
    "--grow",
    is_flag=True,
    help="Add new trees where the loss asks for them and drop faded ones, in place of the joint "
    "training; of boosters.",
)
@click.option(
    "--grow-rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --grow, rounds of new trees at most; by default 60.",
)
@click.option(
    "--refit/--no-refit",
    default=True,
    show_default=True,
    help="Fit the chosen recipe once more to all rows.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Try nothing more after about so long.",
)
@certify_option(
    help="Compare the file with the forest in the model's own library before it gets its name, and "
    "write OUT.certificate.json.",
)
@values_only_option
@device_option(help='Where torch trains, for example "cuda".')
@seed_option(help="Of the batches.")
@header_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    path: Path,
    data: Path,
    target: str,
    out: Path,
    replay: Path | None,
    sample_weight: str | None,
    validation: str,
    proves: bool,
    allow_values_only: bool,
    header: bool | None,
    as_json: bool,
    grow: bool,
    grow_rounds: int | None,
    **given: Any,
) -> None:
    """Move thresholds and leaves to the rows of DATA, and write the model in its own format.

    The trees stay as they are but with --grow, and the leaves are held to where they were as
    strongly as new rows, held out, want it. Nothing is written over before all is done. Where
    nothing was clearly better on these rows, OUT holds the model as it was. Needs torch. Exit
    status 1: the certificate failed, and nothing was written.

    \b
    Examples:
        bitvec update model.ubj new.parquet --target y -o model.ubj
        bitvec update model.txt new.csv --target y --replay old.csv -o newer.txt --certify
        bitvec update model.txt new.csv --target y --grow -o newer.txt
    """
    from bitvec.runtime.export.write_back import back_to

    back = back_to(readable(path, directory=True))
    if proves and back.name == "bitvec":
        raise InputError(
            "--certify must come with a model of a library, got a saved forest: leave it out."
        )
    held_share = share(validation)
    held_out = None if held_share is not None else readable(Path(validation))
    others = [one for one in (data, replay, held_out) if one is not None]
    writable(out, back.suffixes, replace=True, inputs=tuple(others))
    forest = open_forest(path)
    back.require(forest)

    def rows(file: Path) -> tuple[Any, ...]:
        return read_weighted(file, forest, header, target, sample_weight)

    if given["trainable"] is None:
        del given["trainable"]
    X, y, weight = rows(data)
    old = None if replay is None else rows(replay)
    by: Any = held_share if held_out is None else rows(held_out)
    import bitvec

    with watch("updating", quiet=as_json) as told:
        result = bitvec.update(
            forest,
            X,
            y,
            replay=old,
            sample_weight=weight,
            validation=by,
            progress=told,
            grow=grow and (grow_rounds or True),
            **given,
        )
    certificate = None
    if proves:
        certificate = _certified(result, out, back, allow_values_only, quiet=as_json)
        if not certificate.passed:
            from bitvec.cli import certificates

            certificates.show(certificate, as_json=as_json)
            ctx.exit(1)
    back.write(result.forest, out)
    if certificate is not None:
        from bitvec.cli.certificates import beside

        certificate.save(beside(out))
    _report(result, out, certificate, as_json)


def _certified(
    result: UpdateResult, out: Path, back: Any, allow_values_only: bool, *, quiet: bool
) -> Any:
    """Compare the forest with its file, written aside."""
    from bitvec.cli import certificates

    with tempfile.TemporaryDirectory() as folder:
        aside = back.write(result.forest, Path(folder, out.name))
        return certificates.compare(
            result.forest,
            aside,
            exported=True,
            allow_values_only=allow_values_only,
            quiet=quiet,
        )


def _report(result: UpdateResult, out: Path, certificate: Any, as_json: bool) -> None:
    from bitvec.cli.answer import print_json

    if as_json:
        moved = result.moved
        print_json(
            {
                "file": str(out),
                "updated": result.updated,
                "metric": result.metric,
                "before": result.before,
                "after": result.after,
                "old_before": result.old_before,
                "old_after": result.old_after,
                "chosen": result.chosen.record(),
                "tried": [trial.record() for trial in result.tried],
                "refitted": result.refitted,
                "moved": {name: getattr(moved, name) for name in moved.__dataclass_fields__},
                "growth": asdict(result.growth),
                "seconds": result.seconds,
                "certificate": None if certificate is None else certificate.grade,
                "monotone": result.monotone,
                "note": result.note,
            }
        )
        return
    for trial in result.tried:
        mark = "  chosen" if _name(trial) == _name(result.chosen) else ""
        click.echo(
            f"{_name(trial)}: {result.metric} {trial.score:.6g}, {trial.seconds:.1f} s{mark}"
        )
    _compare("held-out rows", result.before, result.after)
    _compare("old rows", result.old_before, result.old_after)
    click.echo(str(result.moved))
    if result.growth.trees_added or result.growth.trees_dropped:
        click.echo(str(result.growth))
    if result.monotone is not None:
        click.echo(f"monotone, checked tree by tree: {directions_text(result.monotone)}")
    if result.note:
        click.echo(result.note, err=True)
    what = "updated model" if result.updated else "model as it was"
    click.echo(f"the {what} is in {out}")
    if certificate is not None:
        from bitvec.cli import certificates

        certificates.show(certificate, as_json=False)


def _name(trial: Trial) -> str:
    from math import isnan

    name = trial.recipe
    if not isnan(trial.pull):
        name += f", pull of {trial.pull:g} rows"
    return name if isnan(trial.replay) else f"{name}, old rows times {trial.replay:g}"


def _compare(where: str, before: Any, after: Any) -> None:
    for name, value in before.items():
        new = after.get(name)
        click.echo(
            f"{where}, {name}: {value:.6g} -> {'undefined' if new is None else f'{new:.6g}'}"
        )

"""`bitvec retrain`: train a forest end to end on new data and harden it."""

from __future__ import annotations

from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli.given_files import open_forest, read_target, readable, writable
from bitvec.cli.shared_options import (
    PATH,
    Pair,
    Parts,
    as_command,
    device_option,
    directions_text,
    forest_argument,
    header_option,
    monotone_option,
    out_option,
    rows_argument,
    seed_option,
)
from bitvec.cli.training import LOSSES, share, target_option, watch

if TYPE_CHECKING:
    from bitvec.core.forest import Forest
    from bitvec.runtime.train.retrain.result import RetrainResult

RELAXATIONS = (
    "sigmoid",
    "noisy_or",
    "smooth_step",
    "kernel",
    "straight_through",
    "softmax",
    "sparsemax",
    "entmax15",
    "index_sparsemax",
    "softmax_ternary",
    "sparsemax_ternary",
    "entmax15_ternary",
)
OPTIMIZERS = ("adamw", "adam", "nadam", "rmsprop", "sgd")


@as_command("retrain", "Train a forest end to end on new data.")
@forest_argument
@rows_argument
@target_option
@out_option(required=True, help="The .safetensors file of the new forest; replaced if it exists.")
@click.option(
    "--validation",
    default="0.15",
    show_default=True,
    metavar="SHARE|FILE",
    help="The share of rows held out to choose by, or a file of such rows.",
)
@click.option(
    "--trainable",
    type=Parts(),
    metavar="S,b,v",
    help="What may move: S the directions, b the thresholds, v the leaves, r the weights of a "
    "polytope, base_score, phi a feature map. All else comes back bit for bit. By default S,b,v of "
    "one tree and b,v of several.",
)
@click.option(
    "--loss",
    type=click.Choice(LOSSES),
    default="auto",
    show_default=True,
    help="What training makes small; auto: cross-entropy for classes, squared error for numbers.",
)
@click.option(
    "--quantile",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Of the loss quantile; by default 0.5.",
)
@click.option(
    "--relaxation",
    type=click.Choice(RELAXATIONS),
    default="sigmoid",
    show_default=True,
    help="How the tree is made soft while it trains.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Steps of a whole training; by default 1500 of one tree (4000 from 10,000 rows on) and "
    "300 of several.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    metavar="N",
    help="Rows in each step.",
)
@click.option(
    "--metric",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="What the held-out rows judge by: accuracy or log_loss of a classifier, a loss by name of "
    "a regressor.",
)
@monotone_option
@click.option(
    "--budget",
    default="normal",
    show_default=True,
    metavar="quick|normal|thorough|SECONDS|none",
    help="How many recipes are tried, and how long; none: one alone.",
)
@click.option(
    "--refit",
    is_flag=True,
    help="Fit the chosen recipe once more, to all rows, where cross-fitting agrees.",
)
@click.option(
    "--calibrate",
    type=click.Choice(["temperature"]),
    help="Divide the raw scores by one number, within the link, where that lowers the log loss on "
    "held-out rows kept apart.",
)
@click.option(
    "--optimizer",
    type=click.Choice(OPTIMIZERS),
    default="adamw",
    show_default=True,
    help="What makes the steps.",
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(min=0, min_open=True),
    default=0.03,
    show_default=True,
    metavar="RATE",
    help="Of the optimizer, after --warmup and before --rate-schedule lowers it.",
)
@click.option(
    "--rate-schedule",
    type=click.Choice(["cosine", "linear", "constant"]),
    default="cosine",
    show_default=True,
    help="How the learning rate falls to 0.",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Steps over which the learning rate rises.",
)
@click.option(
    "--gamma",
    type=Pair(),
    metavar="FIRST,LAST",
    help="Steepness at the start and the end, in standard deviations of each node's margin; by "
    "default several are tried.",
)
@click.option(
    "--gamma-schedule",
    type=click.Choice(["linear", "exponential", "cosine", "constant"]),
    default="linear",
    show_default=True,
    help="How the steepness goes from FIRST to LAST.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(min=1),
    default=15,
    show_default=True,
    metavar="N",
    help="How often the forest is hardened and judged on the held-out rows.",
)
@click.option(
    "--errors",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Paired standard errors that a gain on the held-out rows must exceed.",
)
@click.option(
    "--patience",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N evaluations in a row at which the hard forest was not clearly better.",
)
@click.option(
    "--weight-decay",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    metavar="STRENGTH",
    help="Of the optimizer.",
)
@click.option(
    "--l2",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="STRENGTH",
    help="Penalty on the squares of S.",
)
@click.option(
    "--l1",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="STRENGTH",
    help="Pull the weights of S to exactly 0, so that tests read few features.",
)
@click.option(
    "--prune-dead",
    is_flag=True,
    help="Remove branches that no row reaches and subtrees of equal leaves.",
)
@click.option(
    "--checkpoint-path",
    type=PATH,
    metavar="FILE.safetensors",
    help="Keep the state there, and go on from it if it is there already.",
)
@click.option("--plot", type=PATH, metavar="FILE", help="Draw scores, losses and steepness there.")
@device_option(help='Where torch trains, for example "cuda".')
@seed_option(help="Of the held-out rows and the batches.")
@header_option
def command(
    path: Path,
    data: Path,
    target: str,
    out: Path,
    validation: str,
    trainable: tuple[str, ...] | None,
    loss: str,
    quantile: float | None,
    relaxation: str,
    steps: int | None,
    batch_size: int,
    metric: str,
    monotone: dict[str | int, int] | None,
    budget: str,
    refit: bool,
    calibrate: str | None,
    optimizer: str,
    learning_rate: float,
    rate_schedule: str,
    warmup: int,
    gamma: tuple[float, float] | None,
    gamma_schedule: str,
    evaluations: int,
    errors: float,
    patience: int | None,
    weight_decay: float,
    l2: float,
    l1: float,
    prune_dead: bool,
    checkpoint_path: Path | None,
    plot: Path | None,
    device: str | None,
    seed: int,
    header: bool | None,
    as_json: bool,
) -> None:
    """Relax a forest, train it on DATA, harden it, and keep the best on rows held out.

    Several recipes are tried, as many as --budget allows. What comes back is a hard forest that is
    clearly better on the held-out rows than the one that went in, or that one. Needs torch.

    \b
    Examples:
        bitvec retrain tree.safetensors train.csv --target label -o better.safetensors
        bitvec retrain forest.safetensors train.csv --target price -o new.safetensors --trainable v
    """
    held_share = share(validation)
    held_out = None if held_share is not None else readable(Path(validation))
    inputs = (path, data) if held_out is None else (path, data, held_out)
    writable(out, (".safetensors",), replace=True, inputs=inputs)
    if checkpoint_path is not None:
        writable(checkpoint_path, (".safetensors",), replace=True, inputs=(*inputs, out))
    if plot is not None:
        writable(plot, (".png", ".svg", ".pdf"), replace=True, inputs=(*inputs, out))
    forest = open_forest(path)
    X, y = read_target(data, forest, header, target)
    by: Any = held_share if held_out is None else read_target(held_out, forest, header, target)
    import bitvec
    from bitvec import files
    from bitvec.files import atomic
    from bitvec.runtime.train.retrain import Penalties, Schedule

    with watch("retraining", quiet=as_json) as told:
        result = bitvec.retrain(
            forest,
            X,
            y,
            validation=by,
            trainable=trainable,
            loss=loss,
            quantile=quantile,
            relaxation=relaxation,
            metric=metric,
            monotone=monotone,
            budget=_budget(budget),
            refit=refit,
            calibrate=calibrate,
            schedule=Schedule(
                steps=steps,
                batch_size=batch_size,
                optimizer=optimizer,
                learning_rate=learning_rate,
                rate_schedule=rate_schedule,
                warmup=warmup,
                gamma=gamma,
                gamma_schedule=gamma_schedule,
                evaluations=evaluations,
                errors=errors,
                patience=patience,
            ),
            penalties=Penalties(weight_decay=weight_decay, l1=l1, l2=l2),
            prune_dead=prune_dead,
            checkpoint_path=checkpoint_path,
            device=device,
            seed=seed,
            progress=told,
        )
    files.save(result.forest, out)
    if plot is not None:
        atomic.write(plot, _plot(result, plot.suffix[1:]))
    _report(result, forest, out, as_json)


def _budget(given: str) -> str | float | None:
    """Return a budget: a name, seconds, or None."""
    if given == "none":
        return None
    try:
        return float(given)
    except ValueError:
        return given


def _plot(result: RetrainResult, kind: str) -> bytes:
    content = BytesIO()
    result.history.plot().savefig(content, format=kind)
    return content.getvalue()


def _report(result: RetrainResult, start: Forest, out: Path, as_json: bool) -> None:
    from bitvec.cli.answer import print_json
    from bitvec.runtime.train.retrain.result import table

    found = result.calibration
    if as_json:
        print_json(
            {
                "file": str(out),
                "improved": result.improved,
                "metric": result.metric,
                "before": result.start_score,
                "after": result.score,
                "trainable": result.trainable,
                "tried": [asdict(trial) for trial in result.tried],
                "chosen": None if result.chosen is None else result.chosen.recipe,
                "refitted": result.refitted,
                "leaves": [start.n_leaves, result.forest.n_leaves],
                "monotone": result.monotone,
                "calibration": None if found is None else found.record(),
                "note": result.note,
                "history": result.history.records(),
            }
        )
        return
    if len(result.tried) > 1:
        click.echo(table(result.tried, result.chosen))
    click.echo(f"validation {result.metric}: {result.start_score:.6g} -> {result.score:.6g}")
    if result.monotone is not None:
        click.echo(f"monotone, checked tree by tree: {directions_text(result.monotone)}")
    if found is not None:
        click.echo(f"calibration: {found.said}")
    if result.note:
        click.echo(result.note, err=True)
    if result.pruned is not None:
        click.echo(f"{start.n_leaves} leaves pruned to {result.forest.n_leaves}")
    if result.improved:
        click.echo(f"the retrained forest is in {out}")
    else:
        click.echo(f"nothing was clearly better, so {out} holds the forest that went in")

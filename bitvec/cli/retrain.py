"""`bitvec retrain`: train a forest end to end on new data and harden it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli.options import PATH, debug_option, header_option, json_option, seed_option
from bitvec.cli.paths import open_forest, readable, writable
from bitvec.cli.rows import read_target
from bitvec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bitvec.forest import Forest
    from bitvec.runtime.torch.retrain import RetrainResult
    from bitvec.runtime.torch.selection import Evaluation

MOVABLE = ("S", "b", "v", "r")
RELAXATIONS = (
    "sigmoid",
    "softmax",
    "softmax_ternary",
    "sparsemax",
    "sparsemax_ternary",
    "index_sparsemax",
)


class Parts(click.ParamType):  # type: ignore[type-arg]
    """A list of what may move, as `S,b,v`."""

    name = "parts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        parts = tuple(part.strip() for part in str(value).split(","))
        for part in parts:
            if part not in MOVABLE:
                self.fail(f"must list some of {', '.join(MOVABLE)}, got {part!r}.", param, ctx)
        return parts


@debug_option
@click.command("retrain", short_help="Train a forest end to end on new data.")
@click.argument("path", metavar="FOREST|MODEL", type=PATH)
@click.argument("data", metavar="DATA", type=PATH)
@click.option(
    "--target",
    required=True,
    metavar="COLUMN",
    help="The column of DATA to learn: its name, or its number from 0 if DATA has no names.",
)
@click.option(
    "-o",
    "--out",
    "out",
    type=PATH,
    required=True,
    metavar="OUT",
    help="The .safetensors file of the new forest; replaced if it exists.",
)
@click.option(
    "--validation",
    default="0.15",
    show_default=True,
    metavar="SHARE|FILE",
    help="The share of rows held out to choose by, or a file of such rows.",
)
@click.option(
    "--move",
    type=Parts(),
    metavar="S,b,v",
    help="What may move: S the directions, b the thresholds, v the leaves, r the weights of a "
    "polytope. All else comes back bit for bit. By default S,b,v of one tree and v of several.",
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
    help="Training steps; by default 1500, or 4000 from 10,000 rows on.",
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
    "--learning-rate",
    type=click.FloatRange(min=0, min_open=True),
    default=0.03,
    show_default=True,
    metavar="RATE",
    help="Of AdamW; it falls to 0 along a cosine.",
)
@click.option("--device", metavar="DEVICE", help='Where torch trains, for example "cuda".')
@seed_option("the held-out rows and the batches")
@header_option
@json_option
def command(
    path: Path,
    data: Path,
    target: str,
    out: Path,
    validation: str,
    move: tuple[str, ...] | None,
    relaxation: str,
    steps: int | None,
    batch_size: int,
    learning_rate: float,
    device: str | None,
    seed: int,
    header: bool | None,
    as_json: bool,
) -> None:
    """Relax a forest, train it on DATA, harden it, and keep the best on rows held out.

    What comes back is a hard forest of the same shape, never worse on the held-out rows than the
    one that went in; where nothing was clearly better, it is that one. Needs torch.

    \b
    Examples:
        bitvec retrain tree.safetensors train.csv --target label -o better.safetensors
        bitvec retrain forest.safetensors train.csv --target price -o new.safetensors --move v
    """
    share = _share(validation)
    held_out = None if share is not None else readable(Path(validation))
    inputs = (path, data) if held_out is None else (path, data, held_out)
    writable(out, (".safetensors",), replace=True, inputs=inputs)
    forest = open_forest(path)
    X, y = read_target(data, forest, header, target)
    by: Any = share if held_out is None else read_target(held_out, forest, header, target)
    import bitvec
    from bitvec import files

    with _watch(quiet=as_json) as look:
        result = bitvec.retrain(
            forest,
            X,
            y,
            validation=by,
            movable=move,
            relaxation=relaxation,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            device=device,
            seed=seed,
            progress=look,
        )
    files.save(result.forest, out)
    _report(result, forest, out, as_json)


def _share(validation: str) -> float | None:
    if not validation:
        raise InputError("--validation must be a share between 0 and 1, or a file, got ''.")
    try:
        share = float(validation)
    except ValueError:
        return None
    if not 0 < share < 1:
        raise InputError(f"--validation must be a share between 0 and 1, or a file, got {share}.")
    return share


@contextmanager
def _watch(*, quiet: bool) -> Iterator[Callable[[Evaluation], None]]:
    """Show on stderr the hard forest's score each time it is looked at: a bar on a terminal."""
    from bitvec.cli.progress import progress

    with progress("retraining", quiet=quiet) as advance:

        def look(evaluation: Evaluation) -> None:
            mark = "  kept" if evaluation.accepted else ""
            text = f"{evaluation.stage} {evaluation.step}: validation {evaluation.score:.4g}{mark}"
            if advance is not None:
                advance(evaluation.step / max(evaluation.steps, 1), text)
            elif not quiet:
                click.echo(text, err=True)

        yield look


def _report(result: RetrainResult, start: Forest, out: Path, as_json: bool) -> None:
    from bitvec.cli.answer import print_json

    if as_json:
        print_json(
            {
                "file": str(out),
                "improved": result.improved,
                "metric": result.metric,
                "before": result.start_score,
                "after": result.score,
                "moved": result.movable,
                "history": [
                    {"stage": e.stage, "step": e.step, "score": e.score, "accepted": e.accepted}
                    for e in result.history
                ],
            }
        )
        return
    click.echo(f"validation {result.metric}: {result.start_score:.6g} -> {result.score:.6g}")
    if result.improved:
        click.echo(f"the retrained forest is in {out}")
    else:
        click.echo(f"nothing was clearly better, so {out} holds the forest that went in")

"""`bitvec` itself: the table of commands, and what they have in common.

Nothing here imports NumPy, and neither does the module of a command before the command runs: help
is answered at once.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from bitvec.cli.failures import reported
from bitvec.cli.streams import left_at_once, prepare

COMMANDS = {
    "quickstart": "bitvec.cli.quickstart",
    "convert": "bitvec.cli.convert",
    "info": "bitvec.cli.info",
    "certify": "bitvec.cli.certify",
    "predict": "bitvec.cli.predict",
    "explain": "bitvec.cli.explain",
    "retrain": "bitvec.cli.retrain",
    "update": "bitvec.cli.update",
    "calibrate": "bitvec.cli.calibrate",
    "compress": "bitvec.cli.compress",
    "diff": "bitvec.cli.diff",
    "prune": "bitvec.cli.prune",
    "export": "bitvec.cli.export",
    "plot": "bitvec.cli.plot",
    "report": "bitvec.cli.report",
    "bench": "bitvec.cli.bench",
    "warm": "bitvec.cli.warm",
    "serve": "bitvec.cli.serve",
}
"""The module of each command, which defines it as `command`, in the order of the help page."""


class Program(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, 1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with reported(ctx):  # --help and --version print as they are parsed
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with reported(ctx):
            return super().invoke(ctx)


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from bitvec.distribution import version

        click.echo(f"bitvec {version()}")
        ctx.exit()


@click.group(
    "bitvec",
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def program() -> None:
    """Convert trained trees exactly into four arrays; prove, run, retrain and export them.

    \b
    A first look, with models that it trains itself:
        bitvec quickstart

    \b
    With a model of your own:
        bitvec convert model.ubj                      write model.safetensors
        bitvec certify model.safetensors --model model.ubj     prove that they agree
        bitvec info model.safetensors                 see what is in it
        bitvec predict model.safetensors rows.csv     run it
        bitvec explain model.safetensors rows.csv -o values.csv   say what each column adds
        bitvec export model.safetensors -o model.onnx hand it on

    Model files of scikit-learn (skops), xgboost, LightGBM, CatBoost, YDF, treelite and ONNX are
    recognised by their content. Files of rows: .csv, .tsv, .parquet, .npy. `bitvec COMMAND -h`
    explains each command.

    \b
    Exit status: 0 done; 1 a certificate that failed; 2 wrong input; 70 a bug in bitvec;
    130 interrupted.
    """


def run() -> None:
    """Run the command line."""
    prepare()
    with left_at_once():
        program.main(prog_name="bitvec")

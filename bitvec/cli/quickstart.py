"""`bitvec quickstart`: the whole workflow on models that it trains itself."""

from __future__ import annotations

from pathlib import Path

import click

from bitvec.cli.options import PATH, debug_option, seed_option


@debug_option
@click.command("quickstart", short_help="See the whole workflow on small models.")
@click.option(
    "-o",
    "--out",
    "directory",
    type=PATH,
    default=Path("quickstart"),
    show_default=True,
    metavar="DIR",
    help="Where the models, certificates and plots go.",
)
@seed_option("the training")
def command(directory: Path, seed: int) -> None:
    """Train, convert, certify, run, retrain and export small models; takes minutes.

    Needs scikit-learn, xgboost, torch and onnxruntime: pip install "bitvec-trees[all]".

    \b
    Examples:
        bitvec quickstart
        bitvec quickstart -o first --seed 3
    """
    from bitvec.cli.quickstart_run import run

    run(directory, seed=seed)

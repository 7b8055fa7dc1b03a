"""`bitvec quickstart`: the whole workflow on models that it trains itself."""

from __future__ import annotations

from pathlib import Path

from bitvec.cli.shared_options import as_command, out_option, seed_option


@as_command("quickstart", "See the whole workflow on small models.", json=False)
@out_option(
    default=Path("quickstart"),
    show_default=True,
    metavar="DIR",
    help="Where the models, certificates and plots go.",
)
@seed_option(help="Of the training.")
def command(out: Path, seed: int) -> None:
    """Train, convert, certify, run, retrain and export small models; takes minutes.

    Needs scikit-learn, xgboost, torch and onnxruntime: pip install "bitvec-trees[all]".

    \b
    Examples:
        bitvec quickstart
        bitvec quickstart -o first --seed 3
    """
    from bitvec.cli.quickstart_run import run

    run(out, seed=seed)

"""`bitvec diff`: report what changed between two forests."""

from __future__ import annotations

from pathlib import Path

import click

from bitvec.cli.given_files import open_forest, read_rows
from bitvec.cli.shared_options import PATH, as_command, data_option, header_option


@as_command("diff", "Say what moved between two forests.")
@click.argument("before", metavar="BEFORE", type=PATH)
@click.argument("after", metavar="AFTER", type=PATH)
@data_option(help="Rows on which exit leaves and answers are compared as well.")
@header_option
def command(
    before: Path, after: Path, data: Path | None, header: bool | None, as_json: bool
) -> None:
    """Say which tests, thresholds and leaves moved from BEFORE to AFTER, and by how much.

    \b
    Examples:
        bitvec diff tree.safetensors better.safetensors
        bitvec diff model.ubj better.safetensors --data rows.csv
    """
    import bitvec
    from bitvec.cli.answer import print_json

    first, second = open_forest(before), open_forest(after)
    X = read_rows(data, first, header)
    report = bitvec.diff(first, second, X)
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(report.summary())

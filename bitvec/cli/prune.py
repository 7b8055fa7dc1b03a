"""`bitvec prune`: remove the nodes of a forest that decide nothing."""

from __future__ import annotations

from pathlib import Path

import click

from bitvec.cli.given_files import open_forest, read_rows, writable
from bitvec.cli.shared_options import (
    as_command,
    data_option,
    forest_argument,
    header_option,
    out_option,
)


@as_command("prune", "Remove the nodes that decide nothing.")
@forest_argument
@out_option(required=True, help="The .safetensors file of the new forest; replaced if it exists.")
@data_option(
    help="Rows, as a rule the training rows: branches that none of them reaches go too, and the "
    "answers on them are certified to stay the same.",
)
@header_option
@click.option(
    "--empty/--no-empty", default=True, show_default=True, help="Drop what no row of DATA reaches."
)
@click.option("--equal/--no-equal", default=True, show_default=True, help="Merge equal leaves.")
@click.option(
    "--unreachable/--no-unreachable",
    default=True,
    show_default=True,
    help="Drop what no row at all can reach.",
)
def command(
    path: Path,
    out: Path,
    data: Path | None,
    header: bool | None,
    empty: bool,
    equal: bool,
    unreachable: bool,
    as_json: bool,
) -> None:
    """Merge equal leaves and drop what no row can reach; with DATA also what none of it reaches.

    \b
    Examples:
        bitvec prune forest.safetensors -o small.safetensors
        bitvec prune forest.safetensors -o small.safetensors --data train.csv
        bitvec prune forest.safetensors -o small.safetensors --no-equal
    """
    inputs = (path,) if data is None else (path, data)
    writable(out, (".safetensors",), replace=True, inputs=inputs)
    forest = open_forest(path)
    X = read_rows(data, forest, header)
    import bitvec
    from bitvec import files
    from bitvec.cli.answer import count, print_json

    result = bitvec.prune(forest, X, empty=empty, equal=equal, unreachable=unreachable)
    files.save(result.forest, out)
    removed = {"empty": result.empty, "unreachable": result.unreachable, "equal": result.equal}
    if as_json:
        sizes = [forest.n_nodes, result.forest.n_nodes]
        print_json(
            {"file": str(out), "nodes": sizes, "removed": removed, "certified": result.certified}
        )
        return
    click.echo(
        f"{count(forest.n_nodes, 'node')} -> {count(result.forest.n_nodes, 'node')}: "
        f"{removed['empty']:,} that no row reached, "
        f"{removed['unreachable']:,} that none can reach, "
        f"{removed['equal']:,} above equal leaves"
    )

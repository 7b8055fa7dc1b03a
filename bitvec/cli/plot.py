"""`bitvec plot`: draw a forest, a row's way through it, or what its columns add."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bitvec.cli.given_files import open_forest, read_matrix, writable
from bitvec.cli.shared_options import (
    as_command,
    data_option,
    forest_argument,
    header_option,
    labels_option,
    out_option,
)
from bitvec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bitvec.core.forest import Forest


class Asked(NamedTuple):
    """Parts of a picture: rows in the forest's dtype and labels where it needs them."""

    forest: Forest
    X: Any
    y: Any
    row: int
    tree: int
    columns: tuple[str, ...]
    output: int


def _matrices(asked: Asked) -> Figure:
    from bitvec.plots.forests import draw_matrices

    return draw_matrices(asked.forest, asked.tree)


def _path(asked: Asked) -> Figure:
    from bitvec.plots.forests import draw_path

    return draw_path(asked.forest, _row(asked)[0], asked.tree)


def _tree(asked: Asked) -> Figure:
    from bitvec.plots.distributions import draw_distributions

    return draw_distributions(asked.forest, asked.X, asked.y, tree=asked.tree)


def _importances(asked: Asked) -> Figure:
    from bitvec.cli.default_explanations import importances
    from bitvec.plots.attributions import draw_bars

    found, label = importances(asked.forest)
    return draw_bars(found, asked.forest, label=label)


def _beeswarm(asked: Asked) -> Figure:
    from bitvec.plots.attributions import draw_beeswarm

    return draw_beeswarm(_explainer(asked), _some(asked), output=asked.output)


def _waterfall(asked: Asked) -> Figure:
    from bitvec.plots.attributions import draw_waterfall

    return draw_waterfall(_explainer(asked), _row(asked), output=asked.output)


def _dependence(asked: Asked) -> Figure:
    from bitvec.plots.attributions import draw_dependence

    first, *others = map(_column, asked.columns)
    colour = others[0] if others else None
    rows, explainer = _some(asked), _explainer(asked)
    return draw_dependence(explainer, rows, first, colour=colour, output=asked.output)


def _partial(asked: Asked) -> Figure:
    from bitvec.explanations.dependence import partial_dependence
    from bitvec.plots.attributions import draw_partial_dependence

    found = partial_dependence(asked.forest, asked.X, [*map(_column, asked.columns)])
    return draw_partial_dependence(found, asked.forest, output=asked.output)


def _row(asked: Asked) -> Any:
    if asked.row >= len(asked.X):
        raise InputError(
            f"--row must be below {len(asked.X)}, the number of rows in --data, got {asked.row}."
        )
    return asked.X[asked.row : asked.row + 1]


def _some(asked: Asked) -> Any:
    """Return rows whose Shapley values are drawn, evenly among those of the file."""
    from bitvec.cli.default_explanations import most_rows

    return asked.X[:: -(-len(asked.X) // most_rows(asked.forest))]


def _explainer(asked: Asked) -> Any:
    from bitvec.cli.default_explanations import explainer

    return explainer(asked.forest, asked.X)


def _column(named: str) -> int | str:
    return int(named) if named.isdigit() else named


PICTURES: dict[str, tuple[Callable[[Asked], Figure], frozenset[str], frozenset[str]]] = {
    name: (draw, frozenset(needs.split()), frozenset(takes.split()))
    for name, draw, needs, takes in (
        ("matrices", _matrices, "", "tree"),
        ("path", _path, "data", "row tree target"),
        ("tree", _tree, "data target", "tree"),
        ("importances", _importances, "", ""),
        ("beeswarm", _beeswarm, "data", "output target"),
        ("waterfall", _waterfall, "data", "row output target"),
        ("dependence", _dependence, "data column", "output target"),
        ("partial-dependence", _partial, "data column", "output target"),
    )
}
"""The function of each picture, the options that it needs, and those that it takes as well."""


@as_command("plot", "Draw a forest, a row's way, or what columns add.")
@forest_argument
@click.argument("picture", metavar="PICTURE", type=click.Choice(list(PICTURES)))
@out_option(required=True, help="The .png, .svg or .pdf file; replaced if it exists.")
@data_option(help="Rows.")
@labels_option
@header_option
@click.option("--row", type=click.IntRange(0), metavar="I", help="Of --data, from 0.")
@click.option("--tree", type=click.IntRange(0), metavar="I", help="From 0.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help="Its name or number; the second of dependence colours, of partial-dependence makes a map.",
)
@click.option("--output", type=click.IntRange(0), metavar="I", help="Of several outputs, from 0.")
def command(
    path: Path,
    picture: str,
    out: Path,
    data: Path | None,
    target: str | None,
    header: bool | None,
    row: int | None,
    tree: int | None,
    columns: tuple[str, ...],
    output: int | None,
    as_json: bool,
) -> None:
    """Draw a picture of a model into a file.

    \b
    matrices            S, b, B and v of a tree
    path                a row's way through a tree         --data [--row --tree]
    tree                a tree with the rows at each node  --data --target [--tree]
    importances         gain of each column, or its nodes where the file has no gains
    beeswarm            Shapley values of many rows        --data [--output]
    waterfall           Shapley values of one row          --data [--row --output]
    dependence          Shapley values over a column       --data --column [--output]
    partial-dependence  mean answers over columns          --data --column [--output]

    \b
    Examples:
        bitvec plot model.ubj importances -o importances.svg
        bitvec plot model.ubj waterfall --data test.csv --row 3 -o row.png
        bitvec plot model.ubj tree --data test.csv --target label -o tree.pdf
    """
    draw, needs, takes = PICTURES[picture]
    given = {
        "data": data, "target": target, "row": row, "tree": tree, "column": columns or None,
        "output": output,
    }  # fmt: skip
    for name, value in given.items():
        if value is None and name in needs:
            raise click.UsageError(f"{picture} must come with --{name}.")
        if value is not None and name not in needs | takes:
            raise click.UsageError(f"--{name} must be left out, {picture} has no use for it.")
    if len(columns) > 2:
        raise click.UsageError(f"--column must be given at most twice, got {len(columns)} columns.")
    inputs = (path,) if data is None else (path, data)
    writable(out, (".png", ".svg", ".pdf"), replace=True, inputs=inputs)
    forest = open_forest(path)
    X, y = read_matrix(data, forest, header, target)
    if X is not None and not len(X):
        raise InputError(f"{data} must hold rows, got none: name a file of rows.")
    from bitvec.cli.answer import print_json
    from bitvec.core.forest import require_forest
    from bitvec.files import atomic

    require_forest(forest)
    if tree is not None and tree >= forest.n_trees:
        raise InputError(f"--tree must be below {forest.n_trees}, got {tree}.")
    figure = draw(Asked(forest, X, y, row or 0, tree or 0, columns, output or 0))
    content = BytesIO()
    figure.savefig(content, format=out.suffix[1:].lower(), dpi=150)
    atomic.write(out, content.getvalue())
    if as_json:
        print_json({"file": str(out), "picture": picture})
        return
    click.echo(f"{path} -> {out}")

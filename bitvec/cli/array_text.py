"""Arrays of a tree, printed where they are small."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.plain_text import number
from bitvec.core.tree_text import column_name
from bitvec.errors import InvalidForestError

MAX_ARRAY = 16
"""Rows and columns of S, B and v that are still pleasant to read."""


def arrays(tree: Forest) -> Iterator[str]:
    """Yield the lines of S, b, B and v, or one that says how large they are.

    S and b are those of the equation, with the columns that S reads besides those of X named below.
    """
    n_columns, more = tree.n_columns, []
    try:
        S, b = tree.S, tree.b
        sizes = {"S": S.shape, "b": b.shape}
        more = [
            column.describe(column_name(tree, column.reads))
            for column in tree.expanded_columns[n_columns:]
        ]
    except InvalidForestError as error:
        yield f"S, b: {error}"
        sizes = {}
    sizes |= {"B": (tree.n_leaves, tree.n_nodes), "v": tree.leaves.v.shape}
    for name, shape in sizes.items():
        title = f"{name} ({' x '.join(map(str, shape))})"
        if max(shape) > MAX_ARRAY:
            yield f"{title}: too large to print"
        elif 0 in shape:
            yield f"{title}: empty"
        else:
            yield f"{title}:"
            array = tree.leaves.v if name == "v" else getattr(tree, name)
            yield from _matrix(np.asarray(array))
            if name == "S" and more:
                yield f"  columns from {n_columns} on: {'; '.join(more)}"


def _matrix(array: Array) -> Iterator[str]:
    cells = [[number(x) for x in row] for row in (array if array.ndim == 2 else array[None, :])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))

"""The table of limits, of the numbers that the package itself checks by."""

from __future__ import annotations

from benchmarks.report import Column
from benchmarks.report import table as in_markdown
from bitvec.core.inputs import MAX_FEATURES
from bitvec.explanations.background_values import MOST_FEATURES
from bitvec.explanations.linear_values import MOST_READ
from bitvec.explanations.unsupported import MOST_COLUMNS
from bitvec.files.composed_records import MOST_NESTED
from bitvec.plots.forests import MOST_LEAVES as MOST_DRAWN
from bitvec.runtime.export.c.levels import MOST_LEVELS
from bitvec.runtime.export.c.output_functions import MOST_CLASSES
from bitvec.runtime.export.c.unsupported import (
    MOST_LEAVES,
    MOST_UNROLLED_LEVELS,
    MOST_UNROLLED_NODES,
)
from bitvec.runtime.export.onnx.portable import LARGEST_MATRICES
from bitvec.runtime.export.onnx.tensor import LARGEST_B
from bitvec.runtime.export.onnx.traversal import LARGEST_DEPTH
from bitvec.runtime.export.web.pages import MOST_NUMBERS
from bitvec.services.row_files import BATCH_ROWS

LIMITS = (
    ("columns of a model", MAX_FEATURES, "`InvalidForestError`"),
    ("compositions within one another, in a file", MOST_NESTED, "`FileFormatError`"),
    (
        "different columns on a path, explained with background rows",
        MOST_FEATURES,
        "`UnsupportedModelError`; values by cover have no such limit",
    ),
    (
        "different columns of a linear leaf and its path, explained with background rows",
        MOST_READ,
        "`UnsupportedModelError`",
    ),
    (
        "columns over whose subsets predictions are summed to explain them",
        MOST_COLUMNS,
        "`InputError`; `permutations` sample",
    ),
    ("leaves of a tree that is drawn", MOST_DRAWN, "`InputError`"),
    ("rows that are read at a time from a file of rows", BATCH_ROWS, "the next batch"),
    ("ONNX `traversal`: levels", LARGEST_DEPTH, "`UnsupportedModelError`; take `tree_ensemble`"),
    ("ONNX `tensor`: elements of B", LARGEST_B, "`UnsupportedModelError`; take `traversal`"),
    ("ONNX `portable`: elements", LARGEST_MATRICES, "`UnsupportedModelError`; take `traversal`"),
    ("C `levels`: levels", MOST_LEVELS, "`UnsupportedModelError`; take `tables`"),
    ("C `unrolled`: nodes", MOST_UNROLLED_NODES, "`UnsupportedModelError`; take `tables`"),
    ("C `unrolled`: levels", MOST_UNROLLED_LEVELS, "`UnsupportedModelError`; take `tables`"),
    ("C: classes", MOST_CLASSES, "`UnsupportedModelError`"),
    ("C: leaves", MOST_LEAVES, "`UnsupportedModelError`"),
    ("page for the browser: numbers of its trees", MOST_NUMBERS, "trees beyond are not drawn"),
)
"""Quantity, its greatest value, and what happens beyond."""


def table() -> str:
    """Return the table in Markdown."""
    columns = (
        Column("of", lambda row: row[0]),
        Column("at most", lambda row: row[1], ","),
        Column("beyond", lambda row: row[2]),
    )
    return in_markdown(LIMITS, columns)

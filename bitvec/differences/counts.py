"""Counts of the parts of two forests, and which other parts of them differ."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Int64
from bitvec.differences.words import column_name

COMPARED = ("base_score",)
"""Fields of the output that are compared as numbers."""
OF_NODES = (("tests", "substitute"), ("leaves", "output"), ("leaves", "linear"))
"""Fields that can only be compared where the trees are the same."""


def nodes_by_column(forest: Forest) -> Int64[Array, " n_columns"]:
    """Return how many nodes read each column with a weight that is not 0."""
    tests = forest.tests
    node = np.repeat(
        np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr)), np.diff(tests.row_ptr)
    )
    used = tests.weight != 0
    n_columns = int(tests.column.max(initial=-1)) + 1
    pairs = np.unique(node[used] * n_columns + tests.column[used])
    return np.bincount(pairs % max(n_columns, 1), minlength=n_columns)


def side_by_side(
    before: Forest, after: Forest, old: Array, new: Array
) -> dict[str, tuple[int, int]]:
    """Return the counts of columns that are read before or after, by name."""
    size = max(len(old), len(new))
    old, new = (np.pad(counts, (0, size - len(counts))) for counts in (old, new))
    forest = before if before.inputs.feature_names is not None else after
    return {
        column_name(forest, int(column)): (int(old[column]), int(new[column]))
        for column in np.flatnonzero(old + new)
    }


def row_sizes(forest: Forest) -> dict[int, int]:
    """Return how many rows of S have so many weights that are not 0."""
    tests = forest.tests
    row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))[tests.weight != 0]
    sizes, counts = np.unique(np.bincount(row, minlength=tests.n_rows), return_counts=True)
    return dict(zip(sizes.tolist(), counts.tolist(), strict=True))


def other_parts(before: Forest, after: Forest, *, same_trees: bool) -> tuple[str, ...]:
    """Return the names of parts that differ and are not measured."""
    parts: list[tuple[str, Any, Any, str]] = [
        (f"output.{field.name}", before.output, after.output, field.name)
        for field in fields(before.output)
        if field.name not in COMPARED
    ]
    parts += [(name, before, after, name) for name in ("inputs", "feature_map", "kernel")]
    if same_trees:
        parts += [
            (f"{part}.{name}", getattr(before, part), getattr(after, part), name)
            for part, name in OF_NODES
        ]
    return tuple(
        name
        for name, old, new, field in parts
        if not equal(getattr(old, field), getattr(new, field))
    )


def equal(a: Any, b: Any) -> bool:
    """Return whether two parts of forests are equal in every field; NaN equals NaN."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        same_kind = a.dtype == b.dtype and a.shape == b.shape
        return same_kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(equal, a, b))
    if is_dataclass(a):
        return all(equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)

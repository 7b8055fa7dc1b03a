"""Columns of feature maps that look keys up, told apart by what they look up.

A proof of a forest with such a map treats the columns of φ as if they were those of X, once each
column of the source's own map has its equal in the forest's: same parts of the key, same keys,
same bits of the values.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate, Identity, KeyTables
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.verify.source_trees import SourceTrees


def on_columns(forest: Forest, trees: SourceTrees) -> tuple[Forest, SourceTrees] | None:
    """Return both sides as if X were φ(X), or None if their maps do not have the same columns.

    A column of the source that no node reads need not be in the forest's map.
    """
    own, theirs = _columns(forest.feature_map), _columns(trees.feature_map)
    if own is None or theirs is None:
        return None
    place = {column: at for at, column in reversed([*enumerate(own)])}  # equal columns are one
    mine, stated = (
        np.array([place.get(column, -1) for column in columns], np.int32)
        for columns in (own, theirs)
    )
    read = stated[trees.tests.column]
    if np.any(read < 0):
        return None
    n = len(own)
    tests = replace(forest.tests, column=mine[forest.tests.column])
    return (
        replace(forest, tests=tests, feature_map=None, inputs=Inputs(n)),
        replace(trees, tests=replace(trees.tests, column=read), n_features=n, feature_map=None),
    )


def _columns(feature_map: FeatureMap | None) -> list[tuple[object, ...]] | None:
    """Return what each column of φ is, as something that can be compared."""
    if isinstance(feature_map, Concatenate):
        parts = [_columns(part) for part in feature_map.maps]
        return None if None in parts else [c for part in parts if part is not None for c in part]
    if isinstance(feature_map, Identity):
        return [("x", at) for at in range(feature_map.n_inputs)]
    if not isinstance(feature_map, KeyTables):
        return None
    columns: list[tuple[object, ...]] = []
    for table in feature_map.tables:
        key = tuple(
            map(_bits, (table.column, table.kind, table.b, table.missing_passes, table.key))
        )
        columns += [
            (feature_map.multiplier, *key, _bits(table.value[:, at]), _bits(table.default[at]))
            for at in range(table.default.size)
        ]
    return columns


def _bits(array: Array) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()

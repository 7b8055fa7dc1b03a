"""A walk through 16 trees in step, for forests with so many leaves that bitvectors cost more."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.few_rows import costs, set_rows
from bitvec.runtime.predict.cpu.few_rows.walk_kernels import FIND
from bitvec.runtime.predict.cpu.leaves.leaf_vectors import LeafSums
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import reading_of


class Walks:
    """A forest packed as `bitvec.runtime.predict.cpu.traversal.keyed`, for X of a dtype."""

    name = "walks"

    def __init__(self, forest: Forest, dtype: np.dtype, sums: LeafSums) -> None:
        compared = min(dtype, forest.dtype, key=lambda each: each.itemsize)
        keys_of, vectors = set_rows.layout_of(forest, compared), sums.vector_of(forest.n_leaves)
        trees = keyed.pack(forest, compared, vectors, sums.n_vectors, keys_of.key_columns)
        self.keys_bytes = keys_of.n_keys * (4 if trees.is_narrow else 8)
        self.leaves_bytes = 4 * forest.n_trees
        self.has_vectors = trees.has_vectors
        self.cycles = costs.walk_cycles(forest)
        fill, walk = FIND[trees.is_narrow]
        self.fields: dict[str, Any] = {
            "find": fill.address(),
            "walk": walk.address(),
            "nodes": trees.nodes,
            "depth": np.maximum.reduceat(trees.depth, np.arange(0, forest.n_trees, costs.WALKED)),
            **keys_of.fields,
            "n_keys": keys_of.n_keys,
            "n_columns": trees.key_columns.size,
            "key_columns": trees.key_columns,
            "reading": reading_of(dtype, forest.dtype),
        }

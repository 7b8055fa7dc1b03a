"""Generated forests of a given depth and width, and rows for them, all from a seed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

import bitvec
from bitvec.core import structure, tree_paths
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output

COMPLETE: Final = 8
"""Levels that are complete; on those below, half of the places hold a node."""
BINS: Final = 256
"""Thresholds of a column, as histogram learners have them."""


def forest(n_features: int, depth: int, n_trees: int, seed: int = 0) -> Forest:
    """Return a float32 regressor whose thresholds are quantiles of normal columns.

    Below level `COMPLETE` a tree has about 2 ** (COMPLETE - 1) nodes a level, and its deepest leaf
    at `depth`.
    """
    rng = np.random.default_rng([seed, n_features, depth, n_trees])
    level = np.arange(n_trees)
    left, right = [], []
    n_nodes = n_leaves = 0
    roots = level
    n_nodes = n_trees
    for at in range(depth):
        n_children = 2 * level.size
        is_node = np.ones(n_children, bool)
        if at + 1 >= COMPLETE:
            is_node = rng.random(n_children) < 0.5
        if at + 1 == depth:
            is_node[:] = False
        else:
            is_node[::n_children] = True
        child = np.empty(n_children, np.int64)
        n_inner = int(is_node.sum())
        child[is_node] = n_nodes + np.arange(n_inner)
        child[~is_node] = ~(n_leaves + np.arange(n_children - n_inner))
        left.append(child[::2])
        right.append(child[1::2])
        level = child[is_node]
        n_nodes += n_inner
        n_leaves += n_children - n_inner
    B, _ = structure.arrange(np.concatenate(left), np.concatenate(right), roots)
    grid = np.sort(rng.normal(size=(n_features, BINS)).astype(np.float32), axis=1)
    feature = rng.integers(0, n_features, B.n_nodes)
    b = grid[feature, rng.integers(0, BINS - 2, B.n_nodes)]
    v = rng.normal(size=(B.n_leaves, 1)).astype(np.float32)
    output = Output(1, np.dtype(np.float32))
    return Forest(axis_aligned(feature, b), B, Leaves(v), output, Inputs(n_features))


def n_nodes(depth: int, n_trees: int) -> int:
    """Return about how many nodes `forest` makes."""
    full = (1 << min(depth, COMPLETE)) - 1
    return n_trees * (full + max(0, depth - COMPLETE) * (1 << (COMPLETE - 1)))


def rows(n: int, n_features: int, seed: int = 1) -> np.ndarray:
    """Return normal rows, float32 (n, n_features)."""
    return np.random.default_rng(seed).standard_normal((n, n_features), np.float32)


def oblivious(n_features: int, depth: int, n_trees: int, seed: int = 0) -> Forest:
    """Return a forest whose trees test the same at all nodes of a level, as CatBoost's."""
    plain = forest(n_features, min(depth, COMPLETE), n_trees, seed)
    B = plain.bitvectors
    level = tree_paths.node_depth(B)
    n_inner = (1 << min(depth, COMPLETE)) - 1
    first = np.searchsorted(level[:n_inner], np.arange(depth))
    return replace(plain, tests=plain.tests.take(n_inner * B.tree_of_node + first[level]))


def workload(name: str, folder: Path | None, *, quick: bool) -> tuple[Forest, np.ndarray | None]:
    """Return a trained model and rows of its own, from a folder of them or trained now.

    The folder holds NAME.bitvec and NAME-rows.npz, rows under the name X.
    """
    if name == "oblivious":
        return oblivious(28, 3 if quick else 6, 3 if quick else 300), None
    if folder is not None and (folder / f"{name}.bitvec").exists():
        X = np.load(folder / f"{name}-rows.npz")["X"]
        return bitvec.load(folder / f"{name}.bitvec"), X.astype(np.float32)
    from benchmarks.engine import workloads

    (one,) = (one for one in workloads.WORKLOADS if one.name == name)
    made = workloads.made(one, workloads.cache_of_user() / "bitvec-benchmarks", None, small=quick)
    model = json.loads((made / "job.json").read_text(encoding="utf-8"))["model"]
    return bitvec.convert(made / model), np.load(made / "X.npy").astype(np.float32)

"""Covers: the training weight that reached nodes and leaves, and the shares of the two sides."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.forest import Forest, require_forest
from bitvec.core.shape_annotations import Float, Float64
from bitvec.core.source import Source
from bitvec.distribution import version
from bitvec.errors import InputError
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.predictor import compile

_logger = logging.getLogger("bitvec")


def shares(forest: Forest) -> Float64[Array, "n_nodes 2"]:
    """Return the shares of a node's cover that its left and its right side have.

    The sum of both sides is the whole, so that roundings of the source's own sums do not matter.
    Where neither side has any, each has one half.

    Raises
    ------
    InputError
        If the forest has no cover, or one that is negative, infinite or NaN, or whose sums are.
    """
    if not forest.n_nodes:
        return np.zeros((0, 2))
    source = forest.source
    if source is None or source.leaf_cover is None or source.node_cover is None:
        raise InputError(
            "an explanation by cover needs the training weight of each node, got a forest without "
            "it: count it by `bitvec.explanations.covers.with_cover(forest, X)` on training rows, "
            "or pass rows as `background`."
        )
    for name, cover in (("node_cover", source.node_cover), ("leaf_cover", source.leaf_cover)):
        if not np.all((cover >= 0) & np.isfinite(cover)):
            raise InputError(
                f"`source.{name}` must be finite and not negative, got {np.min(cover)} to "
                f"{np.max(cover)}: count it anew by "
                "`bitvec.explanations.covers.with_cover(forest, X)`."
            )
    below = np.zeros((forest.n_nodes, 2))
    for side, child in enumerate(structure.children(forest.bitvectors)):
        is_node = child >= 0
        below[is_node, side] = source.node_cover[child[is_node]]
        below[~is_node, side] = source.leaf_cover[~child[~is_node]]
    with np.errstate(over="ignore"):
        whole = below.sum(axis=1, keepdims=True)
    if not np.all(np.isfinite(whole)):
        raise InputError(
            "the covers of both sides of a node must have a finite sum, got numbers up to "
            f"{below.max()}: count them anew by `bitvec.explanations.covers.with_cover(forest, X)`."
        )
    return np.divide(below, whole, out=np.full_like(below, 0.5), where=whole > 0)


def reached(forest: Forest, share: Float64[Array, "n_nodes 2"]) -> Float64[Array, " n_leaves"]:
    """Return the share of its tree's cover that each leaf has."""
    B = forest.bitvectors
    of_node, of_leaf = np.ones(forest.n_nodes), np.ones(forest.n_leaves)
    left, right = structure.children(B)
    level = B.node_ptr[:-1][np.diff(B.leaf_ptr) > 1]
    while level.size:
        below = []
        for side, child in enumerate((left[level], right[level])):
            of_child = of_node[level] * share[level, side]
            of_node[child[child >= 0]] = of_child[child >= 0]
            of_leaf[~child[child < 0]] = of_child[child < 0]
            below.append(child[child >= 0])
        level = np.concatenate(below)
    return of_leaf


def with_cover(forest: Forest, X: Any, *, weight: ArrayLike | None = None) -> Forest:
    """Return the forest with covers counted by rows of data, such as those it was trained on.

    Parameters
    ----------
    forest : Forest
    X : table of rows, (batch, n_features)
        As `bitvec.compile(forest).predict` takes it; no iterator.
    weight : numbers, (batch,), optional
        The weight of each row, finite and not negative; 1 if not given.

    Returns
    -------
    Forest
        The same but for `source.node_cover` and `source.leaf_cover`, the sums of the weights of
        the rows that reach a node or leaf. Below a node that no row reaches, explanations count
        both sides alike, and a warning says how many leaves no row reaches.

    Raises
    ------
    InputError
        If X or `weight` does not fit.

    Examples
    --------
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> counted = with_cover(stump, [[0.0, 9.0], [1.0, 9.0], [2.0, 9.0]])
    >>> counted.source.node_cover.tolist(), counted.source.leaf_cover.tolist()
    ([3.0], [1.0, 2.0])
    """
    require_forest(forest)
    engine = compile(replace(forest, kernel=None)).engine
    table = tables.open_table(X, forest.inputs, forest.dtype)
    weights = _weights(weight, table.n_rows)
    B = forest.bitvectors
    leaf_cover = np.zeros(forest.n_leaves)
    start = 0
    for part in tables.parts(table, forest.n_features):
        leaf = engine.exit_leaves(part) + B.leaf_ptr[:-1]
        of_rows = np.repeat(weights[start : start + len(part)], forest.n_trees)
        leaf_cover += np.bincount(leaf.ravel(), of_rows, forest.n_leaves)
        start += len(part)
    unreached = int(np.sum(leaf_cover == 0))
    if unreached:
        _logger.warning(
            f"No row reaches {unreached} of {forest.n_leaves} leaves: below a node that no row "
            "reaches, explanations by cover count both sides alike."
        )
    source = forest.source or Source("bitvec", version())
    node_cover = _node_cover(B, leaf_cover)
    return replace(forest, source=replace(source, leaf_cover=leaf_cover, node_cover=node_cover))


def _weights(weight: ArrayLike | None, n_rows: int) -> Float[Array, " batch"]:
    if weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(weight, np.float64)
        got = f"shape {weights.shape}"
    except (TypeError, ValueError):
        weights, got = np.full(n_rows, np.nan), f"{type(weight).__name__} without numbers"
    if weights.shape != (n_rows,) or not np.all((weights >= 0) & np.isfinite(weights)):
        raise InputError(
            f"`weight` must be one finite number that is not negative for each of {n_rows} rows, "
            f"got {got}: pass the weights that the rows were trained with."
        )
    return weights


def _node_cover(
    B: structure.Bitvectors, leaf_cover: Float64[Array, " n_leaves"]
) -> Float64[Array, " n_nodes"]:
    """Return the sums of the leaves below nodes, each sum of its own leaves alone."""
    first = B.leaf_ptr[:-1][B.tree_of_node]
    ends = np.stack([first + B.lo, first + B.hi], axis=1).ravel()
    cover: Array = np.add.reduceat(np.append(leaf_cover, 0.0), ends)[::2]
    return cover

"""Leaves that are linear in x, and their ridge regressions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.tao.training_rows import Rows
from bitvec.learners.tao.tree import Tree

NUMBERS = 1 << 22
"""Weights that are gathered at a time."""


def values(
    tree: Tree, rows: Rows, which: Int64[Array, " n"], leaf: Int64[Array, " n"]
) -> Float64[Array, "n n_outputs"]:
    """Return V + U x of some rows, each at a leaf."""
    result = tree.V[leaf].astype(np.float64)
    if tree.U is None:
        return result
    assert rows.X is not None
    step = max(1, NUMBERS // (tree.U.shape[1] * tree.U.shape[2]))
    for start in range(0, which.size, step):
        part = slice(start, start + step)
        U = tree.U[leaf[part]].astype(np.float64)
        result[part] += np.einsum("nop,np->no", U, rows.X[which[part]])
    return result


def ridge_leaves(
    tree: Tree,
    rows: Rows,
    leaf: Int64[Array, " n_rows"],
    Y: Float64[Array, "n_rows n_outputs"],
    weight: Float64[Array, " n_rows"],
    ridge: float,
) -> Tree:
    """Return the tree with the ridge regression of its rows at each leaf that rows reach.

    The squared weights, of columns divided by their standard deviation, count `ridge` times; the
    constant counts nothing.
    """
    assert tree.U is not None
    assert rows.X is not None
    V, U = tree.V.copy(), tree.U.copy()
    order = np.argsort(leaf, kind="stable")
    ends = np.searchsorted(leaf[order], np.arange(tree.n_leaves + 1))
    for number in range(tree.n_leaves):
        at = order[ends[number] : ends[number + 1]]
        total = weight[at].sum()
        if not total > 0:
            continue
        x, y, w = rows.X[at] / rows.scale, Y[at], weight[at] / total
        middle, mean = w @ x, w @ y
        centred = (x - middle) * np.sqrt(w)[:, None]
        wanted = (y - mean) * np.sqrt(w)[:, None]
        gram = centred.T @ centred + ridge / total * np.eye(x.shape[1])
        slope = np.linalg.lstsq(gram, centred.T @ wanted, rcond=None)[0].T
        U[number] = slope / rows.scale
        V[number] = mean - slope @ middle
    return replace(tree, V=V, U=U)

"""Complete oblique trees, and rows at which their sums tie, overflow or are missing."""

from __future__ import annotations

import numpy as np

from bitvec.core import structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Activation, from_rows
from bitvec.core.output import Output


def oblique(n_trees, depth, n_features, dtype, *, per_node=None, seed=0, exact=False, rows=1):
    """Complete trees; `exact` draws small binary fractions, whose sums tie with b."""
    rng = np.random.default_rng(seed)
    n = (1 << depth) - 1
    child = 2 * np.arange(n) + 1
    start = np.arange(n_trees)[:, None]
    left, right = (
        np.where(side < n, side + start * n, ~(side - n + start * (n + 1))).ravel()
        for side in (child, child + 1)
    )
    B = structure.from_children(left, right, np.arange(n_trees) * n)
    n_rows = B.n_nodes * rows
    size = n_features if per_node is None else per_node
    column = [
        np.arange(n_features) if per_node is None else rng.permutation(n_features)[:size]
        for _ in range(n_rows)
    ]

    def numbers(shape):
        values = rng.integers(-8, 9, shape) / 4 if exact else rng.normal(size=shape)
        return np.asarray(values).astype(dtype)

    soft = rows > 1
    tests = from_rows(
        np.arange(n_rows + 1) * size,
        np.concatenate(column),
        numbers(n_rows * size),
        numbers(B.n_nodes),
        node_ptr=np.arange(B.n_nodes + 1) * rows,
        offset=numbers(n_rows) if soft else 0.0,
        activation=Activation.SOFTPLUS if soft else Activation.IDENTITY,
        r=abs(numbers(n_rows)) if soft else 1.0,
        relation=rng.integers(0, 2, B.n_nodes),
        missing_right=rng.random(B.n_nodes) < 0.5,
    )
    return Forest(
        tests=tests,
        bitvectors=B,
        leaves=Leaves(rng.normal(size=(B.n_leaves, 2)).astype(dtype)),
        output=Output(2, np.dtype(dtype)),
        inputs=Inputs(n_features),
    )


def hostile_rows(forest, n_rows, seed=1):
    """Normal rows, rows of small binary fractions, and rows with all that goes wrong."""
    rng = np.random.default_rng(seed)
    info = np.finfo(forest.dtype)
    X = rng.normal(size=(n_rows, forest.n_features)).astype(forest.dtype)
    X[::3] = rng.integers(-8, 9, X[::3].shape) / 4
    wrong = [np.nan, -np.nan, np.inf, -np.inf, -0.0, info.max, -info.max, info.tiny]
    wrong += [info.smallest_subnormal, -info.smallest_subnormal, np.sqrt(info.max)]
    at = rng.random(X.shape) < 0.5 / max(forest.n_features, 1)
    X[at] = rng.choice(np.array(wrong).astype(forest.dtype), int(at.sum()))
    return X


def rows_at_thresholds(forest, n_rows, seed=2):
    """Return rows whose margins lie within a few units in the last place of b at some node."""
    rng = np.random.default_rng(seed)
    tests, dtype = forest.tests, forest.dtype
    X = rng.normal(size=(n_rows, forest.n_features)).astype(dtype)
    for row in range(n_rows):
        node = rng.integers(forest.n_nodes)
        entry = slice(tests.row_ptr[node], tests.row_ptr[node + 1])
        column, weight = tests.column[entry], tests.weight[entry].astype(np.float64)
        last = int(np.argmax(abs(weight)))
        z = weight @ X[row, column]
        X[row, column[last]] += dtype.type((tests.b[node] - z) / weight[last])
        for _ in range(rng.integers(0, 4)):
            toward = dtype.type(rng.choice([-np.inf, np.inf]))
            X[row, column[last]] = np.nextafter(X[row, column[last]], toward)
    return X

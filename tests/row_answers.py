"""Answers of the reference to rows by method, and forests and rows in which ties are common."""

from __future__ import annotations

import warnings

import numpy as np

from bitvec.core import structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output
from bitvec.runtime.predict.predictor import compile

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
VERBS = ("raw", "scores", "predict", "predict_proba", "decision_function", "exit_leaves", "apply")


def quiet(function, *arguments):
    with warnings.catch_warnings():  # NumPy remarks on the infinities that rows hold on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*arguments)


def same(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if expected.dtype.kind != "f":
        assert np.array_equal(got, expected)
        return
    assert np.array_equal(got, expected, equal_nan=True)
    number = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def answers_to(forest, X):
    """The reference's answers by method; of several targets side by side."""
    reference = compile(forest, engine="reference")
    classes = forest.output.classes
    found = {}
    for verb in VERBS:
        if verb == "predict_proba" and classes is None:
            continue
        answer = quiet(getattr(reference, verb), X)
        found[verb] = np.concatenate(answer, axis=1) if isinstance(answer, list) else answer
    return found


def drawn_structure(rng, sizes, most):
    """Trees of so many leaves, at most `most`, whose nodes split them by random cuts."""
    left, right, roots = [], [], []
    for tree, size in enumerate(sizes):
        # A node splits off what a random cut leaves to each side; `~leaf` names a leaf.
        todo = [(0, size, None)]
        while todo:
            lo, hi, parent = todo.pop(0)
            name = ~(tree * most + lo)
            if hi - lo > 1:
                name = len(left)
                left.append(0)
                right.append(0)
                cut = int(rng.integers(lo + 1, hi))
                todo += [(lo, cut, (left, name)), (cut, hi, (right, name))]
            if parent is None:
                roots.append(name)
            else:
                parent[0][parent[1]] = name
    return structure.from_children(np.array(left), np.array(right), np.array(roots))


def grown(n_trees, n_leaves, n_features, dtype=np.float32, seed=0, **output):
    """Random trees with thresholds and rows on one coarse grid, so that ties are common."""
    rng = np.random.default_rng(seed)
    B = drawn_structure(rng, [n_leaves - 7 * tree % n_leaves for tree in range(n_trees)], n_leaves)
    return Forest(
        axis_aligned(
            rng.integers(0, n_features, B.n_nodes),
            (rng.integers(-8, 9, B.n_nodes) / 4).astype(dtype),
            relation=rng.integers(0, 2, B.n_nodes),
            missing_right=rng.random(B.n_nodes) < 0.5,
        ),
        B,
        Leaves(rng.normal(size=(B.n_leaves, 1)).astype(np.float32)),
        Output(1, np.dtype(np.float32), **output),
        Inputs(n_features),
    )


def drawn_rows(forest, n_rows, dtype, seed=1):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-9, 10, (n_rows, forest.n_features)) / 4).astype(dtype)
    for value in (np.nan, np.inf, -np.inf, -0.0):
        X[rng.random(X.shape) < 0.04] = value
    return X

"""Rows to probe with, what the forest answers of them, and in how many a file does otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

import bitvec
from bitvec.certification import oracle_of
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.to_float32 import narrow_tests
from bitvec.errors import UnsupportedModelError
from bitvec.verify.probing import probe_rows

LEAST: Final = 100_000
OF_DATA: Final = 10
"""Every so manieth row is one of the data."""
UNIT: Final = 2.0**-24
FUNCTION: Final = 8 * UNIT
"""Tolerance between exponentials or quotients of two libraries, of numbers up to 1."""
BLOCK: Final = 2000


@dataclass(frozen=True, slots=True)
class Expected:
    """Answers of the forest.

    Parameters
    ----------
    X : float32, (n, n_features)
    leaves : (n, n_trees)
    raw, raw_bound : (n, n_outputs)
        The bound is what float32 sums in any order may be off by: n_trees · 2**-24 · the sum of
        the magnitudes that are added.
    scores, bound : (n, n_scores)
        Probabilities, or a regressor's predictions.
    label : (n,), optional
    """

    X: Array
    leaves: Array
    raw: Array
    raw_bound: Array
    scores: Array
    bound: Array
    label: Array | None

    def of(self, rows: Array | slice) -> Expected:
        """Return some of the rows, by their numbers, a mask or a slice."""
        return Expected(
            self.X[rows],
            self.leaves[rows],
            self.raw[rows],
            self.raw_bound[rows],
            self.scores[rows],
            self.bound[rows],
            None if self.label is None else self.label[rows],
        )


@dataclass(frozen=True, slots=True)
class Probing:
    """Rows that the model's own library takes, and rows with what else float32 can hold."""

    taken: Expected
    other: Expected


def probing(forest: Forest, estimator: Any, X: Array, least: int = LEAST) -> Probing:
    """Return at least so many rows that the library takes, shuffled, and a fifth more of any."""
    source = oracle_of(estimator)
    taken = _rows(
        forest, X, least, missing=source.accepts_missing, infinite=source.accepts_infinite
    )
    other = _rows(forest, X, least // 5, missing=True, infinite=True)
    return Probing(expected(forest, taken), expected(forest, other))


def _rows(forest: Forest, X: Array, least: int, *, missing: bool, infinite: bool) -> Array:
    try:
        narrow = narrow_tests(forest)
    except UnsupportedModelError:
        narrow = forest
    rng = np.random.default_rng(0)
    data = X[rng.integers(len(X), size=least // OF_DATA)]
    if missing:
        data = np.where(rng.random(data.shape) < 0.1, np.float32(np.nan), data)
    parts, n, seed = [data], len(data), 0
    while n < least:
        # In turn, columns off a node's path lie at thresholds, and are those of data.
        base = X if seed % 2 else None
        made = probe_rows(narrow, seed=seed, base_rows=base, missing=missing, infinite=infinite)
        with np.errstate(over="ignore"):
            parts.append(made.collect()[0].astype(np.float32))
        n, seed = n + len(parts[-1]), seed + 1
    rows = np.concatenate(parts)
    return np.ascontiguousarray(rows[rng.permutation(len(rows))[: max(least, len(data))]])


def expected(forest: Forest, X: Array) -> Expected:
    """Return what the forest answers of rows of float32."""
    # What the source refuses beside is no question here.
    predictor = bitvec.compile(replace(forest, source=None))
    wide = predictor.rows(X)
    leaves, raw = predictor.engine.exit_leaves(wide), predictor.engine.raw(wide)
    bound = _bound(forest, leaves)
    if forest.output.is_classifier:
        scores = predictor.predict_proba(X)
        # A probability moves by less than the raw score does, in every transform here.
        limit = np.broadcast_to(bound.max(axis=1, keepdims=True) + FUNCTION, scores.shape)
        return Expected(X, leaves, raw, bound, scores, limit, predictor.predict(X))
    scores = predictor.predict(X).reshape(len(X), -1)
    return Expected(X, leaves, raw, bound, scores, bound, None)


def _bound(forest: Forest, leaves: Array) -> Array:
    output = forest.output
    size = np.abs(forest.leaves.v).astype(np.float64)
    total = np.zeros((len(leaves), output.n_outputs))
    for tree, first in enumerate(forest.bitvectors.leaf_ptr[:-1]):
        weight = 1.0 if output.tree_weight is None else abs(float(output.tree_weight[tree]))
        total += weight * size[first + leaves[:, tree]]
    if output.aggregate is Aggregate.MEAN:
        total /= forest.n_trees
    return (total + np.abs(output.base_score)) * forest.n_trees * UNIT


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows compared and differing, of which some in a leaf; labels apart; the largest distance.

    `present_differ` are those without a missing value that differ.
    """

    rows: int
    differ: int
    present_differ: int
    leaves_differ: int | None
    labels_differ: int | None
    largest: float

    def __or__(self, other: Difference) -> Difference:
        """Return the difference over both parts' rows."""
        return Difference(
            self.rows + other.rows,
            self.differ + other.differ,
            self.present_differ + other.present_differ,
            _sum(self.leaves_differ, other.leaves_differ),
            _sum(self.labels_differ, other.labels_differ),
            max(self.largest, other.largest),
        )


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def difference(found: Mapping[str, Array], of: Expected, *, exactly: bool = False) -> Difference:
    """Count the rows of which a file's answers, by name, are not the forest's.

    A row differs if it leaves a tree by another leaf, or a score lies beyond the bound. `exactly`
    is for files that promise the bits of raw scores.
    """
    n = len(of.X)
    leaves = np.zeros(n, bool)
    if "leaves" in found:
        leaves = np.any(found["leaves"] != of.leaves, axis=1)
    differ, largest = leaves.copy(), 0.0
    limits = {
        "raw": (of.raw, np.zeros_like(of.raw_bound) if exactly else of.raw_bound),
        "scores": (of.scores, of.bound),
    }
    for name, (wanted, limit) in limits.items():
        if name in found:
            far = _distance(found[name].reshape(n, -1), wanted)
            differ |= np.any(far > limit, axis=1)
            largest = max(largest, float(far.max(initial=0)))
    labels = None
    if "label" in found and of.label is not None:
        labels = int(np.count_nonzero(found["label"] != of.label))
    in_leaf = int(leaves.sum()) if "leaves" in found else None
    present = int(np.count_nonzero(differ & ~np.isnan(of.X).any(axis=1)))
    return Difference(n, int(differ.sum()), present, in_leaf, labels, largest)


def _distance(found: Array, wanted: Array) -> Array:
    """Return how far scores lie apart: 0 where both are NaN, infinite where one is."""
    with np.errstate(invalid="ignore"):
        far = np.abs(found.astype(np.float64) - wanted)
    far[found == wanted] = 0
    far[np.isnan(found) & np.isnan(wanted)] = 0
    return np.where(np.isnan(far), np.inf, far)


def in_blocks(answer: Any, X: Array) -> dict[str, Array]:
    """Return what a function of rows answers, asked for some at a time."""
    parts = [answer(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

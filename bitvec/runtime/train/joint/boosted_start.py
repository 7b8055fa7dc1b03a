"""Newton boosting of trees with leaf vectors: where joint training starts from."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output, PostTransform
from bitvec.core.shape_annotations import Bool, Float64, Int64
from bitvec.core.structure import arrange
from bitvec.errors import needs
from bitvec.runtime.train.joint.complete_trees import CompleteTrees, completed

RATE, RATE_OF_FEW, FEW = 0.2, 0.4, 16
"""Shrinkage of each tree, that of few trees, and how many are few."""
SHARE_OF_ROWS, LEAST_ROWS, HALF_FROM = 0.7, 5, 9
"""Rows of each tree, rows of each leaf, and from how many columns on a split reads half of them."""
RIDGE = 1.0
"""Added to the second derivatives of a leaf."""
SMALLEST = 1e-3
"""Added to class shares before their logarithm is taken."""


def boosted(
    X: Float64[Array, "n_rows n_features"],
    target: Float64[Array, "n_rows width"],
    weight: Float64[Array, " n_rows"],
    output: Output,
    *,
    n_trees: int,
    depth: int,
    seed: int,
) -> CompleteTrees:
    """Return complete trees grown by Newton boosting, each with one vector a leaf.

    Parameters
    ----------
    target : float64, (n_rows, width)
        Class probabilities, or values.
    weight : float64, (n_rows,)
        Not negative.
    output : Output
        One logit of two classes (sigmoid), one score a class (softmax), or values (identity).

    Notes
    -----
    Each tree is a regression tree of the residuals of all outputs, on a draw of 70 % of the rows
    and, from 9 columns on, of half the columns at each split. Leaf vectors are Newton steps on all
    rows, Eq. (5) of XGBoost (Chen and Guestrin, 2016) with the diagonal of the second derivative,
    and Friedman's factor (C − 1) / C for C classes.
    """
    with needs("scikit-learn", "sklearn", "Boosting complete trees"):
        from sklearn.tree import DecisionTreeRegressor

    boosting = _Boosting(target, weight, output, n_trees)
    random = np.random.default_rng(seed)
    drawn = max(round(SHARE_OF_ROWS * len(X)), min(len(X), 2))
    parts, vectors = [], []
    for _ in range(n_trees):
        rows = random.permutation(len(X))[:drawn]
        grown = DecisionTreeRegressor(
            max_depth=depth,
            min_samples_leaf=min(LEAST_ROWS, max(drawn // 2, 1)),
            max_features=0.5 if X.shape[1] >= HALF_FROM else None,
            random_state=int(random.integers(2**31 - 1)),
        ).fit(X[rows], boosting.residual[rows], sample_weight=weight[rows])
        parts.append(grown.tree_)
        vectors.append(boosting.add(grown.apply(X), grown.tree_.node_count))
    forest = _joined(parts, vectors, X.shape[1], boosting.base)
    return completed(forest, depth, X, seed)


def with_boosted_leaves(
    trees: CompleteTrees,
    X: Float64[Array, "n_rows n_features"],
    target: Float64[Array, "n_rows width"],
    weight: Float64[Array, " n_rows"],
    output: Output,
) -> CompleteTrees:
    """Return trees with the leaf vectors that boosting gives them, tree by tree.

    For forests whose leaves hold something else than scores, as class shares.
    """
    boosting = _Boosting(target, weight, output, trees.n_trees)
    n, size = (1 << trees.depth) - 1, 1 << trees.depth
    vectors = []
    for tree in range(trees.n_trees):
        own = slice(tree * n, (tree + 1) * n)
        right = trees.b[own] < X @ trees.S[own].T
        vectors.append(boosting.add(exits(right), size))
    return CompleteTrees(trees.n_trees, trees.S, trees.b, np.concatenate(vectors), boosting.base)


def exits(right: Bool[Array, "n_rows n_nodes"]) -> Int64[Array, " n_rows"]:
    """Return the leaf of each row in a complete tree, from which nodes it would go right at."""
    place = np.zeros(len(right), np.int64)
    for _ in range(right.shape[1].bit_length()):
        place = 2 * place + 1 + right[np.arange(len(right)), place]
    return place - right.shape[1]


class _Boosting:
    """Scores of rows so far, and what is left to be learned."""

    def __init__(self, target: Array, weight: Array, output: Output, n_trees: int) -> None:
        self._target, self._weight, self._kind = target, weight, output.post_transform
        self._rate = RATE_OF_FEW if n_trees <= FEW else RATE
        if self._kind is PostTransform.SIGMOID:
            self._target = target[:, 1:]
        mean = np.average(self._target, axis=0, weights=weight)
        if self._kind is PostTransform.SIGMOID:
            self.base = np.log((mean + SMALLEST) / (1 - mean + SMALLEST))
        elif self._kind is PostTransform.SOFTMAX:
            self.base = np.log(mean + SMALLEST)
            self._rate *= (len(mean) - 1) / len(mean)
        else:
            self.base = mean
        self._scores = np.tile(self.base, (len(target), 1))
        self._derive()

    def _derive(self) -> None:
        """Set minus the first derivative of the loss, and the second."""
        if self._kind is PostTransform.SIGMOID:
            p = 1 / (1 + np.exp(-np.clip(self._scores, -500, 500)))
        elif self._kind is PostTransform.SOFTMAX:
            p = np.exp(self._scores - self._scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
        else:
            p = self._scores
        self.residual = self._target - p
        is_class = self._kind is not PostTransform.IDENTITY
        self._curvature = p * (1 - p) if is_class else np.ones_like(p)

    def add(self, leaf: Int64[Array, " n_rows"], n_leaves: int) -> Float64[Array, "n_leaves width"]:
        """Return the Newton step of each leaf, and add it to the scores of its rows."""
        w, width = self._weight, self.residual.shape[1]
        sums = [
            np.stack([np.bincount(leaf, w * part[:, k], n_leaves) for k in range(width)], axis=1)
            for part in (self.residual, self._curvature)
        ]
        step: Array = self._rate * sums[0] / (sums[1] + RIDGE)
        self._scores = self._scores + step[leaf]
        self._derive()
        return step


def _joined(parts: list[Any], vectors: list[Array], n_features: int, base: Array) -> Forest:
    """Return the forest of scikit-learn's trees, with other leaf vectors."""
    counts = np.array([part.node_count for part in parts])
    first = np.cumsum(counts) - counts
    left, right = (
        np.concatenate(
            [
                np.where(side >= 0, side + at, -1)
                for side, at in zip([getattr(part, name) for part in parts], first, strict=True)
            ]
        )
        for name in ("children_left", "children_right")
    )
    B, order = arrange(left, right, first)
    feature = np.concatenate([part.feature for part in parts])
    threshold = np.concatenate([part.threshold for part in parts])
    return Forest(
        axis_aligned(feature[order.node], threshold[order.node]),
        B,
        Leaves(np.concatenate(vectors)[order.leaf]),
        Output(len(base), np.dtype(np.float64), base_score=base),
        Inputs(n_features),
    )

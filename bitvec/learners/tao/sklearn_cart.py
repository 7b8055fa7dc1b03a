"""CART as a start, by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.errors import needs
from bitvec.learners.tao.tree import Tree, axis_tree

with needs("scikit-learn", "sklearn", 'TAO from start="cart"'):
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor


def cart(
    Z: Array,
    y: Array,
    weight: Float64[Array, " n_rows"],
    n_classes: int | None,
    *,
    depth: int,
    seed: int,
) -> Tree:
    """Return a tree of CART: Gini for class numbers, squared error for values.

    Leaves hold the shares of classes, or means. CART reads float32, so it is handed the ranks of
    values, whose order is all that it goes by; a threshold then lies in the middle of the values
    that it parts among the rows of its node, in the dtype of Z.
    """
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in Z.T], axis=1)
    ranks = ranks.astype(np.float32)
    weight = weight / weight.max()  # scikit-learn takes what is tiny for nothing
    size = 1.0
    if n_classes is None:  # nor is what deviates little
        size = float(np.exp2(np.floor(np.log2(np.ptp(y, axis=0).max() or 1.0))))
        y = y / size
    kind = DecisionTreeRegressor if n_classes is None else DecisionTreeClassifier
    tree = kind(max_depth=max(depth, 1), random_state=seed % 2**32)
    fitted = tree.fit(ranks, y, sample_weight=weight)
    grown = fitted.tree_
    if grown.node_count == 1 or depth == 0:
        left = right = np.zeros(0, np.int64)
        node, leaf = left, np.zeros(1, np.int64)
    else:
        B, order = structure.arrange(grown.children_left, grown.children_right, [0])
        left, right = structure.children(B)
        node, leaf = order.node, order.leaf
    if n_classes is None:
        V = size * grown.value[leaf, :, 0]
    else:  # a class that no row has is no column of the fitted tree
        V = np.zeros((leaf.size, n_classes))
        V[:, fitted.classes_] = grown.value[leaf, 0, :]
    feature = grown.feature[node].astype(np.int64)
    visits = fitted.decision_path(ranks).tocsc()
    threshold = np.empty(node.size, Z.dtype)
    for number, (own, j) in enumerate(zip(node.tolist(), feature.tolist(), strict=True)):
        rows = visits.indices[visits.indptr[own] : visits.indptr[own + 1]]
        goes_left = ranks[rows, j] <= grown.threshold[own]
        threshold[number] = _between(Z[rows[goes_left], j].max(), Z[rows[~goes_left], j].min())
    return axis_tree(left, right, feature, threshold, Z.shape[1], V)


def _between(low: Any, high: Any) -> Any:
    """Return the middle of two floats, below the upper one in floating point too."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low

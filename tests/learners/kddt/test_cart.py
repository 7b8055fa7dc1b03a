"""Without bandwidth, or with one far below the gaps of the data, the tree is CART's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bitvec.core.kernels import box
from bitvec.learners.kddt.events import densities_of, events_of
from bitvec.learners.kddt.growth import GAIN
from bitvec.learners.kddt.tree import (
    GrownTree,
    Limits,
    class_targets,
    grow_tree,
    mean_targets,
    native,
)

CLASSES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def data(name: str, step: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return real rows, rounded to the float32 that scikit-learn compares, or to whole steps."""
    X, y = (CLASSES | {"diabetes": load_diabetes})[name](return_X_y=True)
    X = X if step is None else np.round(X / step) * step
    return X.astype(np.float32).astype(np.float64), y


def ours(X: np.ndarray, y: np.ndarray, criterion: str, bandwidth: float, limits: Limits):
    densities = densities_of(X, [box(bandwidth)] * X.shape[1])
    targets = (
        mean_targets(y[:, None].astype(float))
        if criterion == "squared_error"
        else class_targets(y, int(y.max()) + 1, criterion)
    )
    return grow_tree(densities, events_of(densities), targets, np.ones(len(X)), limits)


def theirs(X: np.ndarray, y: np.ndarray, criterion: str, limits: Limits):
    kind = DecisionTreeRegressor if criterion == "squared_error" else DecisionTreeClassifier
    depth = None if limits.max_depth > 1000 else limits.max_depth
    least = int(limits.min_weight)
    return kind(criterion=criterion, max_depth=depth, min_samples_leaf=least, random_state=0).fit(
        X, y
    )


@dataclass
class Comparison:
    """Two trees, walked from their roots for as long as they send the same rows left."""

    X: np.ndarray
    tree: GrownTree
    other: object
    bandwidth: float
    same: int = 0
    ties: int = 0
    shared: int = 0
    no_gain: int = 0
    agreed: list | None = None

    def walk(self, k: int, node: int, rows: np.ndarray) -> None:
        """Compare two nodes that hold the same rows.

        Where the rows differ that go left, both splits must be equally good; and a node is split
        by scikit-learn alone only where it gains nothing.
        """
        tree, own = self.tree, self.other.tree_
        unit = float(own.impurity[0])
        assert tree.weight[k] == pytest.approx(rows.size, rel=1e-12)
        is_leaf = own.children_left[node] < 0
        if tree.is_leaf[k] or is_leaf:
            if not (tree.is_leaf[k] and is_leaf):
                assert tree.is_leaf[k], "a leaf of CART is split"
                assert self.gain(node) <= (GAIN + 1e-12 * unit) * rows.size
                self.no_gain += 1
                return
            self.agreed.append(rows)
            return
        if self.shares_rows(k, rows):
            gain = tree.loss[k] - tree.loss[tree.left[k]] - tree.loss[tree.right[k]]
            assert gain >= self.gain(node) - 1e-11 * unit * len(self.X) - 1e-9
            self.shared += 1
            return
        left = self.X[rows, tree.feature[k]] <= tree.threshold[k]
        other = self.X[rows, own.feature[node]] <= own.threshold[node]
        if not np.array_equal(left, other):
            gain = tree.loss[k] - tree.loss[tree.left[k]] - tree.loss[tree.right[k]]
            # Both sum about n terms of this size, in different orders.
            assert gain == pytest.approx(self.gain(node), abs=1e-11 * unit * len(self.X) + 1e-9)
            self.ties += 1
            return
        self.same += 1
        if tree.feature[k] == own.feature[node]:
            # The middle of a gap, by one formula or another.
            close = {"rel": 1e-15, "abs": 0} if self.bandwidth == 0 else {"rel": 0, "abs": 1e-8}
            assert tree.threshold[k] == pytest.approx(own.threshold[node], **close)
        self.walk(int(tree.left[k]), int(own.children_left[node]), rows[left])
        self.walk(int(tree.right[k]), int(own.children_right[node]), rows[~left])

    def shares_rows(self, k: int, rows: np.ndarray) -> bool:
        """Return whether a threshold leaves a part of a row on either side.

        Equal rows of more than the least weight can be so divided, and CART cannot do it.
        """
        if self.bandwidth == 0:
            return False
        far = (self.tree.threshold[k] - self.X[rows, self.tree.feature[k]]) / self.bandwidth
        share = np.clip(far / 2 + 0.5, 0, 1)
        return bool(np.any(np.minimum(share, 1 - share) > 1e-4))

    def gain(self, node: int) -> float:
        own, natural = self.other.tree_, np.log(2) if self.other.criterion == "entropy" else 1
        lost = own.impurity * own.weighted_n_node_samples * natural
        return float(lost[node] - lost[own.children_left[node]] - lost[own.children_right[node]])


def compare(
    name: str, criterion: str, bandwidth: float, least: float, step: float | None = None
) -> Comparison:
    X, y = data(name, step)
    limits = Limits(min_weight=least)
    result = Comparison(
        X,
        ours(X, y, criterion, bandwidth, limits),
        theirs(X, y, criterion, limits),
        bandwidth,
        agreed=[],
    )
    result.walk(0, 0, np.arange(len(X)))
    return result


CASES = [(name, criterion) for name in CLASSES for criterion in ("gini", "entropy")]
CASES += [("diabetes", "squared_error")]


def require_same_predictions(result: Comparison) -> None:
    """Compare values and leaves of the rows that reach leaves by the same way."""
    rows = np.concatenate([*result.agreed, np.zeros(0, int)]).astype(int)
    tree, X = result.tree, result.X[rows]
    value = native(tree, result.X.shape[1]).raw(X)
    expected = (
        result.other.predict_proba(X)
        if hasattr(result.other, "predict_proba")
        else result.other.predict(X)[:, None]
    )
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-12)
    if result.ties == result.no_gain == result.shared == 0:
        assert rows.size == len(result.X)
        assert tree.n_leaves == result.other.get_n_leaves()
        leaf = native(tree, result.X.shape[1]).decide(X)
        pairs = set(zip(leaf.tolist(), result.other.apply(X).tolist(), strict=True))
        assert len(pairs) == tree.n_leaves


@pytest.mark.parametrize(("name", "criterion"), CASES)
@pytest.mark.parametrize("least", [1.0, 5.0])
def test_without_bandwidth_it_is_cart_wherever_the_split_is_unique(name, criterion, least):
    result = compare(name, criterion, 0.0, least)
    assert result.same > 3
    require_same_predictions(result)


@pytest.mark.parametrize(
    ("name", "criterion", "n_rows"),
    [
        ("iris", "gini", 150),
        ("iris", "entropy", 150),
        ("diabetes", "squared_error", 442),
    ],
)
def test_it_is_cart_for_all_rows_where_no_split_has_a_tie(name, criterion, n_rows):
    result = compare(name, criterion, 0.0, 5.0)
    assert result.ties == result.no_gain == 0
    assert sum(map(len, result.agreed)) == n_rows


@pytest.mark.parametrize(("name", "criterion"), CASES)
@pytest.mark.parametrize("least", [1.0, 5.0])
def test_a_tiny_bandwidth_changes_nothing_where_events_are_exact(name, criterion, least):
    """Values are whole steps of 2^-12, and the bandwidth of 2^-30 is about 1e-9."""
    result = compare(name, criterion, 2.0**-30, least, step=2.0**-12)
    assert result.same + result.shared > 0
    require_same_predictions(result)


@pytest.mark.parametrize("least", [1.0, 5.0])
def test_a_tiny_bandwidth_changes_nothing(least):
    for name, criterion in CASES:
        require_same_predictions(compare(name, criterion, 1e-9, least))

"""Pruning: weakest links first, nested trees, and merged leaves that say the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kddt_growth import Sample
from kddt_samples import samples
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bitvec.core.kernels import box
from bitvec.learners.kddt.events import densities_of, events_of
from bitvec.learners.kddt.pruning import merged, pruned, pruning_path
from bitvec.learners.kddt.tree import (
    GrownTree,
    Limits,
    class_targets,
    grow_tree,
    mean_targets,
    native,
)


def grown(sample: Sample, min_weight: float = 0.25, max_depth: int = 6) -> GrownTree:
    densities = sample.densities
    limits = Limits(min_weight=min_weight, max_depth=max_depth)
    return grow_tree(densities, events_of(densities), sample.targets, sample.weight, limits)


def under(tree: GrownTree, node: int, cut: set[int]) -> list[int]:
    """Return the leaves under a node, by recursion, where these nodes are leaves."""
    if tree.is_leaf[node] or node in cut:
        return [node]
    sides = int(tree.left[node]), int(tree.right[node])
    return [leaf for side in sides for leaf in under(tree, side, cut)]


def slow_path(tree: GrownTree) -> list[tuple[float, int, int, float]]:
    """Return each cut: price, node, leaves left, loss left; every link is tried each time."""
    cut: set[int] = set()
    path = []
    while len(under(tree, 0, cut)) > 1:
        reached, todo = [], [0]
        while todo:
            node = todo.pop()
            if not tree.is_leaf[node] and node not in cut:
                reached.append(node)
                todo += [int(tree.left[node]), int(tree.right[node])]
        price = {}
        for node in sorted(reached):
            leaves = under(tree, node, cut)
            price[node] = (tree.loss[node] - tree.loss[leaves].sum()) / (len(leaves) - 1)
        weakest = min(price, key=lambda node: (price[node], node))
        cut.add(weakest)
        leaves = under(tree, 0, cut)
        weight = tree.weight[0]
        path.append(
            (price[weakest] / weight, weakest, len(leaves), tree.loss[leaves].sum() / weight)
        )
    return path


@given(samples(max_rows=16))
def test_the_path_cuts_the_weakest_link_each_time(sample):
    tree = grown(sample)
    path, slow = pruning_path(tree), slow_path(tree)
    alpha = np.array([cut[0] for cut in slow])
    # Sums over leaves in another order; ties may then be cut in another order.
    close = 1e-12 * max(1.0, float(np.max(sample.Y**2)))
    gaps = np.diff(np.concatenate([[-1.0], alpha, [np.inf]]))
    if gaps.min(initial=np.inf) > 100 * close:
        assert path.node.tolist() == [cut[1] for cut in slow]
    at = gaps[1:] > 100 * close  # after all cuts of one price, whatever their order
    for price in alpha[at]:
        ours = path.alpha <= price + 10 * close
        theirs = alpha <= price + 10 * close
        assert path.n_leaves[ours].min() == min(np.array([c[2] for c in slow])[theirs])
        assert path.loss[ours][-1] == pytest.approx(
            np.array([c[3] for c in slow])[theirs][-1], abs=100 * close
        )


@given(samples(max_rows=16))
def test_prices_rise_and_losses_are_those_of_the_trees(sample):
    tree = grown(sample)
    path = pruning_path(tree)
    assert np.all(np.diff(path.alpha) >= 0)
    assert np.all(np.diff(path.n_leaves) < 0)
    assert path.alpha.size == 0 or path.n_leaves[-1] == 1
    for alpha in np.unique(path.alpha):
        small = pruned(tree, alpha)
        last = np.flatnonzero(path.alpha <= alpha)[-1]
        assert small.n_leaves == path.n_leaves[last]
        mean = small.loss[small.is_leaf].sum() / small.weight[0]
        assert mean == pytest.approx(path.loss[last], abs=1e-10)


@given(samples(max_rows=16), st.integers(0, 2**32 - 1))
def test_a_pruned_tree_costs_least_of_all_subtrees(sample, seed):
    """Cost is mean loss + alpha · leaves: no smaller tree of random cuts is cheaper."""
    tree = grown(sample)
    path, rng = pruning_path(tree), np.random.default_rng(seed)
    inner = np.flatnonzero(~tree.is_leaf)
    for alpha in [0.0, *path.alpha.tolist(), 1.0]:
        costs = []
        for chance in (0.0, 0.1, 0.3, 0.6):
            at = np.zeros(tree.left.size, bool)
            at[inner] = rng.random(inner.size) < chance
            costs.append(cost(tree.cut(at), alpha))
        assert cost(pruned(tree, alpha), alpha) <= min(costs) + 1e-10


def cost(tree: GrownTree, alpha: float) -> float:
    return float(tree.loss[tree.is_leaf].sum() / tree.weight[0] + alpha * tree.n_leaves)


def signature(tree: GrownTree, node: int = 0, place: tuple = ()) -> set[tuple]:
    """Return the splits of a tree with the way to each."""
    if tree.is_leaf[node]:
        return set()
    split = (*place, (int(tree.feature[node]), float(tree.threshold[node])))
    below = signature(tree, int(tree.left[node]), (*split, "left"))
    return {split} | below | signature(tree, int(tree.right[node]), (*split, "right"))


@given(samples(max_rows=16))
def test_pruned_trees_are_nested(sample):
    tree = grown(sample)
    before = signature(tree)
    for alpha in [-1.0, 0.0, *pruning_path(tree).alpha.tolist(), np.inf]:
        after = signature(pruned(tree, alpha))
        assert after <= before
        before = after
    assert not before


def test_a_negative_price_cuts_nothing():
    X, y = load_iris(return_X_y=True)
    tree = grow(X, y, 0.3)
    assert signature(pruned(tree, -1.0)) == signature(tree)


def grow(X: np.ndarray, y: np.ndarray, bandwidth: float, criterion: str = "gini") -> GrownTree:
    densities = densities_of(X, [box(bandwidth)] * X.shape[1])
    targets = (
        mean_targets(y[:, None].astype(float))
        if criterion == "squared_error"
        else class_targets(y, int(y.max()) + 1, criterion)
    )
    return grow_tree(densities, events_of(densities), targets, np.ones(len(X)), Limits())


@pytest.mark.parametrize(
    ("load", "criterion"),
    [
        (load_iris, "gini"),
        (load_wine, "entropy"),
        (load_breast_cancer, "gini"),
        (load_breast_cancer, "entropy"),
        (load_diabetes, "squared_error"),
    ],
)
def test_the_path_is_that_of_scikit_learn(load, criterion):
    """Of the same tree: theirs, read as one of ours."""
    X, y = load(return_X_y=True)
    X = X.astype(np.float32).astype(np.float64)
    kind = DecisionTreeRegressor if criterion == "squared_error" else DecisionTreeClassifier
    model = kind(criterion=criterion, random_state=0).fit(X, y)
    tree = read(model)
    path, other = pruning_path(tree), model.cost_complexity_pruning_path(X, y)
    unit = np.log(2) if criterion == "entropy" else 1.0
    loss = np.concatenate([[tree.loss[tree.is_leaf].sum() / tree.weight[0]], path.loss]) / unit
    alpha = np.concatenate([[0.0], path.alpha]) / unit
    close = 1e-12 * float(tree.loss[0])
    assert alpha.size == other.ccp_alphas.size
    np.testing.assert_allclose(alpha, other.ccp_alphas, rtol=0, atol=close)
    np.testing.assert_allclose(loss, other.impurities, rtol=0, atol=close)
    for price in alpha[1 :: max(1, alpha.size // 5)]:
        small = kind(criterion=criterion, random_state=0, ccp_alpha=price + 10 * close).fit(X, y)
        assert pruned(tree, (price + 10 * close) * unit).n_leaves == small.get_n_leaves()


def read(model: DecisionTreeClassifier | DecisionTreeRegressor) -> GrownTree:
    """Return scikit-learn's tree as a grown one."""
    own = model.tree_
    weight = own.weighted_n_node_samples
    unit = np.log(2) if model.criterion == "entropy" else 1.0
    total = own.value[:, 0, :] * weight[:, None]
    return GrownTree(
        own.children_left.astype(np.int64),
        own.children_right.astype(np.int64),
        np.maximum(own.feature, -1).astype(np.int64),
        own.threshold,
        weight,
        own.impurity * weight * unit,
        total,
        np.zeros(total.shape[1]),
    )


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("bandwidth", [0.0, 0.05, 0.3, 1.0])
def test_merging_keeps_crisp_labels(load, bandwidth):
    X, y = load(return_X_y=True)
    X = X / X.std(axis=0)
    tree = grow(X, y, bandwidth)
    small = merged(tree, labels=True)
    assert small.n_leaves <= tree.n_leaves
    low, high = X.min(axis=0) - 1, X.max(axis=0) + 1
    at = np.random.default_rng(0).uniform(low, high, (5000, X.shape[1]))
    for rows in (X, at, at * 10):
        label = [native(own, X.shape[1]).raw(rows).argmax(axis=1) for own in (tree, small)]
        np.testing.assert_array_equal(*label)
    siblings = [
        (small.left[node], small.right[node])
        for node in np.flatnonzero(~small.is_leaf)
        if small.is_leaf[small.left[node]] and small.is_leaf[small.right[node]]
    ]
    said = small.value.argmax(axis=1)
    assert all(said[left] != said[right] for left, right in siblings)


def test_merging_makes_smaller_trees_on_iris():
    X, y = load_iris(return_X_y=True)
    tree = grow(X, y, 0.5)
    assert merged(tree, labels=True).n_leaves < tree.n_leaves


@given(samples(max_rows=12), st.booleans(), st.integers(0, 99))
def test_merging_keeps_what_leaves_say(sample, labels, seed):
    tree = grown(sample)
    small = merged(tree, labels=labels)
    rng = np.random.default_rng(seed)
    X = np.vstack([sample.X, rng.normal(size=(20, sample.X.shape[1]))])
    one, other = (native(own, X.shape[1]).raw(X) for own in (tree, small))
    if labels:
        one, other = one.argmax(axis=1), other.argmax(axis=1)
    # A merged value is a mean of equal values, which rounds.
    np.testing.assert_allclose(one, other, rtol=0, atol=0 if labels else 1e-12)


@given(samples(max_rows=16), st.integers(0, 2**32 - 1))
def test_a_cut_keeps_order_and_what_is_left(sample, seed):
    tree = grown(sample)
    at = np.random.default_rng(seed).random(tree.left.size) < 0.3
    small = tree.cut(at)
    pairs, todo = [], [(0, 0)]
    while todo:
        old, new = todo.pop()
        pairs.append((new, old))
        assert small.is_leaf[new] == (tree.is_leaf[old] or at[old])
        if not small.is_leaf[new]:
            assert small.feature[new] == tree.feature[old]
            assert small.threshold[new] == tree.threshold[old]
            todo += [(tree.left[old], small.left[new]), (tree.right[old], small.right[new])]
        else:
            assert small.feature[new] == small.right[new] == -1
        for name in ("weight", "loss", "total"):
            np.testing.assert_array_equal(getattr(small, name)[new], getattr(tree, name)[old])
    new, old = np.array(sorted(pairs)).T
    assert new.tolist() == list(range(small.left.size))
    assert np.all(np.diff(old) > 0)
    inner = np.flatnonzero(~small.is_leaf)
    assert np.all(small.left[inner] == inner + 1)
    assert np.all(small.right[inner] > small.left[inner])


def test_a_single_leaf_has_nothing_to_prune():
    tree = grow(np.zeros((3, 1)), np.array([0, 1, 1]), 0.0)
    assert tree.n_leaves == 1
    assert pruning_path(tree).alpha.size == 0
    assert pruned(tree, 1.0).n_leaves == merged(tree, labels=True).n_leaves == 1
    assert native(tree, 1).raw(np.zeros((2, 1))) == pytest.approx(np.full((2, 2), [1 / 3, 2 / 3]))

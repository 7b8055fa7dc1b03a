"""Growth: rules of stopping, both orders, and the same tree in every process."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitvec.learners.growth.grow import GrownTree, GrowthOptions, GrowthStep, grow
from bitvec.learners.growth.linear import Linear
from bitvec.learners.growth.polytope import Polytope
from bitvec.learners.growth.stump_losses import LOSSES
from bitvec.learners.growth.stumps import StumpTraining
from bitvec.learners.growth.targets import Labels, Target, Values
from bitvec.runtime.train.retrain.schedules import steepness

PLAIN = GrowthOptions(
    best_first=False, max_depth=3, max_leaves=None, min_rows=4, min_gain=0.0, retries=1, seed=0
)
TRAINING = StumpTraining(
    Linear(), LOSSES["likelihood"], 12, 2, 4096, 0.05, steepness((1.0, 8.0), "linear")
)


def a_problem(seed: int = 0, n: int = 240) -> tuple[Any, Labels, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    code = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int) + (X[:, 2] > 1)
    return X, Labels(code, 3), rng.uniform(0.5, 2, n)


def grown(
    problem: tuple[Any, Target, Any] | None = None, *, kind: Any = None, **options: Any
) -> GrownTree:
    X, target, weight = a_problem() if problem is None else problem
    training = TRAINING if kind is None else replace(TRAINING, kind=kind)
    return grow(X, target, weight, training, replace(PLAIN, **options))


def walked(tree: GrownTree, X: Any) -> Any:
    """The leaf of each row, one row after the other."""
    leaves = np.zeros(len(X), np.int64)
    for row in range(len(X)):
        at = 0 if tree.rules else ~0
        while at >= 0:
            right = tree.rules[at].margins(X[row : row + 1])[0] > tree.threshold[at]
            at = int((tree.right if right else tree.left)[at])
        leaves[row] = ~at
    return leaves


def depths(tree: GrownTree) -> Any:
    depth = np.zeros(len(tree.rules), np.int64)
    for node, sides in enumerate(zip(tree.left, tree.right, strict=True)):
        for side in sides:
            if side >= 0:
                depth[side] = depth[node] + 1
    return depth


@pytest.mark.parametrize("kind", [Linear(), Polytope(3, 0.01)])
@pytest.mark.parametrize("best_first", [False, True])
def test_the_leaf_of_each_training_row_is_where_it_walks_to(kind: Any, best_first: bool) -> None:
    tree = grown(kind=kind, best_first=best_first)
    X, _, _ = a_problem()
    assert np.array_equal(walked(tree, X), tree.leaf)
    assert np.unique(tree.leaf).tolist() == list(range(len(tree.rules) + 1))


def test_both_orders_grow_the_same_tree_where_nothing_but_depth_ends_it() -> None:
    level, best = grown(), grown(best_first=True)
    assert len(level.rules) > 4

    def stumps(tree: GrownTree) -> set[bytes]:
        return {
            np.append(rule.theta, threshold).tobytes()  # type: ignore[attr-defined]
            for rule, threshold in zip(tree.rules, tree.threshold, strict=True)
        }

    # The sums of a level are those of its nodes alone but for the order, so compare partitions.
    assert len(stumps(level)) == len(stumps(best)) == len(level.rules)
    pairs = {(int(a), int(b)) for a, b in zip(level.leaf, best.leaf, strict=True)}
    assert len(pairs) == len(level.rules) + 1


@pytest.mark.parametrize("best_first", [False, True])
def test_growth_ends_at_its_depth_and_at_its_leaves(best_first: bool) -> None:
    assert depths(grown(best_first=best_first, max_depth=2)).max() == 1
    for most in (1, 2, 3, 5):
        tree = grown(best_first=best_first, max_leaves=most, max_depth=None)
        assert len(tree.rules) + 1 == most


def test_the_best_leaf_is_the_one_of_most_gain_over_all_of_its_rows() -> None:
    _, target, weight = a_problem()
    free = grown(max_depth=1)
    sides = [np.flatnonzero(free.leaf == leaf) for leaf in (0, 1)]
    gains = []
    two = grown(max_depth=2)
    for side in sides:
        before = target.take(side).impurity(weight[side])
        parts = [side[two.leaf[side] == leaf] for leaf in np.unique(two.leaf[side])]
        gains.append(before - sum(target.take(part).impurity(weight[part]) for part in parts))
    best = grown(best_first=True, max_leaves=3, max_depth=None)
    split = [np.unique(best.leaf[side]).size == 2 for side in sides]
    assert split[int(np.argmax(gains))]
    assert sum(split) == 1


def test_a_leaf_that_cannot_be_split_does_not_hold_up_the_others() -> None:
    """Half of the rows are alike, of two classes: the most impure leaf, and no cut parts it."""
    rng = np.random.default_rng(0)
    X = np.concatenate([np.full((100, 2), 9.0), rng.standard_normal((60, 2))])
    code = np.concatenate([np.arange(100) % 2, (X[100:, 0] * X[100:, 1] > 0).astype(int)])
    tree = grown((X, Labels(code, 2), np.ones(160)), best_first=True, max_leaves=5, max_depth=None)
    assert len(tree.rules) == 4
    assert np.unique(tree.leaf[:100]).size == 1
    endless = grown((X[:100], Labels(code[:100], 2), np.ones(100)), best_first=True, max_depth=9)
    assert len(endless.rules) == 0


@pytest.mark.parametrize("best_first", [False, True])
def test_pure_small_and_useless_nodes_stay_leaves(best_first: bool) -> None:
    X, _, weight = a_problem()
    options = {"best_first": best_first}
    pure = Labels(np.zeros(len(X), np.int64), 3)
    assert not grown((X, pure, weight), **options).rules
    assert not grown((X, Values(np.full((len(X), 2), 0.1)), weight), **options).rules
    assert not grown(min_rows=len(X) + 1, **options).rules
    small = grown(min_rows=60, max_depth=8, **options)
    assert small.rules
    reached = walk_counts(small, X)
    assert min(reached) >= 60
    assert not grown(min_gain=10.0, **options).rules
    some, all_of_them = grown(min_gain=0.05, **options), grown(**options)
    assert 0 < len(some.rules) < len(all_of_them.rules)


def walk_counts(tree: GrownTree, X: Any) -> list[int]:
    """Rows that reach each node."""
    reached = [np.zeros(0, np.int64)] * len(tree.rules)
    reached[0] = np.arange(len(X))
    for node, rule in enumerate(tree.rules):
        right = rule.margins(X[reached[node]]) > tree.threshold[node]
        for side, rows in (
            (tree.left[node], reached[node][~right]),
            (tree.right[node], reached[node][right]),
        ):
            assert rows.size > 0
            if side >= 0:
                reached[side] = rows
    return [rows.size for rows in reached]


def test_the_objective_told_is_the_mean_impurity_at_the_leaves() -> None:
    X, target, weight = a_problem()
    steps: list[GrowthStep] = []
    tree = grow(X, target, weight, TRAINING, PLAIN, progress=steps.append)
    assert tuple(steps) == tree.steps
    assert [each.depth for each in steps] == list(range(len(steps)))
    total = sum(
        target.take(rows).impurity(weight[rows])
        for rows in (np.flatnonzero(tree.leaf == leaf) for leaf in range(len(tree.rules) + 1))
    )
    assert steps[-1].objective == pytest.approx(total / weight.sum())
    assert steps[-1].n_nodes == len(tree.rules)
    objectives = [each.objective for each in steps]
    assert objectives == sorted(objectives, reverse=True)


def digest(tree: GrownTree) -> str:
    parts = [tree.left, tree.right, tree.threshold, tree.leaf]
    parts += [getattr(rule, "theta", None) for rule in tree.rules]
    return hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in parts)).hexdigest()


def test_a_seed_is_the_same_tree_in_another_process_and_another_seed_is_not() -> None:
    mine = digest(grown())
    assert digest(grown()) == mine
    assert digest(grown(seed=1)) != mine
    code = f"import runpy; m = runpy.run_path({__file__!r}); print(m['digest'](m['grown']()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == mine

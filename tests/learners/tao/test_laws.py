"""Laws of the node step on random trees: what the reduced problem says is what the tree does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitvec.core.node_tests import MissingRule
from bitvec.learners.tao.axis_solver import best_axis_test
from bitvec.learners.tao.candidates import Candidate, stump, with_tests
from bitvec.learners.tao.idle_nodes import prune
from bitvec.learners.tao.losses import LabelLoss, SquaredLoss, leaf_step
from bitvec.learners.tao.node_step import (
    Step,
    level_step,
    misrouted,
    new_statistics,
    reduced_problems,
)
from bitvec.learners.tao.oblique_solver import Svm
from bitvec.learners.tao.training_rows import Rows, make_rows, reroute, route
from bitvec.learners.tao.tree import NodeKind, Tree

N_CLASSES = 3
SENTINEL = -9.0


def children(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Children of a random tree, nodes in the order in which they are met."""
    left, right = np.zeros(n, np.int64), np.zeros(n, np.int64)
    open_places = [(None, 0)]
    nodes, leaves = 0, 0
    while open_places:
        parent, side = open_places.pop(int(rng.integers(len(open_places))))
        if nodes < n:
            name, nodes = nodes, nodes + 1
            open_places += [(name, 0), (name, 1)]
        else:
            name, leaves = ~leaves, leaves + 1
        if parent is not None:
            (right if side else left)[parent] = name
    return left, right


def draw(seed: int, dtype: type = np.float64) -> tuple[Tree, Rows, np.random.Generator]:
    """A tree of all kinds of nodes, and rows on a coarse grid, where values tie with thresholds."""
    rng = np.random.default_rng(seed)
    n, p, n_rows = int(rng.integers(1, 12)), int(rng.integers(1, 5)), int(rng.integers(1, 60))
    left, right = children(rng, n)
    kind = rng.choice([NodeKind.AXIS, NodeKind.AXIS, NodeKind.OBLIQUE, NodeKind.FIXED], n)
    Z = rng.integers(-3, 4, (n_rows, p)).astype(dtype)
    Z[rng.random(Z.shape) < 0.05] = np.nan
    Z[rng.random(Z.shape) < 0.05] = SENTINEL
    tree = Tree(
        left=left,
        right=right,
        kind=kind.astype(np.uint8),
        feature=rng.integers(0, p, n),
        threshold=rng.integers(-2, 3, n).astype(dtype),
        above=np.where(kind == NodeKind.AXIS, rng.random(n) < 0.5, True),
        at_least=rng.random(n) < 0.5,
        missing_right=rng.random(n) < 0.5,
        missing_rule=rng.integers(0, len(MissingRule), n).astype(np.uint8),
        W=rng.integers(-1, 2, (n, p)).astype(dtype),
        V=np.eye(N_CLASSES)[rng.integers(0, N_CLASSES, n + 1)],
        sentinel=SENTINEL,
    )
    outcomes = rng.random((n, n_rows)) < 0.5
    rows = make_rows(Z, n_threads=1, is_sorted=True, outcomes=outcomes, outcome_row=np.arange(n))
    return tree, rows, rng


def label_loss(rows: Rows, rng: np.random.Generator) -> LabelLoss:
    """Costs and weights of whole numbers, whose sums are exact."""
    cost = rng.integers(0, 4, (N_CLASSES, N_CLASSES)) * (1.0 - np.eye(N_CLASSES))
    y = rng.integers(0, N_CLASSES, rows.n_rows)
    return LabelLoss(y, rng.integers(0, 3, rows.n_rows).astype(float), cost)


def is_missing(x: float, rule: int) -> bool:
    """The rules of `MissingRule`, one by one."""
    if np.isnan(x):
        return True
    if rule == MissingRule.NAN_OR_ZERO:
        return abs(x) <= 1e-35
    return bool(rule == MissingRule.NAN_OR_SENTINEL and x == SENTINEL)


def literal_leaf(tree: Tree, rows: Rows, row: int) -> int:
    """The walk of one row, as the fields of `Tree` say it."""
    at = 0
    while at >= 0:
        read = [tree.feature[at]]
        if tree.kind[at] == NodeKind.OBLIQUE:
            read = np.flatnonzero(tree.W[at])
        x = rows.Z[row, read]
        if tree.kind[at] == NodeKind.FIXED:
            assert rows.outcomes is not None
            right = rows.outcomes[at, row]
        elif any(is_missing(value, tree.missing_rule[at]) for value in x):
            right = tree.missing_right[at]
        else:
            z = x[0] if tree.kind[at] == NodeKind.AXIS else x @ tree.W[at, read]
            over = z >= tree.threshold[at] if tree.at_least[at] else z > tree.threshold[at]
            right = over == tree.above[at]
        at = int(tree.right[at] if right else tree.left[at])
    return ~at


def total(tree: Tree, rows: Rows, loss: LabelLoss | SquaredLoss) -> float:
    """The loss of all rows, by the literal walk."""
    leaf = np.array([literal_leaf(tree, rows, row) for row in range(rows.n_rows)])
    return float(loss.of(tree, rows, np.arange(rows.n_rows), leaf).sum())


def random_test(tree: Tree, rng: np.random.Generator) -> Candidate:
    """Any test that a node could take."""
    threshold = tree.dtype.type(rng.integers(-2, 3))
    if rng.random() < 0.5:
        w = rng.integers(-1, 2, tree.n_features).astype(tree.dtype)
        return Candidate(NodeKind.OBLIQUE, 0, threshold, True, w)
    feature = int(rng.integers(tree.n_features))
    return Candidate(NodeKind.AXIS, feature, threshold, bool(rng.random() < 0.5), None)


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_paths_are_the_literal_walk(seed, dtype):
    tree, rows, _ = draw(seed, dtype)
    exits = ~route(rows, tree)[-1]
    assert exits.tolist() == [literal_leaf(tree, rows, row) for row in range(rows.n_rows)]


@given(seeds)
def test_routing_anew_what_has_changed_is_routing_anew(seed):
    tree, rows, rng = draw(seed)
    changed = rng.random(tree.n_nodes) < 0.4
    chosen = {int(node): random_test(tree, rng) for node in np.flatnonzero(changed)}
    moved = with_tests(tree, chosen)
    before = route(rows, tree)
    assert np.array_equal(reroute(rows, moved, changed, before), route(rows, moved))


@settings(max_examples=25)
@given(seeds)
def test_the_objective_changes_by_what_the_reduced_problem_says(seed):
    tree, rows, rng = draw(seed)
    loss = label_loss(rows, rng)
    paths, depth = route(rows, tree), tree.depth
    everywhere, now = np.ones(tree.n_nodes, bool), total(tree, rows, loss)
    for level in range(int(depth.max()) + 1):
        problems = reduced_problems(tree, rows, loss, paths[level], everywhere)
        for node, problem in problems.items():
            assert depth[node] == level
            test = random_test(tree, rng)
            moved = with_tests(tree, {node: test})
            difference = total(moved, rows, loss) - now
            reduced = misrouted(stump(tree, node, test), rows, 0, problem)
            assert difference == reduced - misrouted(rows.walk(tree), rows, node, problem)


@given(seeds)
def test_care_rows_are_those_whose_sides_differ(seed):
    tree, rows, rng = draw(seed)
    loss = label_loss(rows, rng)
    problems = reduced_problems(tree, rows, loss, route(rows, tree)[0], np.ones(tree.n_nodes, bool))
    problem = problems[0]
    assert problem.n_rows == rows.n_rows
    kind = tree.kind.copy()
    kind[0] = NodeKind.FIXED
    costs = []
    for side in (False, True):
        outcomes = rows.outcomes.copy()
        outcomes[0] = side
        leaf = ~route(replace(rows, outcomes=outcomes), replace(tree, kind=kind))[-1]
        costs.append(loss.of(tree, rows, np.arange(rows.n_rows), leaf))
    left, right = costs
    assert problem.care.tolist() == np.flatnonzero(left != right).tolist()
    assert np.array_equal(problem.target, (right < left)[problem.care])
    assert np.array_equal(problem.weight, np.abs(left - right)[problem.care])


def brute_force(tree: Tree, rows: Rows, node: int, care, target, weight) -> float:
    """The least weight that any axis-aligned test misroutes, over every cut."""
    best = np.inf
    for feature in range(rows.Z.shape[1]):
        x = rows.Z[care, feature].astype(np.float64)
        missing = np.array([is_missing(value, tree.missing_rule[node]) for value in x], bool)
        values = np.unique(x[~missing])
        if not values.size:
            continue
        cuts = [values[0] - 1, *(values[:-1] + values[1:]) / 2]
        for cut in cuts:
            for above in (False, True):
                right = np.where(missing, tree.missing_right[node], (x > cut) == above)
                best = min(best, float(weight[right != target].sum()))
    return best


@given(seeds, st.booleans(), st.sampled_from([np.float32, np.float64]))
def test_the_axis_aligned_solver_is_brute_force(seed, is_sorted, dtype):
    tree, rows, rng = draw(seed, dtype)
    if not is_sorted:
        rows = replace(rows, order=np.zeros((0, 0), np.int64))
    care = np.flatnonzero(rng.random(rows.n_rows) < rng.choice([0.2, 0.9]))
    target = rng.random(care.size) < rng.random()
    weight = rng.integers(1, 5, care.size).astype(float)
    best = brute_force(tree, rows, 0, care, target, weight)
    test = best_axis_test(tree, rows, 0, care, target, weight)
    assert (test is None) == (best == np.inf)
    if test is not None:
        problems = reduced_problems(
            tree, rows, label_loss(rows, rng), route(rows, tree)[0], np.ones(tree.n_nodes, bool)
        )
        problem = replace(problems[0], care=care, target=target, weight=weight)
        assert misrouted(stump(tree, 0, test), rows, 0, problem) == best


@pytest.mark.parametrize("at_least", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_threshold_lies_between_neighbouring_floats(at_least, dtype):
    low = dtype(1)
    x = np.array([[low], [np.nextafter(low, dtype(2))]], dtype)
    rows = make_rows(x, n_threads=1, is_sorted=True)
    tree, _, _ = draw(0, dtype)
    tree = replace(
        tree,
        W=np.zeros((0, 1), dtype),
        kind=np.zeros(tree.n_nodes, np.uint8),
        feature=np.zeros(tree.n_nodes, np.int64),
        at_least=np.full(tree.n_nodes, at_least),
    )
    target = np.array([False, True])
    test = best_axis_test(tree, rows, 0, np.arange(2), target, np.ones(2))
    assert test is not None
    above = x[:, 0] >= test.threshold if at_least else x[:, 0] > test.threshold
    assert (above == test.above).tolist() == target.tolist()


@settings(max_examples=25)
@given(seeds, st.booleans(), st.booleans())
def test_no_node_step_and_no_leaf_step_raises_the_objective(seed, is_squared, is_oblique):
    tree, rows, rng = draw(seed)
    if is_squared:
        Y = rng.standard_normal((rows.n_rows, N_CLASSES))
        loss = SquaredLoss(Y, rng.random(rows.n_rows))
    else:
        loss = label_loss(rows, rng)
    step = Step(is_oblique, True, Svm(), 0.0)
    trainable = (tree.kind != NodeKind.FIXED) & (rng.random(tree.n_nodes) < 0.8)
    paths, now = route(rows, tree), total(tree, rows, loss)
    first = tree
    # Sums over rows in another order differ by rounding; those of whole numbers do not.
    rounding = 1e-9 * max(now, 1) if is_squared else 0.0
    for level in range(int(tree.depth.max()), -1, -1):
        tree, _ = level_step(
            tree, rows, loss, paths[level], trainable, step, new_statistics(tree.n_nodes)
        )
        after = total(tree, rows, loss)
        assert after <= now + rounding
        now = after
    tree = leaf_step(tree, rows, loss, ~route(rows, tree)[-1])
    assert total(tree, rows, loss) <= now + rounding
    for name in ("kind", "feature", "threshold", "above", "W"):
        assert np.array_equal(getattr(tree, name)[~trainable], getattr(first, name)[~trainable])


@given(seeds)
def test_a_leaf_that_no_row_reaches_keeps_what_it_holds(seed):
    tree, rows, rng = draw(seed)
    leaf = ~route(rows, tree)[-1]
    moved = leaf_step(tree, rows, label_loss(rows, rng), leaf)
    empty = np.bincount(leaf, minlength=tree.n_leaves) == 0
    assert np.array_equal(moved.V[empty], tree.V[empty])


@given(seeds)
def test_a_leaf_takes_the_label_of_least_cost(seed):
    tree, rows, rng = draw(seed)
    loss, leaf = label_loss(rows, rng), ~route(rows, tree)[-1]
    moved = leaf_step(tree, rows, loss, leaf)
    for number in np.unique(leaf):
        at = np.flatnonzero(leaf == number)
        costs = [
            (loss.weight[at] * loss.cost[loss.y[at], label]).sum() for label in range(N_CLASSES)
        ]
        assert costs[moved.V[number].argmax()] == min(costs)


@given(seeds)
def test_pruning_keeps_the_prediction_of_every_training_row(seed):
    tree, rows, rng = draw(seed)
    # Fixed nodes are looked up by their number, which pruning changes: native trees have none.
    kind = np.where(tree.kind == NodeKind.FIXED, NodeKind.OBLIQUE, tree.kind).astype(np.uint8)
    dead = rng.random(tree.n_nodes) < 0.2
    tree = replace(tree, kind=kind, W=np.where(dead[:, None], 0.0, tree.W))
    tree = replace(tree, above=tree.above | (kind == NodeKind.OBLIQUE))
    pruned = prune(tree, rows)
    before = tree.V[~route(rows, tree)[-1]]
    assert np.array_equal(pruned.V[~route(rows, pruned)[-1]], before)
    again = prune(pruned, rows)
    assert again.n_nodes == pruned.n_nodes
    leaf = ~route(rows, pruned)[-1]
    if pruned.n_nodes:
        assert np.unique(leaf).size == pruned.n_leaves
    for node in range(pruned.n_nodes):
        sides = pruned.left[node], pruned.right[node]
        if max(sides) < 0:
            assert not np.array_equal(pruned.V[~sides[0]], pruned.V[~sides[1]])
        assert pruned.kind[node] == NodeKind.AXIS or pruned.W[node].any()

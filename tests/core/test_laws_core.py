"""Laws of the representation: the four hard forms, the traversal and B itself, on drawn forests."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, KERNEL, KINDS, ONE_HOT, bitvectors, forests, forests_with_rows, rows

from bitvec.core import matrices, reference, structure, tree_paths
from bitvec.core.forest import Forest
from bitvec.core.kernels import box
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.output import Aggregate


@given(forests_with_rows())
def test_every_hard_form_is_the_traversal(drawn):
    forest, X = drawn
    Z = reference.columns(forest, X)
    h = reference.hard_tests(forest, Z)
    walked = reference.exit_leaf_traversal(forest, Z)
    B = forest.bitvectors
    assert np.array_equal(reference.exit_leaf_bitvector(B, h), walked)
    assert np.array_equal(reference.exit_leaf_ternary(B, h), walked)
    assert np.array_equal(reference.exit_leaf_packed(B, h), walked)
    assert np.array_equal(reference.exit_leaves(forest, X), walked)


@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_two_sided_margins_name_the_exit_leaf_where_no_margin_is_zero(B, seed):
    rng = np.random.default_rng(seed)
    # Multiples of 1/64 below 16 sum exactly in float64, so equality is exact.
    m = rng.integers(1, 1024, (16, B.n_nodes)) / 64 * rng.choice([-1, 1], (16, B.n_nodes))
    expected = reference.exit_leaf_bitvector(B, m > 0)
    assert np.array_equal(reference.exit_leaf_two_sided(B, m), expected)


@given(bitvectors())
def test_children_to_B_to_children_is_the_identity(B):
    left, right = structure.children(B)
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    again, order = structure.arrange(left, right, roots)
    for name in ("lo", "mid", "hi", "leaf_ptr"):
        assert np.array_equal(getattr(again, name), getattr(B, name))
    assert np.array_equal(order.node, np.arange(B.n_nodes))
    assert np.array_equal(~order.leaf, np.arange(B.n_leaves))


@given(bitvectors(max_trees=1))
def test_the_dense_matrix_determines_the_tree(B):
    again = matrices.from_dense(matrices.dense(B))
    assert np.array_equal(again.lo, B.lo)
    assert np.array_equal(again.mid, B.mid)
    assert np.array_equal(again.hi, B.hi)


@given(bitvectors(max_trees=1))
def test_structure_facts_of_B(B):
    dense = matrices.dense(B)
    assert np.all(dense[-1] == 1), "the last row is all ones"
    left_spine = B.lo == 0
    assert np.array_equal(dense[0] == 0, left_spine), "the first row is 0 on the left spine"
    if B.n_nodes:
        assert np.linalg.matrix_rank(dense.astype(float)) == B.n_nodes
    D = matrices.ternary(B)
    assert np.array_equal(dense == 0, D == -1)
    assert np.array_equal(np.abs(D).sum(axis=1), tree_paths.leaf_depth(B))


@given(bitvectors())
def test_packed_words_are_the_dense_columns(B):
    for tree in range(B.n_trees):
        part = B.tree(tree)
        words = matrices.packed(part)
        bits = (words[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        bits = bits.reshape(part.n_nodes, 64 * words.shape[1])
        assert np.array_equal(bits[:, : part.n_leaves], matrices.dense(part).T)
        assert not bits[:, part.n_leaves :].any()


@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_interval_scores_are_the_dense_product(B, seed):
    h = np.random.default_rng(seed).random((5, B.n_nodes)) < 0.5
    for tree in range(B.n_trees):
        first, last = B.node_ptr[tree], B.node_ptr[tree + 1]
        part = B.tree(tree)
        product = h[:, first:last].astype(int) @ matrices.dense(part).T.astype(int)
        assert np.array_equal(matrices.scores(part, h[:, first:last]), product)


@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_paths_lead_to_their_leaves(B, seed):
    ptr, node, right = tree_paths.path_table(B)
    for leaf in np.random.default_rng(seed).integers(0, B.n_leaves, 5):
        at = slice(ptr[leaf], ptr[leaf + 1])
        pairs = zip(node[at].tolist(), right[at].tolist(), strict=True)
        assert list(pairs) == tree_paths.path(B, int(leaf))


@given(forests_with_rows())
def test_a_tree_view_answers_as_the_tree_in_its_forest(drawn):
    forest, X = drawn
    exits = reference.exit_leaves(forest, X)
    for tree in range(forest.n_trees):
        assert np.array_equal(reference.exit_leaves(forest[tree], X)[:, 0], exits[:, tree])


@given(bitvectors(max_leaves=40), st.integers(0, 2**32 - 1))
def test_sigmoid_memberships_sum_to_one_and_tend_to_the_exit_leaf(B, seed):
    rng = np.random.default_rng(seed)
    m = rng.uniform(0.01, 3, (8, B.n_nodes)) * rng.choice([-1, 1], (8, B.n_nodes))
    for tree in range(B.n_trees):
        part = B.tree(tree)
        margin = m[:, B.node_ptr[tree] : B.node_ptr[tree + 1]]
        soft = reference.sigmoid_memberships(part, margin)
        assert np.allclose(soft.sum(axis=1), 1, rtol=0, atol=1e-12), "float64 rounding"
        hard = reference.sigmoid_memberships(part, margin, gamma=1e5)
        exits = reference.exit_leaf_bitvector(part, margin > 0)[:, 0]
        # exp(-1e5 · 0.01) is 0 in float64, so the limit is reached exactly.
        assert np.array_equal(hard.argmax(axis=1), exits)
        assert np.array_equal(hard.max(axis=1), np.ones(8))


@given(st.data())
def test_kernel_memberships_sum_to_one_and_follow_the_kernel(data):
    forest = data.draw(forests(kinds=(KERNEL,), soft=True, max_leaves=8, dtypes=(np.float64,)))
    X = data.draw(rows(forest))
    if forest.kernel is None:
        return
    u = reference.kernel_memberships(forest, X)
    ptr = forest.bitvectors.leaf_ptr
    for tree in range(forest.n_trees):
        total = u[:, ptr[tree] : ptr[tree + 1]].sum(axis=1)
        assert np.allclose(total, 1, rtol=0, atol=1e-12), "sums of float64 products"


@given(forests_with_rows(kinds=KINDS))
def test_no_test_depends_on_other_rows(drawn):
    forest, X = drawn
    together = reference.raw(forest, X)
    for row in range(min(len(X), 3)):
        alone = reference.raw(forest, X[row : row + 1])[0]
        assert np.array_equal(alone, together[row], equal_nan=True)


@given(forests_with_rows(kinds=ONE_HOT))
def test_one_hot_tests_gather_and_compare(drawn):
    forest, X = drawn
    h = reference.hard_tests(forest, X)
    tests = forest.tests
    plain = (tests.kind == Kind.MARGIN) & (tests.missing_rule == 0)
    for node in np.flatnonzero(plain):
        x = X[:, tests.feature[node]]
        right = x >= tests.b[node] if tests.relation[node] else x > tests.b[node]
        right = np.where(np.isnan(x), tests.missing_right[node], right)
        assert np.array_equal(h[:, node], right)


@given(st.data())
def test_a_soft_forest_of_zero_bandwidth_answers_as_the_hard_one(data):
    forest = data.draw(
        forests(kinds=(KERNEL,), soft=True, max_leaves=8, aggregates=tuple(Aggregate)[:4])
    )
    X = data.draw(rows(forest))
    if forest.kernel is None:
        return
    crisp = replace(forest, kernel=(box(0.0),) * forest.n_features)
    hard = replace(forest, kernel=None)
    finite = np.isfinite(X).all(axis=1)  # infinity minus infinity has no place under a kernel
    ours, expected = reference.raw(crisp, X)[finite], reference.raw(hard, X)[finite]
    assert np.array_equal(ours, expected, equal_nan=True)


@given(st.data())
def test_a_finite_row_lies_in_the_box_of_its_exit_leaf_alone(data):
    forest = data.draw(forests(kinds=(AXIS,), missing_rules=(MissingRule.NAN,), linear=False))
    X = data.draw(rows(forest, finite=True))
    exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    boxes = leaf_boxes(forest)
    for row, x in enumerate(X):
        inside = [all(low < float(x[column]) <= high for column, low, high in box) for box in boxes]
        assert np.flatnonzero(inside).tolist() == sorted(exits[row].tolist())


Box = list[tuple[int, float, float]]
"""(column, low, high) for each column that the path compares: low < x <= high, for finite x."""


def leaf_boxes(forest: Forest) -> list[Box]:
    """Return the box of each leaf, only the columns that its path compares listed.

    Only margin and kernel nodes of one column count; other tests bound no interval. A test x >= b
    counts as x > the float before b in the forest's dtype, so that every box is open below and
    closed above. An unreachable leaf has an empty box, low >= high.
    """
    tests = forest.tests
    interval = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    feature = np.where(interval, tests.feature, -1)
    with np.errstate(over="ignore"):
        before = np.nextafter(tests.b, tests.dtype.type(-np.inf))
    b = np.where(tests.relation == Relation.GREATER, tests.b, before)
    ptr, node, goes_right = tree_paths.path_table(forest.bitvectors)
    boxes: list[Box] = []
    for leaf in range(forest.n_leaves):
        bounds: dict[int, tuple[float, float]] = {}
        for at in range(ptr[leaf], ptr[leaf + 1]):
            column, threshold = int(feature[node[at]]), float(b[node[at]])
            if column < 0:
                continue
            low, high = bounds.get(column, (-math.inf, math.inf))
            if goes_right[at]:
                low = max(low, threshold)
            else:
                high = min(high, threshold)
            bounds[column] = (low, high)
        boxes.append([(column, *bound) for column, bound in sorted(bounds.items())])
    return boxes

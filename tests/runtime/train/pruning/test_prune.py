"""Pruning removes what decides nothing, all of it, and no answer changes."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, ONE_HOT, forests, forests_with_rows, rows

import bitvec
from bitvec.core import reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import MissingRule, Relation, axis_aligned
from bitvec.core.output import Output
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors

pytest.importorskip("torch")  # of which the package of retraining is in need

from bitvec.runtime.train.pruning.nesting import around
from bitvec.runtime.train.pruning.prune import prune
from bitvec.runtime.train.pruning.unreachable import unreachable_leaves

CHAIN = [[0, 0], [0, 1], [1, 1]]
"""B of a chain: the root's left child asks again."""


@st.composite
def repetitive_forests(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> Forest:
    """Forests whose leaves are often equal, and whose nodes often ask what was asked above."""
    forest = draw(forests(kinds=kinds, max_trees=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    leaves = forest.leaves
    v = rng.choice([0.0, -0.0, 1.0, np.nan], size=leaves.v.shape, p=[0.6, 0.1, 0.2, 0.1])
    leaves = replace(leaves, v=v.astype(leaves.v.dtype))
    if leaves.linear is not None:
        count = np.diff(leaves.linear.leaf_ptr)
        position = np.arange(count.sum()) - np.repeat(leaves.linear.leaf_ptr[:-1], count)
        weight = np.repeat(position[:, None] % 2, v.shape[1], axis=1)
        leaves = replace(
            leaves,
            linear=LinearTerms(
                leaves.linear.leaf_ptr,
                np.zeros(position.size, np.int32),
                weight.astype(leaves.v.dtype),
                rng.choice([0.0, 1.0], size=v.shape).astype(leaves.v.dtype),
                leaves.linear.zero_threshold,
            ),
        )
    return replace(forest, leaves=leaves)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether floats are equal, signed zeros told apart and every NaN alike."""
    equal = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
    return bool(np.all(equal))


def nested(forest: Forest, kept: structure.Reordering | None = None) -> list:
    """Return each tree as (node, left, right), a leaf as ("leaf", number), by original numbers."""
    left, right = structure.children(forest.bitvectors)
    node = np.arange(forest.n_nodes) if kept is None else kept.node
    leaf = np.arange(forest.n_leaves) if kept is None else kept.leaf

    def below(child: int):
        if child < 0:
            return ("leaf", int(leaf[~child]))
        return (int(node[child]), below(left[child]), below(right[child]))

    B = forest.bitvectors
    has_nodes = np.diff(B.leaf_ptr) > 1
    return [below(r) for r in np.where(has_nodes, B.node_ptr[:-1], ~B.leaf_ptr[:-1])]


def without_empty(tree, reached: set[int]):
    """Prune one tree literally: None where nothing is reached."""
    if tree[0] == "leaf":
        return tree if tree[1] in reached else None
    node, left, right = tree[0], without_empty(tree[1], reached), without_empty(tree[2], reached)
    return (node, left, right) if left and right else left or right


def without_equal(tree, content: list):
    """Put a leaf in the place of two equal ones, from the leaves up."""
    if tree[0] == "leaf":
        return tree
    left, right = without_equal(tree[1], content), without_equal(tree[2], content)
    both_leaves = left[0] == right[0] == "leaf"
    if both_leaves and content[left[1]] == content[right[1]]:
        return left
    return (tree[0], left, right)


def contents(forest: Forest) -> list:
    """Return what each leaf holds, as bytes."""
    linear, held = forest.leaves.linear, []
    for leaf in range(forest.n_leaves):
        own = [forest.leaves.v[leaf].tobytes()]
        if forest.leaves.output is not None:
            own.append(int(forest.leaves.output[leaf]))
        if linear is not None:
            part = slice(linear.leaf_ptr[leaf], linear.leaf_ptr[leaf + 1])
            if part.stop > part.start:
                own.append(linear.constant[leaf].tobytes())
            own += [linear.column[part].tobytes(), linear.weight[part].tobytes()]
        held.append(own)
    return held


@given(forests_with_rows(kinds=KINDS))
@settings(max_examples=15)
def test_rows_of_X_are_answered_bit_for_bit(case):
    forest, X = case
    result = prune(forest, X)
    assert result.certified
    assert same_bits(reference.raw(result.forest, X), reference.raw(forest, X))
    assert result.removed == forest.n_nodes - result.forest.n_nodes


@given(forests_with_rows(kinds=KINDS), st.booleans())
@settings(max_examples=15)
def test_a_branch_stays_if_and_only_if_a_row_reaches_it(case, unreachable):
    forest, X = case
    result = prune(forest, X, equal=False, unreachable=unreachable)
    exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    reached = set(exits.ravel().tolist())
    expected = [without_empty(tree, reached) for tree in nested(forest)]
    assert nested(result.forest, result.kept) == expected
    assert result.empty == result.removed
    assert set(result.kept.leaf.tolist()) == reached


@given(repetitive_forests())
@settings(max_examples=15)
def test_equal_leaves_become_one_and_no_others(forest):
    result = prune(forest, empty=False, unreachable=False)
    content = contents(forest)
    expected = [without_equal(tree, content) for tree in nested(forest)]
    assert nested(result.forest, result.kept) == expected
    assert result.equal == result.removed


@given(st.data())
@settings(max_examples=15)
def test_without_X_every_row_is_answered_bit_for_bit(data):
    forest = data.draw(repetitive_forests())
    X = data.draw(rows(forest))
    for options in ({}, {"unreachable": False}, {"equal": False}):
        pruned = prune(forest, **options).forest
        assert same_bits(reference.raw(pruned, X), reference.raw(forest, X))


@given(st.data())
@settings(max_examples=10)
def test_what_is_pruned_has_nothing_left_to_prune(data):
    forest = data.draw(repetitive_forests())
    X = data.draw(rows(forest))
    for arguments in ((), (X,)):
        once = prune(forest, *arguments)
        twice = prune(once.forest, *arguments)
        assert twice.removed == 0
        assert twice.forest is once.forest


@given(forests(kinds=ONE_HOT, max_trees=1), st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_what_was_kept_is_what_stood_there(forest, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3, forest.n_features)).astype(forest.dtype)
    result = prune(forest, X)
    assert np.array_equal(result.forest.tests.b, forest.tests.b[result.kept.node], equal_nan=True)
    assert np.array_equal(result.forest.leaves.v, forest.leaves.v[result.kept.leaf])


@given(forests(kinds=("axis",), max_trees=3), st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_intervals_are_nested_as_they_are_one_by_one(forest, seed):
    B = forest.bitvectors
    group = B.tree_of_node * 2 + np.random.default_rng(seed).integers(0, 2, B.n_nodes)
    depth, nearest = around(group, B.lo, B.hi)
    for i in range(B.n_nodes):
        outer = np.flatnonzero(
            (group == group[i])
            & (B.lo <= B.lo[i])
            & (B.hi >= B.hi[i])
            & (np.arange(len(group)) != i)
        )
        assert depth[i] == outer.size
        smallest = outer[np.argmin((B.hi - B.lo)[outer])] if outer.size else -1
        assert nearest[i] == smallest


def chain(upper: float, lower: float, **rules) -> Forest:
    """A node that asks x > `upper` and, left of it, one that asks x > `lower`."""
    tree = Forest.from_matrices([[1], [1]], [0, 0], CHAIN, [10, 20, 30])
    return replace(tree, tests=axis_aligned([0, 0], np.array([upper, lower]), **rules))


@pytest.mark.parametrize(
    ("forest", "unreachable"),
    [
        (chain(0.0, 1.0), [False, True, False]),
        (chain(1.0, 0.0), [False, False, False]),
        (chain(0.0, 0.0), [False, True, False]),
        (chain(-0.0, 0.0), [False, True, False]),
        # x <= 0 above: of x >= 0, 0 itself is left; x < 0 above leaves nothing.
        (chain(0.0, 0.0, relation=np.array([0, 1])), [False, False, False]),
        (chain(0.0, 0.0, relation=np.array([1, 1])), [False, True, False]),
        (chain(0.0, 0.0, relation=np.array([1, 0])), [False, True, False]),
        # A missing value gets there.
        (chain(0.0, 1.0, missing_right=np.array([False, True])), [False, False, False]),
        (chain(0.0, 1.0, missing_right=np.array([True, True])), [False, True, False]),
        # Nothing exceeds infinity, and everything but a missing value is at least minus infinity.
        (chain(np.inf, 0.0), [False, False, True]),
        (chain(-np.inf, 0.0, relation=Relation.GREATER_EQUAL), [False, True, False]),
        (
            chain(
                -np.inf,
                -np.inf,
                relation=Relation.GREATER_EQUAL,
                missing_right=np.array([True, False]),
            ),
            [True, True, False],
        ),
        (chain(np.nextafter(0, 1), 0.0), [False, False, False]),
        (chain(np.nextafter(0, 1), 0.0, relation=np.array([1, 0])), [False, True, False]),
        # Zeros are missing to the lower node, and go right there.
        (
            chain(0.0, 1.0, missing_rule=np.array([0, 1]), missing_right=np.array([False, True])),
            [False, False, False],
        ),
        (
            chain(0.0, 1.0, missing_rule=MissingRule.NAN_OR_SENTINEL),
            [False, True, False],
        ),
    ],
    ids=str,
)
def test_a_side_is_out_of_reach_if_no_value_is_left_for_it(forest, unreachable):
    assert unreachable_leaves(forest).tolist() == unreachable


def test_a_sentinel_that_goes_its_own_way_is_no_proof():
    forest = chain(0.0, 1.0, missing_rule=MissingRule.NAN_OR_SENTINEL)
    forest = replace(forest, inputs=Inputs(1, missing_sentinel=-999.0))
    assert not unreachable_leaves(forest).any()


def sourced(tree: Forest, **known) -> Forest:
    """The chain with ids 0 and 1 of nodes, 12, 13 and 14 of leaves, and what else is known."""
    return replace(
        tree,
        source=Source("library", "1", node_id=np.arange(2), leaf_id=np.arange(12, 15), **known),
    )


def test_ids_name_the_nodes_and_leaves_that_are_left():
    pruned = prune(sourced(chain(1.0, 0.0)), [[-1.0], [2.0]]).forest
    assert pruned.source.node_id.tolist() == [0]
    assert pruned.source.leaf_id.tolist() == [12, 14]
    assert bitvec.compile(pruned).apply([[-1.0], [2.0]]).ravel().tolist() == [12, 14]


def test_a_leaf_that_stands_for_several_has_no_id_but_all_of_their_rows():
    forest = sourced(
        chain(1.0, 0.0), leaf_cover=np.array([3.0, 4.0, 5.0]), node_cover=np.array([12.0, 7.0])
    )
    forest = replace(forest, leaves=Leaves(np.array([[7.0], [7.0], [8.0]])))
    source = prune(forest).forest.source
    assert source.leaf_id is None
    assert source.node_id.tolist() == [0]
    assert source.leaf_cover.tolist() == [7.0, 5.0]
    assert source.node_cover.tolist() == [12.0]


@pytest.mark.parametrize(("in_the_middle", "stays"), [(0.0, True), (4.0, False)])
def test_covers_stay_where_the_source_too_had_no_rows_in_what_is_gone(in_the_middle, stays):
    forest = sourced(
        chain(1.0, 0.0),
        leaf_cover=np.array([3.0, in_the_middle, 5.0]),
        node_cover=np.array([8.0, 3.0]) + in_the_middle,
        gain=np.array([0.5, 0.25]),
    )
    source = prune(forest, [[-1.0], [2.0]]).forest.source
    assert (source.leaf_cover is not None) == (source.node_cover is not None) == stays
    assert source.gain.tolist() == [0.5]


def test_a_tree_may_shrink_to_one_leaf_and_a_forest_may_have_no_tree():
    forest = chain(1.0, 0.0)
    result = prune(forest, [[-1.0]])
    assert (result.forest.n_nodes, result.forest.n_leaves) == (0, 1)
    assert prune(result.forest, [[5.0]]).forest is result.forest
    none = forest[:0]
    assert prune(none, [[5.0]]).forest is none
    assert prune(none).certified is False


def test_a_chain_of_many_nodes_is_pruned_without_recursion():
    n = 100_000
    i = np.arange(n, dtype=np.int32)
    forest = Forest(
        tests=axis_aligned(np.zeros(n, int), np.where(i % 2, i, 0).astype(np.float32)),
        bitvectors=Bitvectors(i, i + 1, np.full(n, n + 1, np.int32), np.array([0, n + 1])),
        leaves=Leaves(np.arange(n + 1, dtype=np.float32)[:, None]),
        output=Output(1, np.dtype(np.float32)),
        inputs=Inputs(1),
    )
    # x > 0, x > 1, x > 0 (known), x > 3, x > 0 (known) ...
    assert prune(forest).unreachable == n // 2 - 1


def test_a_soft_prediction_reaches_every_leaf_so_it_is_refused():
    from bitvec.core.kernels import box

    forest = Forest.from_matrices([[1]], [0.0], [[0], [1]], [1, 1])
    forest = replace(
        forest,
        tests=replace(forest.tests, kind=np.array([3], np.uint8)),
        kernel=(box(1.0),),
    )
    with pytest.raises(bitvec.errors.UnsupportedModelError, match="reaches every leaf"):
        prune(forest, [[0.0]])
    assert prune(replace(forest, kernel=None)).equal == 1


def test_rows_are_needed_to_say_which_branches_are_empty():
    forest = chain(1.0, 0.0)
    with pytest.raises(bitvec.errors.InputError, match="at least one row"):
        prune(forest, np.zeros((0, 1)))
    assert prune(forest, np.zeros((0, 1)), empty=False).certified is False
    with pytest.raises(bitvec.errors.InputError, match="1 features"):
        prune(forest, [[0.0, 1.0]])
    with pytest.raises(TypeError, match="a bitvec Forest must be given"):
        prune(None)


def test_an_answer_that_changed_is_never_passed_over(monkeypatch):
    module = sys.modules["bitvec.runtime.train.pruning.prune"]
    monkeypatch.setattr(module, "_reached", lambda forest, engine, X: np.array([True, False, True]))
    with pytest.raises(bitvec.BitvecError, match="other raw scores for 1 of 2 rows"):
        prune(chain(1.0, 0.0), [[0.5], [2.0]])


def test_the_result_says_what_went_and_why():
    result = prune(chain(0.0, 1.0))
    assert str(result) == (
        "1 of 2 nodes removed: 0 that rows pass one way only, 1 that every row passes one way "
        "only, 0 over equal leaves; raw scores not compared on any row"
    )
    assert "raw scores equal on the rows given" in str(prune(chain(0.0, 1.0), [[0.0]]))


def test_a_pruned_booster_is_written_back_and_answers_its_rows_the_same(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) > np.nan_to_num(X[:, 1])).astype(int)
    model = xgboost.XGBClassifier(n_estimators=12, max_depth=6, min_child_weight=0, n_jobs=1).fit(
        X, y
    )
    few = X[:60]
    result = prune(bitvec.convert(model), few)
    assert result.empty > 0
    path = bitvec.export(result.forest, tmp_path / "pruned.ubj")
    booster = xgboost.Booster(model_file=path)
    written = booster.predict(xgboost.DMatrix(few), output_margin=True)
    original = model.predict(few, output_margin=True)
    assert np.array_equal(written, original)

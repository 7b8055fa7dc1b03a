"""A proof holds if and only if no row tells a forest from its source's trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_walks import exit_leaves
from strategies import AXIS, EQUAL, SET, examples, forests, rows

from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, NodeTests, Relation, axis_aligned
from bitvec.core.output import Aggregate
from bitvec.core.source import Source
from bitvec.verify.certificates import proof
from bitvec.verify.certificates.proof import Proof, prove
from bitvec.verify.source_trees import SourceTrees, of_forest

FLIPPED = ("relation", "missing_right", "other_right", "kind", "code_rule", "missing_rule")


def proved(forest: Forest, trees: SourceTrees, **options: bool) -> Proof:
    return prove(forest, trees, **{"missing": True, "infinite": True, **options})


def joined(a: NodeTests, b: NodeTests) -> NodeTests:
    """The tests of both, one after the other."""
    parts = {}
    for name in NodeTests.__dataclass_fields__:
        x, y = getattr(a, name), getattr(b, name)
        if name.endswith("_ptr"):
            parts[name] = np.concatenate([x, y[1:] + x[-1]])
        else:
            parts[name] = None if x is None else np.concatenate([x, y])
    return NodeTests(**parts)


def rewritten(trees: SourceTrees, rng: np.random.Generator) -> SourceTrees:
    """The same function otherwise: nodes renumbered, sets turned round, needless tests put in."""
    tests, n = trees.tests, trees.tests.n_nodes
    if n == 0:
        return trees
    left, right, root = trees.left.copy(), trees.right.copy(), trees.root.copy()
    # A set and its complement, with the children exchanged.
    turned = (tests.kind == Kind.SET) & (rng.random(n) < 0.5)
    words = tests.set_words.copy()
    words[np.repeat(turned, np.diff(tests.set_ptr))] ^= np.uint32(0xFFFFFFFF)
    left[turned], right[turned] = right[turned], left[turned]
    tests = replace(
        tests,
        set_words=words,
        other_right=tests.other_right ^ turned,
        missing_right=tests.missing_right ^ turned,
    )
    # A node asked again just below itself, and a node both of whose sides lead to one subtree.
    again, idle = np.flatnonzero(rng.random(n) < 0.3), np.flatnonzero(rng.random(n) < 0.3)
    tests = joined(joined(tests, tests.take(again)), tests.take(rng.integers(n, size=idle.size)))
    new = n + np.arange(again.size)
    junk = ~rng.integers(len(trees.v), size=again.size)
    left, right = np.concatenate([left, left[again]]), np.concatenate([right, junk])
    left[again] = new
    for k, node in enumerate(idle.tolist()):
        left, right = np.append(left, right[node]), np.append(right, right[node])
        right[node] = n + again.size + k
    order = rng.permutation(tests.n_nodes)
    place = np.argsort(order)

    def moved(child: np.ndarray) -> np.ndarray:
        return np.where(child >= 0, place[np.maximum(child, 0)], child)

    return replace(
        trees,
        tests=tests.take(order),
        left=moved(left[order]),
        right=moved(right[order]),
        root=moved(root),
    )


def changed(forest: Forest, rng: np.random.Generator) -> Forest:
    """A forest with one field of one node or leaf changed."""
    tests, node = forest.tests, int(rng.integers(max(forest.n_nodes, 1)))
    fields = ["v", "b", "b", "column", *FLIPPED] if forest.n_nodes else ["v"]
    name = fields[rng.integers(len(fields))]
    if name == "v":
        v = forest.leaves.v.copy()
        leaf = rng.integers(len(v))
        v[leaf] = np.nextafter(v[leaf], np.inf, dtype=v.dtype)
        return replace(forest, leaves=replace(forest.leaves, v=v))
    array = getattr(tests, name).copy()
    if name == "b":
        array[node] = rng.choice([np.nextafter(array[node], 9, dtype=array.dtype), 0.5])
    elif name == "column":
        entry = tests.row_ptr[tests.node_ptr[node]]
        array[entry] = rng.integers(forest.n_features)
    elif name == "kind":
        one_hot = tests.feature[node] >= 0 and tests.kind[node] != Kind.SET
        array[node] = rng.choice([Kind.MARGIN, Kind.EQUAL]) if one_hot else array[node]
    elif name == "relation":
        array[node] = array[node] if tests.kind[node] == Kind.KERNEL else 1 - array[node]
    elif array.dtype == bool:
        array[node] = not array[node]
    else:
        array[node] = rng.integers(3)
    return replace(forest, tests=replace(tests, **{name: array}))


def differs(forest: Forest, trees: SourceTrees, X: np.ndarray) -> np.ndarray:
    """Tell by literal walks on which rows some tree ends at another leaf vector or output."""
    own = of_forest(forest)
    a, c = exit_leaves(trees, X), exit_leaves(own, X)
    x, y = trees.v[a], own.v[c]
    other = (x != y) | (np.signbit(x) != np.signbit(y))
    found = other.any(axis=(1, 2))
    if own.output is not None:
        found |= (trees.output[a] != own.output[c]).any(axis=1)
    return found


@given(forests(), st.integers(0, 2**32 - 1))
def test_the_same_function_written_otherwise_is_proved(forest, seed):
    trees = of_forest(forest)
    assert proved(forest, trees).holds
    assert proved(forest, rewritten(trees, np.random.default_rng(seed))).holds


@examples(30)
@given(st.data())
def test_a_changed_forest_is_proved_only_if_no_row_shows_it(data):
    forest = data.draw(forests(linear=False, max_leaves=20))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    other = changed(forest, rng)
    trees = of_forest(forest)
    if data.draw(st.booleans()):
        trees = rewritten(trees, rng)
    X = np.concatenate([data.draw(rows(forest)), data.draw(rows(other))])
    result = proved(other, trees)
    if differs(other, trees, X).any():
        assert not result.holds
    for difference in result.differences:
        if difference.row:
            assert differs(other, trees, np.array([difference.row], forest.dtype)).all()
    finite = X[np.isfinite(X).all(axis=1)]
    if len(finite) and differs(other, trees, finite).any():
        assert not proved(other, trees, missing=False, infinite=False).holds


@examples(30)
@given(st.data())
def test_of_tests_of_one_column_every_difference_comes_with_a_row(data):
    forest = data.draw(forests(kinds=(AXIS, SET, EQUAL), linear=False, max_leaves=20))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    other = changed(forest, rng)
    for accepted in (True, False):
        result = proved(other, of_forest(forest), missing=accepted, infinite=accepted)
        for difference in result.differences:
            row = np.array([difference.row], forest.dtype)
            assert differs(other, of_forest(forest), row).all()
            assert accepted or np.isfinite(row).all()


def stump(b, relation: Relation, v=(1.0, 2.0), dtype=np.float64) -> SourceTrees:
    """A stump over rows of float32 with a threshold in a dtype of its own."""
    return SourceTrees(
        tests=axis_aligned([0], np.array([b], dtype), relation=relation),
        left=np.array([~0]),
        right=np.array([~1]),
        root=np.array([0]),
        leaf_id=np.array([3, 4]),
        v=np.array(v)[:, None],
        row_dtype=np.dtype(np.float32),
        n_features=1,
    )


def converted(b: float, relation: Relation, ids=(3, 4)) -> Forest:
    forest = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1.0, 2.0])
    tests = axis_aligned([0], np.array([b], np.float32), relation=relation)
    return replace(forest, tests=tests, source=Source("a", "1", leaf_id=np.array(ids)))


THIRD = float(np.float32(1 / 3))  # above the double 1 / 3


@pytest.mark.parametrize(
    ("wide", "relation", "narrow", "narrow_relation"),
    [
        (1 / 3, Relation.GREATER, THIRD, Relation.GREATER_EQUAL),
        (1 / 3, Relation.GREATER_EQUAL, THIRD, Relation.GREATER_EQUAL),
        (0.5, Relation.GREATER, 0.5, Relation.GREATER),
        (1e300, Relation.GREATER, np.inf, Relation.GREATER_EQUAL),
        (1e-60, Relation.GREATER, 0.0, Relation.GREATER),
        (np.inf, Relation.GREATER, np.inf, Relation.GREATER),
    ],
)
def test_wide_thresholds_are_compared_as_narrow_rows_meet_them(
    wide, relation, narrow, narrow_relation
):
    trees = stump(wide, relation)
    assert proved(converted(narrow, narrow_relation), trees).holds
    near = np.float32(narrow) + np.float32(0)
    ulps = [near]
    for towards in (-np.inf, np.inf):
        ulps += [np.nextafter(near, np.float32(towards))]
        ulps += [np.nextafter(ulps[-1], np.float32(towards))]
    X = np.array([*ulps, -np.inf, np.inf, np.nan], np.float32)[:, None]
    for other in Relation:
        for b in ulps:
            forest = converted(float(b), other)
            assert proved(forest, trees).holds == (not differs(forest, trees, X).any())


def test_leaf_ids_are_part_of_the_proof_unless_left_out():
    trees, forest = stump(0.5, Relation.GREATER), converted(0.5, Relation.GREATER, ids=(4, 3))
    found = proved(forest, trees).differences
    assert [difference.expected for difference in found] == [
        "node 0, x0 > 0.5; leaf 3: [1.]",
        "node 0, x0 > 0.5; leaf 4: [2.]",
    ]
    assert proved(forest, trees, leaf_ids=False).holds


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("base_score", np.zeros(1), np.array([5e-324])),
        ("base_score", np.zeros(1, np.float32), np.array([-0.0])),
        ("classes", None, (np.array([False, True]),)),
        ("classes", None, (np.array([0, 1]), np.array(["a", "b", "c"]))),
        ("aggregate", "sum", Aggregate.MEAN),
        ("base_first", False, True),
        ("tree_weight", None, np.ones(1)),
        ("dtype", np.float64, np.float32),
    ],
)
def test_what_the_library_states_is_compared_bit_by_bit(name, right, wrong):
    forest, trees = converted(0.5, Relation.GREATER), stump(0.5, Relation.GREATER)
    assert proved(forest, replace(trees, stated={name: right})).holds
    (difference,) = proved(forest, replace(trees, stated={name: wrong})).differences
    assert difference.expected.startswith(name)
    assert difference.got.startswith(name)


def test_labels_of_three_kinds_are_three_labels():
    forest, trees = converted(0.5, Relation.GREATER), stump(0.5, Relation.GREATER)
    kinds = [np.array([0, 1]), np.array([False, True]), np.array(["0", "1"]), np.array([0.0, 1.0])]
    for ours in kinds:
        labelled = replace(forest, output=replace(forest.output, classes=(ours,)))
        for theirs in kinds:
            stated = replace(trees, stated={"classes": (theirs,)})
            assert proved(labelled, stated).holds == (ours is theirs)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"root": np.array([0, 0])}, "2 trees"),
        ({"n_features": 2}, "2 features"),
        ({"row_dtype": np.dtype(np.float64)}, "rows of float64"),
        ({"v": np.ones((2, 3))}, "leaves of width 3"),
    ],
)
def test_other_sizes_are_differences(change, word):
    trees = replace(stump(0.5, Relation.GREATER), **change)
    (difference,) = proved(converted(0.5, Relation.GREATER), trees).differences
    assert difference.expected == word


def test_trees_that_take_too_long_to_compare_are_refused(monkeypatch):
    monkeypatch.setattr(proof, "STEPS", 0)
    # The same question twice: not aligned, and equal.
    asked = axis_aligned([0, 0], np.array([0.5, 0.5]))
    trees = replace(
        stump(0.5, Relation.GREATER), tests=asked, left=np.array([~0, ~0]), right=np.array([1, ~1])
    )
    forest = converted(0.5, Relation.GREATER)
    assert "more than 0 steps" in str(proved(forest, trees).refused)
    monkeypatch.setattr(proof, "STEPS", 100)
    assert proved(forest, trees).holds


def test_a_cycle_in_the_source_ends_in_a_refusal(monkeypatch):
    monkeypatch.setattr(proof, "STEPS", 10_000)
    trees = replace(stump(0.5, Relation.GREATER), right=np.array([0]))
    result = proved(converted(0.5, Relation.GREATER), trees)
    assert not result.holds
    assert "steps" in str(result.refused)


def test_a_forest_without_trees_is_proved():
    none = converted(0.5, Relation.GREATER).take([])
    assert proved(none, of_forest(none)).holds

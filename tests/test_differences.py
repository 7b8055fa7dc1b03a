"""The report of what moved counts, measures and names what differs, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, forests, forests_with_rows, rows

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, axis_aligned, set_bits
from bitvec.core.output import Output
from bitvec.differences import Diff, diff
from bitvec.differences.matching import match
from bitvec.differences.spreads import of_margins
from bitvec.differences.words import question

CHAIN = [[0, 0], [0, 1], [1, 1]]


def moved(report: Diff) -> dict[str, int]:
    """Return how many of each array moved."""
    return {change.name: change.moved for change in report.changes}


def named(report: Diff, name: str):
    """Return the change of one array."""
    return next(change for change in report.changes if change.name == name)


def tree(b=(1.0, 0.0), v=(10.0, 20.0, 30.0), S=((1, 0), (0, 1))) -> Forest:
    """A node on x0 and, on its left, one on x1."""
    return Forest.from_matrices(S, b, CHAIN, v)


@given(st.data())
@settings(max_examples=20)
def test_a_forest_differs_in_nothing_from_itself(data):
    forest = data.draw(forests(kinds=KINDS, soft=data.draw(st.booleans())))
    X = data.draw(rows(forest)) if data.draw(st.booleans()) else None
    report = diff(forest, replace(forest), X)
    assert moved(report) == dict.fromkeys(("S", "b", "r", "v", "base_score"), 0)
    assert (report.matched, report.rules, report.others) == ("structure", 0, ())
    assert (report.removed, report.most_moved) == ((), ())
    assert all(was == now for was, now in report.features.values())
    assert report.row_sizes[0] == report.row_sizes[1]
    if X is not None:
        assert report.rows.exits == report.rows.predictions == report.rows.raw == 0
        assert report.rows.largest_raw == 0


@given(st.data())
@settings(max_examples=20)
def test_every_forest_has_a_report_that_json_holds_and_reads_back(data):
    forest, X = data.draw(forests_with_rows(kinds=KINDS, max_trees=2, max_leaves=20))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    v = forest.leaves.v + rng.choice([0.0, 1.0, np.nan, np.inf], forest.leaves.v.shape).astype(
        forest.leaves.v.dtype
    )
    b = forest.tests.b.copy()
    b[rng.random(len(b)) < 0.5] += forest.dtype.type(0.5)
    other = replace(forest, tests=replace(forest.tests, b=b), leaves=replace(forest.leaves, v=v))
    for report in (diff(forest, other), diff(forest, other, X)):
        text = json.dumps(report.as_dict(), allow_nan=False)
        assert json.loads(text) == report.as_dict()
        assert str(report) == report.summary()
        assert named(report, "v").moved == int(
            (~((forest.leaves.v == v) | np.isnan(forest.leaves.v) & np.isnan(v))).any(axis=1).sum()
        )
        compared = forest.tests.kind != Kind.SET
        assert named(report, "b").moved == int((b != forest.tests.b)[compared].sum())
        assert named(report, "S").moved == named(report, "r").moved == 0


@given(st.data())
@settings(max_examples=20)
def test_rows_are_counted_as_the_reference_answers_them(data):
    forest, X = data.draw(forests_with_rows(kinds=("axis", "set"), max_trees=3, max_leaves=20))
    tests = replace(forest.tests, b=forest.tests.b + forest.dtype.type(0.25))
    other = replace(forest, tests=tests)
    seen = diff(forest, other, X).rows
    exits = [reference.exit_leaves(each, X) for each in (forest, other)]
    assert seen.exits == int((exits[0] != exits[1]).any(axis=1).sum())
    old, new = (reference.raw(each, X) for each in (forest, other))
    same = (old == new) | np.isnan(old) & np.isnan(new)
    assert seen.raw == int((~same).any(axis=1).sum())


def test_what_moved_is_measured_and_named():
    before = replace(tree(), inputs=Inputs(2, ("age", "dose")))
    after = replace(tree(b=(1.0, 0.5), v=(10.0, 20.0, 31.0)), inputs=before.inputs)
    report = diff(before, after)
    assert moved(report) == {"S": 0, "b": 1, "r": 0, "v": 1, "base_score": 0}
    assert (named(report, "b").largest, named(report, "b").mean) == (0.5, 0.5)
    (node,) = report.most_moved
    assert (node.where, node.before, node.after) == ("tree 0 node 1", "dose > 0", "dose > 0.5")
    assert report.features == {"age": (1, 1), "dose": (1, 1)}
    assert report.rows is None


def test_changes_are_in_spreads_of_the_margin_and_of_the_score():
    X = np.array([[-2.0, 0.0], [2.0, 4.0], [np.nan, 8.0], [np.inf, 4.0]])
    report = diff(tree(), tree(b=(2.0, 0.0), v=(10.0, 20.0, 40.0)), X)
    assert named(report, "b").largest_in_spreads == 1 / 2  # x0 is −2 and 2 where it is finite
    spread = np.std(reference.raw(tree(), X))
    assert named(report, "v").largest_in_spreads == pytest.approx(10 / spread, rel=1e-12)


def test_a_row_and_its_threshold_times_a_number_ask_the_same():
    X = np.random.default_rng(0).normal(size=(200, 2))
    oblique = tree(S=((1, 0.5), (0, 1)))
    scaled = tree(S=((4, 2), (0, 1)), b=(4.0, 0.0))
    report = diff(oblique, scaled, X)
    assert moved(report)["S"] == moved(report)["b"] == 1
    # Four times a float is exact, so is its standard deviation but for the rounding of its sum.
    assert named(report, "S").largest_in_spreads < 1e-12
    assert named(report, "b").largest_in_spreads < 1e-12
    assert report.rows.exits == 0


def test_a_constant_column_is_no_unit():
    report = diff(tree(), tree(b=(2.0, 0.0)), np.zeros((3, 2)))
    assert np.isnan(named(report, "b").largest_in_spreads)
    assert report.as_dict()["changes"][1]["largest_in_spreads"] is None


def test_weights_are_compared_by_column_wherever_they_stand():
    before, after = tree(S=((1, 2), (0, 1))), tree(S=((1, 2.5), (0.5, 1)))
    report = diff(before, after)
    assert (named(report, "S").moved, named(report, "S").largest) == (2, 0.5)
    assert report.row_sizes == ({1: 1, 2: 1}, {2: 2})
    assert report.features == {"x0": (1, 2), "x1": (2, 2)}
    entries = replace(
        before.tests,
        column=np.array([1, 0, 1], np.int32),
        weight=np.array([2.0, 1.0, 1.0]),
    )
    assert moved(diff(before, replace(before, tests=entries)))["S"] == 0


def test_values_that_are_not_numbers_are_counted_and_have_no_size():
    report = diff(tree(v=(np.nan, np.nan, np.inf)), tree(v=(np.nan, 1.0, np.inf)))
    v = named(report, "v")
    assert (v.moved, v.compared) == (1, 3)
    assert np.isnan(v.largest)
    infinite = diff(tree(v=(0.0, 0.0, 0.0)), tree(v=(0.0, -np.inf, 0.0)))
    assert named(infinite, "v").largest == np.inf
    assert infinite.as_dict()["changes"][3]["largest"] == "inf"


def test_directions_sets_and_other_parts_are_told():
    before = tree()
    turned = replace(before, tests=replace(before.tests, missing_right=np.array([True, False])))
    assert (diff(before, turned).rules, len(diff(before, turned).most_moved)) == (1, 1)
    output = replace(before.output, tree_weight=np.array([2.0]))
    assert diff(before, replace(before, output=output)).others == ("output.tree_weight",)
    sets = [
        axis_aligned(
            [0, 1],
            np.zeros(2),
            kind=Kind.SET,
            set_ptr=ptr,
            set_words=words,
        )
        for ptr, words in (set_bits([np.array([1]), np.array(c)]) for c in ([0], [0, 3]))
    ]
    books = Inputs(2, categories=(None, ("red", "blue", "green", "grey")))
    before, after = (replace(before, tests=tests, inputs=books) for tests in sets)
    report = diff(before, after)
    assert (report.rules, moved(report)["b"]) == (1, 0)
    assert report.most_moved[0].after == "x1 in {red, grey}"


def test_a_base_score_is_an_output():
    before = tree()
    output = replace(before.output, base_score=np.array([0.5]))
    report = diff(before, replace(before, output=output), [[0.0, 0.0]])
    assert (named(report, "base_score").moved, report.rows.largest_raw) == (1, 0.5)


@pytest.fixture(scope="module")
def fitted():
    """A forest of scikit-learn and rows."""
    sklearn = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 1)
    model = sklearn.RandomForestClassifier(4, max_depth=6, random_state=0).fit(X, y)
    return bitvec.convert(model), X, y


def test_what_pruning_leaves_is_paired_by_the_ids_of_the_source(fitted):
    pytest.importorskip("torch")
    forest, X, _ = fitted
    result = bitvec.prune(forest, X[:60])
    matching = match(forest, result.forest)
    # Leaves that became one have no id; others below the same side of a node are known.
    assert matching.how == "source ids"
    assert np.array_equal(matching.nodes[0], result.kept.node)
    assert set(zip(*map(np.ndarray.tolist, matching.leaves), strict=True)) <= set(
        zip(result.kept.leaf.tolist(), range(result.forest.n_leaves), strict=True)
    )
    report = diff(forest, result.forest, X[:60])
    assert moved(report) == dict.fromkeys(("S", "b", "r", "v", "base_score"), 0)
    assert report.rows.raw == 0
    assert report.matched_nodes == result.forest.n_nodes
    assert 0 < len(report.removed) <= 10
    assert "gone: tree 0 node" in str(report)
    back = diff(result.forest, forest)
    assert (back.matched_nodes, back.removed) == (report.matched_nodes, ())


def test_leaves_keep_their_ids_where_only_empty_branches_went(fitted):
    pytest.importorskip("torch")
    forest, X, _ = fitted
    result = bitvec.prune(forest, X[:60], equal=False)
    matching = match(forest, result.forest)
    assert np.array_equal(matching.leaves[0], result.kept.leaf)
    assert diff(forest, result.forest, X[:60]).rows.exits == 0


def test_trees_grown_apart_are_counted_only(fitted):
    sklearn = pytest.importorskip("sklearn.ensemble")
    forest, X, y = fitted
    other = sklearn.RandomForestClassifier(4, max_depth=4, random_state=1).fit(X, y)
    report = diff(forest, bitvec.convert(other), X)
    assert (report.matched, report.matched_nodes, report.removed) == ("nothing", 0, ())
    assert report.rows.exits is None
    assert report.nodes[0] == forest.n_nodes
    assert "no node can be paired" in str(report)


@given(st.data())
@settings(max_examples=20)
def test_spreads_are_those_of_the_margins(data):
    forest, X = data.draw(forests_with_rows(kinds=("oblique", "polytope", "axis"), max_leaves=8))
    Z = reference.columns(forest, X)
    nodes = np.arange(forest.n_nodes)
    mean, spread = of_margins(forest, Z, nodes)
    for node in nodes[forest.tests.feature < 0]:
        every, at = np.arange(len(Z)), np.full(len(Z), node)
        z, missing = reference.margins(forest.tests, Z, every, at, forest.inputs.missing_sentinel)
        known = z[~missing & np.isfinite(z)].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = (known.mean(), known.std()) if known.size else (np.nan, np.nan)
        assert np.array_equal([mean[node], spread[node]], expected, equal_nan=True)


@pytest.mark.parametrize(
    ("S", "b", "words"),
    [
        ([[1, 0, 0, 0]], 0.5, "x0 > 0.5"),
        ([[-1, 0, 0.25, 0]], -1, "−x0 + 0.25·x2 > -1"),
        ([[1, 2, 3, -4]], 0, "−4·x3 + 3·x2 + 2·x1 + 1 more > 0"),
    ],
)
def test_a_question_is_written_as_people_read_it(S, b, words):
    assert question(Forest.from_matrices(S, [b], [[0], [1]], [1, 2]), 0) == words


def test_forests_without_nodes_or_trees_have_a_report():
    leaf = Forest(
        tests=axis_aligned(np.zeros(0, int), np.zeros(0)),
        bitvectors=bitvec.prune(tree(v=(1.0, 1.0, 1.0))).forest.bitvectors,
        leaves=Leaves(np.ones((1, 1))),
        output=Output(1, np.dtype(np.float64)),
        inputs=Inputs(2),
    )
    report = diff(leaf, replace(leaf, leaves=Leaves(np.zeros((1, 1)))), [[0.0, 0.0]])
    assert (named(report, "v").moved, report.rows.largest_raw) == (1, 1.0)
    none = leaf[:0]
    assert diff(none, none, [[0.0, 0.0]]).rows.raw == 0
    assert diff(none, leaf).matched == "nothing"


def test_what_cannot_be_compared_is_refused_in_one_sentence():
    with pytest.raises(bitvec.errors.InputError, match="as many features, got 2 and 3"):
        diff(tree(), Forest.from_matrices([[1, 0, 0]], [0], [[0], [1]], [1, 2]))
    with pytest.raises(bitvec.errors.InputError, match="as many outputs, got 1 and 2"):
        diff(tree(), Forest.from_matrices([[1, 0]], [0], [[0], [1]], [[1, 2], [3, 4]]))
    with pytest.raises(bitvec.errors.InputError, match="2 features"):
        diff(tree(), tree(), [[1.0]])
    with pytest.raises(bitvec.errors.InputError, match="must have rows"):
        diff(tree(), tree(), np.zeros((0, 2)))

"""A certificate says what it rests on, and no wrong forest passes by what it does not ask for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import bitvec
from bitvec.certification import oracle_of
from bitvec.core.forest import Forest
from bitvec.core.node_tests import axis_aligned
from bitvec.core.source import Source
from bitvec.errors import UnsupportedModelError
from bitvec.verify.certificates import Certificate, compare, comparing, load, proof
from bitvec.verify.certificates.proof import Proof
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import SourceTrees, of_forest

GRADES = ("proved", "two-sided")


@pytest.fixture(scope="module")
def wedge() -> tuple[Forest, Oracle]:
    """A tree whose lower node, of another column, asks for what its own column rules out."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.where(X[:, 0] < 0, 0, np.where(X[:, 1] < -1, 5, 9))
    model = DecisionTreeRegressor(max_depth=2, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    oracle = oracle_of(model)
    # The converted forest is right, so its own trees stand for the library's.
    trees = replace(of_forest(forest), leaf_id=forest.source.leaf_id)
    stated = {"base_score": forest.output.base_score, "aggregate": forest.output.aggregate}
    return forest, replace(oracle, trees=lambda: replace(trees, stated=stated))


def graded(forest: Forest, oracle: Oracle, grade: str, **options) -> Certificate:
    """The certificate by a proof, or by rows alone."""
    oracle = oracle if grade == "proved" else replace(oracle, trees=None)
    return compare(forest, oracle, **options)


def changed(forest: Forest, name: str, node: int, value: float) -> Forest:
    array = getattr(forest.tests, name).copy()
    array[node] = value
    return replace(forest, tests=replace(forest.tests, **{name: array}))


@pytest.mark.parametrize("grade", GRADES)
def test_the_right_forest_passes_with_its_grade(wedge, grade, tmp_path):
    certificate = graded(*wedge, grade)
    assert certificate.passed
    assert certificate.grade == grade
    assert certificate.summary().startswith(f"PASSED, {grade}: forest against sklearn")
    assert certificate.n_unseen_leaves == 0
    assert load(certificate.save(tmp_path / "a.json")) == certificate
    noted = any("not proved" in note for note in certificate.exclusions)
    assert noted == (grade == "two-sided")


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize(
    ("name", "value"), [("column", 0), ("relation", 1), ("missing_right", None), ("b", None)]
)
def test_a_wrong_test_fails_with_a_row_that_shows_it(wedge, grade, name, value):
    forest, oracle = wedge
    for node in range(forest.n_nodes):
        old = getattr(forest.tests, name)[node]
        new = np.nextafter(old, np.inf) if name == "b" else not old if value is None else value
        if new == old:
            continue
        wrong = changed(forest, name, node, new)
        certificate = graded(wrong, oracle, grade)
        if name == "missing_right" and not oracle.accepts_missing:
            continue
        assert not certificate.passed
        assert certificate.n_structure_mismatches == 0 or grade == "proved"
        rows = [d.row for d in certificate.differences if d.row]
        row = np.array(rows[:1], forest.dtype)
        assert bitvec.compile(wrong).apply(row).tolist() != oracle.leaf_ids(row).tolist()


@pytest.mark.parametrize("grade", GRADES)
def test_a_leaf_off_by_one_ulp_fails(wedge, grade):
    forest, oracle = wedge
    for leaf in range(len(forest.leaves.v)):
        v = forest.leaves.v.copy()
        v[leaf] = np.nextafter(v[leaf], np.inf)
        wrong = replace(forest, leaves=replace(forest.leaves, v=v))
        assert not graded(wrong, oracle, grade).passed


@pytest.mark.parametrize("grade", GRADES)
def test_the_smallest_base_score_fails(wedge, grade):
    forest, oracle = wedge
    wrong = replace(forest, output=replace(forest.output, base_score=np.array([5e-324])))
    assert not graded(wrong, oracle, grade).passed


def test_values_only_pass_where_they_are_allowed(wedge):
    forest, oracle = wedge
    bare = replace(oracle, trees=None, leaf_ids=None, leaf_values=None)
    certificate = compare(forest, bare)
    assert certificate.grade == "values only"
    assert not certificate.passed
    assert "--allow-values-only" in certificate.summary()
    allowed = compare(forest, bare, allow_values_only=True)
    assert allowed.passed
    assert allowed.summary().startswith("PASSED, values only")


def test_leaves_that_share_an_id_are_not_told_apart(wedge):
    forest, oracle = wedge
    same = replace(
        forest, source=replace(forest.source, leaf_id=np.ones(len(forest.leaves.v), int))
    )
    alike = replace(oracle, trees=None, leaf_ids=lambda X: np.ones((len(X), 1), int))
    certificate = compare(same, replace(alike, leaf_values=None))
    assert certificate.grade == "values only"
    assert any("share a leaf id" in note for note in certificate.exclusions)


def test_trees_that_cannot_be_read_lower_the_grade_and_say_why(wedge):
    forest, oracle = wedge

    def refuse():
        raise UnsupportedModelError("the dump must hold nodes, got none: use another version.")

    certificate = compare(forest, replace(oracle, trees=refuse))
    assert certificate.passed
    assert certificate.grade == "two-sided"
    assert any("the dump must hold nodes" in note for note in certificate.exclusions)


def chain(column: list[int], thresholds: list[float]) -> SourceTrees:
    """A tree that asks one test after the other; leaf 0, 1, 1, ... on their left, 2 at the end."""
    n = len(thresholds)
    return SourceTrees(
        tests=axis_aligned(np.array(column), np.array(thresholds)),
        left=np.array([~0, *[~1] * (n - 1)]),
        right=np.array([*range(1, n), ~2]),
        root=np.zeros(1, int),
        leaf_id=np.arange(3),
        v=np.array([[10.0], [20.0], [20.0]]),
        row_dtype=np.float64,
        n_features=40,
    )


@pytest.mark.parametrize(
    ("column", "thresholds", "ids", "grade", "note"),
    [
        # 40 columns must lie on one side at once: no row is drawn there.
        (list(range(40)), [0.5] * 40, [0, 1], "values only", "never seen, though not empty in"),
        # What lies above .5 lies above .2: nothing goes left at the second test.
        ([0, 0], [0.5, 0.2], [0, 2], "two-sided", "empty in stub's own boxes: leaf 1 of tree 0"),
    ],
)
def test_leaves_that_only_the_source_has_are_looked_for(
    monkeypatch, column, thresholds, ids, grade, note
):
    trees = chain(column, thresholds)
    stump = Forest.from_matrices(np.eye(1, 40), [0.5], [[0], [1]], [10.0, 20.0])
    stump = replace(stump, source=Source("stub", "1", leaf_id=np.array(ids)))
    oracle = Oracle(
        "stub",
        "1",
        raw=lambda X: trees.v[proof.exits(trees, X, 0)],
        leaf_ids=lambda X: proof.exits(trees, X, 0)[:, None],
        ids="source",
        trees=lambda: trees,
    )
    monkeypatch.setattr(comparing, "prove", lambda *_, **__: Proof(refused="rows are to decide"))
    certificate = compare(stump, oracle)
    assert certificate.n_leaf_mismatches == 0
    assert (certificate.grade, certificate.passed) == (grade, grade == "two-sided")
    assert any(note in text for text in certificate.exclusions)

"""Laws of rules: of each tree exactly one holds for each row, and its words say the same."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from strategies import (
    AXIS,
    EQUAL,
    KERNEL,
    ONE_HOT,
    SENTINEL,
    SET,
    forests,
    forests_with_rows,
)

from bitvec.core import reference, transforms
from bitvec.core.directions import codes, is_missing
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.key_intervals import missing_of
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output
from bitvec.core.source import Source
from bitvec.core.structure import from_children
from bitvec.errors import InputError, UnsupportedModelError


@given(forests_with_rows(max_leaves=20))
def test_of_each_tree_the_rule_of_the_exit_leaf_holds_and_no_other(
    pair: tuple[Forest, np.ndarray],
) -> None:
    forest, X = pair
    rules = forest.to_rules()
    exits, holds = reference.exit_leaves(forest, X), rules.matches(X)
    for at, rule in enumerate(rules):
        assert np.array_equal(holds[:, at], exits[:, rule.tree] == rule.leaves[0])
        leaf = int(forest.bitvectors.leaf_ptr[rule.tree]) + rule.leaves[0]
        assert np.array_equal(rule.value, forest.leaves.v[leaf])


@given(forests_with_rows(max_leaves=20, linear=False))
def test_of_each_tree_one_merged_rule_holds_and_says_what_the_tree_alone_predicts(
    pair: tuple[Forest, np.ndarray],
) -> None:
    forest, X = pair
    forest = replace(forest, output=replace(forest.output, divisor=None))
    rules = forest.to_rules(merged=True)
    holds = rules.matches(X)
    assert len(rules) <= forest.n_leaves
    for tree in range(forest.n_trees):
        own = [at for at, rule in enumerate(rules) if rule.tree == tree]
        assert np.array_equal(holds[:, own].sum(axis=1), np.ones(len(X)))
        alone = transforms.predictions(forest.output, reference.raw(forest[tree], X)).tolist()
        for row, at in enumerate(holds[:, own].argmax(axis=1)):
            said = alone[row]
            assert rules[own[at]].label == (tuple(said) if isinstance(said, list) else said)


def holds(text: str, x: np.ndarray, missing: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Evaluate the words of a condition on one column, x."""
    text = text.removeprefix("(").removesuffix(")") if text.startswith("(") else text
    if " or " in text:
        return np.any([holds(part, x, missing, code) for part in text.split(" or ")], axis=0)
    if text.endswith("is NaN"):
        return np.isnan(x)
    if text.endswith("is not missing"):
        return ~missing
    if text.endswith("is missing"):
        return missing
    if found := re.fullmatch(r"\S+ (not )?in \{(.*)\}", text):
        inside = np.isin(code, [int(name) for name in found[2].split(", ")])
        return ~np.isnan(x) & (~inside if found[1] else inside)
    number = x.dtype.type
    if found := re.fullmatch(r"\S+ is none of (.*)", text):
        return ~np.isnan(x) & ~np.isin(x, [number(one) for one in found[1].split(", ")])
    compare = {
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "=": np.equal,
        "!=": lambda a, b: (a != b) & ~np.isnan(a),
    }
    parts = text.split()
    if len(parts) == 5:
        return compare[parts[1]](number(parts[0]), x) & compare[parts[3]](x, number(parts[4]))
    return compare[parts[1]](x, number(parts[2]))


@pytest.mark.parametrize("rule", MissingRule)
@given(forests_with_rows(kinds=(AXIS, SET, EQUAL), max_leaves=12, max_trees=2))
def test_the_words_of_a_rule_say_when_it_holds(
    rule: MissingRule, pair: tuple[Forest, np.ndarray]
) -> None:
    forest, X = pair
    tests = replace(forest.tests, missing_rule=np.full(forest.n_nodes, rule, np.uint8))
    forest = replace(forest, tests=tests)
    feature = forest.tests.feature
    rules = forest.to_rules()
    expected = rules.matches(X)
    for at, one in enumerate(rules):
        text = one.text.removeprefix("if ").split(": ")[0]
        found = np.ones(len(X), bool)
        for part in [] if text == "true" else text.split(" and "):
            column = int(re.search(r"\bx(\d+)\b", part)[1])
            x, nodes = X[:, column], np.flatnonzero(feature == column)
            absent = is_missing(x, int(rule), SENTINEL)
            if missing_of(forest.tests, nodes, SENTINEL) is None:
                absent = np.isnan(x)
            sets = nodes[forest.tests.kind[nodes] == Kind.SET]
            how = forest.tests.code_rule[sets[0]] if sets.size else CodeRule.EXACT
            found &= holds(part, x, absent, codes(x, int(how)))
        assert np.array_equal(found, expected[:, at]), one.text


def example(**of_output: object) -> Forest:
    ptr, words = set_bits([np.array([0, 2]), np.array([], int), np.array([], int)])
    return Forest(
        axis_aligned(
            [0, 1, 1],
            np.array([0, 0.1, 2], np.float32),
            kind=np.array([Kind.SET, Kind.MARGIN, Kind.MARGIN]),
            missing_right=np.array([True, False, True]),
            set_ptr=ptr,
            set_words=words,
        ),
        from_children([1, -1, -1], [2, -3, -5], [0]),
        Leaves(np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])),
        Output(2, np.dtype(np.float64), Aggregate.MEAN, classes=(np.array(["yes", "no"]),)),
        Inputs(2, ("colour", "size"), (("red", "blue", "green"), None)),
        Source("a library", "1", leaf_cover=np.array([8, 4, 2, 1.0])),
    )


def test_rules_name_columns_categories_and_covers() -> None:
    assert str(example().to_rules()).splitlines() == [
        "tree 0",
        "  if colour not in {red, green} and (size <= 0.1 or size is missing): "
        "yes 0.75, no 0.25 (leaf 0, cover 8)",
        "  if colour not in {red, green} and size > 0.1: yes 0.5, no 0.5 (leaf 1, cover 4)",
        "  if (colour in {red, green} or colour is missing) and size <= 2.0: "
        "yes 0.25, no 0.75 (leaf 2, cover 2)",
        "  if (colour in {red, green} or colour is missing) and (size > 2.0 or size is missing): "
        "yes 0, no 1 (leaf 3, cover 1)",
    ]


def test_merged_rules_join_the_leaves_of_a_class() -> None:
    assert str(example().to_rules(merged=True)).splitlines() == [
        "tree 0",
        "  if colour not in {red, green}: yes (2 leaves, cover 12)",
        "  if (colour in {red, green} or colour is missing): no (2 leaves, cover 3)",
    ]


def test_tests_of_several_columns_are_inequalities() -> None:
    tree = Forest.from_matrices([[0.5, 0, -2]], [1.25], [[0], [1]], [0, 1])
    assert [rule.text for rule in tree.to_rules()] == [
        "if (0.5·x0 + -2·x2 <= 1.25 or missing): 0 (leaf 0)",
        "if 0.5·x0 + -2·x2 > 1.25: 1 (leaf 1)",
    ]


def test_values_besides_nan_that_count_as_missing_are_noted() -> None:
    tests = axis_aligned([0], np.array([-1.0]), missing_rule=MissingRule.NAN_OR_ZERO)
    forest = Forest.from_matrices([[1.0]], [-1.0], [[0], [1]], [0, 1])
    assert str(replace(forest, tests=tests).to_rules()).splitlines() == [
        "x0: -1.0000000180025095e-35 <= a value <= 1.0000000180025095e-35 counts as missing",
        "tree 0",
        "  if (x0 <= -1.0 or x0 is missing): 0 (leaf 0)",
        "  if x0 > -1.0 and x0 is not missing: 1 (leaf 1)",
    ]


@given(forests(kinds=(KERNEL,), soft=True, max_leaves=5))
def test_rules_of_soft_forests_are_refused(forest: Forest) -> None:
    if forest.kernel is None:
        assert len(forest.to_rules()) <= forest.n_leaves
        return
    with pytest.raises(UnsupportedModelError, match="predicts hard"):
        forest.to_rules()


@given(forests(kinds=ONE_HOT, linear=True, max_leaves=5))
def test_merged_rules_of_linear_leaves_are_refused(forest: Forest) -> None:
    if forest.leaves.linear is None:
        assert len(forest.to_rules(merged=True)) <= forest.n_leaves
        return
    with pytest.raises(UnsupportedModelError, match="constant"):
        forest.to_rules(merged=True)


def test_rows_that_are_no_array_of_the_training_columns_are_refused():
    pd = pytest.importorskip("pandas")
    stump = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [1.0, 2.0])
    rules = stump.to_rules()
    assert rules.matches([[0, 1], [1, 0]]).tolist() == [[True, False], [False, True]]
    for wrong, got in (
        (pd.DataFrame({"b": [1.0], "a": [0.0]}), "got DataFrame"),
        ([["a", "b"]], "got <U1"),
        (np.zeros((2, 3)), r"got float64 \(2, 3\)"),
    ):
        with pytest.raises(InputError, match=got):
            rules.matches(wrong)

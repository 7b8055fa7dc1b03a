"""Laws of the trees of a page: a literal walk down the JSON ends in the reference's leaves."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from strategies import forests, forests_with_rows

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.node_tests import ZERO_THRESHOLD, CodeRule, Kind, MissingRule, Relation
from bitvec.core.softplus import softplus
from bitvec.runtime.export.web.pages import trees_json
from bitvec.runtime.export.web.tree_json import size, tree_json


def exit_leaf(tree: dict[str, Any], x: Array, sentinel: float | None) -> int:
    """Walk a row down a tree of JSON, in the row's dtype."""
    at = 0 if tree["left"] else ~0
    while at >= 0:
        at = tree["right" if goes_right(tree, at, x, sentinel) else "left"][at]
    return ~at


def goes_right(tree: dict[str, Any], node: int, x: Array, sentinel: float | None) -> bool:
    kind, rule = tree["kind"][node], tree["missing_rule"][node]
    if tree["column"][node] >= 0:
        z = x[tree["column"][node]]
        missing = is_missing(z, rule, sentinel)
    else:
        parts = [row_sum(row, x, rule, sentinel) for row in tree["sums"][str(node)]]
        z = parts[0][0]
        for part, _ in parts[1:]:
            z = z + part
        missing = any(absent for _, absent in parts)
    if missing or (np.isnan(z) and kind != Kind.SET):
        return bool(tree["missing_right"][node])
    if kind == Kind.SET:
        return in_set(tree["sets"][str(node)], z)
    b = x.dtype.type(tree["b"][node])
    if kind == Kind.EQUAL:
        return bool(z == b)
    return bool(z > b if tree["relation"][node] == Relation.GREATER else z >= b)


def is_missing(x: np.floating, rule: int, sentinel: float | None) -> bool:
    zero = rule == MissingRule.NAN_OR_ZERO and abs(x) <= x.dtype.type(ZERO_THRESHOLD)
    held = rule == MissingRule.NAN_OR_SENTINEL and sentinel is not None
    return bool(np.isnan(x) or zero or (held and x == x.dtype.type(sentinel)))


def row_sum(row: dict[str, Any], x: Array, rule: int, sentinel: float | None) -> tuple[Any, bool]:
    dtype, total, missing = x.dtype.type, None, False
    for at, column in enumerate(row["columns"]):
        value = x[column]
        absent = is_missing(value, rule, sentinel)
        substitute = row["substitutes"][at] if "substitutes" in row else None
        if absent and substitute is not None:
            value, absent = dtype(substitute), False
        code = row["indicators"][at] if "indicators" in row else -1
        if code >= 0:
            value = dtype(value == code)
        missing |= absent
        term = dtype(row["weights"][at]) * value
        total = term if total is None else total + term
    value = total - dtype(row["offset"])
    if row["softplus"]:
        value = softplus(value)
    return dtype(row["r"]) * value, missing


def in_set(codes: dict[str, Any], x: np.floating) -> bool:
    rule, words = codes["code_rule"], codes["words"]
    if not np.isfinite(x) or x <= -1:
        return codes["other_right"]
    code = int(x)
    unread = (rule == CodeRule.EXACT and code != x) or (rule != CodeRule.TRUNCATE and x < 0)
    if unread or code >= 32 * len(words):
        return codes["other_right"]
    return words[code // 32] >> code % 32 & 1 == 1


@given(forests_with_rows())
def test_a_walk_down_the_json_ends_in_the_references_leaves(drawn):
    forest, X = drawn
    trees = json.loads(json.dumps(trees_json(forest), allow_nan=False))
    sentinel = forest.inputs.missing_sentinel
    with np.errstate(all="ignore"):
        found = [[exit_leaf(tree, x, sentinel) for tree in trees] for x in X]
    assert np.array_equal(found, reference.exit_leaves(forest, X))


@given(forests())
def test_leaves_are_written_in_full(forest):
    for tree, facts in zip(forest, trees_json(forest), strict=True):
        again = json.loads(json.dumps(facts, allow_nan=False))
        assert np.array_equal(np.array(again["v"], np.float64), tree.leaves.v)
        if tree.leaves.output is not None:
            assert again["output"] == tree.leaves.output.tolist()


def count(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    if isinstance(value, list):
        return sum(map(count, value))
    return int(value is not None)


@given(forests())
def test_the_size_of_a_tree_is_about_how_many_numbers_are_written(forest):
    for tree in forest:
        assert count(tree_json(tree)) <= 3 * size(tree)
        assert size(tree) <= 2 * count(tree_json(tree)) + 1


@given(forests(max_trees=3))
def test_the_first_tree_is_taken_before_the_others(forest):
    last = forest.n_trees - 1
    held = trees_json(forest, first=last, most_numbers=size(forest[last]))
    assert held[last] is not None
    assert held[:last] == [None] * last
    assert trees_json(forest, most_numbers=0) == [None] * forest.n_trees

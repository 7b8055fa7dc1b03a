"""Nodes as sums of steps [x > t]: comparisons, equality, category sets and missing values.

For finite x, x >= b is x > t with t the number below b, x == c is 1 − [−x > −c] − [x > c], and each
run of codes in a set is the difference of two steps. So an outcome is a constant and a few steps
with weights; a value that the node's rule calls missing adds 1, or takes 1 away where it goes left.
Codes, and thresholds of float64, are their own, by steps of −x where they are included: a runtime
that rounds float64 numbers to float32 would take the number below a code for the code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
    set_codes,
)
from bitvec.core.shape_annotations import Bool, Float, Int64


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of all nodes: h = constant + the sum of weight · [sign · x > threshold], in [0, 1].

    Parameters
    ----------
    node : int64, (n_steps,)
        Ascending; each node has at least one step.
    threshold : F, (n_steps,)
        Finite.
    sign, weight : int64, (n_steps,)
        `sign` is 1 or −1.
    constant : int64, (n_nodes,)
    single : bool, (n_nodes,)
        Whether h is one step and nothing else.
    """

    node: Int64[Array, " n_steps"]
    threshold: Float[Array, " n_steps"]
    sign: Int64[Array, " n_steps"]
    weight: Int64[Array, " n_steps"]
    constant: Int64[Array, " n_nodes"]
    single: Bool[Array, " n_nodes"]


_Part = tuple[Array, Array, Array, Array]
"""Nodes, thresholds t, weights, and whether each step is [x >= t] instead of [x > t]."""


def node_steps(forest: Forest) -> Steps:
    """Return the steps of a forest whose nodes test one column each.

    >>> from bitvec.core.forest import Forest
    >>> steps = node_steps(Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1, 2]))
    >>> steps.threshold.tolist(), steps.weight.tolist(), steps.constant.tolist()
    ([0.5], [1], [0])
    """
    tests = forest.tests
    codes = [_set_steps(tests, int(node)) for node in np.flatnonzero(tests.kind == Kind.SET)]
    parts = [*_comparisons(tests), *codes, *_missing_values(tests, forest.inputs.missing_sentinel)]
    node = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
    threshold = np.concatenate([np.zeros(0, tests.dtype), *(part[1] for part in parts)])
    weight = np.concatenate([np.zeros(0, np.int64), *(part[2] for part in parts)])
    included = np.concatenate([np.zeros(0, bool), *(part[3] for part in parts)])
    constant = ((tests.kind == Kind.SET) & tests.other_right).astype(np.int64)
    # [x >= t] is 1 − [−x > −t].
    np.add.at(constant, node[included], weight[included])
    sign = np.where(included, -1, 1)
    threshold, weight = threshold * sign.astype(tests.dtype), weight * sign
    # x is finite: a step at -infinity is always 1, one at infinity never.
    always = np.isneginf(threshold)
    np.add.at(constant, node[always], weight[always])
    kept = np.isfinite(threshold)
    node, threshold, sign, weight = node[kept], threshold[kept], sign[kept], weight[kept]
    bare = np.setdiff1d(np.arange(tests.n_nodes), node)
    node = np.concatenate([node, bare])
    threshold = np.concatenate([threshold, np.zeros(bare.size, tests.dtype)])
    sign = np.concatenate([sign, np.ones(bare.size, np.int64)])
    weight = np.concatenate([weight, np.zeros(bare.size, np.int64)])
    order = np.argsort(node, kind="stable")
    node, threshold, sign, weight = node[order], threshold[order], sign[order], weight[order]
    single = (np.bincount(node, minlength=tests.n_nodes) == 1) & (constant == 0)
    single[node[weight != 1]] = False
    return Steps(node, threshold, sign, weight, constant, single)


def _comparisons(tests: NodeTests) -> list[_Part]:
    equal = tests.kind == Kind.EQUAL
    compares = ~equal & (tests.kind != Kind.SET)
    greater = compares & (tests.relation == Relation.GREATER)
    inclusive = compares & (tests.relation == Relation.GREATER_EQUAL)
    wide = tests.dtype == np.float64
    return [
        _part(greater, tests.b, 1),
        _part(inclusive, tests.b if wide else _before(tests.b), 1, included=wide),
        _part(equal, tests.b, 1, included=True),
        _part(equal, tests.b, -1),
    ]


def _missing_values(tests: NodeTests, sentinel: float | None) -> list[_Part]:
    """Return the steps of missing values that are numbers: [|x| <= 1e-35] and [x == sentinel]."""
    bounds = [(MissingRule.NAN_OR_ZERO, -ZERO_THRESHOLD, ZERO_THRESHOLD)]
    if sentinel is not None and not np.isnan(sentinel):
        bounds.append((MissingRule.NAN_OR_SENTINEL, sentinel, sentinel))
    parts = []
    for rule, first, last in bounds:
        low, high = np.array([first, last]).astype(tests.dtype)
        for right, sign in ((True, 1), (False, -1)):
            chosen = (tests.missing_rule == rule) & (tests.missing_right == right)
            parts.append(_part(chosen, np.full(tests.n_nodes, low), sign, included=True))
            parts.append(_part(chosen, np.full(tests.n_nodes, high), -sign))
    return parts


def _part(chosen: Array, threshold: Array, weight: int, *, included: bool = False) -> _Part:
    node = np.flatnonzero(chosen)
    return node, threshold[chosen], np.full(node.size, weight), np.full(node.size, included)


def _set_steps(tests: NodeTests, node: int) -> _Part:
    """Return the steps of one set: the codes that go another way than codes beyond its range."""
    codes = set_codes(tests, node)
    sign = 1
    if tests.other_right[node]:
        n_codes = int(tests.set_ptr[node + 1] - tests.set_ptr[node]) * WORD_BITS
        codes, sign = np.setdiff1d(np.arange(n_codes), codes), -1
    rule = tests.code_rule[node]
    if rule == CodeRule.EXACT:
        begin, end = _at_least(codes, tests.dtype), _at_most(codes, tests.dtype)
        included = np.repeat([True, False], codes.size)
    else:
        starts = np.diff(codes, prepend=-2) > 1
        ends = np.diff(codes, append=np.iinfo(np.int64).max) > 1
        begin = _at_least(codes[starts], tests.dtype)
        end = _at_least(codes[ends] + 1, tests.dtype)
        included = np.ones(begin.size + end.size, bool)
        if rule == CodeRule.TRUNCATE:  # what lies above -1 is code 0
            zero = np.flatnonzero(codes[starts] == 0)
            begin[zero], included[zero] = -1, False
    threshold = np.concatenate([begin, end])
    weight = np.repeat([sign, -sign], [begin.size, end.size])
    return np.full(threshold.size, node), threshold, weight, included


def _before(x: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        number: Array = np.nextafter(x, x.dtype.type(-np.inf))
    return number


def _at_most(codes: Array, dtype: np.dtype) -> Array:
    """Return the largest number of a dtype that is not above each code."""
    number = codes.astype(dtype)
    return np.where(number.astype(np.float64) > codes, _before(number), number)


def _at_least(codes: Array, dtype: np.dtype) -> Array:
    """Return the smallest number of a dtype that is not below each code."""
    return -_at_most(-codes, dtype)

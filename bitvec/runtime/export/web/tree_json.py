"""Trees as JSON: what the page needs to walk a row down them and to put the walk into words.

A tree has lists with one value per node: `left` and `right` (a node of the tree, or `~leaf`),
`column` (-1 where a node sums several), `b`, and the codes `kind`, `relation`, `missing_rule` and
`missing_right` of `bitvec.core.node_tests`. What few nodes have is kept by node: `sets` and `sums`.
Numbers are written in full, so that they read back as the same float32 or float64; infinities are
the texts that JavaScript's `Number` reads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind, NodeTests

Json = dict[str, Any]


def tree_json(tree: Forest) -> Json:
    """Return a forest of one tree as JSON values.

    Parameters
    ----------
    tree : Forest
        Of one tree, without a feature map and without a prediction kernel.
    """
    tests, leaves = tree.tests, tree.leaves
    left, right = structure.children(tree.bitvectors)
    column = tests.feature
    facts: Json = {
        "left": left.tolist(),
        "right": right.tolist(),
        "column": column.tolist(),
        "b": numbers(np.where(tests.kind == Kind.SET, 0, tests.b)),
        "kind": tests.kind.tolist(),
        "relation": tests.relation.tolist(),
        "missing_rule": tests.missing_rule.tolist(),
        "missing_right": tests.missing_right.astype(int).tolist(),
        "sets": {i: _set(tests, i) for i in np.flatnonzero(tests.kind == Kind.SET).tolist()},
        "sums": {i: _sums(tests, i) for i in np.flatnonzero(column < 0).tolist()},
        "v": [numbers(v) for v in leaves.v],
        "output": None if leaves.output is None else leaves.output.tolist(),
    }
    if leaves.linear is not None:
        facts["linear"] = _linear(tree)
    return facts


def size(tree: Forest) -> int:
    """Return about how many numbers `tree_json` writes.

    >>> from bitvec.core.forest import Forest
    >>> size(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
    11
    """
    tests, linear = tree.tests, tree.leaves.linear
    n_summed = int(np.sum(~tests.is_one_hot)) and tests.n_rows + 3 * tests.column.size
    n_linear = 0 if linear is None else linear.weight.size + linear.constant.size
    return 8 * tree.n_nodes + n_summed + tests.set_words.size + tree.leaves.v.size + 1 + n_linear


def number(value: float) -> float | str:
    """Return a number as JSON can hold it: infinities and NaN as text.

    >>> number(np.float32(2.45)), number(-np.inf), number(np.nan)
    (2.450000047683716, '-Infinity', 'NaN')
    """
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def numbers(values: Array) -> list[float | str]:
    """Return an array of one axis as JSON can hold it."""
    return [number(value) for value in values]


def _set(tests: NodeTests, node: int) -> Json:
    words = tests.set_words[tests.set_ptr[node] : tests.set_ptr[node + 1]]
    return {
        "words": words.tolist(),
        "code_rule": int(tests.code_rule[node]),
        "other_right": bool(tests.other_right[node]),
    }


def _sums(tests: NodeTests, node: int) -> list[Json]:
    """Return the rows of S of one node."""
    rows = []
    for row in range(int(tests.node_ptr[node]), int(tests.node_ptr[node + 1])):
        entries = slice(int(tests.row_ptr[row]), int(tests.row_ptr[row + 1]))
        facts: Json = {
            "columns": tests.column[entries].tolist(),
            "weights": numbers(tests.weight[entries]),
            "offset": number(tests.offset[row]),
            "softplus": bool(tests.activation[row] == Activation.SOFTPLUS),
            "r": number(tests.r[row]),
        }
        if tests.substitute is not None:
            facts["substitutes"] = [
                None if np.isnan(value) else number(value) for value in tests.substitute[entries]
            ]
        if tests.indicator is not None:
            facts["indicators"] = tests.indicator[entries].tolist()
        rows.append(facts)
    return rows


def _linear(tree: Forest) -> dict[int, Json]:
    """Return the terms of the leaves that have any, by leaf."""
    linear = tree.leaves.linear
    assert linear is not None
    facts = {}
    for leaf in np.flatnonzero(np.diff(linear.leaf_ptr)).tolist():
        terms = slice(int(linear.leaf_ptr[leaf]), int(linear.leaf_ptr[leaf + 1]))
        facts[leaf] = {
            "constant": numbers(linear.constant[leaf]),
            "columns": linear.column[terms].tolist(),
            "weights": [numbers(weights) for weights in linear.weight[terms]],
        }
    return facts

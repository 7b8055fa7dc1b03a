"""Columns that products and traversals compare: one column of values per column, rule or outcome.

A node of a one-hot row compares a column of Z with b, and a missing value goes left of itself,
since NaN exceeds nothing. Whatever else a node does is done before the traversal, once per row: a
column whose missing values go right is copied with infinity in their place; a column with another
missing rule is copied with NaN or infinity in theirs; an outcome of a set comes from a table of all
its codes; the outcome of any other node is decided by the node's own routine. So each tree becomes
one of plain comparisons of a column with a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, CodeRule, Kind, MissingRule, Relation

TABLE = 1 << 24
"""Largest table of the outcomes of a column's sets, in elements; beyond it they are decided."""


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    """Columns under one missing rule; what is missing there becomes `value`, NaN or infinity."""

    rule: MissingRule
    columns: Tensor
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """The outcomes of the set nodes of one column, for each of its codes, one other and none.

    `table` is F, (n_codes + 2, n_nodes), as 0 and 1.
    """

    rule: MissingRule
    code_rule: CodeRule
    column: int
    table: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class ComparedColumns:
    """Columns made from Z, and the one that each node compares with its threshold.

    Parameters
    ----------
    node_column : int32, (n_nodes,)
    b : F, (n_nodes,)
    accepts_equal : bool, (n_trees,)
        Whether a tree's nodes are x >= b rather than x > b.
    n_compared : int
    decided : int64, (n_decided,)
        The nodes whose outcomes are the last columns.
    """

    node_column: Array
    b: Array
    accepts_equal: Array
    n_compared: int
    copies: tuple[_Copies, ...]
    sets: tuple[_Sets, ...]
    decided: Array


def lay_out(forest: Forest) -> ComparedColumns:
    """Return the compared columns of a forest."""
    tests, B = forest.tests, forest.bitvectors
    tree = B.tree_of_node
    greater = tests.relation == Relation.GREATER
    n_nodes = np.bincount(tree, minlength=B.n_trees)
    accepts_equal = 2 * np.bincount(tree, greater, minlength=B.n_trees) < n_nodes
    compares = tests.is_one_hot & ((tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL))
    compares &= greater != accepts_equal[tree]
    compares &= ~(tests.missing_right & greater & (tests.b == np.inf))  # infinity stays left
    feature = np.where(tests.is_one_hot, tests.feature, -1)
    in_table = _fits_a_table(forest, feature)
    decided = ~(compares | in_table)
    n_columns = forest.n_features
    if forest.feature_map is not None:
        n_columns = forest.feature_map.n_features
    compared_column = np.where(compares, feature, 0).astype(np.int32)
    b = np.where(compares, tests.b, tests.dtype.type(0.5))
    rule = tests.missing_rules(forest.inputs.missing_sentinel)
    n_compared, copies, sets = n_columns, [], []
    for which in MissingRule:
        for right in (False, True):
            if which == MissingRule.NAN and not right:
                continue  # Z's own columns
            at = np.flatnonzero(compares & (rule == which) & (tests.missing_right == right))
            columns, place = np.unique(feature[at], return_inverse=True)
            if not at.size:
                continue
            compared_column[at] = n_compared + place
            n_compared += columns.size
            index = torch.tensor(columns.astype(np.int64))
            copies.append(_Copies(which, index, np.inf if right else np.nan))
    for nodes in _by_column(forest, feature, np.flatnonzero(in_table)):
        compared_column[nodes] = n_compared + np.arange(nodes.size)
        n_compared += nodes.size
        sets.append(_sets(forest, nodes, int(feature[nodes[0]])))
    at = np.flatnonzero(decided)
    compared_column[at] = n_compared + np.arange(at.size)
    return ComparedColumns(
        compared_column,
        b,
        accepts_equal,
        n_compared + at.size,
        tuple(copies),
        tuple(sets),
        at,
    )


def _by_column(forest: Forest, feature: Array, nodes: Array) -> list[Array]:
    """Return set nodes in groups that read one column's codes alike."""
    tests = forest.tests
    key = np.stack([feature, tests.code_rule, tests.missing_rule])[:, nodes]
    _, group = np.unique(key, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(group.ravel()))[:-1]
    return [part for part in np.split(nodes[order], ends) if part.size]


def _fits_a_table(forest: Forest, feature: Array) -> Array:
    """Return which nodes are sets whose outcomes for all codes fit a table."""
    tests = forest.tests
    fits = np.zeros(tests.n_nodes, bool)
    for nodes in _by_column(forest, feature, np.flatnonzero(tests.kind == Kind.SET)):
        fits[nodes] = nodes.size * (_n_codes(forest, nodes) + 2) <= TABLE
    return fits


def _n_codes(forest: Forest, nodes: Array) -> int:
    return int(np.diff(forest.tests.set_ptr)[nodes].max()) * WORD_BITS


def _sets(forest: Forest, nodes: Array, column: int) -> _Sets:
    tests, n_codes = forest.tests, _n_codes(forest, nodes)
    table = np.empty((n_codes + 2, nodes.size), tests.dtype)
    table[:-1] = tests.other_right[nodes]
    table[-1] = tests.missing_right[nodes]
    n_words = np.diff(tests.set_ptr)[nodes]
    words = tests.set_words[ranges(tests.set_ptr[nodes], n_words)].astype("<u4")
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, WORD_BITS)
    word = ranges(np.zeros(nodes.size, np.int64), n_words)
    code = word[:, None] * WORD_BITS + np.arange(WORD_BITS)
    table[code, np.repeat(np.arange(nodes.size), n_words)[:, None]] = bits
    return _Sets(
        MissingRule(int(tests.missing_rule[nodes[0]])),
        CodeRule(int(tests.code_rule[nodes[0]])),
        column,
        torch.tensor(table),
    )

"""The tests of a forest in the terms of the tree operators: a mode, a value and a true branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.converters.onnx.operator_schema import Mode
from bitvec.converters.onnx.trees import SMALL_SET
from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.score_operators import weighted_leaves
from bitvec.core.node_tests import WORD_BITS, Kind, Relation, set_codes


@dataclass(frozen=True, slots=True)
class Branches:
    """The tests in the operator's terms; `true_right` says which child its true branch is.

    Nodes of another `turn` than 0 read a column of their own, so that onnxruntime keeps them apart
    from those above: see `_turns`.

    `nan_is_code_0` are the sets in which a build of onnxruntime may take NaN for code 0: large ones
    that hold code 0 and not a missing value. It looks x up as an integer before it asks for NaN,
    which is 0 in WebAssembly (measured in onnxruntime-web 1.24.3 and 1.30.0) and on 64-bit ARM
    (onnxruntime 1.30.0, emulated).
    """

    mode: Array
    feature: Array
    split: Array
    missing_true: Array
    true_right: Array
    members: Array
    nan_is_code_0: Array
    turn: Array


def branches(forest: Forest) -> Branches:
    """Translate the nodes: z <= b and z < b are true on the left, equality and sets on the right.

    A set whose codes out of range go right becomes the set of its left-going codes, true on the
    left; a set without members, which the operator cannot hold, becomes x <= inf.
    """
    tests = forest.tests
    mode = np.where(tests.relation == Relation.GREATER, Mode.BRANCH_LEQ, Mode.BRANCH_LT)
    mode[tests.kind == Kind.EQUAL] = Mode.BRANCH_EQ
    true_right = tests.kind == Kind.EQUAL
    split = tests.b.copy()
    members = []
    looked_up = np.zeros(tests.n_nodes, bool)
    for node in np.flatnonzero(tests.kind == Kind.SET):
        codes = set_codes(tests, int(node))
        beyond = bool(tests.other_right[node])
        if beyond:
            n_codes = int(tests.set_ptr[node + 1] - tests.set_ptr[node]) * WORD_BITS
            codes = np.setdiff1d(np.arange(n_codes), codes)
        if codes.size:
            mode[node], split[node], true_right[node] = Mode.BRANCH_MEMBER, 0, not beyond
            members += [*codes.tolist(), np.nan]
            large = codes.size > SMALL_SET or codes[-1] > SMALL_SET
            looked_up[node] = large and codes[0] == 0
        else:
            mode[node], split[node], true_right[node] = Mode.BRANCH_LEQ, np.inf, beyond
    missing_true = tests.missing_right == true_right
    feature = tests.feature.astype(np.int64)
    nan_is_code_0 = looked_up & ~missing_true
    turned = _turned(forest, mode == Mode.BRANCH_EQ, missing_true)
    mode[turned], true_right[turned], missing_true[turned] = Mode.BRANCH_NEQ, False, True
    turn = _turns(forest, mode, np.where(mode == Mode.BRANCH_MEMBER, 0, split), true_right)
    return Branches(
        mode, feature, split, missing_true, true_right, np.array(members), nan_is_code_0, turn
    )


def _below_false(forest: Forest, among: Array, true_right: Array) -> Array:
    """Return the node above each, -1 unless both are of some, test one column, and it is false.

    Parameters
    ----------
    among, true_right : bool, (n_nodes,)
        Which nodes, and which child their true branches are.
    """
    tests = forest.tests
    parent, from_right = tree_paths.parents(forest.bitvectors)
    alike = among & among[parent] & (parent >= 0) & (from_right != true_right[parent])
    for each in (tests.feature, tests.missing_rule, tests.code_rule):
        alike &= each == each[parent]
    return np.where(alike, parent, -1)


def _turned(forest: Forest, is_equal: Array, missing_true: Array) -> Array:
    """Return which equalities are written as `!=`: all but those that a missing value meets.

    NaN != c holds, so that a missing value must go where unequal ones go, or cannot come. In a
    chain of equalities onnxruntime 1.31 takes nodes for one whose true branches have leaves of
    equal first weights, whatever their other weights and missing values: none is written here.
    """
    above = _below_false(forest, is_equal, is_equal)
    never = np.zeros(is_equal.size, bool)
    while True:  # what a missing value does not reach, from the top down
        more = (above >= 0) & (missing_true[above] | never[above]) & ~never
        if not more.any():
            return is_equal & (never | ~missing_true)
        never |= more


def _turns(forest: Forest, mode: Array, split: Array, true_right: Array) -> Array:
    """Return which of two columns each set reads: not that of a set above if both lead to the same.

    onnxruntime 1.31 takes a set and the one on its false branch for one where they test one column
    and their true branches look alike, whatever becomes of missing values there, and adds the
    leaves that it leaves out to its first node.
    """
    turn = np.zeros(mode.size, np.int64)
    above = _below_false(forest, mode == Mode.BRANCH_MEMBER, true_right)
    node = np.flatnonzero(above >= 0)
    left, right = structure.children(forest.bitvectors)
    true = np.where(true_right, right, left)
    own, other = true[node], true[above[node]]
    leaf = (own < 0) & (other < 0)
    weights = weighted_leaves(forest)
    alike = (own >= 0) & (other >= 0)
    for each in (mode, forest.tests.feature, split):
        alike &= each[np.maximum(own, 0)] == each[np.maximum(other, 0)]
    alike[leaf] = np.all(weights[~own[leaf]] == weights[~other[leaf]], axis=1)
    for each in node[alike].tolist():  # each after those above it
        turn[each] = 1 - turn[above[each]]
    return turn

"""The tests of a forest in the terms of the tree operators: a mode, a value and a true branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.converters.onnx import chains
from bitvec.converters.onnx.operator_schema import Mode
from bitvec.converters.onnx.trees import SMALL_SET
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.score_operators import weighted_leaves
from bitvec.core.node_tests import WORD_BITS, Kind, NodeTests, Relation, set_codes


@dataclass(frozen=True, slots=True)
class Branches:
    """The tests in the operator's terms; `true_right` says which child its true branch is.

    Nodes of another `turn` than 0 read a column of their own, so that onnxruntime keeps them apart
    from those above: see `chains`.

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
    left, right = structure.children(forest.bitvectors)
    turned = _turned(tests, mode, left, missing_true)
    mode[turned], true_right[turned], missing_true[turned] = Mode.BRANCH_NEQ, False, True
    true, false = np.where(true_right, right, left), np.where(true_right, left, right)
    turn = _turns(forest, mode, split, true, false)
    return Branches(
        mode, feature, split, missing_true, true_right, np.array(members), nan_is_code_0, turn
    )


def _turned(tests: NodeTests, mode: Array, left: Array, missing_true: Array) -> Array:
    """Return which equalities are written as `!=`: all but those that a missing value meets.

    NaN != c holds, so that a missing value must go where unequal ones go, or cannot come. So no
    equality stands on the false branch of another on its column: see `chains`.
    """
    is_equal = mode == Mode.BRANCH_EQ
    above, below = chains.pairs(is_equal, left, _columns(tests))
    never = np.zeros(is_equal.size, bool)
    while True:  # what a missing value does not reach, from the top down
        more = (missing_true | never)[above] & ~never[below]
        if not more.any():
            return is_equal & (never | ~missing_true)
        never[below[more]] = True


def _turns(forest: Forest, mode: Array, split: Array, true: Array, false: Array) -> Array:
    """Return which of two columns each set reads: not that of a set above if both look alike.

    See `chains`. Where leaves are vectors, the operator's leaves hold their numbers.
    """
    tests, turn = forest.tests, np.zeros(mode.size, np.int64)
    above, below = chains.pairs(mode == Mode.BRANCH_MEMBER, false, _columns(tests))
    weights = weighted_leaves(forest)
    weight = weights[:, 0] if weights.shape[1] == 1 else np.arange(len(weights))
    alike = chains.alike(true[above], true[below], (mode, tests.feature, split), weight)
    order = np.argsort(below[alike])  # each after those above it
    for one, other in zip(above[alike][order].tolist(), below[alike][order].tolist(), strict=True):
        turn[other] = 1 - turn[one]
    return turn


def _columns(tests: NodeTests) -> tuple[Array, ...]:
    """Return what tells the columns apart that the operator is given."""
    return tests.feature, tests.missing_rule, tests.code_rule

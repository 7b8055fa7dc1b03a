"""The tests of a forest in the terms of the tree operators: a mode, a value and a true branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.converters.onnx.operator_schema import Mode
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, Kind, Relation, set_codes


@dataclass(frozen=True, slots=True)
class Branches:
    """The tests in the operator's terms; `true_right` says which child its true branch is."""

    mode: Array
    feature: Array
    split: Array
    missing_true: Array
    true_right: Array
    members: Array


def branches(forest: Forest, feature: Array) -> Branches:
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
    for node in np.flatnonzero(tests.kind == Kind.SET):
        codes = set_codes(tests, int(node))
        beyond = bool(tests.other_right[node])
        if beyond:
            n_codes = int(tests.set_ptr[node + 1] - tests.set_ptr[node]) * WORD_BITS
            codes = np.setdiff1d(np.arange(n_codes), codes)
        if codes.size:
            mode[node], split[node], true_right[node] = Mode.BRANCH_MEMBER, 0, not beyond
            members += [*codes.tolist(), np.nan]
        else:
            mode[node], split[node], true_right[node] = Mode.BRANCH_LEQ, np.inf, beyond
    missing_true = tests.missing_right == true_right
    return Branches(mode, feature, split, missing_true, true_right, np.array(members))

"""The tests of a forest in the terms of the tree operators: a mode, a value and a true branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.converters.onnx.operator_schema import Mode
from bitvec.converters.onnx.trees import SMALL_SET
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, Kind, Relation, set_codes


@dataclass(frozen=True, slots=True)
class Branches:
    """The tests in the operator's terms; `true_right` says which child its true branch is.

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
    return Branches(
        mode, feature, split, missing_true, true_right, np.array(members), nan_is_code_0
    )

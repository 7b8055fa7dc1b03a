"""Outcomes of tests as bytes: a node goes right where its binned column's byte reaches its own.

Whatever a node tests, kernels of explanations read one byte for it: the bins of the engine for
thresholds and equality, and a byte of 0 or 1 for category sets, equal sets of one column once.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

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
    Relation,
)
from bitvec.core.shape_annotations import Int64
from bitvec.runtime.predict.cpu.bins.threshold_bins import (
    MOST_THRESHOLDS,
    ThresholdBinner,
    bin_thresholds,
)
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, constant

STEP = 128
"""Rows of a block are filled up to a multiple of this."""

_SET, _EQUAL = int(Kind.SET), int(Kind.EQUAL)
_GREATER = int(Relation.GREATER)
_OR_ZERO, _OR_SENTINEL = int(MissingRule.NAN_OR_ZERO), int(MissingRule.NAN_OR_SENTINEL)
_EXACT, _TRUNCATE = int(CodeRule.EXACT), int(CodeRule.TRUNCATE)
_OTHER, _MISSING, _MOST_CODES = -1, -2, 1 << 40


@inner
def _is_missing(x, rule, sentinel):
    missing = np.isnan(x)
    missing |= rule == _OR_ZERO and abs(x) <= ZERO_THRESHOLD
    missing |= rule == _OR_SENTINEL and x == sentinel
    return missing


@inner
def _fill_codes(X, column, rule, code_rule, sentinel, codes):
    """Fill the codes that sets read in a column, _MISSING, or _OTHER where a value is none."""
    for row in range(len(X)):
        x = X[row, column]
        whole = np.trunc(x)
        reads = x > -1 and whole < _MOST_CODES and (whole == x or code_rule != _EXACT)
        reads = reads and (x >= 0 or code_rule == _TRUNCATE)
        codes[row] = np.int64(whole) if reads else _OTHER
        if _is_missing(x, rule, sentinel):
            codes[row] = _MISSING


@kernel
def _fill_outcomes(
    X, sentinel, column, b, kind, relation, rule, code_rule, sides, set_ptr, set_words, target, out
):
    """Fill `out[target[k]]` with 0 or 1 for test k and each row of X, of one dtype with b.

    Sets that read the same codes of a column stand one after the other.
    """
    codes, before = np.empty(len(X), np.int64), -1
    for k in range(len(column)):
        bytes_of_rows = out[target[k]]
        missing_right, other_right = sides[k, 0], sides[k, 1]
        if kind[k] == _SET:
            if (
                before < 0
                or column[k] != column[before]
                or rule[k] != rule[before]
                or code_rule[k] != code_rule[before]
            ):
                _fill_codes(X, column[k], rule[k], code_rule[k], sentinel, codes)
            before = k
            first, n_codes = set_ptr[k], (set_ptr[k + 1] - set_ptr[k]) * WORD_BITS
            for row in range(len(X)):
                code = codes[row]
                if 0 <= code < n_codes:
                    word = set_words[first + code // WORD_BITS]
                    bytes_of_rows[row] = (word >> np.uint32(code % WORD_BITS)) & np.uint32(1)
                else:
                    bytes_of_rows[row] = missing_right if code == _MISSING else other_right
            continue
        for row in range(len(X)):
            x = X[row, column[k]]
            if _is_missing(x, rule[k], sentinel):
                right = missing_right
            elif kind[k] == _EQUAL:
                right = x == b[k]
            else:
                right = x > b[k] if relation[k] == _GREATER else x >= b[k]
            bytes_of_rows[row] = right


class OutcomeBytes:
    """The bytes that the tests of a forest of one-column nodes read.

    Parameters
    ----------
    forest : Forest
    binned : bool
        Whether thresholds are binned where that is possible; otherwise each test has its own byte.

    Attributes
    ----------
    bin_column : int64, (n_nodes,)
    least : int64, (n_nodes,)
        A node goes right where the byte of its binned column is at least this.
    n_binned : int
        Binned columns.
    """

    def __init__(self, forest: Forest, *, binned: bool = True) -> None:
        tests = forest.tests
        self._dtype = forest.dtype
        is_plain = np.full(forest.n_nodes, binned) & (tests.kind != Kind.SET)
        self.bin_column = np.zeros(forest.n_nodes, np.int64)
        self.least = np.ones(forest.n_nodes, np.int64)
        self.n_binned = 0
        self._binner: ThresholdBinner | None = None
        if is_plain.any():
            node = np.flatnonzero(is_plain)
            bin_column, least, n_binned, binner = bin_thresholds(forest, node)
            if binner.most_thresholds <= MOST_THRESHOLDS:
                self.bin_column[node], self.least[node] = bin_column, least
                self.n_binned, self._binner = n_binned, binner
            else:
                is_plain[:] = False
        self._n_plain = self.n_binned
        self._tests = _distinct_tests(forest, np.flatnonzero(~is_plain))
        self.bin_column[~is_plain] = self.n_binned + self._tests.which
        self.n_binned += self._tests.n_tests

    def fill(self, X: Array) -> Array:
        """Return the bytes of all rows of X, uint8 (n_binned, room), room a multiple of STEP."""
        room = max(1, -(-len(X) // STEP)) * STEP
        out = np.zeros((max(self.n_binned, 1), room), np.uint8)
        if self._binner is not None:
            self._binner.fill(X, address_of(out), self.n_binned, room)
        if self._tests.n_tests:
            with np.errstate(over="ignore", invalid="ignore"):
                rows = constant(X.astype(self._dtype, copy=False))
            _fill_outcomes(rows, *self._tests.arrays, out[self._n_plain :])
        return out


@dataclass(frozen=True, slots=True, eq=False)
class _Tests:
    """Distinct tests as the kernel takes them, and which of them each node is."""

    arrays: tuple[object, ...]
    which: Int64[Array, " n"]
    n_tests: int


def _distinct_tests(forest: Forest, node: Array) -> _Tests:
    tests = forest.tests
    seen: dict[tuple[object, ...], int] = {}
    which = np.zeros(node.size, np.int64)
    feature = tests.feature
    b = np.where(tests.kind == Kind.SET, 0, tests.b)  # sets have none: it may be NaN
    parts = (b, tests.kind, tests.relation, tests.missing_rule, tests.code_rule)
    keys = zip(feature[node].tolist(), *(part[node].tolist() for part in parts), strict=True)
    for k, (at, key) in enumerate(zip(node.tolist(), keys, strict=True)):
        words = tests.set_words[tests.set_ptr[at] : tests.set_ptr[at + 1]].tobytes()
        sides = bool(tests.missing_right[at]), bool(tests.other_right[at])
        which[k] = seen.setdefault((*key, *sides, words), len(seen))
    first = node[np.unique(which, return_index=True)[1]]
    # Sets of one column side by side: see `_fill_outcomes`.
    by = (tests.code_rule, tests.missing_rule, tests.feature, tests.kind == Kind.SET)
    order = np.lexsort([part[first] for part in by])
    taken = tests.take(first[order])
    sentinel = forest.inputs.missing_sentinel
    with np.errstate(over="ignore"):
        sentinel = np.nan if sentinel is None else float(tests.dtype.type(sentinel))
    arrays = (
        sentinel,
        *map(constant, (taken.feature, taken.b, taken.kind, taken.relation)),
        *map(constant, (taken.missing_rule, taken.code_rule)),
        constant(np.stack([taken.missing_right, taken.other_right], axis=1)),
        *map(constant, (taken.set_ptr, taken.set_words, order)),
    )
    return _Tests(arrays, which, first.size)

"""Expansion of the tests of nodes into S x > b alone: the columns φ(x) that S then reads.

A test compares with `>` or `>=`, sends a missing value in a direction of its own, or looks a
category up in a set. φ(x) holds columns from which one row of S, one threshold and one `>` decide
the same for every x, finite, infinite or missing. Each column is finite, so that 0 · φ is 0. In a
row of S stands

* at a comparison of one column: a 1, at that column as a value. With `>=`, b is one float lower;
* at a set, an equality and a comparison with ±inf (or ±max, which infinity alone may exceed): 1 at
  each indicator that turns "left" into "right" with b = 0.5, or −1 at each that turns "right" into
  "left" with b = −0.5;
* at an oblique node, r · (w · x − offset) against b: the weights w (−w if r < 0) at columns of
  bounded values, with the b that r, the offset and the relation make of it, and at last an entry at
  the column that decides alone where the sum of bounded values does not.

Sums of oblique rows are those of the reference where they run in the order of storage, as those of
`CSR` do. All others have one entry that is not 0 or are sums of small whole numbers: no order and
no library rounds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from bitvec.core import float_keys
from bitvec.core.arrays import Array, ArrayLike, ranges, require
from bitvec.core.csr import CSR
from bitvec.core.directions import codes, is_missing, turns
from bitvec.core.matrices import DENSE_LIMIT
from bitvec.core.node_tests import (
    WORD_BITS,
    Activation,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
)
from bitvec.core.plain_text import number
from bitvec.core.shape_annotations import Bool, Float, Int8, Int64
from bitvec.errors import InputError

MOST_COLUMNS = 1 << 20
"""Most columns that φ may have besides one for each column of X."""


class ColumnKind(IntEnum):
    """Kinds of a column of φ, each a function of one column x_j; the last, of a node."""

    MISSING_LOW = 0
    """x_j cut to ±max of the dtype, a missing value as −max."""
    MISSING_HIGH = 1
    """x_j cut to ±max of the dtype, a missing value as max."""
    BOUNDED = 2
    """x_j, or [x_j = `code`] if that is not −1; a missing value as `value` if that is not NaN. 0 if
    x_j is missing otherwise, or beyond the bound: 2**62 in float32, 2**510 in float64."""
    MISSING = 3
    """[x_j is missing]"""
    EQUAL = 4
    """[x_j = `value`], 0 if x_j is missing."""
    CODE = 5
    """[the category code of x_j is `code`], 0 if x_j is missing."""
    DECIDED = 6
    """1 or −1, right or left, if an oblique node reads a value that a bounded column leaves out, or
    its weights are together beyond the bound; else 0."""


class ExpandedColumn(NamedTuple):
    """One column of φ(x)."""

    kind: ColumnKind
    reads: int
    """The column of X (or of the feature map), or the node of a DECIDED column."""
    missing_rule: MissingRule
    value: float
    code: int
    code_rule: CodeRule

    def describe(self, name: str) -> str:
        """Return the column in words, with the name of the column of X that it reads."""
        return {
            ColumnKind.MISSING_LOW: f"{name}, -max where missing",
            ColumnKind.MISSING_HIGH: f"{name}, max where missing",
            ColumnKind.BOUNDED: f"{name if self.code < 0 else f'{name} is {self.code}'}, bounded",
            ColumnKind.MISSING: f"{name} is missing",
            ColumnKind.EQUAL: f"{name} = {number(self.value)}",
            ColumnKind.CODE: f"{name} is {self.code}",
            ColumnKind.DECIDED: f"node {self.reads} decided by a value left out",
        }[self.kind]

    def __repr__(self) -> str:
        return f"ExpandedColumn({self.describe(f'x{self.reads}')})"


class TreeMatrices(NamedTuple):
    """The four arrays of a tree: its exit leaf is argmax(B · (S φ(x) > b)), the first maximum."""

    S: CSR
    b: Float[Array, " n_nodes"]
    B: Int8[Array, "n_leaves n_nodes"]
    v: Float[Array, "n_leaves width"]


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """S and b that decide alone, and the columns of φ that S reads."""

    tests: NodeTests
    sentinel: float | None
    columns: tuple[ExpandedColumn, ...]
    S: CSR
    b: Float[Array, " n_nodes"]

    def __call__(self, Z: Float[Array, "batch n_columns"]) -> Float[Array, "batch n_expanded"]:
        """Return φ of rows, in the dtype of the tests."""
        require(
            len(Z) * len(self.columns) <= DENSE_LIMIT,
            f"expanded rows must have at most {DENSE_LIMIT} elements, got {len(Z)} rows x "
            f"{len(self.columns)} columns: expand fewer rows at a time.",
        )
        most = np.finfo(Z.dtype).max
        phi = np.zeros((len(Z), len(self.columns)), Z.dtype)
        left_out = np.zeros(phi.shape, bool)
        for at, column in enumerate(self.columns):
            if column.kind == ColumnKind.DECIDED:
                continue
            x = Z[:, column.reads]
            missing = is_missing(x, column.missing_rule, self.sentinel)
            match column.kind:
                case ColumnKind.MISSING_LOW | ColumnKind.MISSING_HIGH:
                    side = most if column.kind == ColumnKind.MISSING_HIGH else -most
                    phi[:, at] = np.where(missing, side, np.clip(x, -most, most))
                case ColumnKind.BOUNDED:
                    phi[:, at], left_out[:, at] = _bounded(x, missing, column)
                case ColumnKind.MISSING:
                    phi[:, at] = missing
                case ColumnKind.EQUAL:
                    phi[:, at] = (x == Z.dtype.type(column.value)) & ~missing
                case ColumnKind.CODE:
                    code = codes(x, column.code_rule).astype(np.float64)
                    phi[:, at] = (code == column.code) & ~missing
        for at, column in enumerate(self.columns):
            if column.kind == ColumnKind.DECIDED:
                node = column.reads
                used = self.S.indices[self.S.indptr[node] : self.S.indptr[node + 1] - 1]
                row = np.flatnonzero(left_out[:, used].any(axis=1) | (used.size == 0))
                right = turns(self.tests, Z, row, np.full(len(row), node), self.sentinel)
                phi[row, at] = np.where(right, 1, -1)
        return phi


def numeric_rows(
    X: ArrayLike, dtype: np.dtype, n_features: int
) -> Float[Array, "batch n_features"]:
    """Return rows in the dtype of the tests, checked."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            X = np.asarray(X).astype(dtype, copy=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"`X` must be numbers, and codes of categories, got what is none ({error}): "
                "pass bitvec.compile(forest).rows(X) of a data frame."
            ) from error
    if X.ndim != 2 or X.shape[1] != n_features:
        raise InputError(
            f"`X` must be rows of {n_features} features, got shape {X.shape}: pass "
            "x[None] for one row."
        )
    return X


def _bounded(
    x: Array, missing: Array, column: ExpandedColumn
) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
    if not np.isnan(column.value):
        x, missing = np.where(missing, x.dtype.type(column.value), x), np.zeros(len(x), bool)
    if column.code >= 0:
        x = (x.astype(np.float64) == column.code).astype(x.dtype)
    left_out = missing | ~(np.abs(x) <= _bounds(x.dtype)[0])
    return np.where(left_out, x.dtype.type(0), x), left_out


def _bounds(dtype: np.dtype) -> tuple[float, float]:
    """Return the bound of values and of a row's weights, and that of their sum."""
    return (2.0**62, 2.0**124) if dtype == np.float32 else (2.0**510, 2.0**1020)


def expansion(tests: NodeTests, n_columns: int, sentinel: float | None) -> Expansion:
    """Write tests as S and b over columns φ.

    The first `n_columns` columns of φ are the columns x_j themselves, as values.

    Raises
    ------
    InvalidForestError
        If a node needs more than one row of S, or φ more than 2**20 columns besides.
    """
    entries, b = _Entries(tests), np.zeros(tests.n_nodes, tests.dtype)
    one_hot = tests.is_one_hot
    _oblique(tests, np.flatnonzero(~one_hot), entries, b)
    _one_hot(tests, np.flatnonzero(one_hot), entries, b)
    node, key, weight = entries.in_order()
    index, columns = _numbered(key, n_columns)
    indptr = np.searchsorted(node, np.arange(tests.n_nodes + 1)).astype(np.int64)
    return Expansion(
        tests, sentinel, columns, CSR(indptr, index.astype(np.int32), weight, len(columns)), b
    )


class _Entries:
    """Entries of S, each with the six whole numbers that name its column."""

    def __init__(self, tests: NodeTests) -> None:
        self.tests = tests
        self.parts: list[tuple[Array, Array, Array]] = []

    def add(
        self,
        node: Array,
        weight: Array | int | float,
        kind: ColumnKind | Array,
        index: Array,
        *,
        value: Array | int | float = np.nan,
        code: Array | int = -1,
        code_rule: Array | int = 0,
    ) -> None:
        bits = (np.asarray(value, np.float64)).view(np.int64)
        rule = self.tests.missing_rule[node]
        fields = (kind, index, rule, bits, code, code_rule)
        key = np.empty((len(node), len(fields)), np.int64)
        for place, field in enumerate(fields):
            key[:, place] = field
        spread = np.broadcast_to(np.asarray(weight, self.tests.dtype), node.shape)
        self.parts.append((node, key, spread))

    def in_order(self) -> tuple[Int64[Array, " n"], Int64[Array, "n 6"], Float[Array, " n"]]:
        """Return nodes, columns and weights by nodes, as added within a node."""
        nodes, keys, weights = zip(*self.parts, strict=True)
        node = np.concatenate(nodes)
        order = np.argsort(node, kind="stable")
        return node[order], np.concatenate(keys)[order], np.concatenate(weights)[order]


def _one_hot(tests: NodeTests, node: Array, entries: _Entries, b: Array) -> None:
    feature, kind, most = tests.feature, tests.kind, np.finfo(tests.dtype).max
    at_least = (tests.relation == Relation.GREATER_EQUAL) & (kind == Kind.MARGIN)
    with np.errstate(over="ignore"):
        above = np.where(at_least, np.nextafter(tests.b, tests.dtype.type(-np.inf)), tests.b)
    compares = np.isin(kind[node], (Kind.MARGIN, Kind.KERNEL))
    is_value = compares & (above[node] >= -most) & (above[node] < most)
    value, other = node[is_value], node[~is_value]
    high = tests.missing_right[value].astype(np.int64)
    entries.add(value, 1, ColumnKind.MISSING_LOW + high, feature[value])
    b[value] = above[value]

    # The direction of a row for which no indicator is 1, and the indicators of the other one.
    usual = (kind == Kind.SET) & tests.other_right
    usual |= np.isin(kind, (Kind.MARGIN, Kind.KERNEL)) & np.isneginf(above)
    sign = np.where(usual, -1, 1)
    b[other] = 0.5 - usual[other]
    compares = compares[~is_value]
    equal = other[kind[other] == Kind.EQUAL]
    infinite = other[compares & (above[other] == most)]
    never = other[compares & np.isneginf(above[other]) & ~(at_least & np.isneginf(tests.b))[other]]
    for some, values in ((equal, tests.b[equal] + 0.0), (infinite, np.inf), (never, -np.inf)):
        entries.add(some, sign[some], ColumnKind.EQUAL, feature[some], value=values)
    sets = other[kind[other] == Kind.SET]
    n_words = np.diff(tests.set_ptr)[sets]
    words = tests.set_words[ranges(tests.set_ptr[sets], n_words)]
    bits = (words[:, None] >> np.arange(WORD_BITS, dtype=np.uint32)) & np.uint32(1) == 1
    word, bit = np.nonzero(bits != np.repeat(usual[sets], n_words)[:, None])
    owner = np.repeat(sets, n_words)[word]
    code = ranges(np.zeros(len(sets), np.int64), n_words)[word] * WORD_BITS + bit
    entries.add(
        owner,
        sign[owner],
        ColumnKind.CODE,
        feature[owner],
        code=code,
        code_rule=tests.code_rule[owner],
    )
    turned = other[tests.missing_right[other] != usual[other]]
    entries.add(turned, sign[turned], ColumnKind.MISSING, feature[turned])


def _oblique(tests: NodeTests, node: Array, entries: _Entries, b: Array) -> None:
    row = tests.node_ptr[node]
    require(
        np.all(
            (np.diff(tests.node_ptr)[node] == 1) & (tests.activation[row] == Activation.IDENTITY)
        ),
        "a node must have one row of S and no softplus to be written as S x > b: the rows of a "
        "polytope, their offsets, r and the softplus before their sum are in forest.tests.",
    )
    bound, most = _bounds(tests.dtype)
    n_entries = np.diff(tests.row_ptr)[row]
    entry, owner = ranges(tests.row_ptr[row], n_entries), np.repeat(np.arange(len(node)), n_entries)
    with np.errstate(over="ignore"):
        total = np.bincount(owner, np.abs(tests.weight[entry].astype(np.float64)), len(node))
    tame = (
        (total <= bound) & (np.abs(tests.offset[row]) <= most) if len(node) else np.zeros(0, bool)
    )
    entry, owner = entry[tame[owner]], owner[tame[owner]]
    none = np.full(len(tests.column), np.nan)
    substitute = none if tests.substitute is None else tests.substitute
    indicator = np.full(len(none), -1) if tests.indicator is None else tests.indicator
    sign = np.where(tests.r[row] < 0, -1, 1).astype(tests.dtype)
    entries.add(
        node[owner],
        tests.weight[entry] * sign[owner],
        ColumnKind.BOUNDED,
        tests.column[entry],
        value=np.where(np.isnan(substitute[entry]), np.nan, substitute[entry]),
        code=np.maximum(indicator[entry], -1),
    )
    entries.add(node, 4 * most, ColumnKind.DECIDED, node)
    b[node[tame]] = _thresholds(tests, node[tame], sign[tame])


def _thresholds(tests: NodeTests, node: Array, sign: Array) -> Float[Array, " n"]:
    """Return the largest sum, times `sign`, that goes left; found by bisection over all floats.

    r · (sum − offset) rises with sign · sum, rounded as it is. A sum of bounded values lies within
    ±most, so no threshold need lie outside ±2 most.
    """
    most = _bounds(tests.dtype)[1]
    low = np.full(len(node), float_keys.key_of(-2 * most, tests.dtype))
    high = np.full(len(node), float_keys.key_of(2 * most, tests.dtype))
    row, b = tests.node_ptr[node], tests.b[node]
    greater = tests.relation[node] == Relation.GREATER

    def right(key: Array) -> Bool[Array, " n"]:
        with np.errstate(over="ignore"):
            z = tests.r[row] * (sign * float_keys.floats(key, tests.dtype) - tests.offset[row])
        return np.where(greater, z > b, z >= b)

    always = right(low)
    never = ~right(high)
    while np.any(low + 1 < high):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # a difference may not fit 64 bits
        goes = right(middle)
        low, high = np.where(goes, low, middle), np.where(goes, middle, high)
    ends = np.where(always, -2 * most, np.where(never, 2 * most, 0)).astype(tests.dtype)
    return np.where(always | never, ends, float_keys.floats(low, tests.dtype))


def _numbered(
    key: Int64[Array, "n 6"], n_columns: int
) -> tuple[Int64[Array, " n"], tuple[ExpandedColumn, ...]]:
    """Return the column of each entry, and the columns: one for each of X, then by their keys."""
    nan = np.float64(np.nan).view(np.int64)
    first = np.zeros((n_columns, key.shape[1]), np.int64)
    first[:, 1], first[:, 3], first[:, 4] = np.arange(n_columns), nan, -1
    # A column that only oblique nodes read is bounded.
    plain = key[(key[:, 2] == MissingRule.NAN) & (key[:, 3] == nan) & (key[:, 4] == -1)]
    low, bounded = (
        np.isin(np.arange(n_columns), plain[plain[:, 0] == kind, 1])
        for kind in (ColumnKind.MISSING_LOW, ColumnKind.BOUNDED)
    )
    first[bounded & ~low, 0] = ColumnKind.BOUNDED
    columns, place = np.unique(np.concatenate([first, key]), axis=0, return_inverse=True)
    place = place.ravel()
    require(
        len(columns) - n_columns <= MOST_COLUMNS,
        f"S must read at most {MOST_COLUMNS} columns besides those of X, got "
        f"{len(columns) - n_columns}: take fewer trees, or read forest.tests.",
    )
    number = np.full(len(columns), -1)
    number[place[:n_columns]] = np.arange(n_columns)
    rest = np.flatnonzero(number < 0)
    number[rest] = n_columns + np.arange(len(rest))
    return number[place[n_columns:]], tuple(
        ExpandedColumn(
            ColumnKind(kind), index, MissingRule(rule), float(value), code, CodeRule(code_rule)
        )
        for (kind, index, rule, _, code, code_rule), value in zip(
            columns[np.argsort(number)].tolist(),
            columns[np.argsort(number), 3].view(np.float64).tolist(),
            strict=True,
        )
    )

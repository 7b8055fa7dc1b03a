"""Node tests: S, b and the rules that decide a row's side at a node.

Conventions, stated here and nowhere else:

* h = 1 goes RIGHT. At a margin or kernel node h = [z > b] or [z >= b], by the node's relation,
  with z the value of its rows of S. z is compared with b, never subtracted from it, and a one-hot
  row gathers its column, so that infinities and signed zeros route exactly.
* Everything is compared in one dtype, that of `b`, `weight`, `offset` and `r`, which is the dtype
  in which the source library compares. Rows of X are cast to it once, before anything else.
* A missing value (by the node's missing rule) goes in the node's own direction; so does, at a set
  node, a code outside the set's range.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np

from bitvec.core.arrays import (
    FLOATS,
    Array,
    ArrayLike,
    ranges,
    read_only,
    require,
    require_codes,
    require_offsets,
    unique_integers,
)
from bitvec.core.remembered import remembered
from bitvec.core.shape_annotations import Bool, Float, Int32, Int64, UInt8, UInt32


class Kind(IntEnum):
    """Kinds of tests."""

    MARGIN = 0
    """z > b or z >= b, with z = sum over the node's rows of r · activation(S x − offset)."""
    SET = 1
    """The category code of one column is in a set."""
    EQUAL = 2
    """One column equals b."""
    KERNEL = 3
    """z > b for one column, with a soft form P(x' > b) under the forest's prediction kernel."""


class Relation(IntEnum):
    """Comparisons of z with b that send a row right."""

    GREATER = 0
    GREATER_EQUAL = 1


class MissingRule(IntEnum):
    """Rules by which values count as missing."""

    NAN = 0
    NAN_OR_ZERO = 1
    """NaN or |x| <= 1e-35."""
    NAN_OR_SENTINEL = 2
    """NaN or the forest's `inputs.missing_sentinel`."""


ZERO_THRESHOLD = float(np.float32(1e-35))
"""A double holding a float: what MissingRule.NAN_OR_ZERO calls zero."""


class CodeRule(IntEnum):
    """Readings of a category code from a value, at a set node."""

    EXACT = 0
    """The value must be a whole number; anything else is outside the set's range."""
    TRUNCATE = 1
    """The value is truncated toward zero: 2.7 is code 2, -0.5 is code 0."""
    FLOOR = 2
    """The value is rounded down: 2.7 is code 2, -0.5 is outside."""


class Activation(IntEnum):
    """Functions of a row's value, applied before the rows of a node are summed."""

    IDENTITY = 0
    SOFTPLUS = 1


WORD_BITS = 32


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class NodeTests:
    """The tests of all nodes of a forest: S by rows, thresholds b, and each node's rules.

    S is sparse by rows. Node i owns the rows `node_ptr[i] ... node_ptr[i+1]`, and row k the
    entries `row_ptr[k] ... row_ptr[k+1]` of `column` and `weight`. F below is float32 or float64,
    the same for all.

    Parameters
    ----------
    node_ptr : int64, (n_nodes + 1,)
    row_ptr : int64, (n_rows + 1,)
    column : int32, (n_entries,)
        Feature (or column of the feature map) of each entry.
    weight : F, (n_entries,)
    offset : F, (n_rows,)
        Subtracted from the row's sum, before the activation.
    activation : uint8, (n_rows,)
        An `Activation`.
    r : F, (n_rows,)
        Weight of each row in its node's sum (r of the convex polytope tree, else 1).
    b : F, (n_nodes,)
        Threshold, or the value of an `EQUAL` node; unused by set nodes.
    kind, relation, missing_rule, code_rule : uint8, (n_nodes,)
        A `Kind`, `Relation`, `MissingRule` and `CodeRule`.
    missing_right : bool, (n_nodes,)
        Whether a missing value goes right.
    other_right : bool, (n_nodes,)
        Whether, at a set node, a code outside the range of its bits goes right.
    set_ptr : int64, (n_nodes + 1,)
        Words of each node's set.
    set_words : uint32, (n_words,)
        Bit c % 32 of a node's word c // 32 says whether code c goes right. The range of a set is
        32 codes for each of its words.
    substitute : F, (n_entries,), optional
        What a missing value of the entry's column counts as; NaN where there is no substitute.
    indicator : int32, (n_entries,), optional
        A code c >= 0 makes the entry read [x == c] instead of x; -1 reads x itself.

    Raises
    ------
    InvalidForestError
        If a shape, offset, code or dtype is out of place.
    """

    node_ptr: Int64[Array, " n_nodes_plus_1"]
    row_ptr: Int64[Array, " n_rows_plus_1"]
    column: Int32[Array, " n_entries"]
    weight: Float[Array, " n_entries"]
    offset: Float[Array, " n_rows"]
    activation: UInt8[Array, " n_rows"]
    r: Float[Array, " n_rows"]
    b: Float[Array, " n_nodes"]
    kind: UInt8[Array, " n_nodes"]
    relation: UInt8[Array, " n_nodes"]
    missing_rule: UInt8[Array, " n_nodes"]
    code_rule: UInt8[Array, " n_nodes"]
    missing_right: Bool[Array, " n_nodes"]
    other_right: Bool[Array, " n_nodes"]
    set_ptr: Int64[Array, " n_nodes_plus_1"]
    set_words: UInt32[Array, " n_words"]
    substitute: Float[Array, " n_entries"] | None = None
    indicator: Int32[Array, " n_entries"] | None = None

    def __post_init__(self) -> None:
        dtype = np.asarray(self.b).dtype
        require(dtype in FLOATS, f"`b` must have dtype float32 or float64, got {dtype}.")
        n_nodes, n_rows = np.size(self.b), np.size(self.offset)
        n_entries, n_words = np.size(self.column), np.size(self.set_words)
        shapes: dict[str, tuple[np.dtype, int]] = {
            "node_ptr": (np.dtype(np.int64), n_nodes + 1),
            "row_ptr": (np.dtype(np.int64), n_rows + 1),
            "column": (np.dtype(np.int32), n_entries),
            "weight": (dtype, n_entries),
            "offset": (dtype, n_rows),
            "activation": (np.dtype(np.uint8), n_rows),
            "r": (dtype, n_rows),
            "b": (dtype, n_nodes),
            "kind": (np.dtype(np.uint8), n_nodes),
            "relation": (np.dtype(np.uint8), n_nodes),
            "missing_rule": (np.dtype(np.uint8), n_nodes),
            "code_rule": (np.dtype(np.uint8), n_nodes),
            "missing_right": (np.dtype(np.bool_), n_nodes),
            "other_right": (np.dtype(np.bool_), n_nodes),
            "set_ptr": (np.dtype(np.int64), n_nodes + 1),
            "set_words": (np.dtype(np.uint32), n_words),
            "substitute": (dtype, n_entries),
            "indicator": (np.dtype(np.int32), n_entries),
        }
        for name, (want, size) in shapes.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, read_only(name, value, want, (size,)))
        require_offsets("node_ptr", self.node_ptr, n_rows)
        require_offsets("row_ptr", self.row_ptr, n_entries)
        require_offsets("set_ptr", self.set_ptr, n_words)
        require_codes("kind", self.kind, len(Kind))
        require_codes("relation", self.relation, len(Relation))
        require_codes("missing_rule", self.missing_rule, len(MissingRule))
        require_codes("code_rule", self.code_rule, len(CodeRule))
        require_codes("activation", self.activation, len(Activation))
        require(n_entries == 0 or int(self.column.min()) >= 0, "`column` must not be negative.")
        for name in ("weight", "offset", "r"):
            require(np.all(np.isfinite(getattr(self, name))), f"`{name}` must be finite.")
        compares = self.kind != Kind.SET
        require(not np.any(np.isnan(self.b[compares])), "`b` must not be NaN.")
        require(np.all(np.diff(self.node_ptr) >= 1), "each node must own at least one row of S.")
        require(
            np.all((self.kind != Kind.KERNEL) | (self.relation == Relation.GREATER)),
            "a kernel node must compare with `>`: its kernel gives P(x' <= b) to the left.",
        )
        require(
            np.all((self.kind == Kind.MARGIN) | self.is_one_hot),
            "a set, equal or kernel node must own exactly one one-hot row of S.",
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.b.size

    @property
    def n_rows(self) -> int:
        """Number of rows of S."""
        return self.offset.size

    @property
    def dtype(self) -> np.dtype:
        """The dtype in which rows of X are read and compared."""
        return self.b.dtype

    @property
    @remembered
    def is_one_hot(self) -> Bool[Array, " n_nodes"]:
        """True at a node whose z is one column of X itself (axis-aligned)."""
        one_row = np.diff(self.node_ptr) == 1
        row = self.node_ptr[:-1][one_row]
        entry = self.row_ptr[row]
        plain = self.row_ptr[row + 1] - entry == 1
        row, entry = row[plain], entry[plain]
        one = (
            (self.weight[entry] == 1)
            & (self.offset[row] == 0)
            & (self.r[row] == 1)
            & (self.activation[row] == Activation.IDENTITY)
        )
        if self.indicator is not None:
            one &= self.indicator[entry] < 0
        if self.substitute is not None:
            one &= np.isnan(self.substitute[entry])
        result = one_row
        plain_nodes = np.zeros(int(one_row.sum()), bool)
        plain_nodes[plain] = one
        result[one_row] = plain_nodes
        return result

    @property
    @remembered
    def feature(self) -> Int32[Array, " n_nodes"]:
        """The column that each axis-aligned node reads, -1 at any other node."""
        one_hot = self.is_one_hot
        feature = np.full(self.n_nodes, -1, np.int32)
        feature[one_hot] = self.column[self.row_ptr[self.node_ptr[:-1][one_hot]]]
        return feature

    def missing_rules(self, sentinel: float | None) -> Int64[Array, " n_nodes"]:
        """Return the nodes' missing rules; without a sentinel, none counts it as missing."""
        rules = self.missing_rule.astype(np.int64)
        if sentinel is None:
            rules[rules == MissingRule.NAN_OR_SENTINEL] = MissingRule.NAN
        return rules

    def part_of(self, node: int) -> tuple[slice, slice]:
        """Return the rows of S that a node owns, and the entries of these."""
        rows = slice(int(self.node_ptr[node]), int(self.node_ptr[node + 1]))
        return rows, slice(int(self.row_ptr[rows.start]), int(self.row_ptr[rows.stop]))

    def take(self, nodes: Array) -> NodeTests:
        """Return the tests of some nodes, in this order."""
        nodes = np.asarray(nodes, np.int64)
        n_rows = np.diff(self.node_ptr)[nodes]
        row = ranges(self.node_ptr[nodes], n_rows)
        n_entries = np.diff(self.row_ptr)[row]
        entry = ranges(self.row_ptr[row], n_entries)
        n_words = np.diff(self.set_ptr)[nodes]
        word = ranges(self.set_ptr[nodes], n_words)
        pointers = {
            name: np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            for name, counts in (("node_ptr", n_rows), ("row_ptr", n_entries), ("set_ptr", n_words))
        }
        index = {
            **dict.fromkeys(("offset", "activation", "r"), row),
            **dict.fromkeys(("column", "weight", "substitute", "indicator"), entry),
            "set_words": word,
        }
        taken = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in pointers and value is not None:
                value = value[index.get(field.name, nodes)]
            taken[field.name] = pointers.get(field.name, value)
        return NodeTests(**taken)


def from_rows(
    row_ptr: ArrayLike,
    column: ArrayLike,
    weight: ArrayLike,
    b: ArrayLike,
    *,
    node_ptr: ArrayLike | None = None,
    offset: float | Array = 0.0,
    activation: Activation | Array = Activation.IDENTITY,
    r: float | Array = 1.0,
    relation: Relation | Array = Relation.GREATER,
    missing_right: bool | Array = False,
    missing_rule: MissingRule | Array = MissingRule.NAN,
    kind: Kind | Array = Kind.MARGIN,
    code_rule: CodeRule | Array = CodeRule.EXACT,
    other_right: bool | Array = False,
    set_ptr: Array | None = None,
    set_words: Array | None = None,
    substitute: Array | None = None,
    indicator: Array | None = None,
) -> NodeTests:
    """Build tests from the rows of S, one for each node by default; a scalar holds for all.

    Parameters
    ----------
    row_ptr, column, weight, node_ptr
        As in `NodeTests`, in any dtype.
    b : float32 or float64, (n_nodes,)
        Its dtype is the dtype of comparison.

    Examples
    --------
    >>> tests = from_rows([0, 2], [0, 1], [0.5, 2.0], np.array([1.0]))
    >>> tests.n_nodes, tests.n_rows, tests.feature.tolist()
    (1, 1, [-1])
    """
    b, rows = np.asarray(b), np.asarray(row_ptr, np.int64)
    n, n_rows = b.size, rows.size - 1

    def spread(value: int | float | Array, dtype: type | np.dtype, size: int = n) -> Array:
        return np.ascontiguousarray(np.broadcast_to(np.asarray(value).astype(dtype), (size,)))

    return NodeTests(
        node_ptr=np.arange(n + 1) if node_ptr is None else np.asarray(node_ptr, np.int64),
        row_ptr=rows,
        column=np.asarray(column).astype(np.int32),
        weight=np.asarray(weight).astype(b.dtype),
        offset=spread(offset, b.dtype, n_rows),
        activation=spread(activation, np.uint8, n_rows),
        r=spread(r, b.dtype, n_rows),
        b=b,
        kind=spread(kind, np.uint8),
        relation=spread(relation, np.uint8),
        missing_rule=spread(missing_rule, np.uint8),
        code_rule=spread(code_rule, np.uint8),
        missing_right=spread(missing_right, np.bool_),
        other_right=spread(other_right, np.bool_),
        set_ptr=np.zeros(n + 1, np.int64) if set_ptr is None else set_ptr,
        set_words=np.zeros(0, np.uint32) if set_words is None else set_words,
        substitute=substitute,
        indicator=indicator,
    )


def axis_aligned(feature: ArrayLike, b: ArrayLike, **rules: Any) -> NodeTests:
    """Build tests that each read one column, with the rules that `from_rows` takes.

    Parameters
    ----------
    feature : integers, (n_nodes,)
    b : float32 or float64, (n_nodes,)
        Its dtype is the dtype of comparison.

    Examples
    --------
    >>> tests = axis_aligned([2, 0], np.array([0.5, 1.0], np.float32))
    >>> tests.feature.tolist(), tests.dtype
    ([2, 0], dtype('float32'))
    """
    n = np.size(b)
    return from_rows(np.arange(n + 1), feature, np.ones(n), b, **rules)


def set_bits(codes: list[Array]) -> tuple[Int64[Array, " n_plus_1"], UInt32[Array, " n_words"]]:
    """Pack one list of right-going codes per node into `set_ptr` and `set_words`.

    >>> ptr, words = set_bits([np.array([0, 3]), np.array([], int), np.array([33])])
    >>> ptr.tolist(), words.tolist()
    ([0, 1, 1, 3], [9, 0, 2])
    """
    words = []
    for right in codes:
        right = unique_integers(np.asarray(right, np.int64))
        require(right.size == 0 or right[0] >= 0, "category codes must not be negative.")
        packed = np.zeros(int(right[-1]) // WORD_BITS + 1 if right.size else 0, np.uint32)
        bit = np.uint32(1) << (right % WORD_BITS).astype(np.uint32)
        np.bitwise_or.at(packed, right // WORD_BITS, bit)
        words.append(packed)
    sizes = np.cumsum([0, *(w.size for w in words)]).astype(np.int64)
    return sizes, np.concatenate([np.zeros(0, np.uint32), *words])


def set_codes(tests: NodeTests, node: int) -> Int64[Array, " n_codes"]:
    """Return the codes that go right at a set node, ascending."""
    words = tests.set_words[tests.set_ptr[node] : tests.set_ptr[node + 1]]
    bits = (words[:, None] >> np.arange(WORD_BITS, dtype=np.uint32)) & np.uint32(1)
    return np.flatnonzero(bits.ravel())

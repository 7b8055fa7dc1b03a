"""Trees whose nodes compare a key of one column, packed for traversal.

A key column is what a node reads of a row: the key of one column, where a missing value is replaced
by a key that sends it the node's way; or 0 or 1, for the outcome of a test that is no comparison.
Key columns are made once for a block of rows, so that a step down a tree is one comparison of
integers, whatever the node tests.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core import float_keys, structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, ZERO_THRESHOLD, Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Int64, UInt32, UInt64
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.kernel_arrays import aligned, constant
from bitvec.runtime.predict.cpu.vectors import I32, I64, load, number

DERIVED = 256
"""At most so many distinct tests for equality or for a set."""
HOT = 6
"""Levels of a tree that stand breadth first; below, subtree after subtree."""

COMPARED, EQUAL, SET = 0, 1, 2
"""Contents of a key column: keys, the outcomes of a test for equality, or for a set."""

KEY_COLUMN = np.dtype(
    [
        (name, np.int64)
        for name in (
            "column",  # -1: the key column holds `missing` in all rows
            "content",
            "missing_first",  # the keys that count as missing besides NaN
            "missing_last",
            "missing",  # what the key column holds there
            "first",  # the keys that equal, or that are codes of the set's range
            "last",
            "rule",
            "other",
            "word",
        )
    ]
)
NARROW = np.dtype([("key", np.int32), ("link", np.uint32)])
WIDE = np.dtype([("key", np.int64), ("link", np.uint64)])

_NO_KEYS = {
    narrow: constant(np.zeros(0, record["key"]))
    for narrow, record in ((True, NARROW), (False, WIDE))
}

NARROW_COLUMNS = 10
WIDE_COLUMNS = 32
"""Bits of a link that name a key column; those above hold the position of the left child."""
NARROW_LEAVES = 21
WIDE_LEAVES = 32
"""Bits of a leaf's key that hold its number in the tree; those above hold its vector."""
NARROW_VECTORS = 31 - NARROW_LEAVES


@dataclass(frozen=True, slots=True, eq=False)
class KeyedTrees:
    """Trees of positions with siblings side by side, in one cache line.

    A tree of k leaves has 2k positions: its root, one that is not used, then the two children of
    each node. A row at a position goes to the position's link, or the one after it if
    `key_column >= key`. A leaf links to itself and reads key column 0, which is below all keys; its
    key holds its number in the tree, and above that its vector if `has_vectors`.

    Parameters
    ----------
    nodes : uint64, (2 * n_leaves,) or (4 * n_leaves,)
        Records NARROW or WIDE, as words: their parts are shifted out, which is less work than to
        load each.
    leaf_ptr : int64, (n_trees + 1,)
        Half of where each tree's positions begin.
    depth : int64, (n_trees,)
        Nodes on the longest path of each tree.
    key_columns : records KEY_COLUMN, (n_key_columns,)
    words : uint32, (n_words,)
        The sets that key columns name.
    has_vectors : bool
    is_narrow : bool
        Whether a position takes 8 bytes and not 16.
    """

    nodes: UInt64[Array, " n"]
    leaf_ptr: Int64[Array, " n_trees_plus_1"]
    depth: Int64[Array, " n_trees"]
    key_columns: Array
    words: UInt32[Array, " n_words"]
    has_vectors: bool
    is_narrow: bool

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Arguments of the kernels, and an empty array of the keys' dtype."""
        no_keys = _NO_KEYS[self.is_narrow]
        return self.nodes, self.leaf_ptr, self.depth, self.key_columns, self.words, no_keys

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)


def unsupported_reason(forest: Forest, most: int = DERIVED) -> str | None:
    """Return why the nodes of a forest cannot be packed so, in a few words, or None.

    `most` distinct tests for equality or for sets are allowed.
    """
    if not np.all(forest.tests.is_one_hot):
        return "a node reads more than one column"
    n_derived = sum(tables[0].size for tables in (_equal_columns(forest), _set_columns(forest)))
    if n_derived > most:
        return f"more than {most:,} distinct tests for equality or for sets"
    return None


def pack(
    forest: Forest,
    dtype: np.dtype,
    vectors: Array,
    n_vectors: int,
    columns: tuple[Array, Array, Array] | None = None,
) -> KeyedTrees:
    """Pack a forest that `unsupported_reason` does not refuse, for keys of values of `dtype`.

    Parameters
    ----------
    dtype : numpy dtype
        float32 or float64: what X holds, or the forest's own dtype if that is less.
    vectors : integers, (n_leaves,)
        The vector of each leaf, which goes into the leaf's key if there is room.
    columns : three arrays, optional
        What `key_columns_of` returns, laid out in another way.
    """
    tests, B = forest.tests, forest.bitvectors
    column_of, key_columns, words = columns or key_columns_of(forest, dtype)
    n_leaves = int(np.diff(B.leaf_ptr).max(initial=0))
    narrow = (
        dtype == np.float32
        and max(key_columns.size, column_of.max(initial=0) + 1) <= 1 << NARROW_COLUMNS
        and n_leaves <= 1 << NARROW_LEAVES
    )
    column_bits, leaf_bits = (
        (NARROW_COLUMNS, NARROW_LEAVES) if narrow else (WIDE_COLUMNS, WIDE_LEAVES)
    )
    has_vectors = n_vectors <= 1 << NARROW_VECTORS or not narrow
    record = NARROW if narrow else WIDE
    key_columns["missing"][0] = np.iinfo(record["key"]).min

    position, leaf_position, child = positions(B)
    nodes = aligned(2 * B.n_leaves * record.itemsize).view(record)
    nodes[:] = np.zeros((), record)
    compared = keys.thresholds(tests.b, tests.relation, dtype)
    is_compared = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    nodes["key"][position] = np.where(is_compared, compared, 1)
    nodes["link"][position] = (child << column_bits) | column_of
    leaf_start = np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    leaf_key = np.arange(B.n_leaves) - leaf_start
    if has_vectors:
        leaf_key |= np.asarray(vectors, np.int64) << leaf_bits
    nodes["key"][leaf_position] = leaf_key
    nodes["link"][leaf_position] = (leaf_position - 2 * leaf_start) << column_bits
    return KeyedTrees(
        constant(nodes.view(np.uint64)),
        constant(B.leaf_ptr),
        constant(tree_paths.tree_depth(B).astype(np.int64)),
        constant(key_columns),
        words,
        has_vectors,
        narrow,
    )


def step(builder: Any, node: Any, keys: Any, key_bytes: int, key_step: int) -> Any:
    """Emit a step of a row down a tree: return the position to which it goes from a node.

    Parameters
    ----------
    node, keys : int64
        Addresses of the node, and of the row's key in the first key column.
    key_bytes, key_step : int
        Of a key, and from its key column to the next one.
    """
    is_narrow = key_bytes == 4
    key_type, n_columns = (I32, NARROW_COLUMNS) if is_narrow else (I64, WIDE_COLUMNS)
    link = load(builder, node, number(0 if is_narrow else 8), I64)
    least = builder.trunc(link, I32) if is_narrow else load(builder, node, number(0), I64)
    link = builder.lshr(link, number(32)) if is_narrow else link
    column = builder.and_(link, number((1 << n_columns) - 1))
    key = load(builder, keys, builder.mul(column, number(key_step)), key_type)
    right = builder.zext(builder.icmp_signed(">=", key, least), I64)
    return builder.add(builder.lshr(link, number(n_columns)), right)


def positions(B: structure.Bitvectors, swapped: Array | None = None) -> tuple[Array, Array, Array]:
    """Return where nodes and leaves stand, and where in its tree each node's children begin.

    The left child stands first, but second where `swapped`.
    """
    tree, node_ptr = B.tree_of_node, B.node_ptr
    sides = structure.children(B)
    order = _order(B, sides)
    rank = np.empty(B.n_nodes, np.int64)
    rank[order] = np.arange(B.n_nodes)
    child = 2 + 2 * (rank - node_ptr[:-1][tree])
    start = 2 * B.leaf_ptr[:-1]
    position = np.empty(B.n_nodes, np.int64)
    leaf_position = np.empty(B.n_leaves, np.int64)
    has_nodes = np.diff(B.leaf_ptr) > 1
    position[node_ptr[:-1][has_nodes]] = start[has_nodes]
    leaf_position[B.leaf_ptr[:-1][~has_nodes]] = start[~has_nodes]
    for side, below in enumerate(sides):
        at = start[tree] + child + (side if swapped is None else side ^ swapped)
        inner = below >= 0
        position[below[inner]] = at[inner]
        leaf_position[~below[~inner]] = at[~inner]
    return position, leaf_position, child


def _order(B: structure.Bitvectors, sides: tuple[Array, Array]) -> Array:
    """Return the nodes tree by tree: the upper levels by level, then the rest in preorder."""
    is_hot = np.zeros(B.n_nodes, bool)
    level = B.node_ptr[:-1][np.diff(B.leaf_ptr) > 1]
    for _ in range(HOT):
        is_hot[level] = True
        level = np.concatenate([side[level] for side in sides])
        level = level[level >= 0]
    place, every = np.empty(B.n_nodes, np.int64), np.arange(B.n_nodes)
    place[tree_paths.preorder(B)] = every
    return np.argsort((2 * B.tree_of_node + ~is_hot) * B.n_nodes + np.where(is_hot, every, place))


def _shared(forest: Forest, nodes: Array) -> Array:
    """Return one number per node for its column, missing rule and direction."""
    tests = forest.tests
    rule = tests.missing_rules(forest.inputs.missing_sentinel)[nodes]
    pair = tests.feature[nodes].astype(np.int64) * len(MissingRule) + rule
    return 2 * pair + tests.missing_right[nodes]


def _equal_columns(forest: Forest) -> tuple[Array, Array, Array]:
    """Return one node of each distinct test for equality, the nodes, and which test is theirs."""
    nodes = np.flatnonzero(forest.tests.kind == Kind.EQUAL)
    number = float_keys.keys(forest.tests.b[nodes])
    tests = np.stack([_shared(forest, nodes), number], axis=1)
    _, first, which = np.unique(tests, axis=0, return_index=True, return_inverse=True)
    return nodes[first], nodes, which.ravel()


def _set_columns(forest: Forest) -> tuple[Array, Array, Array]:
    """Return one node of each distinct test for a set, the nodes, and which test is theirs."""
    tests = forest.tests
    nodes = np.flatnonzero(tests.kind == Kind.SET)
    shared = _shared(forest, nodes).tolist()
    seen: dict[tuple[int | bool | bytes, ...], int] = {}
    which = np.empty(nodes.size, np.int64)
    for k, node in enumerate(nodes):
        words = tests.set_words[tests.set_ptr[node] : tests.set_ptr[node + 1]]
        rules = (shared[k], int(tests.code_rule[node]), bool(tests.other_right[node]))
        which[k] = seen.setdefault((*rules, words.tobytes()), len(seen))
    _, first = np.unique(which, return_index=True)
    return nodes[first], nodes, which


def _compared_columns(forest: Forest, dtype: np.dtype) -> tuple[tuple[Array, ...], Array]:
    """Return one node of each compared column, the nodes, and which column is theirs; and the keys.

    These keys stand for missing values. Nodes with different directions share a column if one key
    sends a missing value each node's way, as where it counts as 0.
    """
    tests = forest.tests
    nodes = np.flatnonzero((tests.kind != Kind.EQUAL) & (tests.kind != Kind.SET))
    right = tests.missing_right[nodes].astype(bool)
    _, pair = np.unique(_shared(forest, nodes) // 2, return_inverse=True)
    threshold = keys.thresholds(tests.b[nodes], tests.relation[nodes], dtype)
    limits = np.iinfo(np.int32 if dtype.itemsize == 4 else np.int64)
    n_pairs = int(pair.max(initial=-1)) + 1
    most, least = np.full(n_pairs, limits.min), np.full(n_pairs, limits.max)
    np.maximum.at(most, pair[right], threshold[right])
    np.minimum.at(least, pair[~right], threshold[~right])
    is_shared = most < least
    apart = right & ~is_shared[pair]
    _, first, which = np.unique(2 * pair + apart, return_index=True, return_inverse=True)
    shared = np.where(is_shared[pair], most[pair], np.where(right, limits.max, limits.min))
    return (nodes[first], nodes, which), shared[first]


def key_columns_of(forest: Forest, dtype: np.dtype) -> tuple[Array, Array, Array]:
    """Return each node's key column, the key columns, and the words of the sets that they name."""
    tests = forest.tests
    column_of = np.zeros(tests.n_nodes, np.int64)
    compared, missing = _compared_columns(forest, dtype)
    key_columns = [np.zeros(1, KEY_COLUMN)]
    key_columns[0]["column"] = -1
    words: list[Array] = [np.zeros(0, np.uint32)]
    n_key_columns = 1
    kinds = (
        (COMPARED, compared),
        (EQUAL, _equal_columns(forest)),
        (SET, _set_columns(forest)),
    )
    for content, (example, nodes, which) in kinds:
        column_of[nodes] = n_key_columns + which
        n_key_columns += example.size
        part = np.zeros(example.size, KEY_COLUMN)
        part["column"] = tests.feature[example]
        part["content"] = content
        part["missing_first"], part["missing_last"] = _missing_keys(forest, example, dtype)
        part["missing"] = missing if content == COMPARED else tests.missing_right[example]
        if content == EQUAL:
            part["first"], part["last"] = keys.equal_range(tests.b[example], dtype)
        elif content == SET:
            sizes = np.diff(tests.set_ptr)[example]
            ends = np.cumsum(sizes)
            part["word"] = ends - sizes
            part["first"], part["last"] = _code_keys(sizes, dtype)
            part["rule"] = tests.code_rule[example]
            part["other"] = tests.other_right[example]
            words += [tests.set_words[tests.set_ptr[i] : tests.set_ptr[i + 1]] for i in example]
        key_columns.append(part)
    return column_of, np.concatenate(key_columns), constant(np.concatenate(words))


def _missing_keys(forest: Forest, nodes: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """Return the first and the last key that counts as missing at each node, besides NaN."""
    rule = forest.tests.missing_rules(forest.inputs.missing_sentinel)[nodes]
    first, last = np.ones(nodes.size, np.int64), np.zeros(nodes.size, np.int64)
    is_zero, is_sentinel = rule == MissingRule.NAN_OR_ZERO, rule == MissingRule.NAN_OR_SENTINEL
    first[is_zero], last[is_zero] = keys.magnitude_range(ZERO_THRESHOLD, dtype)
    if is_sentinel.any():
        with np.errstate(over="ignore"):
            sentinel = np.array([forest.inputs.missing_sentinel], np.float64).astype(forest.dtype)
        if not np.isnan(sentinel[0]):
            first[is_sentinel], last[is_sentinel] = keys.equal_range(sentinel, dtype)
    return first, last


def _code_keys(sizes: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """Return the keys of the first and the last value whose whole part is a code in range."""
    least = keys.thresholds(np.array([-1.0]), np.array([Relation.GREATER]), dtype)[0]
    beyond = sizes.astype(np.float64) * WORD_BITS
    at_least = np.full(sizes.size, Relation.GREATER_EQUAL)
    past = keys.thresholds(beyond, at_least, dtype)
    last = np.where(sizes > 0, past - 1, np.iinfo(np.int64).min)
    return np.full(sizes.size, int(least)), last

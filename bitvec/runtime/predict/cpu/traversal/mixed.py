"""Trees of any tests, row by row: each test is evaluated where a row meets it.

What no other kernel takes, and the way down oblique and polytope trees that evaluates only the
nodes on a row's path.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS as _WORD_BITS
from bitvec.core.node_tests import Activation, CodeRule, Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Float, Int32
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.softplus_kernel import softplus
from bitvec.runtime.predict.cpu.traversal import mixed_layout

# Plain integers, which numba freezes into the code.
_EQUAL, _SET = int(Kind.EQUAL), int(Kind.SET)
_GREATER = int(Relation.GREATER)
_ZERO, _SENTINEL = int(MissingRule.NAN_OR_ZERO), int(MissingRule.NAN_OR_SENTINEL)
_EXACT, _TRUNCATE = int(CodeRule.EXACT), int(CodeRule.TRUNCATE)
_SOFTPLUS = int(Activation.SOFTPLUS)

_NODE_CYCLES, _ENTRY_CYCLES, _SOFTPLUS_CYCLES = 45.0, 4.5, 60.0
"""Cycles of a node on a row's path, of an entry of its rows of S, and of a softplus."""


class Mixed:
    """A forest packed for `mixed`; see `bitvec.runtime.predict.cpu.protocol.TreeKernel`.

    X holds what S reads: of a forest with a feature map, what that gives.
    """

    name = "mixed"

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._trees = mixed_layout.pack(forest)
        self._sums = leaf_vectors.pack(forest)
        self._leaf_ptr = constant(forest.bitvectors.leaf_ptr)

    def __reduce__(self) -> tuple[Callable[..., Mixed], tuple[Forest]]:
        return Mixed, (self.forest,)

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while its block is run."""
        return 8 * self.forest.n_features

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        return self._trees.n_bytes + self._sums.n_bytes + self._leaf_ptr.nbytes

    def exit_leaves(
        self, X: Float[Array, "batch n_columns"], out: Int32[Array, "batch n_trees"]
    ) -> None:
        """Fill `out` with leaf numbers within each tree."""
        _exits(self._cast(X), self._trees.arrays, out)

    def add_leaves(
        self, X: Float[Array, "batch n_columns"], total: Float[Array, "batch n_outputs"]
    ) -> None:
        """Add every tree's leaf vector, weighted, to `total`, tree after tree."""
        sums = self._sums
        _sums(self._cast(X), self._trees.arrays, self._leaf_ptr, sums.id_of, sums.arrays, total)

    def _cast(self, X: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return constant(X.astype(self.forest.dtype, copy=False))


def unsupported_reason(forest: Forest) -> str | None:
    """Return None: every forest can be walked."""
    return None


def pack(forest: Forest) -> Mixed:
    """Pack any forest."""
    return Mixed(forest)


def cycles(forest: Forest) -> float:
    """Return about how many cycles a row takes where each node on its path is tested on its own."""
    tests = forest.tests
    n_entries = np.diff(tests.row_ptr[tests.node_ptr])
    n_soft = int(np.count_nonzero(tests.activation == Activation.SOFTPLUS))
    a_node = _NODE_CYCLES + _ENTRY_CYCLES * n_entries.mean() if tests.n_nodes else 0.0
    a_node += _SOFTPLUS_CYCLES * n_soft / max(tests.n_nodes, 1)
    return tree_paths.levels(forest.bitvectors) * a_node


@inner
def _is_missing(x, missing_rule, scalars):
    if missing_rule == _ZERO:
        return x != x or abs(x) <= scalars.zero_threshold
    if missing_rule == _SENTINEL:
        return x != x or x == scalars.sentinel
    return x != x


@inner
def _oblique_sum(X, x_row, node, rows, entries, scalars):
    """Return z of one node for one row, entry by entry in the order of storage, and if missing."""
    z = scalars.zero
    missing = False
    for k in range(node.first_row, node.last_row):
        row = rows[k]
        value = scalars.zero
        for j in range(row.first_entry, row.last_entry):
            entry = entries[j]
            x = X[x_row, entry.column]
            absent = _is_missing(x, node.missing_rule, scalars)
            if absent and entry.substitute == entry.substitute:
                x = entry.substitute
                absent = False
            if entry.indicator >= 0:
                x = scalars.one if np.float64(x) == np.float64(entry.indicator) else scalars.zero
            missing |= absent
            term = entry.weight * x
            # The first entry starts the sum: 0 + x would turn -0.0 into 0.0.
            value = term if j == row.first_entry else value + term
        value = value - row.offset
        if row.activation == _SOFTPLUS:
            value = softplus(value, X.dtype.type)
        term = row.r * value
        z = term if k == node.first_row else z + term
    return z, missing


@inner
def _set_code(x, node):
    """Return the category code that a set node reads from x, -1 if its set has no such code."""
    whole = np.trunc(x)
    readable = (x > -1) & (whole < (node.last_word - node.first_word) * _WORD_BITS)
    readable &= (node.code_rule != _EXACT) | (x == whole)
    readable &= (node.code_rule == _TRUNCATE) | (x >= 0)
    return np.int64(whole) if readable else np.int64(-1)


@inner
def _traverse(X, nodes, tests, leaf):
    """Fill `leaf` with the leaf number of each row of X in one tree of any tests.

    The conventions of `bitvec.core.node_tests`, in full. A child that is a leaf is `~leaf`. Arrays
    are handed to `_oblique_sum` alone: passing one counts references, which would cost more than a
    node. Cost per row: O(entries of the nodes on its path).
    """
    rows, entries, set_words, constants = tests
    scalars = constants[0]
    for row in range(X.shape[0]):
        at = 0 if nodes.shape[0] else -1
        while at >= 0:
            node = nodes[np.uint64(at)]
            if node.feature >= 0:
                z = X[np.uint64(row), np.uint64(node.feature)]
                missing = _is_missing(z, node.missing_rule, scalars)
            else:
                z, missing = _oblique_sum(X, row, node, rows, entries, scalars)
            # z may be NaN without a missing value: infinities of both signs in one row of S.
            if missing or z != z:
                right = node.missing_right != 0
            elif node.kind == _SET:
                code = _set_code(z, node)
                right = node.other_right != 0
                if code >= 0:
                    word = set_words[np.uint64(node.first_word + code // _WORD_BITS)]
                    right = (word >> np.uint32(code % _WORD_BITS)) & np.uint32(1) != 0
            elif node.kind == _EQUAL:
                right = z == node.b
            elif node.relation == _GREATER:
                right = z > node.b
            else:
                right = z >= node.b
            at = node.right if right else node.left
        leaf[row] = ~at


@kernel
def _exits(X, layout, exits):
    """Fill `exits` (batch, n_trees) with leaf numbers within each tree."""
    nodes, tests, node_ptr = layout
    leaf = np.empty(X.shape[0], np.int32)
    for tree in range(node_ptr.shape[0] - 1):
        _traverse(X, nodes[node_ptr[tree] : node_ptr[tree + 1]], tests, leaf)
        for row in range(X.shape[0]):
            exits[row, tree] = leaf[row]


@kernel
def _sums(X, layout, leaf_ptr, id_of, sums, total):
    """Add the exit leaves' vectors of all trees to `total`, tree by tree."""
    nodes, tests, node_ptr = layout
    leaf = np.empty(X.shape[0], np.int32)
    ids = np.empty(X.shape[0], np.int64)
    for tree in range(leaf_ptr.shape[0] - 1):
        _traverse(X, nodes[node_ptr[tree] : node_ptr[tree + 1]], tests, leaf)
        for row in range(X.shape[0]):
            ids[row] = leaf_ptr[tree] + leaf[row]
            if id_of.shape[0]:
                ids[row] = id_of[np.uint64(ids[row])]
        leaf_vectors.add(ids, 0, sums, total)

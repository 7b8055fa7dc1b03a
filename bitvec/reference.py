"""The equation, literally, in NumPy: the oracle that every engine is held to.

Nothing here is fast. `outcomes` decides one node for one row; everything else follows from it and
from the dense or interval form of B. Sums of a row of S run entry by entry in the order of storage,
in the forest's dtype, without fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int, Int64

from bitvec import matrices, structure, tree_paths
from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    Activation,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
)
from bitvec.output import Aggregate
from bitvec.structure import Bitvectors

DENSE_LEAVES = 2048
"""Trees with more leaves than this use the interval form of B · h instead of the dense product."""
BLOCK = 1 << 22
"""Elements of h held at a time."""


def columns(forest: Forest, X: Array) -> Float[Array, "batch n_columns"]:
    """Return what S reads, X or φ(X), in the forest's dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        X = np.asarray(X).astype(forest.dtype, copy=False)
    return X if forest.feature_map is None else forest.feature_map(X)


def _is_missing(x: Array, rule: Array, sentinel: float | None) -> Bool[Array, " n"]:
    missing = np.isnan(x)
    missing |= (rule == MissingRule.NAN_OR_ZERO) & (np.abs(x) <= ZERO_THRESHOLD)
    if sentinel is not None:
        missing |= (rule == MissingRule.NAN_OR_SENTINEL) & (x == x.dtype.type(sentinel))
    return missing


def margins(
    tests: NodeTests,
    Z: Float[Array, "batch n_columns"],
    row: Int[Array, " n_pairs"],
    node: Int[Array, " n_pairs"],
    sentinel: float | None = None,
) -> tuple[Float[Array, " n_pairs"], Bool[Array, " n_pairs"]]:
    """Return z (before b) and whether it is missing, for pairs of a row of Z and a node.

    z = sum over the node's rows k of r_k · activation((S z)_k − offset_k).
    """
    total = np.zeros(len(node), tests.dtype)
    missing = np.zeros(len(node), bool)
    n_rows = tests.node_ptr[node + 1] - tests.node_ptr[node]
    for k in range(int(n_rows.max(initial=0))):
        pair = np.flatnonzero(k < n_rows)
        s_row = tests.node_ptr[node[pair]] + k
        value, row_missing = _row_value(
            tests, Z, row[pair], s_row, tests.missing_rule[node[pair]], sentinel
        )
        soft = tests.activation[s_row] == Activation.SOFTPLUS
        with np.errstate(invalid="ignore", over="ignore"):
            value = value - tests.offset[s_row]
            value[soft] = np.logaddexp(value.dtype.type(0), value[soft])
            # The first row starts the sum: 0 + z would turn -0.0 into 0.0.
            term = tests.r[s_row] * value
            total[pair] = term if k == 0 else total[pair] + term
        missing[pair] |= row_missing
    return total, missing


def _row_value(
    tests: NodeTests, Z: Array, row: Array, s_row: Array, rule: Array, sentinel: float | None
) -> tuple[Array, Array]:
    total = np.zeros(len(s_row), tests.dtype)
    missing = np.zeros(len(s_row), bool)
    n_entries = tests.row_ptr[s_row + 1] - tests.row_ptr[s_row]
    for k in range(int(n_entries.max(initial=0))):
        pair = np.flatnonzero(k < n_entries)
        entry = tests.row_ptr[s_row[pair]] + k
        x = Z[row[pair], tests.column[entry]]
        absent = _is_missing(x, rule[pair], sentinel)
        if tests.substitute is not None:
            substitute = tests.substitute[entry]
            replaced = absent & ~np.isnan(substitute)
            x = np.where(replaced, substitute, x)
            absent &= ~replaced
        if tests.indicator is not None:
            code = tests.indicator[entry]
            x = np.where(code >= 0, (x == code).astype(x.dtype), x)
        with np.errstate(invalid="ignore", over="ignore"):
            term = tests.weight[entry] * x
            total[pair] = term if k == 0 else total[pair] + term
        missing[pair] |= absent
    return total, missing


def _set_outcome(tests: NodeTests, x: Array, node: Array) -> Bool[Array, " n"]:
    with np.errstate(invalid="ignore"):
        whole = np.trunc(x)
        readable = (x > -1) & ((x == whole) | (tests.code_rule[node] != CodeRule.EXACT))
    first, last = tests.set_ptr[node], tests.set_ptr[node + 1]
    readable &= (x >= 0) | (tests.code_rule[node] == CodeRule.TRUNCATE)
    readable &= whole < (last - first) * WORD_BITS
    code = np.where(readable, whole, 0).astype(np.int64)
    right = tests.other_right[node].copy()
    at = np.flatnonzero(readable)
    word = tests.set_words[first[at] + code[at] // WORD_BITS]
    right[at] = (word >> (code[at] % WORD_BITS).astype(np.uint32)) & np.uint32(1) == 1
    return right


def outcomes(
    forest: Forest,
    Z: Float[Array, "batch n_columns"],
    row: Int[Array, " n_pairs"],
    node: Int[Array, " n_pairs"],
) -> Bool[Array, " n_pairs"]:
    """Return h for pairs of a row of Z and a node: True goes right."""
    tests = forest.tests
    z, missing = margins(tests, Z, row, node, forest.inputs.missing_sentinel)
    kind, b = tests.kind[node], tests.b[node]
    with np.errstate(invalid="ignore"):
        right = np.where(tests.relation[node] == Relation.GREATER, z > b, z >= b)
        right = np.where(kind == Kind.EQUAL, z == b, right)
    is_set = np.flatnonzero(kind == Kind.SET)
    right[is_set] = _set_outcome(tests, z[is_set], node[is_set])
    # z may be NaN without a missing value (infinities of both signs in one row): same direction.
    undefined = missing | (np.isnan(z) & (kind != Kind.SET))
    return np.where(undefined, tests.missing_right[node], right)


def hard_tests(forest: Forest, Z: Float[Array, "batch n_columns"]) -> Bool[Array, "batch n_nodes"]:
    """Return h = σ(Sx − b) for every row and node."""
    row, node = np.divmod(np.arange(len(Z) * forest.n_nodes), max(forest.n_nodes, 1))
    return outcomes(forest, Z, row, node).reshape(len(Z), forest.n_nodes)


# The four equivalent hard forms of the exit leaf, and the traversal they all equal.


def exit_leaf_bitvector(
    B: Bitvectors, h: Bool[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(a) First argmax of B · h, per tree, as leaf numbers within the tree (Eq. 3)."""
    exits = np.zeros((len(h), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        part = B.tree(tree)
        if part.n_leaves <= DENSE_LEAVES:
            # Counts below 2**24 are exact in float32, so BLAS may do the product.
            counts = h[:, first:last].astype(np.float32) @ matrices.dense(part).T.astype(np.float32)
        else:
            counts = matrices.scores(part, h[:, first:last])
        exits[:, tree] = counts.argmax(axis=1)
    return exits


def exit_leaf_ternary(
    B: Bitvectors, h: Bool[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(b) Argmax of D(2h − 1) − depth: its maximum 0 is unique (Eq. 8)."""
    exits = np.zeros((len(h), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        part = B.tree(tree)
        sign = 2 * h[:, first:last].astype(np.int64) - 1
        score = sign @ matrices.ternary(part).T.astype(np.int64) - tree_paths.leaf_depth(part)
        exits[:, tree] = score.argmax(axis=1)
    return exits


def exit_leaf_two_sided(
    B: Bitvectors, m: Float[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(c) Argmax of B · relu(m) + B⁻ · relu(−m), for margins m none of which is 0.

    In floating point a gap below about eps · sum|m| can flip: for training, not for answers.
    """
    exits = np.zeros((len(m), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        D = matrices.ternary(B.tree(tree))
        part = m[:, first:last]
        score = np.maximum(part, 0) @ (D != -1).T + np.maximum(-part, 0) @ (D != 1).T
        exits[:, tree] = score.argmax(axis=1)
    return exits


def exit_leaf_packed(
    B: Bitvectors, h: Bool[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(d) Lowest set bit of the AND of the columns whose test is true (QuickScorer)."""
    exits = np.zeros((len(h), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        part = B.tree(tree)
        words = matrices.packed(part)
        for row in range(len(h)):
            alive = np.bitwise_and.reduce(
                words[h[row, first:last]], axis=0, initial=~np.uint64(0), dtype=np.uint64
            )
            bits = (alive[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
            exits[row, tree] = bits.ravel().argmax()
    return exits


def exit_leaf_traversal(
    forest: Forest, Z: Float[Array, "batch n_columns"]
) -> Int64[Array, "batch n_trees"]:
    """Walk every row down every tree; only the nodes on its path are evaluated."""
    B = forest.bitvectors
    left, right = structure.children(B)
    has_nodes = np.diff(B.leaf_ptr) > 1
    start = np.where(has_nodes, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    at = np.tile(start, (len(Z), 1)).ravel()
    row = np.repeat(np.arange(len(Z)), B.n_trees)
    moving = np.flatnonzero(at >= 0)
    while moving.size:
        node = at[moving]
        goes_right = outcomes(forest, Z, row[moving], node)
        at[moving] = np.where(goes_right, right[node], left[node])
        moving = moving[at[moving] >= 0]
    return ~at.reshape(len(Z), B.n_trees) - B.leaf_ptr[:-1]


def _trees(B: Bitvectors) -> Iterator[tuple[int, int, int]]:
    node_ptr = B.node_ptr
    return ((t, int(node_ptr[t]), int(node_ptr[t + 1])) for t in range(B.n_trees))


def exit_leaves(forest: Forest, X: Array) -> Int64[Array, "batch n_trees"]:
    """Return argmax(B · σ(Sx − b)) for every row and tree, as leaf numbers within the tree."""
    Z = columns(forest, X)
    exits = np.zeros((len(Z), forest.n_trees), np.int64)
    block = max(1, BLOCK // max(forest.n_nodes, 1))
    for start in range(0, len(Z), block):
        part = slice(start, start + block)
        exits[part] = exit_leaf_bitvector(forest.bitvectors, hard_tests(forest, Z[part]))
    return exits


def leaf_vectors(
    forest: Forest, X: Float[Array, "batch n_features"], leaf: Int[Array, " batch"]
) -> Float[Array, "batch width"]:
    """Return v at one leaf (of the forest) per row, linear terms included.

    The terms are added to the constant in the order of storage, in the dtype of v; a row with NaN
    in one of the leaf's columns takes the constant vector of v instead.
    """
    v, linear = forest.leaves.v, forest.leaves.linear
    if linear is None:
        return v[leaf]
    value = linear.constant[leaf]
    count = np.diff(linear.leaf_ptr)[leaf]
    missing = count == 0
    for k in range(int(count.max(initial=0))):
        at = np.flatnonzero(k < count)
        term = linear.leaf_ptr[leaf[at]] + k
        with np.errstate(invalid="ignore", over="ignore"):
            x = X[at, linear.column[term]].astype(v.dtype)
            if linear.zero_threshold:
                x[np.abs(x) <= v.dtype.type(linear.zero_threshold)] = 0
            value[at] += linear.weight[term] * x[:, None]
        missing[at] |= np.isnan(x)
    return np.where(missing[:, None], v[leaf], value)


def accumulate(
    forest: Forest, X: Float[Array, "batch n_features"], exits: Int[Array, "batch n_trees"]
) -> Float[Array, "batch n_outputs"]:
    """Combine the exit leaves of all trees into the raw score, in the source's order and dtype."""
    leaf = exits + forest.bitvectors.leaf_ptr[:-1]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite leaves are legal
        vectors = [leaf_vectors(forest, X, leaf[:, tree]) for tree in range(forest.n_trees)]
        return combine(forest, vectors, leaf)


def combine(
    forest: Forest,
    vectors: list[Float[Array, "batch width"]],
    leaf: Int[Array, "batch n_trees"] | None = None,
) -> Float[Array, "batch n_outputs"]:
    """Aggregate one vector per row and tree.

    `leaf` names the outputs of leaves that add to one only; without it, vectors are dense.
    """
    output, leaves = forest.output, forest.leaves
    n_rows = len(leaf) if leaf is not None else (len(vectors[0]) if vectors else 0)
    assert output.base_score is not None
    total = np.zeros((n_rows, output.n_outputs), output.dtype)
    if output.base_first:
        total[:] = output.base_score  # not added to 0, which would lose a base score of -0.0
    if output.aggregate is Aggregate.WEIGHTED_MEDIAN and vectors:
        dense = [_spread(forest, vector, leaf, tree) for tree, vector in enumerate(vectors)]
        total = _weighted_median(forest, np.stack(dense, axis=1))
    elif output.aggregate in (Aggregate.MIN, Aggregate.MAX):
        extreme = np.minimum if output.aggregate is Aggregate.MIN else np.maximum
        for tree, vector in enumerate(vectors):
            part = _spread(forest, vector, leaf, tree)
            total = part if tree == 0 else extreme(total, part)
    else:
        every = np.arange(n_rows)
        for tree, vector in enumerate(vectors):
            weighted = vector.astype(output.dtype, copy=False)
            if output.tree_weight is not None:
                weighted = output.tree_weight[tree] * weighted
            if leaves.output is None or leaf is None:
                total += weighted
            else:
                total[every, leaves.output[leaf[:, tree]]] += weighted[:, 0]
    return output.finish(total, len(vectors))


def _spread(forest: Forest, vector: Array, leaf: Array | None, tree: int) -> Array:
    vector = vector.astype(forest.output.dtype, copy=False)
    if forest.leaves.output is None or leaf is None:
        return vector
    dense = np.zeros((len(vector), forest.n_outputs), forest.output.dtype)
    dense[np.arange(len(vector)), forest.leaves.output[leaf[:, tree]]] = vector[:, 0]
    return dense


def _weighted_median(
    forest: Forest, vectors: Float[Array, "batch n_trees n_outputs"]
) -> Float[Array, "batch n_outputs"]:
    weight = forest.output.tree_weight
    assert weight is not None
    order = np.argsort(vectors, axis=1, kind="stable")
    cumulative = np.cumsum(weight[order], axis=1)
    reached = cumulative >= 0.5 * cumulative[:, -1:]
    pick = np.take_along_axis(order, reached.argmax(axis=1)[:, None], axis=1)
    return np.take_along_axis(vectors, pick, axis=1)[:, 0]


def raw(forest: Forest, X: Array) -> Float[Array, "batch n_outputs"]:
    """Return the raw score of every row: hard, or soft if the forest has a prediction kernel."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinite inputs and leaves are legal
        X = np.asarray(X).astype(forest.dtype, copy=False)
        if forest.kernel is None:
            return accumulate(forest, X, exit_leaves(forest, X))
        return combine(forest, soft_vectors(forest, X))


# Soft forms: memberships u with u >= 0 and one sum of 1 per tree.


def kernel_memberships(forest: Forest, X: Array) -> Float[Array, "batch n_leaves"]:
    """Return the probability that x' around x reaches each leaf, in float64.

    u_l(x) = prod over columns j of F_j(Hi_lj; x) − F_j(Lo_lj; x), over the leaf boxes that the
    kernel nodes span; every other node on the path, and a kernel node whose value is missing,
    counts 0 or 1. Exact for kernel nodes; in a mixed tree the other nodes see the unperturbed x.

    Notes
    -----
    Algorithm 2 of the Kernel Density Decision Tree paper, in its equivalent box form.
    """
    assert forest.kernel is not None
    Z = columns(forest, X)
    h = hard_tests(forest, Z)
    ptr, path_node, path_right = tree_paths.path_table(forest.bitvectors)
    is_kernel = forest.tests.kind == Kind.KERNEL
    feature = forest.tests.feature
    u = np.ones((len(Z), forest.n_leaves))
    for leaf in range(forest.n_leaves):
        bounds: dict[int, tuple[Array, Array]] = {}
        for node, right in zip(
            path_node[ptr[leaf] : ptr[leaf + 1]], path_right[ptr[leaf] : ptr[leaf + 1]], strict=True
        ):
            soft = np.zeros(len(Z), bool)
            if is_kernel[node]:
                soft = ~_is_missing_at(forest, Z, int(node))
                low, high = bounds.get(
                    int(feature[node]), (np.full(len(Z), -np.inf), np.full(len(Z), np.inf))
                )
                b = float(forest.b[node])
                if right:
                    low = np.where(soft, np.maximum(low, b), low)
                else:
                    high = np.where(soft, np.minimum(high, b), high)
                bounds[int(feature[node])] = low, high
            u[:, leaf] *= soft | (h[:, node] == right)
        for column, (low, high) in bounds.items():
            kernel = forest.kernel[column]
            assert kernel is not None
            x = Z[:, column].astype(np.float64)
            unbounded = np.isneginf(low) & np.isposinf(high)
            mass = np.maximum(0.0, kernel.cdf(high, x) - kernel.cdf(low, x))
            u[:, leaf] *= np.where(unbounded, 1.0, mass)
    return u


def _is_missing_at(forest: Forest, Z: Array, node: int) -> Bool[Array, " batch"]:
    every = np.arange(len(Z))
    at = np.full(len(Z), node)
    return margins(forest.tests, Z, every, at, forest.inputs.missing_sentinel)[1]


def soft_vectors(forest: Forest, X: Array) -> list[Float[Array, "batch n_outputs"]]:
    """Return sum over leaves of u · v for each tree of a forest with a prediction kernel.

    A leaf of membership 0 adds nothing, not even where its linear terms are infinite.
    """
    X = np.asarray(X).astype(forest.dtype, copy=False)
    u = kernel_memberships(forest, X)
    hard = replace(forest, kernel=None)
    vectors = []
    for tree in range(forest.n_trees):
        total = np.zeros((len(X), forest.n_outputs))
        for leaf in range(forest.bitvectors.leaf_ptr[tree], forest.bitvectors.leaf_ptr[tree + 1]):
            vector = leaf_vectors(hard, X, np.full(len(X), leaf))
            target = slice(None)
            if forest.leaves.output is not None:
                target = slice(forest.leaves.output[leaf], forest.leaves.output[leaf] + 1)
            reached = u[:, leaf, None]
            total[:, target] += np.where(reached > 0, reached * vector, 0)
        vectors.append(total)
    return vectors


def sigmoid_memberships(
    B: Bitvectors, m: Float[Array, "batch n_nodes"], gamma: float = 1.0
) -> Float[Array, "batch n_leaves"]:
    """Return the path products of s = 1 / (1 + exp(−gamma · m)), from log s and log(1 − s)."""
    D = matrices.ternary(B)
    log_right, log_left = -np.logaddexp(0, -gamma * m), -np.logaddexp(0, gamma * m)
    return np.exp(log_right @ (D == 1).T + log_left @ (D == -1).T)

"""Compiled kernels: rows down trees, leaf vectors into scores.

All kernels stand in this one file: numba's cache on disk watches the file of the function that is
called and not those of the functions that it calls. They carry no annotations, since numba compiles
their source. They run without the GIL, start no threads, and use neither fast-math nor fused
multiply-adds, so that a score has the same bits as the reference's.

Indices are cast to unsigned where they are used, which spares the test for a negative index.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np
from numba import njit

from bitvec.node_tests import WORD_BITS as _WORD_BITS
from bitvec.node_tests import Activation, CodeRule, Kind, MissingRule, Relation

# Plain integers, which numba freezes into the code.
_EQUAL, _SET = int(Kind.EQUAL), int(Kind.SET)
_GREATER = int(Relation.GREATER)
_ZERO, _SENTINEL = int(MissingRule.NAN_OR_ZERO), int(MissingRule.NAN_OR_SENTINEL)
_EXACT, _TRUNCATE = int(CodeRule.EXACT), int(CodeRule.TRUNCATE)
_SOFTPLUS = int(Activation.SOFTPLUS)

IN_FLIGHT = 8
"""Rows that walk one tree in step, so that their cache misses overlap."""
_FEW = 3
"""A last group of fewer rows than this walks row by row."""


_inner = njit(error_model="numpy")
"""Part of a kernel: only whole kernels go to the cache."""


def _compiled(function):
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:
        # No folder for the cache can be written. The shared temporary directory would do, but numba
        # reads its cache by unpickling, and others may write there.
        return njit(nogil=True, error_model="numpy")(function)


@_inner
def _fill_keys(bits, plane_feature, plane_high, sign, infinity, keys):
    """Fill `keys` (rows, planes) with unsigned integers in the order of the values of X.

    `bits` are the values' bits, `sign` and `infinity` those of -0.0 and +inf. Both zeros have one
    key; NaN has the lowest, or in a plane that is marked high the highest. Integers, because a
    library in the same process may have set the processor to take subnormals for zeros.
    """
    lowest, highest = np.uint64(0), ~np.uint64(0)
    for row in range(bits.shape[0]):
        for plane in range(plane_feature.shape[0]):
            u = bits[np.uint64(row), np.uint64(plane_feature[plane])]
            if u & ~sign > infinity:
                keys[row, plane] = highest if plane_high[plane] else lowest
            elif u == sign:
                keys[row, plane] = sign
            elif u & sign:
                keys[row, plane] = ~u
            else:
                keys[row, plane] = u | sign


@_inner
def _step(keys, row, nodes, at):
    node = nodes[at]
    right = keys[row + np.uint64(node.plane)] > node.key
    return np.uint64(node.left) + np.uint64(right)


@_inner
def _walk_axis(keys, n_planes, nodes, leaf_at, n_rows, leaf):
    """Fill `leaf` with the leaf number of each row in one tree of one-hot margin tests.

    `keys` is flat, with room for whole groups of rows, and so is `leaf`. `nodes` are the tree's
    positions, siblings adjacent and a leaf its own left child; so a step is `left + h` for nodes
    and leaves alike, and a group's walk ends when no row of it moves. Its positions are eight
    variables, since an array of them would live in memory. Cost: one record of 12 or 16 bytes and
    one key per row and level.
    """
    width = np.uint64(n_planes)
    zero = np.uint64(0)
    done = 0
    while n_rows - done >= _FEW:
        k0 = np.uint64(done) * width
        k1, k2, k3, k4 = k0 + width, k0 + 2 * width, k0 + 3 * width, k0 + 4 * width
        k5, k6, k7 = k0 + 5 * width, k0 + 6 * width, k0 + 7 * width
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
        moved = np.uint64(1)
        while moved != zero:
            b0 = _step(keys, k0, nodes, a0)
            b1 = _step(keys, k1, nodes, a1)
            b2 = _step(keys, k2, nodes, a2)
            b3 = _step(keys, k3, nodes, a3)
            b4 = _step(keys, k4, nodes, a4)
            b5 = _step(keys, k5, nodes, a5)
            b6 = _step(keys, k6, nodes, a6)
            b7 = _step(keys, k7, nodes, a7)
            moved = (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) | (a3 ^ b3)
            moved |= (a4 ^ b4) | (a5 ^ b5) | (a6 ^ b6) | (a7 ^ b7)
            a0, a1, a2, a3, a4, a5, a6, a7 = b0, b1, b2, b3, b4, b5, b6, b7
        part = leaf[done : done + IN_FLIGHT]
        part[0], part[1], part[2], part[3] = leaf_at[a0], leaf_at[a1], leaf_at[a2], leaf_at[a3]
        part[4], part[5], part[6], part[7] = leaf_at[a4], leaf_at[a5], leaf_at[a6], leaf_at[a7]
        done += IN_FLIGHT
    for row in range(done, n_rows):
        at, to = np.uint64(1), zero
        while to != at:
            at = to
            to = _step(keys, np.uint64(row) * width, nodes, at)
        leaf[row] = leaf_at[at]


@_inner
def _softplus(value, scalars):
    """Return numpy.logaddexp(0, value), branch by branch, in the dtype of value."""
    if value > 0:
        return value + math.log1p(math.exp(-value))
    if value < 0:
        return math.log1p(math.exp(value))
    if value == 0:
        return scalars.log_two
    return value


@_inner
def _is_missing(x, missing_rule, scalars):
    if missing_rule == _ZERO:
        return x != x or abs(x) <= scalars.zero_threshold
    if missing_rule == _SENTINEL:
        return x != x or x == scalars.sentinel
    return x != x


@_inner
def _margin(X, x_row, node, rows, entries, scalars):
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
            value = _softplus(value, scalars)
        term = row.r * value
        z = term if k == node.first_row else z + term
    return z, missing


@_inner
def _set_code(x, node):
    """Return the category code that a set node reads from x, -1 if its set has no such code."""
    whole = np.trunc(x)
    readable = (x > -1) & (whole < (node.last_word - node.first_word) * _WORD_BITS)
    readable &= (node.code_rule != _EXACT) | (x == whole)
    readable &= (node.code_rule == _TRUNCATE) | (x >= 0)
    return np.int64(whole) if readable else np.int64(-1)


@_inner
def _walk_mixed(X, nodes, tests, leaf):
    """Fill `leaf` with the leaf number of each row of X in one tree of any tests.

    The conventions of `bitvec.node_tests`, in full. A child that is a leaf is `~leaf`. Arrays are
    handed to `_margin` alone: passing one counts references, which would cost more than a node.
    Cost per row: O(entries of the nodes on its path).
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
                z, missing = _margin(X, row, node, rows, entries, scalars)
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


@_inner
def _add_leaves(leaf, first_leaf, values, total):
    """Add the leaf vector of each row in one tree to `total`, in one of four forms.

    `values` is (value_ptr, output, v). With `value_ptr`, leaf l adds v[k] to output[k] for its k:
    the zeros of its vector are left out, which no sum shows that does not start at -0.0. Else with
    `output`, leaf l adds v[l] to output[l]; else v[l] is its vector.
    """
    value_ptr, output, v = values
    if value_ptr.shape[0]:
        for row in range(total.shape[0]):
            at = np.uint64(leaf[row] + first_leaf)
            for k in range(value_ptr[at], value_ptr[at + np.uint64(1)]):
                i = np.uint64(k)
                total[np.uint64(row), np.uint64(output[i])] += v[i, 0]
    elif output.shape[0]:
        for row in range(total.shape[0]):
            at = np.uint64(leaf[row] + first_leaf)
            total[np.uint64(row), np.uint64(output[at])] += v[at, 0]
    elif v.shape[1] == 1:
        for row in range(total.shape[0]):
            total[np.uint64(row), 0] += v[np.uint64(leaf[row] + first_leaf), 0]
    else:
        for row in range(total.shape[0]):
            at = np.uint64(leaf[row] + first_leaf)
            for column in range(v.shape[1]):
                total[np.uint64(row), np.uint64(column)] += v[at, np.uint64(column)]


@_inner
def _prepared(bits, layout):
    """Return the flat keys of all rows and a buffer of leaf numbers, both with whole groups."""
    _, _, _, plane_feature, plane_high, bounds = layout
    n_rows = bits.shape[0]
    room = (n_rows + IN_FLIGHT - 1) // IN_FLIGHT * IN_FLIGHT
    keys = np.zeros((room, plane_feature.shape[0]), bits.dtype)
    _fill_keys(bits, plane_feature, plane_high, bounds[0], bounds[1], keys)
    return keys.reshape(keys.size), np.empty(room, np.int32)


@_compiled
def sum_axis(bits, layout, leaf_ptr, values, total):
    """Add the exit leaves' vectors of all trees to `total`, tree by tree: axis-aligned forests.

    `bits` are those of X; `layout` is described at `numba_layout.AxisLayout`.
    """
    nodes, leaf_at, position_ptr, plane_feature, _, _ = layout
    keys, leaf = _prepared(bits, layout)
    for tree in range(leaf_ptr.shape[0] - 1):
        part = slice(position_ptr[tree], position_ptr[tree + 1])
        n_planes = plane_feature.shape[0]
        _walk_axis(keys, n_planes, nodes[part], leaf_at[part], bits.shape[0], leaf)
        _add_leaves(leaf, leaf_ptr[tree], values, total)


@_compiled
def exits_axis(bits, layout, exits):
    """Fill `exits` (batch, n_trees) with leaf numbers within each tree: axis-aligned forests."""
    nodes, leaf_at, position_ptr, plane_feature, _, _ = layout
    keys, leaf = _prepared(bits, layout)
    for tree in range(position_ptr.shape[0] - 1):
        part = slice(position_ptr[tree], position_ptr[tree + 1])
        n_planes = plane_feature.shape[0]
        _walk_axis(keys, n_planes, nodes[part], leaf_at[part], bits.shape[0], leaf)
        for row in range(exits.shape[0]):
            exits[row, tree] = leaf[row]


@_compiled
def sum_mixed(X, layout, leaf_ptr, values, total):
    """Add the exit leaves' vectors of all trees to `total`, tree by tree: any forest."""
    nodes, tests, node_ptr = layout
    leaf = np.empty(X.shape[0], np.int32)
    for tree in range(leaf_ptr.shape[0] - 1):
        _walk_mixed(X, nodes[node_ptr[tree] : node_ptr[tree + 1]], tests, leaf)
        _add_leaves(leaf, leaf_ptr[tree], values, total)


@_compiled
def exits_mixed(X, layout, exits):
    """Fill `exits` (batch, n_trees) with leaf numbers within each tree: any forest."""
    nodes, tests, node_ptr = layout
    leaf = np.empty(X.shape[0], np.int32)
    for tree in range(node_ptr.shape[0] - 1):
        _walk_mixed(X, nodes[node_ptr[tree] : node_ptr[tree + 1]], tests, leaf)
        for row in range(X.shape[0]):
            exits[row, tree] = leaf[row]


@_compiled
def sum_linear(X, exits, leaf_ptr, v, terms, zero_threshold, tree_weight, output, total):
    """Add leaves that are linear in x to `total`, tree by tree, from the exit leaves.

    `terms` is (leaf_ptr, column, weight, constant) of `bitvec.leaves.LinearTerms`; |x| of at most
    `zero_threshold` counts as 0. The value is made in the dtype of v, then cast to that of `total`
    and weighted there.
    """
    term_ptr, column, weight, constant = terms
    for tree in range(leaf_ptr.shape[0] - 1):
        for row in range(X.shape[0]):
            leaf = leaf_ptr[tree] + exits[row, tree]
            first, last = term_ptr[leaf], term_ptr[leaf + 1]
            constant_only = first == last
            for k in range(first, last):
                x = v.dtype.type(X[row, column[k]])
                constant_only |= x != x
            for width in range(v.shape[1]):
                value = v[leaf, width]
                if not constant_only:
                    value = constant[leaf, width]
                    for k in range(first, last):
                        x = v.dtype.type(X[row, column[k]])
                        if zero_threshold > 0 and abs(x) <= zero_threshold:
                            x = v.dtype.type(0)
                        value += weight[k, width] * x
                score = total.dtype.type(value)
                if tree_weight.shape[0]:
                    score = tree_weight[tree] * score
                total[row, output[leaf] if output.shape[0] else width] += score

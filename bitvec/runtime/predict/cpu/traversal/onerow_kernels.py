"""The kernels of `bitvec.runtime.predict.cpu.traversal.onerow`: one row walks 8 trees at a time."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

import numpy as np
from numba import carray

from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import load_float64, load_int32, load_int64, pointer
from bitvec.runtime.predict.cpu.traversal.key_columns import (
    SINGLE,
    infinity_key,
    key_column_value,
    read_key,
)
from bitvec.runtime.predict.cpu.traversal.keyed import (
    COMPARED,
    KEY_COLUMN,
    NARROW_COLUMNS,
    NARROW_LEAVES,
    WIDE_COLUMNS,
    WIDE_LEAVES,
)

FIELDS = (
    "n_trees",
    "leaf_ptr",
    "nodes",
    "n_key_columns",
    "key_columns",
    "words",
    "reading",
    "id_of",
    "has_vectors",
    "entry_ptr",
    "column",
    "v",
    "width",
    "n_outputs",
    "start",
    "divisor",
    "scale",
    "base",
    "is_single",
    "second_above",
    "ties_to_second",
    "gap",
)
"""What stands behind the address, as int64: numbers, and addresses of arrays, 0 for none."""
(
    _N_TREES,
    _LEAF_PTR,
    _NODES,
    _N_KEY_COLUMNS,
    _KEY_COLUMNS,
    _WORDS,
    _READING,
    _ID_OF,
    _HAS_VECTORS,
    _ENTRY_PTR,
    _COLUMN,
    _V,
    _WIDTH,
    _N_OUTPUTS,
    _START,
    _DIVISOR,
    _SCALE,
    _BASE,
    _IS_SINGLE,
    _SECOND_ABOVE,
    _TIES_TO_SECOND,
    _GAP,
) = (8 * k for k in range(len(FIELDS)))

_NARROW_MASK, _NARROW_SHIFT = np.uint64((1 << NARROW_COLUMNS) - 1), np.uint64(32 + NARROW_COLUMNS)
_WIDE_MASK, _WIDE_SHIFT = np.uint64((1 << WIDE_COLUMNS) - 1), np.uint64(WIDE_COLUMNS)


@inner
def _step(root, keys, at):
    """Return where a row goes from a position of the tree at an address."""
    if keys.itemsize == 4:
        word = np.uint64(load_int64(root + np.int64(at) * 8))
        right = keys[(word >> np.uint64(32)) & _NARROW_MASK] >= np.int32(word)
        return (word >> _NARROW_SHIFT) + np.uint64(right)
    key = load_int64(root + np.int64(at) * 16)
    link = np.uint64(load_int64(root + np.int64(at) * 16 + 8))
    return (link >> _WIDE_SHIFT) + np.uint64(keys[link & _WIDE_MASK] >= key)


@inner
def _key_at(root, keys, at):
    if keys.itemsize == 4:
        return np.int64(np.int32(load_int64(root + np.int64(at) * 8)))
    return load_int64(root + np.int64(at) * 16)


@inner
def _fill_keys(row, header, keys):
    """Fill the key columns of one row."""
    reading = load_int64(header + _READING)
    infinity = infinity_key(reading)
    size = 8 if reading != SINGLE else 4
    key_columns = carray(pointer(load_int64(header + _KEY_COLUMNS)), (keys.shape[0],), KEY_COLUMN)
    words = carray(pointer(load_int64(header + _WORDS)), (1,), np.uint32)
    for p in range(keys.shape[0]):
        key_column = key_columns[np.uint64(p)]
        if key_column.column < 0:
            keys[np.uint64(p)] = key_column.missing
            continue
        key = read_key(row + key_column.column * size, reading)
        if key_column.content == COMPARED and key_column.missing_first > key_column.missing_last:
            keys[np.uint64(p)] = key_column.missing if (key > infinity) | (key < -infinity) else key
        else:
            keys[np.uint64(p)] = key_column_value(key, key_column, words, reading)


@inner
def _traverse(leaf_ptr, nodes, tree, last, keys):
    """Return the keys of the leaves that one row reaches in 8 trees from `tree` on.

    Trees beyond the last are the last once more.
    """
    bytes_per_leaf = keys.itemsize * 4
    root0 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 0, last))
    root1 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 1, last))
    root2 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 2, last))
    root3 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 3, last))
    root4 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 4, last))
    root5 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 5, last))
    root6 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 6, last))
    root7 = nodes + bytes_per_leaf * load_int64(leaf_ptr + 8 * min(tree + 7, last))
    zero = np.uint64(0)
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
    moved = np.uint64(1)
    while moved != zero:
        b0 = _step(root0, keys, a0)
        b1 = _step(root1, keys, a1)
        b2 = _step(root2, keys, a2)
        b3 = _step(root3, keys, a3)
        b4 = _step(root4, keys, a4)
        b5 = _step(root5, keys, a5)
        b6 = _step(root6, keys, a6)
        b7 = _step(root7, keys, a7)
        a0 = _step(root0, keys, b0)
        a1 = _step(root1, keys, b1)
        a2 = _step(root2, keys, b2)
        a3 = _step(root3, keys, b3)
        a4 = _step(root4, keys, b4)
        a5 = _step(root5, keys, b5)
        a6 = _step(root6, keys, b6)
        a7 = _step(root7, keys, b7)
        moved = (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) | (a3 ^ b3)
        moved |= (a4 ^ b4) | (a5 ^ b5) | (a6 ^ b6) | (a7 ^ b7)
    return (
        _key_at(root0, keys, a0),
        _key_at(root1, keys, a1),
        _key_at(root2, keys, a2),
        _key_at(root3, keys, a3),
        _key_at(root4, keys, a4),
        _key_at(root5, keys, a5),
        _key_at(root6, keys, a6),
        _key_at(root7, keys, a7),
    )


@inner
def _vector(key, first_leaf, keys, has_vectors, id_of):
    """Return the vector of the leaf with this key, in a tree whose leaves begin at `first_leaf`."""
    shift = NARROW_LEAVES if keys.itemsize == 4 else WIDE_LEAVES
    if has_vectors:
        return key >> shift
    leaf = first_leaf + (key & ((1 << shift) - 1))
    return np.int64(np.uint32(load_int32(id_of + 4 * leaf))) if id_of else leaf


@inner
def _add_vectors(header, keys, total):
    """Add the vectors of the leaves of all trees to `total`, tree by tree."""
    n_trees, leaf_ptr = load_int64(header + _N_TREES), load_int64(header + _LEAF_PTR)
    nodes, width = load_int64(header + _NODES), load_int64(header + _WIDTH)
    has_vectors, id_of = load_int64(header + _HAS_VECTORS), load_int64(header + _ID_OF)
    entry_ptr, column = load_int64(header + _ENTRY_PTR), load_int64(header + _COLUMN)
    v = carray(pointer(load_int64(header + _V)), (1,), total.dtype)
    is_value = total.shape[0] == 1 and column == 0
    value = total[0]  # of one output: the sum stays in a register
    for tree in range(0, n_trees, 8):
        leaves = _traverse(leaf_ptr, nodes, tree, n_trees - 1, keys)
        for j, key in enumerate(leaves):
            if tree + j >= n_trees:
                continue
            first_leaf = load_int64(leaf_ptr + 8 * (tree + j))
            vector = _vector(key, first_leaf, keys, has_vectors, id_of)
            if is_value:
                value += v[np.uint64(vector)]
            elif entry_ptr:
                first = load_int64(entry_ptr + 8 * vector)
                for k in range(first, load_int64(entry_ptr + 8 * vector + 8)):
                    total[np.uint64(load_int32(column + 4 * k))] += v[np.uint64(k)]
            elif column:
                total[np.uint64(load_int32(column + 4 * vector))] += v[np.uint64(vector)]
            else:
                for k in range(width):
                    total[np.uint64(k)] += v[np.uint64(vector * width + k)]
    if is_value:
        total[0] = value


@inner
def _finish(header, total):
    """Make the raw score of a sum over trees: `bitvec.core.output.Output.finish`."""
    n_outputs = total.shape[0]
    divisor, scale = load_int64(header + _DIVISOR), load_int64(header + _SCALE)
    base = load_int64(header + _BASE)
    if divisor:
        divisors = carray(pointer(divisor), (n_outputs,), total.dtype)
        for k in range(n_outputs):
            total[k] = total[k] / divisors[k]
    if scale:
        scales = carray(pointer(scale), (n_outputs,), total.dtype)
        for k in range(n_outputs):
            total[k] = total[k] * scales[k]
    if base:
        for k in range(n_outputs):
            total[k] = np.float64(total[k]) + load_float64(base + 8 * k)


@inner
def _score(row, header, keys, total):
    """Fill `total` with the raw scores of the row at an address.

    Loops stand for assignments to whole arrays, which take seconds to compile.
    """
    _fill_keys(row, header, keys)
    start = load_int64(header + _START)
    if start:
        starts = carray(pointer(start), (1,), total.dtype)
        for k in range(total.shape[0]):
            total[k] = starts[np.uint64(k)]
    else:
        for k in range(total.shape[0]):
            total[k] = 0
    _add_vectors(header, keys, total)
    _finish(header, total)


@inner
def _scores(X, header, keys, scores):
    address, stride = np.int64(X.ctypes.data), X.shape[1] * X.itemsize
    n_outputs = load_int64(header + _N_OUTPUTS)
    for row in range(X.shape[0]):
        total = scores[row * n_outputs : (row + 1) * n_outputs]
        _score(address + row * stride, header, keys, total)


@inner
def _winner(X, header, keys, total):
    """Return the label of the one row of X as a position, or -1 if raw scores leave a doubt."""
    _score(np.int64(X.ctypes.data), header, keys, total)
    gap = load_float64(load_int64(header + _GAP))
    if total.shape[0] == 1 and load_int64(header + _IS_SINGLE):
        value = np.float64(total[0])
        at = load_float64(load_int64(header + _SECOND_ABOVE))
        if gap > 0:
            return 1 if value > gap else 0 if value < -gap else -1
        if load_int64(header + _TIES_TO_SECOND):
            return 1 if value >= at else 0
        return 1 if value > at else 0
    best = 0
    for k in range(total.shape[0]):
        if total[k] != total[k]:
            return -1
        if total[k] > total[best]:
            best = k
    if gap > 0:
        for k in range(total.shape[0]):
            if k != best and not (total[best] - total[k] > gap):
                return -1
        if total[best] - total[best] != 0:
            return -1  # a softmax makes NaN of infinity
    return best


@kernel
def _fill_narrow(X, header, scores):
    """Fill `scores` (batch * n_outputs) with raw scores, in trees of 8 bytes a position."""
    _scores(X, header, np.empty(load_int64(header + _N_KEY_COLUMNS), np.int32), scores)


@kernel
def _fill_wide(X, header, scores):
    """Fill `scores` (batch * n_outputs) with raw scores, in trees of 16 bytes a position."""
    _scores(X, header, np.empty(load_int64(header + _N_KEY_COLUMNS), np.int64), scores)


@kernel
def _label_narrow_float32(X, header):
    """Return the position of one row's label, or -1: 8 bytes a position, float32 scores."""
    keys = np.empty(load_int64(header + _N_KEY_COLUMNS), np.int32)
    return _winner(X, header, keys, np.empty(load_int64(header + _N_OUTPUTS), np.float32))


@kernel
def _label_narrow_float64(X, header):
    """Return the position of one row's label, or -1: 8 bytes a position, float64 scores."""
    keys = np.empty(load_int64(header + _N_KEY_COLUMNS), np.int32)
    return _winner(X, header, keys, np.empty(load_int64(header + _N_OUTPUTS), np.float64))


@kernel
def _label_wide_float32(X, header):
    """Return the position of one row's label, or -1: 16 bytes a position, float32 scores."""
    keys = np.empty(load_int64(header + _N_KEY_COLUMNS), np.int64)
    return _winner(X, header, keys, np.empty(load_int64(header + _N_OUTPUTS), np.float32))


@kernel
def _label_wide_float64(X, header):
    """Return the position of one row's label, or -1: 16 bytes a position, float64 scores."""
    keys = np.empty(load_int64(header + _N_KEY_COLUMNS), np.int64)
    return _winner(X, header, keys, np.empty(load_int64(header + _N_OUTPUTS), np.float64))


FILL = {True: _fill_narrow, False: _fill_wide}
LABEL = {
    (True, np.dtype(np.float32)): _label_narrow_float32,
    (True, np.dtype(np.float64)): _label_narrow_float64,
    (False, np.dtype(np.float32)): _label_wide_float32,
    (False, np.dtype(np.float64)): _label_wide_float64,
}
"""By whether a position takes 8 bytes, and by the dtype of the scores."""

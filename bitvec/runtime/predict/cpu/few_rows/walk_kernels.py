"""The kernels of `bitvec.runtime.predict.cpu.few_rows.walks`: a row walks 8 trees at a time."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import numpy as np
from numba import carray

from bitvec.runtime.predict.cpu.compiling import Function, by_address, inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.few_rows.set_rows import fill_sets
from bitvec.runtime.predict.cpu.kernel_arrays import load_int64, pointer, size_of, store
from bitvec.runtime.predict.cpu.traversal.key_columns import (
    SINGLE,
    infinity_key,
    plain_value,
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
    """Fill the keys of one row, but those of sets."""
    reading = field(header, "reading")
    infinity = infinity_key(reading)
    size = 8 if reading != SINGLE else 4
    n_columns = field(header, "n_columns")
    key_columns = carray(pointer(field(header, "key_columns")), (n_columns,), KEY_COLUMN)
    for p in range(n_columns):
        key_column = key_columns[np.uint64(p)]
        if key_column.column < 0:
            keys[np.uint64(p)] = key_column.missing
            continue
        key = read_key(row + key_column.column * size, reading)
        if key_column.content == COMPARED and key_column.missing_first > key_column.missing_last:
            keys[np.uint64(p)] = key_column.missing if (key > infinity) | (key < -infinity) else key
        else:
            keys[np.uint64(p)] = plain_value(key, key_column, reading)


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
def _walk(n_rows, header, room, key):
    """Find the exit leaves of rows, or the vectors of these where leaves hold them.

    All rows walk through 8 trees before any does through others, while these are in the cache.
    """
    n_keys, room_bytes = field(header, "n_keys"), field(header, "room_bytes")
    leaves_at = field(header, "leaves_at")
    n_trees, leaf_ptr = field(header, "n_trees"), field(header, "leaf_ptr")
    nodes, wants_vectors = field(header, "nodes"), field(header, "wants_vectors")
    shift = NARROW_LEAVES if size_of(key) == 4 else WIDE_LEAVES
    for tree in range(0, n_trees, 8):
        for row in range(n_rows):
            of_row = room + row * room_bytes
            keys, out = carray(pointer(of_row), (n_keys,), type(key)), of_row + leaves_at
            leaves = _traverse(leaf_ptr, nodes, tree, n_trees - 1, keys)
            for j, found in enumerate(leaves):
                if tree + j < n_trees:
                    if wants_vectors:
                        leaf = found >> shift
                    else:
                        leaf = load_int64(leaf_ptr + 8 * (tree + j)) + (found & ((1 << shift) - 1))
                    store(out + 4 * (tree + j), np.int32(leaf))


@inner
def _fill(row, header, room, key):
    keys = carray(pointer(room), (field(header, "n_keys"),), type(key))
    _fill_keys(row, header, keys)
    fill_sets(row, header, room, field(header, "reading"), key)


def _functions(key: np.signedinteger) -> tuple[Function, Function]:
    """Return what fills the keys of a row, and what finds leaves by keys of such a type."""

    @by_address
    def fill_keys(row, header, room):
        _fill(row, header, room, key)
        return 0

    @by_address
    def walk_by_keys(n_rows, header, room):
        _walk(n_rows, header, room, key)
        return 0

    return fill_keys, walk_by_keys


FIND = {True: _functions(np.int32(0)), False: _functions(np.int64(0))}
"""The functions of trees whose position takes 8 bytes, and of others."""

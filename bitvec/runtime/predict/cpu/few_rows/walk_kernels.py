"""The kernels of `bitvec.runtime.predict.cpu.few_rows.walks`: a row walks 16 trees at a time."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.compiling import Function, by_address, inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.few_rows.costs import WALKED, WALKED_FEW
from bitvec.runtime.predict.cpu.few_rows.set_rows import fill_sets
from bitvec.runtime.predict.cpu.kernel_arrays import (
    load_int64,
    pointer,
    room_on_stack,
    size_of,
    store,
)
from bitvec.runtime.predict.cpu.traversal.key_columns import (
    SINGLE,
    infinity_key,
    plain_value,
    read_key,
)
from bitvec.runtime.predict.cpu.traversal.keyed import (
    COMPARED,
    KEY_COLUMN,
    NARROW_LEAVES,
    WIDE_LEAVES,
    step,
)
from bitvec.runtime.predict.cpu.vectors import I32, I64, address, load, number, settled
from bitvec.runtime.predict.cpu.vectors import store as store_value


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


def _make_traverse(lanes: int):
    """Make the walk of a row through so many trees in step."""

    @intrinsic
    def traverse(typing_context, leaf_ptr, nodes, tree, last, depth, keys, found, like):
        """Fill `found` with the keys of the leaves that a row reaches in some trees from `tree` on.

        Trees beyond the last are the last once more, and none is deeper than `depth`. `like` is a
        number of the type of keys. Waits for nodes and keys of one tree pass while those of others
        are asked for.
        """
        key_bytes = like.bitwidth // 8
        key_type, node_bytes = (I32 if key_bytes == 4 else I64), 2 * key_bytes

        def generate(context, builder, signature, arguments):
            leaf_ptr, nodes, tree, last, depth, keys, found = arguments[:7]
            roots = []
            for lane in range(lanes):
                own = builder.add(tree, number(lane))
                own = builder.select(builder.icmp_signed("<", own, last), own, last)
                first = load(builder, leaf_ptr, builder.mul(own, number(8)), I64)
                roots.append(builder.add(nodes, builder.mul(first, number(2 * node_bytes))))

            def node_of(lane, at):
                return builder.add(roots[lane], builder.mul(at, number(node_bytes)))

            def moved(at, lane):
                return step(builder, node_of(lane, at), keys, key_bytes, key_bytes)

            for lane, place in enumerate(settled(builder, lanes, moved, depth)):
                key = load(builder, node_of(lane, place), number(0), key_type)
                key = builder.sext(key, I64) if key_bytes == 4 else key
                store_value(builder, key, found, number(8 * lane))
            return context.get_dummy_value()

        return types.void(*[address] * 7, like), generate

    return traverse


_traverse_few, _traverse = _make_traverse(WALKED_FEW), _make_traverse(WALKED)


@inner
def _walk(n_rows, header, room, key):
    """Find the exit leaves of rows, or the vectors of these where leaves hold them.

    All rows walk through some trees before any does through others, while these are in the cache.
    """
    room_bytes, leaves_at = field(header, "room_bytes"), field(header, "leaves_at")
    n_trees, leaf_ptr = field(header, "n_trees"), field(header, "leaf_ptr")
    nodes, wants_vectors = field(header, "nodes"), field(header, "wants_vectors")
    shift = NARROW_LEAVES if size_of(key) == 4 else WIDE_LEAVES
    found, depths = room_on_stack(8 * WALKED), field(header, "depth")
    for tree in range(0, n_trees, WALKED):
        depth = load_int64(depths + 8 * (tree // WALKED))
        for row in range(n_rows):
            of_row = room + row * room_bytes
            if n_trees - tree > WALKED_FEW:
                _traverse(leaf_ptr, nodes, tree, n_trees - 1, depth, of_row, found, key)
            else:
                _traverse_few(leaf_ptr, nodes, tree, n_trees - 1, depth, of_row, found, key)
            for j in range(min(WALKED, n_trees - tree)):
                leaf = load_int64(found + 8 * j)
                if wants_vectors:
                    leaf >>= shift
                else:
                    leaf = load_int64(leaf_ptr + 8 * (tree + j)) + (leaf & ((1 << shift) - 1))
                store(of_row + leaves_at + 4 * (tree + j), np.int32(leaf))


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

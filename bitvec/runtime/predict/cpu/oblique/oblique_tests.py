"""Tests of several columns, packed: equal tests once, rows of S of the same columns in tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, NodeTests, Relation
from bitvec.core.shape_annotations import Float, Int64, UInt8
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.oblique.oblique_columns import ObliqueColumns, oblique_columns
from bitvec.runtime.predict.cpu.oblique.oblique_sums import CHUNK, TILE

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class ObliqueTests:
    """Distinct tests: first those of one row of S without activation, then the others.

    Parameters
    ----------
    columns : ObliqueColumns
    tiles : int64, (n_tiles, 4)
        Number of rows, where the offsets of their columns begin, their entries, and where their
        weights begin. Tiles of one row but for `TILE` rows of the first kind of tests that read the
        same columns.
    offsets : int64, (n_offsets,)
        Where in a chunk of columns that of an entry begins, in bytes.
    weights : F, (n_weights,)
        Entry after entry, side by side for the rows of a tile.
    terms : F, (n_rows, 3)
        Offset, r and b of each row, in the order of tiles.
    single : int64, (n_single,)
        The way of each test of the first kind: 1 for the relation >=, plus 2 if NaN goes right.
    several : int64, (n_several, 3)
        The way of the others, and the first and the last of their rows.
    activation : uint8, (n_rows,)
    """

    columns: ObliqueColumns
    tiles: Int64[Array, "n_tiles 4"]
    offsets: Int64[Array, " n_offsets"]
    weights: Float[Array, " n_weights"]
    terms: Float[Array, "n_rows 3"]
    single: Int64[Array, " n_single"]
    several: Int64[Array, "n_several 3"]
    activation: UInt8[Array, " n_rows"]

    @property
    def n_tests(self) -> int:
        """Number of distinct tests."""
        return len(self.single) + len(self.several)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Arguments of the kernel, the columns apart."""
        return (
            self.tiles,
            self.offsets,
            self.weights,
            self.terms,
            self.single,
            self.several,
            self.activation,
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.columns.records.nbytes + sum(array.nbytes for array in self.arrays)


def oblique_tests(forest: Forest, node: Array) -> tuple[ObliqueTests, Array]:
    """Pack the tests of some oblique nodes, and return which of them each node has."""
    tests = forest.tests.take(node)
    dtype = tests.dtype
    n_entries, rows_of_node = np.diff(tests.row_ptr), np.diff(tests.node_ptr)
    node_of_row = np.repeat(np.arange(tests.n_nodes), rows_of_node)
    columns = oblique_columns(tests, forest.inputs.missing_sentinel)
    way = (tests.relation == Relation.GREATER_EQUAL) + 2 * tests.missing_right.astype(np.int64)
    list_of_row = _alike(tests.row_ptr, columns.read)
    which = _alike_tests(tests, columns.read, way)
    _, first = np.unique(which, return_index=True)

    is_single = rows_of_node == 1
    is_single &= tests.activation[tests.node_ptr[:-1]] == Activation.IDENTITY
    single, several = first[is_single[first]], first[~is_single[first]]
    single, tile_sizes = _in_tiles(single, list_of_row[tests.node_ptr[:-1][single]])
    row = np.concatenate(
        [tests.node_ptr[:-1][single], ranges(tests.node_ptr[several], rows_of_node[several])]
    )
    tile_sizes = np.concatenate([tile_sizes, np.ones(row.size - single.size, np.int64)])

    first_of_tile = row[np.cumsum(tile_sizes) - tile_sizes]
    _, where, list_of_tile = np.unique(
        list_of_row[first_of_tile], return_index=True, return_inverse=True
    )
    example = first_of_tile[where]
    list_ptr = np.concatenate([[0], np.cumsum(n_entries[example])])
    offsets = columns.read[ranges(tests.row_ptr[example], n_entries[example])] * CHUNK
    weight_ptr = np.concatenate([[0], np.cumsum(n_entries[row])])
    tiles = np.stack(
        [
            tile_sizes,
            list_ptr[list_of_tile.ravel()],
            n_entries[first_of_tile],
            weight_ptr[np.cumsum(tile_sizes) - tile_sizes],
        ],
        axis=1,
    )
    of_several = rows_of_node[several]
    last = single.size + np.cumsum(of_several)
    bin_column = np.empty(tests.n_nodes, np.int64)
    bin_column[np.concatenate([single, several])] = np.arange(first.size)
    packed = ObliqueTests(
        columns,
        constant(tiles.astype(np.int64)),
        constant(offsets.astype(np.int64)),
        constant(_tiled_weights(tests, row, tile_sizes)),
        constant(np.stack([tests.offset, tests.r, tests.b[node_of_row]], axis=1)[row]),
        constant(way[single]),
        constant(np.stack([way[several], last - of_several, last], axis=1)),
        constant(tests.activation[row]),
    )
    assert packed.weights.dtype == dtype
    return packed, bin_column[first][which]


def _in_tiles(node: Array, list_of_node: Array) -> tuple[Array, Array]:
    """Return nodes in an order where those of one list stand together, and the sizes of tiles."""
    order = np.argsort(list_of_node, kind="stable")
    _, count = np.unique(list_of_node, return_counts=True)
    whole = count // TILE
    sizes = [np.repeat([TILE, 1], [n, rest]) for n, rest in zip(whole, count % TILE, strict=True)]
    return node[order], np.concatenate([np.zeros(0, np.int64), *sizes])


def _tiled_weights(tests: NodeTests, row: Array, tile_sizes: Array) -> Array:
    """Return the weights of rows of S, tile after tile, side by side for the rows of a tile."""
    n_entries = np.diff(tests.row_ptr)[row]
    weights = tests.weight[ranges(tests.row_ptr[row], n_entries)]
    size = np.repeat(tile_sizes, tile_sizes)
    place = np.arange(row.size) - np.repeat(np.cumsum(tile_sizes) - tile_sizes, tile_sizes)
    start = np.concatenate([[0], np.cumsum(n_entries)])[:-1]
    # A tile's rows have as many entries each: entry j of its row k goes to start + j * size + k.
    tile_start = start - place * n_entries
    entry = np.arange(weights.size) - np.repeat(start, n_entries)
    at = np.repeat(tile_start + place, n_entries) + entry * np.repeat(size, n_entries)
    tiled = np.empty_like(weights)
    tiled[at] = weights
    return tiled


def _alike_tests(tests: NodeTests, read: Array, way: Array) -> Array:
    """Return a number per node, the same for equal tests."""
    bits = f"u{tests.dtype.itemsize}"
    entries = _alike(tests.row_ptr, read, tests.weight.view(bits))
    rows = _numbered(entries, tests.offset.view(bits), tests.r.view(bits), tests.activation)
    return _numbered(_alike(tests.node_ptr, rows), tests.b.view(bits), way)


def _numbered(*parts: Array) -> Array:
    """Return a number per position, the same where all parts are the same."""
    code = np.zeros(parts[0].size, np.int64)
    for part in parts:
        values, position = np.unique(part, return_inverse=True)
        _, code = np.unique(code * values.size + position.ravel(), return_inverse=True)
        code = code.ravel()
    return code


def _alike(ptr: Array, *words: Array) -> Array:
    """Return a number per list, the same for lists of equal words: by hashes, then by comparison.

    Should two lists of one hash differ, all lists have numbers of their own.
    """
    n_words = np.diff(ptr)
    hashes = np.arange(int(ptr[-1]), dtype=np.uint64) - np.repeat(ptr[:-1], n_words).view(np.uint64)
    for part in words:
        hashes = (hashes ^ part.astype(np.uint64)) * _MIX
        hashes ^= hashes >> np.uint64(29)
    hashes *= _MIX
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    sums = total[ptr[1:]] - total[ptr[:-1]]
    _, first, which = np.unique(sums, return_index=True, return_inverse=True)
    which = which.ravel()
    example = first[which]
    moved = np.flatnonzero(example != np.arange(example.size))
    same = np.array_equal(n_words[example], n_words)
    if same:
        theirs = ranges(ptr[example[moved]], n_words[moved])
        own = ranges(ptr[moved], n_words[moved])
        same = all(np.array_equal(part[theirs], part[own]) for part in words)
    return which if same else np.arange(n_words.size)

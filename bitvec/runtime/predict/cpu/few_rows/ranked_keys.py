"""Keys of float64 as their ranks among a column's thresholds, which take half of the bits."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from bitvec.core.arrays import Array, ranges
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import constant, load_int64, pointer, store

RANKED_COLUMN = np.dtype([("first", np.int64), ("n_steps", np.int64)])
"""A key column: the place of its first cut, and the steps of a search among its cuts."""


def rank(of_node: Array, below: Array, n_columns: int) -> tuple[Array, dict[str, Any]]:
    """Return each node's cut as a number in its column, and fields of a header for `fill_ranks`.

    Parameters
    ----------
    of_node : int64, (n_nodes,)
        The key column that each node compares.
    below : int64, (n_nodes,)
        A row goes right where its key is above this cut, and so where its rank, the number of the
        column's cuts below its key, is above the cut's own number.
    n_columns : int
    """
    order = np.lexsort((below, of_node))
    column, cut = of_node[order], below[order]
    is_new = np.ones(order.size, bool)
    is_new[1:] = (column[1:] != column[:-1]) | (cut[1:] != cut[:-1])
    n_cuts = np.bincount(column[is_new], minlength=n_columns)
    first = np.cumsum(n_cuts) - n_cuts
    number = np.empty(order.size, np.int64)
    number[order] = np.cumsum(is_new) - 1 - first[column]

    columns = np.zeros(n_columns, RANKED_COLUMN)
    columns["n_steps"] = np.ceil(np.log2(n_cuts + 1))
    room = 2 ** columns["n_steps"] - 1
    columns["first"] = np.cumsum(room) - room
    cuts = np.full(int(room.sum()), np.iinfo(np.int64).max)
    cuts[ranges(columns["first"], n_cuts)] = cut[is_new]
    return number, {"ranked_columns": constant(columns), "cuts": constant(cuts)}


@inner
def fill_ranks(header, keys, to):
    """Fill int32 at an address with the ranks of the keys of all compared columns, int64."""
    n_columns = field(header, "n_compared")
    if n_columns == 0:
        return
    columns = carray(pointer(field(header, "ranked_columns")), (n_columns,), RANKED_COLUMN)
    cuts = field(header, "cuts")
    for k in range(n_columns):
        own = columns[np.uint64(k)]
        key = load_int64(keys + 8 * k)
        before = cuts + 8 * (own.first - 1)
        rank = np.int64(0)
        for step in range(own.n_steps - 1, -1, -1):
            half = np.int64(1) << step
            rank += np.int64(load_int64(before + 8 * (rank + half)) < key) << step
        store(to + 4 * k, np.int32(rank))

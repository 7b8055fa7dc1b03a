"""Sets as the zeros of their columns of B: a category names those of all trees at once.

The nodes that look a column up in sets are decided by its category alone. So for each category, or
for several with the same outcomes, the leaves that they leave behind are united beforehand, and a
row takes one vector for each such column and word of leaves, whatever the number of nodes.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, Kind
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.few_rows.set_rows import SETS, KeyLayout, outcome_row
from bitvec.runtime.predict.cpu.kernel_arrays import (
    aligned,
    constant,
    load_int64,
    pointer,
    store,
)

MOST_BYTES = 1 << 26


def most_bytes(forest: Forest) -> int:
    """Return how many bytes the vectors of a forest take at most."""
    tests, B = forest.tests, forest.bitvectors
    nodes = np.flatnonzero(tests.kind == Kind.SET)
    if not nodes.size:
        return 0
    rule = tests.missing_rules(forest.inputs.missing_sentinel)
    alike = np.stack([part[nodes] for part in (tests.feature, rule, tests.code_rule)])
    distinct, which = np.unique(alike, axis=1, return_inverse=True)
    n_rows = np.zeros(distinct.shape[1], np.int64)
    np.maximum.at(n_rows, which.ravel(), np.diff(tests.set_ptr)[nodes] * WORD_BITS + 2)
    n_words = -(-int(np.diff(B.leaf_ptr).max()) // 64)
    return int(n_rows.sum()) * (B.n_trees + 8) * n_words * 8


def fields_of(
    keys_of: KeyLayout, key: Array, cell: Array, ones: Array, n_cells: int
) -> dict[str, Any]:
    """Return fields of a header for `fill_addresses`.

    Parameters
    ----------
    keys_of : KeyLayout
    key, cell, ones : integers, (n,)
        Of each set node and word of leaves: its key, its lane among those of all vectors, and the
        leaves that it leaves behind.
    n_cells : int
        Lanes of all vectors.
    """
    sets = keys_of.sets.copy()
    places: list[Array] = []
    tables: list[Array] = []
    n_bytes = 0
    for own in sets:
        bits = keys_of.bits[own["start"] :][: (own["n_codes"] + 2) * own["n_bytes"]]
        distinct, of_code = np.unique(bits.reshape(-1, own["n_bytes"]), axis=0, return_inverse=True)
        is_own = (key >= own["first_key"]) & (key < own["first_key"] + 8 * own["n_bytes"])
        right = np.unpackbits(distinct, axis=1, bitorder="little").astype(bool)
        table = _united(
            right[:, key[is_own] - own["first_key"]], cell[is_own], ones[is_own], n_cells
        )
        own["start"] = sum(each.size for each in places)
        places.append(n_bytes + of_code.ravel() * table[0].nbytes)
        tables.append(table.ravel())
        n_bytes += table.nbytes
    if not tables:
        return {"n_sets": 0}
    masks = aligned(n_bytes).view(ones.dtype)
    masks[:] = np.concatenate(tables)
    return {
        "n_sets": sets.size,
        "sets": sets,
        "set_places": constant(np.concatenate(places)),
        "set_masks": masks,
    }


def _united(right: Array, cell: Array, ones: Array, n_cells: int) -> Array:
    """Return the leaves left behind in each cell, (n_rows, n_cells), where nodes go right."""
    table = np.zeros((len(right), n_cells), ones.dtype)
    order = np.argsort(cell, kind="stable")
    sizes = np.bincount(cell, minlength=n_cells)
    turn = ranges(np.zeros(n_cells, np.int64), sizes)
    for k in range(sizes.max(initial=0)):  # nodes of one turn lie in cells of their own
        nodes = order[turn == k]
        table[:, cell[nodes]] |= np.where(right[:, nodes], ones[nodes], ones.dtype.type(0))
    return table


@inner
def fill_addresses(row, header, to, reading):
    """Fill int64 at an address with where the vectors of each column's category begin."""
    n_sets = field(header, "n_sets")
    if n_sets == 0:
        return
    sets = carray(pointer(field(header, "sets")), (n_sets,), SETS)
    places, masks = field(header, "set_places"), field(header, "set_masks")
    for k in range(n_sets):
        own = sets[np.uint64(k)]
        place = load_int64(places + 8 * (own.start + outcome_row(row, own, reading)))
        store(to + 8 * k, masks + place)

"""The stacks of a walk depth first: rows and masses of the nodes on the way down, and their events.

What a node puts there lies behind what those above it put there, and is dropped as the walk leaves
it.
"""

from __future__ import annotations

import numpy as np

from bitvec.learners.kddt.masses import part_between
from bitvec.learners.kddt.scan import row_of
from bitvec.runtime.predict.cpu.compiling import inner


@inner
def doubled(array, size):  # type: ignore[no-untyped-def]
    """Return an array of at least `size`, with what stood in it, and 0 beyond."""
    if array.size >= size:
        return array
    larger = np.zeros(max(2 * array.size, size), array.dtype)
    larger[: array.size] = array
    return larger


@inner
def closest(counts, line, n_features):  # type: ignore[no-untyped-def]
    """Return the line of the closest node above that has the feature's events, −1 if none has."""
    above = line - n_features
    while above >= 0 and counts[above] < 0:
        above -= n_features
    return above


@inner
def filtered_events(  # type: ignore[no-untyped-def]
    events, top, line, above, j, starts, counts, order, count, n_edges, stamp, node
):
    """Put a feature's events of the rows that bear the node's stamp on the stack, in order.

    They come from the line `above`, see `closest`, or from those of all rows.
    """
    begin, size = 0, count[j]
    if above >= 0:
        begin, size = starts[above], counts[above]
    events = doubled(events, top + size + 1)
    starts[line] = top
    if above >= 0:
        for k in range(begin, begin + size):
            event = events[k]
            events[top] = event
            top += stamp[row_of(event, n_edges)] == node
    else:
        for k in range(size):
            event = order[j, k]
            events[top] = event
            top += stamp[row_of(event, n_edges)] == node
    counts[line] = top - starts[line]
    return events


@inner
def child_rows(rows, u, first, n, at, n_edges, share, old_low, old_high, low, high, smallest):  # type: ignore[no-untyped-def]
    """Put the rows of a child and their masses on the stacks, behind those of its parent."""
    top = first + n
    for k in range(first, first + n):
        row = rows[k]
        mass = u[k] * part_between(at, row, n_edges, old_low, old_high, low, high, share)
        rows[top] = row
        u[top] = mass
        top += mass > smallest
    return top - first - n

"""The codes of set nodes that rows are made for."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.core.value_sets import n_codes, runs

LONG_RUN = 1 << 12
"""Most codes of a run that each get a row; a longer run is shown near its ends and in doubling
distances from them."""


def shown_codes(
    tests: NodeTests, nodes: Int64[Array, " n"]
) -> tuple[Int64[Array, " m"], Int64[Array, " m"], Bool[Array, " m"]]:
    """Return (position in `nodes`, code, goes right) of the codes that rows are made for, rising.

    All codes, except within runs of more than `LONG_RUN`.
    """
    which, first, last, right = runs(tests, nodes)
    size = last - first + 1
    n_steps = np.where(size > LONG_RUN, np.log2(size).astype(np.int64) + 1, 0)
    # Distances 2**k - 1 from both ends of a long run; all codes of any other.
    long = np.repeat(np.arange(which.size), n_steps)
    far = (np.int64(1) << ranges(np.zeros_like(n_steps), n_steps)) - 1
    short = np.where(n_steps == 0, size, 0)
    run = np.concatenate([np.repeat(np.arange(which.size), short), long, long])
    code = np.concatenate([ranges(first, short), first[long] + far, last[long] - far])
    if long.size:
        before = np.cumsum(n_codes(tests, nodes)) - n_codes(tests, nodes)
        once = np.unique(before[which[run]] + code, return_index=True)[1]
        run, code = run[once], code[once]
    return which[run], code, right[run]


def has_long_runs(forest: Forest) -> bool:
    """Tell whether rows show only some of the codes of a set."""
    found = runs(forest.tests, np.flatnonzero(forest.tests.kind == Kind.SET))
    return bool(np.any(found.last - found.first >= LONG_RUN))

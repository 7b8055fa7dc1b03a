"""The codes of set nodes as runs that go one way, and which of them rows are made for.

A set may have a range of millions of codes of which it names a few. Its words are read where two
neighbouring codes part ways, so the cost is that of its words, not of its codes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, Kind, NodeTests

LONG_RUN = 1 << 12
"""Most codes of a run that each get a row; a longer run is shown near its ends and in doubling
distances from them."""


class Runs(NamedTuple):
    """Codes [first, last] of the set at position `which` that go right or not, as long as can be.

    In the order of the sets, rising.
    """

    which: Int64[Array, " n"]
    first: Int64[Array, " n"]
    last: Int64[Array, " n"]
    right: Bool[Array, " n"]


def n_codes(tests: NodeTests, nodes: Int64[Array, " n"]) -> Int64[Array, " n"]:
    """Return the sizes of the nodes' ranges, 0 for a node without a set."""
    return (tests.set_ptr[nodes + 1] - tests.set_ptr[nodes]) * WORD_BITS


def runs(tests: NodeTests, nodes: Int64[Array, " n"]) -> Runs:
    """Return the runs of some nodes' sets.

    >>> from bitvec.core.node_tests import axis_aligned, set_bits
    >>> ptr, words = set_bits([np.array([0, 1, 2, 40])])
    >>> tests = axis_aligned([0], np.zeros(1), kind=Kind.SET, set_ptr=ptr, set_words=words)
    >>> found = runs(tests, np.array([0]))
    >>> found.first.tolist(), found.right.tolist()
    ([0, 3, 40, 41], [True, False, True, False])
    """
    count = n_codes(tests, nodes) // WORD_BITS
    words = tests.set_words[ranges(tests.set_ptr[nodes], count)]
    start = np.cumsum(count) - count
    before = np.zeros_like(words)
    before[1:] = words[:-1] >> np.uint32(WORD_BITS - 1)
    parts = words ^ ((words << np.uint32(1)) | before)
    parts[start[count > 0]] |= np.uint32(1)  # a range begins with a run, whatever lies before it
    busy = np.flatnonzero(parts)
    bits = np.unpackbits(parts[busy].astype("<u4").view(np.uint8), bitorder="little")
    word, bit = np.divmod(np.flatnonzero(bits), WORD_BITS)
    word = busy[word]
    position = word * WORD_BITS + bit
    which = np.repeat(np.arange(nodes.size), count)[word]
    end = np.append(position[1:], words.size * WORD_BITS)[: position.size] - 1
    shift = start[which] * WORD_BITS
    right = (words[word] >> bit.astype(np.uint32)) & np.uint32(1) == 1
    return Runs(which, position - shift, end - shift, right)


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

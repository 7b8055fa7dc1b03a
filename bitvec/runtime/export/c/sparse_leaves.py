"""Leaf vectors as the numbers in them that are not zero, which a function adds to a score.

An entry is one integer: from its lowest bit on, whether another follows, its output, and which
distinct number it adds. Equal vectors share their entries. Zeros may be left out, as x + 0 is x
and x + -0.0 is x, for every x but -0.0, which no sum is that began otherwise.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.output import Output
from bitvec.core.shape_annotations import Float
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import C_TYPES, narrow_floats, narrow_integers

MOST_AT_ONCE = 3


def may_leave_out_zeros(output: Output) -> bool:
    """Return whether no sum begins at -0.0."""
    base = output.base_score
    return not (output.base_first and np.any((base == 0) & np.signbit(base)))


class SparseLeaves:
    """The tables of some vectors.

    Parameters
    ----------
    vectors : (n, n_outputs)
    at_once : int
        Entries that are added without a look at the lowest bit: fewer guesses of a processor for
        more bytes, as vectors are filled up with zeros. 4 at most.
    """

    def __init__(self, vectors: Float[Array, "n n_outputs"], *, at_once: int) -> None:
        vectors = narrow_floats(vectors)
        bits = vectors.view(f"u{vectors.itemsize}")
        rows, self._row = np.unique(bits, axis=0, return_inverse=True)
        rows = np.ascontiguousarray(rows).view(vectors.dtype)
        there = rows != 0
        counts = there.sum(axis=1)
        self._at_once = min(at_once, max(int(counts.max(initial=0)), 1))
        filled = np.maximum(-(-counts // self._at_once), 1) * self._at_once
        self._first = np.concatenate([[0], np.cumsum(filled)])[:-1]
        values = np.concatenate([rows[there], np.zeros(int((filled > counts).any()), rows.dtype)])
        distinct, number = np.unique(values.view(bits.dtype), return_inverse=True)
        self.numbers = distinct.view(rows.dtype)
        # Zeros go to outputs in turn, since sums into the same one wait for one another.
        output = np.arange(filled.sum()) % vectors.shape[1]
        entry = np.full(int(filled.sum()), number[-1])
        row, column = np.nonzero(there)
        place = self._first[row] + _within(counts)
        output[place], entry[place] = column, number[: len(row)]
        self._bits = max(vectors.shape[1] - 1, 1).bit_length()
        step = np.arange(filled.sum()) - np.repeat(self._first, filled)
        more = (step % self._at_once == 0) & (step + self._at_once < np.repeat(filled, filled))
        self._goes_on = bool(more.any())
        self._entries = narrow_integers(more + (output << 1) + (entry << 1 + self._bits))

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        first = narrow_integers(self._first[self._row])
        return first.nbytes + self._entries.nbytes + self.numbers.nbytes

    def add(self, header: Header) -> str:
        """Append the tables and the function, and return the line that calls it."""
        first = narrow_integers(self._first[self._row.ravel()])
        header.table("leaf_first", first, "first entry of each leaf's vector")
        header.table("leaf_entry", self._entries, "more follow, output, number: from bit 0 on")
        header.table("leaf_numbers", self.numbers, "the distinct numbers of the vectors")
        return self.add_adder(header, "add_leaf", "@score", "leaf_numbers")

    def add_adder(self, header: Header, name: str, kind: str, numbers: str) -> str:
        """Append a function that adds a leaf's vector of some numbers, and return its call."""
        mask, shift = (1 << self._bits) - 1, 1 + self._bits
        entries = "".join(_ENTRY.format(k=k, mask=mask, shift=shift) for k in range(self._at_once))
        header.code(
            _ADDER.replace("$entries", entries),
            name=f"@{name}",
            kind=kind,
            numbers=f"@{numbers}",
            entry=C_TYPES[self._entries.dtype],
            again=_AGAIN.format(at_once=self._at_once) if self._goes_on else "    }\n",
            more="        more = (uint32_t)entry[0] & 1U;\n" if self._goes_on else "",
            declared="    uint32_t more;\n" if self._goes_on else "",
            opens="    do {\n" if self._goes_on else "    {\n",
        )
        return f"        @{name}(leaf, raw);\n"


def _within(counts: Array) -> Array:
    """Return 0, 1 ... for each count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


_ENTRY = """        k = (uint32_t)entry[{k}] >> 1 & {mask}U;
        raw[k] = raw[k] + ($kind)$numbers[(uint32_t)entry[{k}] >> {shift}];
"""
_ADDER = """
/* Add the vector of a leaf, which is 0 in all other places. */
static inline void $name(const uint32_t leaf, $kind *raw)
{
    const $entry *entry = @leaf_entry + @leaf_first[leaf];
$declared    uint32_t k;
$opens$more$entries$again}
"""
_AGAIN = "        entry += {at_once};\n    }} while (more);\n"

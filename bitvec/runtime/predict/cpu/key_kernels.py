"""Key tables in front of the tests: one look-up a row and table, by open addressing.

    for each table:
        key = 0;  for each part: key = m · (key + m · part(x))
        slot = key · spread >> shift
        while place[slot] is taken and its key is another: slot += 1
        out = values of the slot, or the default

A table has at least twice as many slots as keys, so that the loop ends at an empty one. Its tables
stand one after the other, as do their parts and values; `start` says where each begins.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant

SPREAD = 0x9E3779B97F4A7C15
"""Multiplier that spreads keys over slots: the upper bits of the product count."""
EMPTY = np.int64(-1)
WHOLE, GREATER = int(Part.WHOLE), int(Part.GREATER)


class Lookup:
    """The tables of a map, with their keys laid out for the kernel."""

    def __init__(self, tables: KeyTables) -> None:
        self.tables = tables
        parts = {name: [getattr(t, name) for t in tables.tables] for name in _PARTS}
        self._parts = tuple(constant(np.concatenate(parts[name])) for name in _PARTS)
        slots = [_slots(table) for table in tables.tables]
        sizes = [
            [t.column.size for t in tables.tables],
            [key.size for key, _, _ in slots],
            [t.value.size for t in tables.tables],
            [t.default.size for t in tables.tables],
        ]
        start = [np.concatenate([[0], np.cumsum(size)]) for size in sizes]
        self._start = constant(np.array(start, np.int64))
        self._shift = constant(np.array([shift for _, _, shift in slots], np.uint64))
        self._key = constant(np.concatenate([key for key, _, _ in slots]))
        self._place = constant(np.concatenate([place for _, place, _ in slots]))
        values = [t.value.ravel() for t in tables.tables]
        self._value = constant(np.concatenate(values).astype(np.float64))
        default = np.concatenate([t.default for t in tables.tables])
        self._default = constant(default.astype(np.float64))

    def __call__(self, X: Array) -> Array:
        """Return φ(X), float64."""
        self.tables.require_rows(X)
        out = np.empty((len(X), self.tables.n_features))
        look_up(
            constant(X),
            np.uint64(self.tables.multiplier),
            *self._parts,
            self._start,
            self._shift,
            self._key,
            self._place,
            self._value,
            self._default,
            out,
        )
        return out


_PARTS = ("column", "kind", "b", "missing_passes")


def _slots(table: KeyTable) -> tuple[Array, Array, int]:
    """Return the key of each slot, the place among the keys that stands there, and the shift."""
    bits = max(1, int(2 * table.key.size).bit_length())
    shift = 64 - bits
    key, place = np.zeros(1 << bits, np.uint64), np.full(1 << bits, EMPTY)
    home = (table.key * np.uint64(SPREAD)) >> np.uint64(shift)
    # Sorted by their slots, keys take the next free one each; what runs over the end starts anew.
    order = np.argsort(home, kind="stable")
    fill_slots(constant(table.key[order]), constant(home[order]), constant(order), key, place)
    return key, place, shift


@kernel
def fill_slots(keys, home, number, key, place):
    """Put each key, by number, in the first free slot from its home on."""
    mask = key.size - 1
    for at in range(keys.size):
        slot = np.int64(home[at])
        while place[slot] != EMPTY:
            slot = (slot + 1) & mask
        key[slot], place[slot] = keys[at], number[at]


@kernel
def look_up(X, multiplier, column, kind, b, missing, start, shift, key, place, value, default, out):
    """Fill out, (n, n_features), with the values of each row's keys.

    Parameters
    ----------
    X : float64, (n, n_inputs)
    multiplier : uint64
    column, kind, b, missing : (n_parts,)
        The parts of all tables.
    start : int64, (4, n_tables + 1)
        Where the parts, slots, values and features of each table begin.
    shift : uint64, (n_tables,)
    key, place : uint64 and int64, (n_slots,)
    value : float64, flat
    default : float64, (n_features,)
    """
    for row in range(len(X)):
        x = X[row]
        for table in range(shift.size):
            own, held = np.uint64(0), True
            for part in range(start[0, table], start[0, table + 1]):
                z = x[column[part]]
                bit = np.uint64(0)
                if kind[part] == WHOLE:
                    if z >= LOWEST and z <= HIGHEST and z == np.floor(z):
                        bit = np.uint64(np.int64(z))
                    else:
                        held = False
                elif kind[part] == GREATER:
                    bit = np.uint64(z > b[part] or (z != z and missing[part]))
                else:
                    bit = np.uint64(z == b[part])
                own = multiplier * (own + multiplier * bit)
            first, last = start[3, table], start[3, table + 1]
            found = EMPTY
            if held:
                base = start[1, table]
                mask = start[1, table + 1] - base - 1
                slot = np.int64((own * np.uint64(SPREAD)) >> shift[table])
                while place[base + slot] != EMPTY and key[base + slot] != own:
                    slot = (slot + 1) & mask
                found = place[base + slot]
            if found == EMPTY:
                for at in range(first, last):
                    out[row, at] = default[at]
            else:
                values = start[2, table] + found * (last - first)
                for at in range(first, last):
                    out[row, at] = value[values + at - first]

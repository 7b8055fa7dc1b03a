"""Sets as rows of bits: a row of X reads a column once, whatever the number of its sets.

The sets that read a column alike have their outcomes side by side: bit k of row c says whether code
c goes right at set k. A last row but one is for what is no code in range, the last for missing
values. So a value becomes the number of a row, and a byte of that row eight keys.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, Kind
from bitvec.core.shape_annotations import Int64, UInt8
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import constant, pointer
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import (
    SINGLE,
    code_of_key,
    infinity_key,
    is_missing,
    read_key,
)
from bitvec.runtime.predict.cpu.vectors import (
    I1,
    I8,
    address,
    count,
    load,
    number,
    store,
    vector,
)

MOST_SETS = 4096
"""Distinct tests for equality or for a set, whose keys lie on the stack of a call."""
MOST_BYTES = 1 << 26
"""Bytes of the rows of bits."""

SETS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "column",
            "missing_first",
            "missing_last",
            "first",  # the keys that are codes of the longest set
            "last",
            "rule",
            "n_codes",
            "first_key",
            "n_bytes",  # of a row of bits
            "start",  # where the rows of bits begin
        )
    ]
)
_ALIKE = ["column", "missing_first", "missing_last", "rule"]


def unsupported_reason(forest: Forest) -> str | None:
    """Return why a forest's keys cannot be laid out so, in a few words, or None."""
    reason = keyed.unsupported_reason(forest, MOST_SETS)
    if reason is not None:
        return reason
    tests = forest.tests
    is_set = tests.kind == Kind.SET
    longest = np.diff(tests.set_ptr)[is_set].max(initial=0)
    if longest * WORD_BITS // 8 * int(np.count_nonzero(is_set)) > MOST_BYTES:
        return "its sets hold too many codes"
    return None


@dataclass(frozen=True, slots=True, eq=False)
class KeyLayout:
    """The keys of a row: of columns, of tests for equality, and then those of sets, by eights.

    Parameters
    ----------
    of_node : int64, (n_nodes,)
        Each node's key.
    columns : records `keyed.KEY_COLUMN`
        Those of the keys that are not of sets.
    n_keys : int
        The keys that sets fill up to a multiple of eight included.
    sets : records SETS
        Sets that read a column alike.
    bits : uint8, (n_bytes,)
    """

    of_node: Int64[Array, " n_nodes"]
    columns: Array
    n_keys: int
    sets: Array
    bits: UInt8[Array, " n_bytes"]

    @property
    def key_columns(self) -> tuple[Array, Array, Array]:
        """Key columns for `keyed.pack`, whose words are in `bits`."""
        return self.of_node, self.columns, np.zeros(0, np.uint32)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of a header for `fill_sets`."""
        return {"n_sets": self.sets.size, "sets": self.sets, "set_bits": self.bits}


def layout_of(forest: Forest, dtype: np.dtype) -> KeyLayout:
    """Lay out the keys of a row for a forest that compares values in a dtype."""
    of_node, columns, words = keyed.key_columns_of(forest, dtype)
    is_set = columns["content"] == keyed.SET
    others, members = columns[~is_set], columns[is_set]
    n_others = others.size  # sets stand last
    n_words = _n_words(forest, of_node, columns.size)[n_others:]
    alike, which = np.unique(members[_ALIKE], return_inverse=True)
    sets, of_member = np.zeros(alike.size, SETS), np.zeros(members.size, np.int64)
    rows: list[Array] = [np.zeros(0, np.uint8)]
    n_keys, start = n_others, 0
    for i in range(alike.size):
        own = np.flatnonzero(which == i)
        bits = _bits(members[own], n_words[own], words)
        of_member[own] = n_keys + np.arange(own.size)
        for name in _ALIKE:
            sets[name][i] = alike[name][i]
        sets["first"][i] = members["first"][own[0]]
        sets["last"][i] = members["last"][own].max()
        sets["n_codes"][i] = len(bits) - 2
        sets["n_bytes"][i], sets["first_key"][i] = bits.shape[1], n_keys
        sets["start"][i] = start
        rows.append(bits.ravel())
        n_keys += 8 * bits.shape[1]
        start += bits.size
    new = np.concatenate([np.arange(n_others), of_member])
    return KeyLayout(new[of_node], others, n_keys, sets, constant(np.concatenate(rows)))


def _n_words(forest: Forest, of_node: Array, n_columns: int) -> Array:
    """Return how many words each key column's set has."""
    n_words = np.zeros(n_columns, np.int64)
    n_words[of_node] = np.diff(forest.tests.set_ptr)
    return n_words


def _bits(members: Array, n_words: Array, words: Array) -> UInt8[Array, "n_codes_plus_2 n_bytes"]:
    """Return the outcomes of sets, by code: of each set a bit."""
    n_codes = int(n_words.max()) * WORD_BITS
    outcome = np.empty((n_codes + 2, members.size), np.uint8)
    outcome[:-1] = members["other"]
    outcome[-1] = members["missing"]
    for k, (word, n) in enumerate(zip(members["word"], n_words, strict=True)):
        own = words[word : word + n].astype("<u4").view(np.uint8)
        outcome[: n * WORD_BITS, k] = np.unpackbits(own, bitorder="little")
    return np.packbits(outcome, axis=1, bitorder="little")


@intrinsic
def _fill_bytes(typing_context, bits, n_bytes, keys, first, zero):
    """Fill keys from the first on with 0 or 1 for each bit of the bytes, of the type of `zero`."""
    size = zero.bitwidth // 8

    def generate(context, builder, signature, arguments):
        bits, n_bytes, keys, first = arguments[:4]
        out = builder.add(keys, builder.mul(first, number(size)))

        def body(k, _):
            eight = builder.bitcast(load(builder, bits, k, I8), vector(I1, 8))
            keys = builder.zext(eight, vector(ir.IntType(8 * size), 8))
            store(builder, keys, out, builder.mul(k, number(8 * size)))

        count(builder, number(0), n_bytes, body)
        return context.get_dummy_value()

    return types.void(address, address, address, address, zero), generate


@inner
def outcome_row(row, own, reading):
    """Return which row of bits holds the outcomes of the sets that read a value of a row."""
    size = 4 if reading == SINGLE else 8
    key = read_key(row + own.column * size, reading)
    at = code_of_key(key, own, reading)
    at = own.n_codes if at < 0 else at
    return own.n_codes + 1 if is_missing(key, own, infinity_key(reading)) else at


@inner
def fill_sets(row, header, keys, reading, zero):
    """Fill the keys of a row's sets in those at an address, all of the type of `zero`."""
    n_sets = field(header, "n_sets")
    if n_sets == 0:
        return
    sets = carray(pointer(field(header, "sets")), (n_sets,), SETS)
    bits = field(header, "set_bits")
    for k in range(n_sets):
        own = sets[np.uint64(k)]
        row_bits = bits + own.start + outcome_row(row, own, reading) * own.n_bytes
        _fill_bytes(row_bits, own.n_bytes, keys, own.first_key, zero)

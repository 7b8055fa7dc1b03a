"""Columns looked up by keys: what is known of a combination of categories and comparisons.

The key of a row in a table is built from its parts, one after the other, modulo 2**64:

    key = 0;  for each part: key = multiplier · (key + multiplier · part)

A part is a column's whole number of 32 bits (such as the hash of a category), widened to 64 bits
with its sign, or 1 where the column exceeds a threshold or equals a number, and 0 elsewhere.
Different rows of one key are one entry: that is how the key was made, and no error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from bitvec.core.arrays import Array, read_only, require
from bitvec.core.float_keys import FLOAT64
from bitvec.core.shape_annotations import Bool, Float, Float32, Float64, Int32, UInt8, UInt64
from bitvec.errors import InputError

LOWEST, HIGHEST = -(2**31), 2**31 - 1
"""Whole numbers that a part may be."""


class Part(IntEnum):
    """Parts of a key, made of one column each."""

    WHOLE = 0
    """The whole number that it is; anything else, NaN included, makes a key that no table holds."""
    GREATER = 1
    """Comparison with `b`: 1 where x exceeds it; a missing value does if `missing_passes`."""
    EQUAL = 2
    """Comparison with `b`: 1 where x equals it."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Numbers by keys.

    Parameters
    ----------
    column : int32, (n_parts,)
        The column of X that each part of the key reads.
    kind : uint8, (n_parts,)
        Of `Part`.
    b : float64, (n_parts,)
        What it is compared with; 0 for a whole number.
    missing_passes : bool, (n_parts,)
    key : uint64, (n_keys,)
        Rising.
    value : float32, (n_keys, n_values)
    default : float32, (n_values,)
        For a key that is not there.
    """

    column: Int32[Array, " n_parts"]
    kind: UInt8[Array, " n_parts"]
    b: Float64[Array, " n_parts"]
    missing_passes: Bool[Array, " n_parts"]
    key: UInt64[Array, " n_keys"]
    value: Float32[Array, "n_keys n_values"]
    default: Float32[Array, " n_values"]

    def __post_init__(self) -> None:
        n_parts, n_keys, n_values = (
            np.shape(a)[-1:] for a in (self.column, self.key, self.default)
        )
        kinds = {
            "column": (np.int32, n_parts),
            "kind": (np.uint8, n_parts),
            "b": (np.float64, n_parts),
            "missing_passes": (np.bool_, n_parts),
            "key": (np.uint64, n_keys),
            "value": (np.float32, (*n_keys, *n_values)),
            "default": (np.float32, n_values),
        }
        for name, (dtype, shape) in kinds.items():
            array = read_only(name, getattr(self, name), np.dtype(dtype), shape)
            object.__setattr__(self, name, array)
        require(self.column.size, "a key must have at least one part, got none.")
        require(self.default.size, "a key table must hold at least one value a key, got none.")
        require(np.all(self.column >= 0), "`column` must not be negative.")
        require(np.all(self.kind <= max(Part)), f"`kind` must lie in 0 ... {int(max(Part))}.")
        require(not np.any(np.isnan(self.b)), "`b` must not be NaN.")
        require(np.all(self.key[1:] > self.key[:-1]), "`key` must rise.")

    def keys(
        self, X: Float[Array, "batch n_inputs"], multiplier: int
    ) -> tuple[UInt64[Array, " batch"], Bool[Array, " batch"]]:
        """Return each row's key, and whether it has one."""
        key, held = np.zeros(len(X), np.uint64), np.ones(len(X), bool)
        m = np.uint64(multiplier)
        for part in range(self.column.size):
            x, kind = X[:, self.column[part]], self.kind[part]
            if kind == Part.WHOLE:
                is_whole = (x >= LOWEST) & (x <= HIGHEST) & (x == np.floor(x))
                held &= is_whole
                own = np.where(is_whole, x, 0).astype(np.int64).astype(np.uint64)
            elif kind == Part.GREATER:
                own = (x > self.b[part]) | (np.isnan(x) & self.missing_passes[part])
            else:
                own = x == self.b[part]
            key = m * (key + m * own.astype(np.uint64))
        return key, held

    def __call__(
        self, X: Float[Array, "batch n_inputs"], multiplier: int
    ) -> Float32[Array, "batch n_values"]:
        """Return the values of each row's key."""
        key, held = self.keys(X, multiplier)
        at = np.searchsorted(self.key, key)
        found = held & (at < self.key.size)
        found[found] = self.key[at[found]] == key[found]
        out = np.tile(self.default, (len(X), 1))
        out[found] = self.value[at[found]]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class KeyTables:
    """φ(x) = the values of x in each table, one after the other.

    Parameters
    ----------
    n_inputs : int
        Columns of X.
    tables : tuple of KeyTable
    multiplier : int
        Odd, below 2**64.

    Examples
    --------
    >>> one = np.ones(1, np.float32)
    >>> table = KeyTable(
    ...     np.array([0], np.int32), np.zeros(1, np.uint8), np.zeros(1), np.zeros(1, bool),
    ...     np.array([9 * 7], np.uint64), 5 * one[:, None], one,
    ... )
    >>> KeyTables(1, (table,), 3)(np.array([[7.0], [8.0], [np.nan]])).ravel().tolist()
    [5.0, 1.0, 1.0]
    """

    n_inputs: int
    tables: tuple[KeyTable, ...]
    multiplier: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(self.tables))
        require(self.tables, "`tables` must hold at least one table.")
        require(
            all(int(table.column.max()) < self.n_inputs for table in self.tables),
            f"the parts of keys must read columns below {self.n_inputs}.",
        )
        require(
            0 < self.multiplier < 2**64 and self.multiplier % 2,
            f"`multiplier` must be odd and below 2**64, got {self.multiplier}.",
        )

    @property
    def n_features(self) -> int:
        """Columns of φ(X)."""
        return sum(table.default.size for table in self.tables)

    def require_rows(self, X: Array) -> None:
        """Refuse rows whose whole numbers of 32 bits may have been rounded.

        Raises
        ------
        InputError
        """
        if X.ndim != 2 or X.shape[1] != self.n_inputs or X.dtype != FLOAT64:
            raise InputError(
                f"`X` must be float64 with {self.n_inputs} columns, got {X.dtype} of shape "
                f"{X.shape}: float32 cannot hold the hashes of categories."
            )

    def __call__(self, X: Float[Array, "batch n_inputs"]) -> Float64[Array, "batch n_features"]:
        """Return φ(X), float64."""
        self.require_rows(X)
        with np.errstate(invalid="ignore"):
            values = [table(X, self.multiplier) for table in self.tables]
        return np.concatenate(values, axis=1).astype(np.float64)

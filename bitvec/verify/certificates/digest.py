"""Digest of everything in a forest that decides its predictions."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest

DIGEST_VERSION = b"bitvec forest 1"
_MAP_ROWS = 8


def forest_digest(forest: Forest) -> str:
    """Return the SHA-256, in hex, of all arrays and metadata that influence predictions.

    `source` is left out: it tells where a forest came from, not what it answers. A feature map that
    is not a dataclass of arrays is represented by its values on a few fixed rows.

    Notes
    -----
    Fields that are None add nothing, so a new optional field does not change old digests.
    """
    state = hashlib.sha256(DIGEST_VERSION)
    for field in fields(forest):
        if field.name != "source":
            _feed(state, field.name, getattr(forest, field.name))
    return state.hexdigest()


def array_digest(array: Array) -> str:
    """Return the SHA-256, in hex, of an array's dtype, shape and bytes."""
    state = hashlib.sha256()
    _feed(state, "array", array)
    return state.hexdigest()


def _feed(state: Any, name: str, value: Any) -> None:
    """Add a named value; lengths come first, so that no two values share a byte string."""
    if value is None:
        return
    if isinstance(value, np.generic):
        value = value.item()
    _text(state, name)
    for kind, add in _FEEDERS.items():
        if isinstance(value, kind):
            add(state, value)
            return
    if is_dataclass(value):
        _text(state, f"record {type(value).__name__}")
        for field in fields(value):
            _feed(state, field.name, getattr(value, field.name))
    elif isinstance(value, FeatureMap):
        _add_map(state, value)
    else:
        raise TypeError(f"a forest's digest knows no {type(value).__name__}, found at `{name}`.")


def _text(state: Any, text: str) -> None:
    data = text.encode(errors="surrogatepass")  # names are any strings, lone surrogates included
    state.update(struct.pack("<q", len(data)))
    state.update(data)


def _add_array(state: Any, value: Array) -> None:
    # Little-endian bytes, so that every machine gives the same digest.
    array = np.ascontiguousarray(value)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    _text(state, f"array {little.dtype.str} {value.shape}")
    state.update(little.tobytes())


def _add_float(state: Any, value: float) -> None:
    _text(state, "float")
    state.update(struct.pack("<d", value))


def _add_sequence(state: Any, value: tuple[Any, ...] | list[Any]) -> None:
    _text(state, f"sequence {len(value)}")
    for i, item in enumerate(value):
        _feed(state, str(i), item)


def _add_map(state: Any, value: FeatureMap) -> None:
    _text(state, f"map {type(value).__qualname__} {value.n_inputs} {value.n_features}")
    rows = np.random.default_rng(0).standard_normal((_MAP_ROWS, value.n_inputs))
    _feed(state, "values", np.asarray(value(rows.astype(np.float32))))


_FEEDERS: dict[Any, Callable[[Any, Any], None]] = {
    np.ndarray: _add_array,
    Enum: lambda state, value: _text(state, f"enum {value.value}"),
    np.dtype: lambda state, value: _text(state, f"dtype {value.newbyteorder('<').str}"),
    bool | int | str: lambda state, value: _text(state, f"{type(value).__name__} {value}"),
    float: _add_float,
    tuple | list: _add_sequence,
}
"""Ways to add a value of each type; the first that fits counts, so an enum is no integer."""

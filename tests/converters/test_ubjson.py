"""Laws of the UBJSON reader."""

from __future__ import annotations

import json
import struct
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitvec.converters.ubjson import MAX_DEPTH, parse
from bitvec.errors import FileFormatError


def text(value: str) -> bytes:
    raw = value.encode()
    return b"L" + struct.pack(">q", len(raw)) + raw


def encode(value: Any) -> bytes:
    """Write a JSON value as xgboost does: sized arrays, open objects."""
    if value is None:
        return b"Z"
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"L" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + text(value)
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(encode, value))
    return b"{" + b"".join(text(k) + encode(v) for k, v in value.items()) + b"}"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)

DOCUMENT = encode({"a": [1, -0.5, None, True], "b": {"c": "text"}})[:-1] + (
    text("typed") + b"[$d#U\x02" + struct.pack(">2f", 1.5, -2.0) + b"}"
)


@given(VALUES)
def test_parse_undoes_encode(value: Any) -> None:
    assert parse(encode(value)) == value


@pytest.mark.parametrize(
    ("marker", "code", "values"),
    [
        ("i", ">i1", [-128, 0, 127]),
        ("U", ">u1", [0, 255]),
        ("I", ">i2", [-32768, 258]),
        ("l", ">i4", [-(2**31), 66051]),
        ("L", ">i8", [-(2**63), 1]),
        ("d", ">f4", [0.1, float("inf"), -0.0]),
        ("D", ">f8", [0.1, 1e300]),
    ],
)
def test_typed_arrays_keep_values_and_dtype(marker: str, code: str, values: list[float]) -> None:
    want = np.array(values, code)
    for count in (b"U" + bytes([len(values)]), b"L" + struct.pack(">q", len(values))):
        got = parse(b"[$" + marker.encode() + b"#" + count + want.tobytes())
        assert got.dtype == want.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got, want)


def test_unsized_arrays_and_characters_are_read() -> None:
    assert parse(b"[i\x01Cx[]{}]") == [1, "x", [], {}]


def test_xgboost_writes_the_same_document_in_both_formats() -> None:
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(50, 3))
    booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, X[:, 0]), 3)
    from_json = json.loads(booster.save_raw("json"))
    from_ubj = parse(booster.save_raw("ubj"))

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
        if isinstance(b, np.ndarray):
            return np.array_equal(np.asarray(a).astype(b.dtype), b)
        if isinstance(a, list):
            return len(a) == len(b) and all(map(same, a, b))
        return a == b

    assert same(from_json, from_ubj)


def test_every_proper_prefix_is_refused() -> None:
    parse(DOCUMENT)
    for size in range(len(DOCUMENT)):
        with pytest.raises(FileFormatError):
            parse(DOCUMENT[:size])


@given(st.integers(0, len(DOCUMENT) - 1), st.integers(0, 255))
def test_a_damaged_byte_is_read_or_refused(at: int, byte: int) -> None:
    damaged = DOCUMENT[:at] + bytes([byte]) + DOCUMENT[at + 1 :]
    with suppress(FileFormatError):
        parse(damaged)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(FileFormatError):
        parse(data)


@pytest.mark.parametrize(
    "data",
    [
        b"[$d#L" + struct.pack(">q", 2**62),
        b"[#L" + struct.pack(">q", 2**40),
        b"[$D#l" + struct.pack(">i", 2**31 - 1) + b"\0" * 64,
        b"S" + b"L" + struct.pack(">q", 2**60),
        b"[$Z#L" + struct.pack(">q", 2**40),
        b"[$S#L" + struct.pack(">q", 2**40),
        b"[#L" + struct.pack(">q", -1),
        b"{L" + struct.pack(">q", 2**50),
    ],
)
def test_hostile_counts_are_refused_before_anything_is_allocated(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="must"):
        parse(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("opening", [b"[", b"[#U\x01", b"{U\x01a"])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    with pytest.raises(FileFormatError, match=f"{MAX_DEPTH} levels"):
        parse(opening * 1_000_000)


def test_nesting_up_to_the_limit_is_read() -> None:
    value = parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "whole"),
        (b"N", "marker"),
        (b"HU\x011", "marker"),
        (b"{#U\x01", "length"),
        (b"]", "marker"),
        (b"Z ", "end with its value"),
        (b"SU\x01\xff", "UTF-8"),
        (b"Sd\0\0\0\0", "length"),
        (b"[$d\0", "typed"),
    ],
)
def test_what_the_dialect_lacks_is_refused_in_one_sentence(data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        parse(data)
    assert "\n" not in str(caught.value)

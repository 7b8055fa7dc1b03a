"""Laws of messages: what goes in comes out bit for bit, and what lies is refused."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bitvec.core.forest import Forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.output import Aggregate, PostTransform, SoftmaxSum
from bitvec.errors import FileFormatError
from bitvec.verify import messages
from bitvec.verify.oracle import LeafValues
from bitvec.verify.source_trees import SourceTrees, of_forest

DTYPES = ["<f4", "<f8", ">f8", "<f2", "|b1", "|u1", "<i4", ">i4", "<i8", "<u4", "|S3"]


def back(value: Any) -> Any:
    return messages.read(io.BytesIO(b"".join(messages.written(value))), 1 << 20)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        equal = a.dtype == b.dtype and a.shape == b.shape
        return equal and (a.tobytes() == b.tobytes() or a.tolist() == b.tolist())
    if isinstance(a, list | tuple):
        return type(a) is type(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and repr(a) == repr(b)


def bits(dtype: str) -> st.SearchStrategy[np.ndarray]:
    """Arrays of any bits, NaN payloads among them."""
    size = np.dtype(dtype).itemsize
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    most = 1 if dtype == "|b1" else 255
    return shapes.flatmap(
        lambda shape: hnp.arrays(np.uint8, (*shape, size), elements=st.integers(0, most)).map(
            lambda raw: np.frombuffer(raw.tobytes(), dtype).reshape(shape)
        )
    )


@settings(max_examples=100)
@given(array=st.sampled_from(DTYPES).flatmap(bits))
def test_arrays_keep_every_bit(array: np.ndarray) -> None:
    got = back(array)
    assert got.dtype == array.dtype
    assert got.shape == array.shape
    assert got.tobytes() == array.tobytes()
    assert got.flags.writeable


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        1.5,
        -0.0,
        float("inf"),
        "texts, \ud800 too",
        b"\x00\xff",
        (1, [2.5, "a"], {"b": (np.arange(3), None)}),
        np.array(["a", "longer"]),
        np.array([["a", None], [1.5, "b"]], object),
        np.array(7.0),
        np.float32("nan"),
        np.str_("text"),
        np.dtype(np.float32),
        Aggregate.MEAN,
        PostTransform.SOFTMAX,
        SoftmaxSum.WIDE,
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3), "U1"),
    ],
    ids=repr,
)
def test_values_come_out_as_they_went_in(value: Any) -> None:
    assert same(back(value), value)


def test_trees_and_leaf_values_come_out_as_they_went_in() -> None:
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    stated = {"aggregate": Aggregate.SUM, "base_score": np.zeros(1), "classes": (np.array(["a"]),)}
    linear = LinearTerms(
        np.array([0, 1, 1]), np.array([0], np.int32), np.ones((1, 1)), np.ones((2, 1))
    )
    trees = of_forest(forest)
    given = SourceTrees(
        **{name: getattr(trees, name) for name in messages.names(SourceTrees)}
        | {"stated": stated, "linear": linear}
    )
    got = back(given)
    for name in messages.names(SourceTrees):
        if name not in ("tests", "linear"):
            assert same(getattr(got, name), getattr(given, name)), name
    for part in ("tests", "linear"):
        mine, others = getattr(got, part), getattr(given, part)
        assert all(same(getattr(mine, n), getattr(others, n)) for n in messages.names(type(mine)))
    values = LeafValues(np.array([0, 0]), np.array([3, 1]), np.array([[1.0], [np.nan]]))
    assert same(tuple(back(values)), tuple(values))


def hostile(header: Any, data: bytes = b"") -> io.BytesIO:
    text = json.dumps(header).encode()
    return io.BytesIO(messages.LENGTHS.pack(len(text), len(data)) + text + data)


LIES = {
    "array beyond the end": hostile(["array", "<f8", [2]], b"\0" * 8),
    "array of terabytes": hostile(["array", "<f8", [2**40, 2**40]], b"\0" * 8),
    "negative size": hostile(["array", "<f8", [-1, -1]], b"\0" * 8),
    "bytes left over": hostile(["array", "<f8", [1]], b"\0" * 9),
    "objects as an array": hostile(["array", "|O", [1]], b"\0" * 8),
    "records": hostile(["array", "(1000000,)f8", [1]], b"\0" * 8),
    "truth value 2": hostile(["array", "|b1", [1]], b"\2"),
    "unknown class": hostile(["object", "Popen", [["ls"]]]),
    "unknown kind": hostile(["pickle", "x"]),
    "class in place of an enum": hostile(["enum", "Oracle", "x"]),
    "unknown enum value": hostile(["enum", "Aggregate", "x"]),
    "function": hostile(["function", 0]),
    "wide texts": hostile(["texts", "<U100000000", [1], ["a"]]),
    "no list": hostile({"a": 1}),
    "wrong fields": hostile(["object", "LeafValues", [1]]),
    "unsound tests": hostile(["object", "SourceTrees", [None] * 11]),
    "deep lists": io.BytesIO(
        messages.LENGTHS.pack(400_000, 0) + b'["list",[' * 40_000 + b"]" * 40_000
    ),
    "more than may come": io.BytesIO(messages.LENGTHS.pack(2, 1 << 40)),
    "a header of exabytes": io.BytesIO(messages.LENGTHS.pack(1 << 60, 0)),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_message_that_lies_is_refused(lie: io.BytesIO) -> None:
    lie.seek(0)
    with pytest.raises(FileFormatError):
        messages.read(lie, 1 << 20)


def test_a_message_that_stops_is_the_end_of_the_stream() -> None:
    whole = b"".join(messages.written({"a": np.arange(4)}))
    for size in range(len(whole)):
        with pytest.raises(EOFError):
            messages.read(io.BytesIO(whole[:size]), 1 << 20)


def test_what_is_no_message_is_not_sent() -> None:
    for value in (object(), np.array([object()]), np.array(["2020"], "M8"), len):
        with pytest.raises(TypeError, match="a message must hold"):
            messages.written(value)

"""ONNX files as protobuf messages, and the attributes of an operator as arrays.

The onnx library parses the message and nothing else: no data outside the file is read, and a tensor
becomes an array only after its stated size was compared with what is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.onnx.format import ORT
from bitvec.converters.onnx.operator_schema import (
    ATTRIBUTES,
    INTEGER,
    INTEGERS,
    LARGEST_FILE,
    REAL,
    REALS,
    STRING,
    STRINGS,
    TENSOR,
)
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError, needs

with needs("onnx", "onnx", "Reading ONNX files"):
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

_PROTO = onnx.AttributeProto
_KINDS = {
    INTEGER: (_PROTO.INT, "one integer"),
    INTEGERS: (_PROTO.INTS, "integers"),
    REAL: (_PROTO.FLOAT, "one number"),
    REALS: (_PROTO.FLOATS, "numbers"),
    STRING: (_PROTO.STRING, "one text"),
    STRINGS: (_PROTO.STRINGS, "texts"),
    TENSOR: (_PROTO.TENSOR, "a tensor"),
}
_FIELDS: dict[int, tuple[str, np.dtype[Any]]] = {
    onnx.TensorProto.FLOAT: ("float_data", np.dtype(np.float32)),
    onnx.TensorProto.DOUBLE: ("double_data", np.dtype(np.float64)),
    onnx.TensorProto.INT64: ("int64_data", np.dtype(np.int64)),
    onnx.TensorProto.INT32: ("int32_data", np.dtype(np.int32)),
    onnx.TensorProto.UINT8: ("int32_data", np.dtype(np.uint8)),
    onnx.TensorProto.BOOL: ("int32_data", np.dtype(np.bool_)),
}


def read_model(model: Any) -> Any:
    """Return the message of a path, of bytes, or the ModelProto itself.

    Raises
    ------
    FileFormatError
        If it is too large or no ONNX model.
    UnsupportedModelError
        If `model` is of another type, or in onnxruntime's own format.
    """
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, str | PathLike):
        path = Path(model)
        if path.stat().st_size > LARGEST_FILE:
            raise FileFormatError(
                f"an ONNX file must be smaller than 2 GiB, got {path.stat().st_size} bytes: "
                "keep the trees in a file of their own."
            )
        model = path.read_bytes()
    if not isinstance(model, bytes | bytearray):
        raise UnsupportedModelError(
            "the model must be a path, bytes or an onnx.ModelProto, got "
            f"{type(model).__name__}: save it as ONNX first."
        )
    if model[4:8] == ORT:
        raise UnsupportedModelError(
            "a model must be in the ONNX format, got one in onnxruntime's own (.ort), which cannot "
            "be read as trees: convert the forest's own file or its source."
        )
    try:
        message = onnx.ModelProto.FromString(bytes(model))
    except (DecodeError, ValueError, RecursionError) as error:
        raise FileFormatError(
            "the bytes must be an ONNX model, got some that protobuf cannot read: "
            "write the file again, it may be truncated."
        ) from error
    if not message.graph.node or not message.opset_import:
        raise FileFormatError(
            "an ONNX model must have operators and an operator set, got none: "
            "write the file again, it may be truncated or of another kind."
        )
    return message


class Attributes(Mapping[str, Any]):
    """The attributes of an operator; each is decoded where it is asked for, and not kept.

    Of a large model, all of them at once would take several times the memory of the forest.
    """

    def __init__(self, stored: dict[str, tuple[Any, int]]) -> None:
        self._stored = stored

    def __getitem__(self, name: str) -> Any:
        return _value(*self._stored[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def attributes(node: Any) -> Attributes:
    """Return the attributes of a tree operator: ints, texts, lists of texts, and arrays.

    Raises
    ------
    FileFormatError
        If one is of the wrong kind or repeated; where it is asked for, if its data are damaged.
    UnsupportedModelError
        If the standard does not know one.
    """
    known = ATTRIBUTES[node.op_type]
    stored: dict[str, tuple[Any, int]] = {}
    for attribute in node.attribute:
        name = attribute.name
        if name not in known:
            raise UnsupportedModelError(
                f"{node.op_type} must have attributes of the standard, got {name!r}: "
                "its meaning is unknown here."
            )
        if name in stored:
            raise FileFormatError(f"attribute `{name}` must stand once, got it twice.")
        kind = known[name]
        proto_kind, words = _KINDS[kind]
        if attribute.type != proto_kind:
            raise FileFormatError(f"attribute `{name}` must hold {words}, got another type.")
        if kind == TENSOR:
            _value(attribute, kind)  # runtimes refuse a damaged one even where they do not use it
        stored[name] = attribute, kind
    return Attributes(stored)


def _value(attribute: Any, kind: int) -> Any:
    if kind == INTEGER:
        return int(attribute.i)
    if kind == REAL:
        return float(attribute.f)
    if kind == STRING:
        return text(attribute.s, attribute.name)
    if kind == INTEGERS:
        return np.array(attribute.ints, np.int64)
    if kind == REALS:
        return np.array(attribute.floats, np.float32)
    if kind == STRINGS:
        stored = attribute.strings  # a million modes, but few different ones
        known = {value: text(value, attribute.name) for value in set(stored)}
        return list(map(known.__getitem__, stored))
    return tensor(attribute.t, attribute.name)


def text(value: bytes, name: str) -> str:
    """Return a text of the file."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"`{name}` must be UTF-8 text, got other bytes.") from error


def tensor(value: Any, name: str) -> Array:
    """Return a tensor of numbers as an array.

    Raises
    ------
    FileFormatError
        If its shape does not fit its data, or its type is none that tree operators use.
    UnsupportedModelError
        If its data lie outside the file.
    """
    if value.data_location == onnx.TensorProto.EXTERNAL or value.external_data:
        raise UnsupportedModelError(
            f"tensor `{name}` must lie in the model's own file, got one outside: save the model "
            "with onnx.save(model, path, save_as_external_data=False)."
        )
    if value.data_type not in _FIELDS:
        raise FileFormatError(
            f"tensor `{name}` must hold float32, float64, int32, int64, uint8 or booleans, got "
            f"ONNX type {value.data_type}."
        )
    field, dtype = _FIELDS[value.data_type]
    shape = tuple(value.dims)
    n_values = math.prod(shape)
    if value.HasField("raw_data"):
        stored = len(value.raw_data) / dtype.itemsize
    else:
        stored = len(getattr(value, field))
    if min(shape, default=0) < 0 or n_values != stored:
        raise FileFormatError(
            f"tensor `{name}` must hold as many values as its shape {shape} says, got {stored:g}."
        )
    if value.HasField("raw_data"):
        little_endian = np.frombuffer(value.raw_data, dtype.newbyteorder("<"))
        return little_endian.astype(dtype).reshape(shape)
    return np.array(getattr(value, field)).astype(dtype).reshape(shape)

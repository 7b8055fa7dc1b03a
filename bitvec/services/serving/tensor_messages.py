"""Messages of the Open Inference Protocol, version 2: tensors as JSON, or as bytes behind JSON.

Sources: the protocol's HTTP/REST specification, and its binary tensor data extension, where the
header `Inference-Header-Content-Length` says how many bytes of a body are JSON.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.composition import Converted
from bitvec.errors import InputError
from bitvec.runtime.predict.code_books import CodeBook, book_of
from bitvec.services.answer_columns import Columns
from bitvec.services.serving.message_parts import frame_of, json_bytes, json_value

ROWS: Final = "rows"
"""The name of the input that holds all columns, (n_rows, n_features)."""
DTYPES: Final[dict[str, np.dtype]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{8 * n}": np.dtype(f"<u{n}") for n in (1, 2, 4, 8)},
    **{f"INT{8 * n}": np.dtype(f"<i{n}") for n in (1, 2, 4, 8)},
    **{f"FP{8 * n}": np.dtype(f"<f{n}") for n in (2, 4, 8)},
}
"""The dtypes of the protocol's types of numbers."""
_ALLOWED: Final[dict[str, set[type]]] = {
    "b": {bool},
    "u": {int},
    "i": {int},
    "f": {int, float, NoneType},
}
"""Types that stand for a number in JSON, by the kind of its dtype."""
BYTES: Final = "BYTES"
"""The protocol's type of texts."""
VERSION: Final = "1"
"""The version of the one model that is served."""
_MOST_DIMENSIONS: Final = 8
_MOST_VALUES: Final = 2**40
"""Length of a dimension, more than a body holds: NumPy refuses larger ones even beside a 0."""
_TYPES: Final = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Question:
    """A request for inference.

    Parameters
    ----------
    rows : matrix or data frame
    n_rows : int
    outputs : tuple of str
    binary : frozenset of str
        The outputs that are wanted as bytes.
    id : str, optional
        Of the request, which the answer repeats.
    """

    rows: Any
    n_rows: int
    outputs: tuple[str, ...]
    binary: frozenset[str] = frozenset()
    id: str | None = None


def metadata(forest: Converted, name: str, outputs: dict[str, Columns]) -> dict[str, Any]:
    """Return what the protocol tells of a model, from its answers to no rows."""
    found = {each: tensor(each, columns) for each, columns in outputs.items()}
    return {
        "name": name,
        "versions": [VERSION],
        "platform": "bitvec",
        "inputs": _inputs(forest),
        "outputs": [
            {"name": each, "datatype": type_of(answer), "shape": [-1, *answer.shape[1:]]}
            for each, answer in found.items()
        ],
    }


def _inputs(forest: Converted) -> list[dict[str, Any]]:
    """Return the columns by name where some hold texts, else all as one tensor.

    The protocol has no type for categories that are numbers: of these only codes can be sent.
    """
    names, number = forest.inputs.feature_names, _TYPES[forest.dtype]
    books = [book_of(forest.inputs, column) for column in range(forest.n_features)]
    has_numbers = any(isinstance(book, CodeBook) and book.has_no_texts for book in books)
    if names is None or has_numbers or not any(books):
        return [{"name": ROWS, "datatype": number, "shape": [-1, forest.n_features]}]
    kinds = [number if book is None else BYTES for book in books]
    return [
        {"name": name, "datatype": kind, "shape": [-1]}
        for name, kind in zip(names, kinds, strict=True)
    ]


def decode(
    body: bytes, json_length: int | None, forest: Converted, served: tuple[str, ...]
) -> Question:
    """Return what a request asks.

    Parameters
    ----------
    json_length : int, optional
        How many bytes of the body are JSON; the bytes of tensors follow.
    served : tuple of str
        The outputs there are, which are answered where a request names none.

    Raises
    ------
    InputError
        If the message is not one of the protocol, or its tensors are not what it says.
    """
    if json_length is not None and not 0 <= json_length <= len(body):
        raise InputError(
            f"Inference-Header-Content-Length must be within the body's {len(body)} bytes, got "
            f"{json_length}."
        )
    message = json_object(body if json_length is None else body[:json_length])
    behind = b"" if json_length is None else body[json_length:]
    tensors: dict[str, Array] = {}
    for given in _objects(message, "inputs"):
        name, values, n_bytes = _tensor(given, behind)
        if name in tensors:
            raise InputError(f"inputs must have distinct names, got {name!r} twice.")
        tensors[name], behind = values, behind[n_bytes:]
    if behind:
        raise InputError(f"a body must end with its last tensor, got {len(behind)} bytes behind.")
    if not tensors:
        raise InputError("a request must have inputs, got none.")
    rows, n_rows = _rows(tensors, forest)
    parameters = _parameters(message)
    wanted = {_name(each): _parameters(each) for each in _objects(message, "outputs")}
    for name in wanted:
        if name not in served:
            raise InputError(f"outputs must be among {', '.join(served)}, got {name!r}.")
    outputs = tuple(wanted) or served
    all_binary = parameters.get("binary_data_output") is True
    binary = frozenset(
        name for name in outputs if wanted.get(name, {}).get("binary_data", all_binary) is True
    )
    given_id = message.get("id")
    return Question(rows, n_rows, outputs, binary, None if given_id is None else str(given_id))


def encode(question: Question, name: str, answers: dict[str, Columns]) -> tuple[bytes, int | None]:
    """Return the body of an answer, and how many of its bytes are JSON where others follow."""
    behind, outputs = [], []
    for output in question.outputs:
        values = tensor(output, answers[output])
        said = {"name": output, "datatype": type_of(values), "shape": list(values.shape)}
        if output in question.binary:
            raw = _as_bytes(values)
            behind.append(raw)
            outputs.append({**said, "parameters": {"binary_data_size": len(raw)}})
        else:
            outputs.append({**said, "data": values.ravel().tolist()})
    message = {"model_name": name, "model_version": VERSION, "outputs": outputs}
    if question.id is not None:
        message["id"] = question.id
    text = json_bytes(message)
    return b"".join((text, *behind)), (len(text) if behind else None)


def tensor(output: str, columns: Columns) -> Array:
    """Return the columns of an output as one tensor, (n_rows,) or (n_rows, n_columns)."""
    values = list(columns.values())
    if len(values) == 1 and output != "proba":
        return values[0]
    return np.stack(values, axis=1)


def type_of(values: Array) -> str:
    """Return the protocol's name for the dtype of a tensor."""
    return _TYPES.get(values.dtype.newbyteorder("<"), BYTES)


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that some bytes are.

    Raises
    ------
    InputError
        If they are none.
    """
    message = json_value(body)
    if not isinstance(message, dict):
        raise InputError(f"the body must be a JSON object, got {type(message).__name__}.")
    return message


def _objects(message: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = message.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"`{key}` must be a list of objects.")
    return found


def _parameters(message: dict[str, Any]) -> dict[str, Any]:
    found = message.get("parameters", {})
    if not isinstance(found, dict):
        raise InputError("`parameters` must be an object.")
    return found


def _name(given: dict[str, Any]) -> str:
    name = given.get("name")
    if not isinstance(name, str):
        raise InputError(f"a tensor must have a name, got {type(name).__name__}.")
    return name


def _tensor(given: dict[str, Any], behind: bytes) -> tuple[str, Array, int]:
    """Return the name and values of a tensor, and how many of the bytes that follow it took."""
    name, kind, shape = _name(given), given.get("datatype"), given.get("shape")
    if not isinstance(kind, str) or (kind != BYTES and kind not in DTYPES):
        raise InputError(
            f"the datatype of input {name!r} must be one of {', '.join((*DTYPES, BYTES))}, got "
            f"{kind!r}."
        )
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise InputError(f"the shape of input {name!r} must be a list of whole numbers.")
    if len(shape) > _MOST_DIMENSIONS or any(n > _MOST_VALUES for n in shape):
        raise InputError(
            f"the shape of input {name!r} must have at most {_MOST_DIMENSIONS} dimensions, each of "
            f"at most {_MOST_VALUES}."
        )
    size = math.prod(shape)
    n_bytes = _parameters(given).get("binary_data_size")
    if (n_bytes is None) == ("data" not in given):
        raise InputError(f"input {name!r} must have either `data` or a binary_data_size.")
    if n_bytes is None:
        values = _from_json(name, kind, given["data"])
        n_bytes = 0
    else:
        if type(n_bytes) is not int or not 0 <= n_bytes <= len(behind):
            raise InputError(
                f"the binary_data_size of input {name!r} must be within the {len(behind)} bytes "
                f"that are left, got {n_bytes!r}."
            )
        values = _from_bytes(name, kind, behind[:n_bytes])
    if values.size != size:
        raise InputError(f"input {name!r} must have {size} values by its shape, got {values.size}.")
    return name, values.reshape(shape), n_bytes


def _from_json(name: str, kind: str, data: Any) -> Array:
    flat = _flat(data)
    if kind == BYTES:
        if not all(isinstance(each, str) for each in flat):
            raise InputError(f"input {name!r} must hold texts, as its datatype BYTES says.")
        return np.array(flat, dtype=object)
    dtype = DTYPES[kind]
    kinds = set(map(type, flat))
    allowed = _ALLOWED[dtype.kind]
    if not kinds <= allowed:
        other = sorted(each.__name__ for each in kinds - allowed)[0]
        raise InputError(f"input {name!r} must hold {kind}, got {other}.")
    try:
        with np.errstate(over="raise"):
            return np.array(np.array(flat, np.float64) if dtype.kind == "f" else flat, dtype=dtype)
    except (OverflowError, FloatingPointError):
        raise InputError(f"input {name!r} must fit into {kind}, got a larger number.") from None


def _flat(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise InputError("the `data` of a tensor must be a list.")
    while data and isinstance(data[0], list):
        if not all(isinstance(each, list) for each in data):
            raise InputError("the `data` of a tensor must be nested evenly.")
        data = [each for part in data for each in part]
    return data


def _from_bytes(name: str, kind: str, raw: bytes) -> Array:
    if kind != BYTES:
        dtype = DTYPES[kind]
        if len(raw) % dtype.itemsize:
            raise InputError(f"the bytes of input {name!r} must be whole {kind} values.")
        return np.frombuffer(raw, dtype)
    found, at = [], 0
    try:
        while at < len(raw):
            (n,) = struct.unpack_from("<I", raw, at)
            if at + 4 + n > len(raw):
                raise ValueError
            found.append(raw[at + 4 : at + 4 + n].decode())
            at += 4 + n
    except (struct.error, ValueError):
        raise InputError(
            f"the bytes of input {name!r} must be texts in UTF-8, each behind its length (4 bytes)."
        ) from None
    return np.array(found, dtype=object)


def _as_bytes(values: Array) -> bytes:
    if type_of(values) != BYTES:
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    texts = [str(each).encode() for each in values.ravel().tolist()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _rows(tensors: dict[str, Array], forest: Converted) -> tuple[Any, int]:
    """Return a matrix, or a data frame of columns, and the number of its rows."""
    if set(tensors) == {ROWS}:
        matrix = tensors[ROWS]
        if matrix.ndim != 2:
            raise InputError(
                f"the input {ROWS!r} must have shape (n_rows, {forest.n_features}), got "
                f"{matrix.shape}."
            )
        return matrix, len(matrix)
    names = forest.inputs.feature_names
    if names is None:
        raise InputError(
            f"this forest does not know its columns by name: hand over one input {ROWS!r}, got "
            f"{sorted(tensors)[0]!r}."
        )
    columns = {}
    for name, values in tensors.items():
        if values.ndim == 0 or values.size != len(values):
            raise InputError(f"the column {name!r} must have shape (n_rows,), got {values.shape}.")
        columns[name] = values.ravel()
    return frame_of(columns, names)

"""The objects of a .skops file as plain data: its schema and arrays are read, nothing is built.

A .skops file is a zip archive of `schema.json`, a tree of nodes that each name a class and a
loader, and one .npy file per array. The loaders below give numbers, strings, arrays, lists, tuples,
dicts and records; an object of any other loader becomes a record without attributes.
"""

from __future__ import annotations

import io
import json
import math
import tokenize
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.attribute_records import Record
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError

PACKAGES = frozenset({"_loss", "builtins", "collections", "functools", "numpy", "scipy", "sklearn"})
"""Modules that the classes of an estimator and its attributes come from.

scikit-learn 1.5 named the module of its compiled losses `_loss`.
"""
PROTOCOL = 2
"""The schema of skops 0.10 to 0.16; the older ones wrote arrays and estimators in the same way."""
LEAST_BUDGET = 1 << 28
"""Bytes that any file may unpack to; a larger one may unpack to 100 times its own size."""
MAX_DEPTH = 64
NODE_BYTES = 64
"""Bytes that a node counts for, so that objects that stand in many places are paid for in each."""
OBJECT_BYTES = 64
"""Bytes that an object of JSON counts for, however few characters it has."""
MAX_AXES = 8
MAX_HEADER = 10_000
"""Characters of a .npy header, as NumPy limits them."""


def read(path: Path) -> Any:
    """Return the object of a .skops file, as plain data.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If the file is no skops file, damaged, or unpacks to an absurd size.
    UnsupportedModelError
        If it holds objects of other packages than scikit-learn's and NumPy's.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _object(path, archive)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        # A NotImplementedError is an unknown compression, a RuntimeError an encrypted entry.
        raise FileFormatError(
            f"{path.name} must be a skops file, got something else or a truncated one "
            f"({error}): save the model with `skops.io.dump(model, 'model.skops')`."
        ) from error


def _object(path: Path, archive: zipfile.ZipFile) -> Any:
    sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    if "schema.json" not in sizes:
        raise FileFormatError(f"{path.name} must be a skops file, got an archive without a schema.")
    budget = max(LEAST_BUDGET, 100 * path.stat().st_size)
    if sum(sizes.values()) > budget:
        raise FileFormatError(
            f"{path.name} must unpack to at most {budget} bytes, got {sum(sizes.values())}: it is "
            "damaged or hostile."
        )
    reader = Reader(path.name, archive, sizes, budget)
    schema = reader.parsed(reader.entry("schema.json").decode("utf-8", "replace"), "its schema")
    protocol = schema.get("protocol") if isinstance(schema, dict) else None
    if type(protocol) is not int or not 0 <= protocol <= PROTOCOL:
        raise reader.damaged(f"its protocol is {protocol!r}, not 0 to {PROTOCOL}")
    return reader.node(schema, 0)


@dataclass(slots=True)
class Reader:
    """Reads the nodes of one archive.

    Objects that were read already are remembered by `__id__`, with what they cost.
    """

    name: str
    archive: zipfile.ZipFile
    sizes: dict[str, int]
    budget: int
    spent: int = 0
    known: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def damaged(self, what: str) -> FileFormatError:
        """Return the error for a file that is not sound."""
        return FileFormatError(
            f"{self.name} must be a sound skops file, got one that is not, for {what}: save the "
            "model again with `skops.io.dump`."
        )

    def spend(self, cost: int) -> None:
        """Count bytes against what the file may unpack to."""
        self.spent += cost
        if self.spent > self.budget:
            raise FileFormatError(
                f"{self.name} must unpack to at most {self.budget} bytes, got more: it is damaged "
                "or hostile."
            )

    def entry(self, name: str) -> bytes:
        """Return the bytes of one file of the archive, which may not be more than it states."""
        if name not in self.sizes:
            raise self.damaged(f"it lacks the part {name!r}")
        self.spend(self.sizes[name])
        with self.archive.open(name) as part:
            content = part.read(self.sizes[name])
            if part.read(1):
                raise self.damaged(f"its part {name!r} is longer than it states")
        return content

    def parsed(self, text: str, what: str) -> Any:
        """Return what a JSON text holds, after its objects are paid for: each stands by a mark."""
        self.spend(OBJECT_BYTES * sum(map(text.count, "[{,:")))
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"{what} is no JSON ({type(error).__name__})") from error

    def node(self, state: Any, depth: int) -> Any:
        """Return what a node of the schema stands for."""
        if not isinstance(state, dict):
            raise self.damaged(f"a node of its schema is a {type(state).__name__}")
        if depth > MAX_DEPTH:
            raise self.damaged(f"its objects are nested more than {MAX_DEPTH} deep")
        key = state.get("__id__")
        if isinstance(key, int) and key in self.known:
            value, cost = self.known[key]
            self.spend(cost)
            return value
        if state.get("__loader__") == "CachedNode":
            raise self.damaged("an object refers to itself or to one that is not there")
        loader, module, kind = (
            member(self, state, f"__{part}__", str) for part in ("loader", "module", "class")
        )
        if module.partition(".")[0] not in PACKAGES:
            raise UnsupportedModelError(
                f"{self.name} must hold only objects of scikit-learn and NumPy, got a "
                f"{module}.{kind}: save the plain model with skops."
            )
        before = self.spent
        self.spend(NODE_BYTES)
        load = _LOADERS.get(loader)
        value = Record(module, kind) if load is None else load(self, state, depth + 1)
        if isinstance(key, int):
            self.known[key] = value, self.spent - before
        return value

    def array(self, name: str) -> Array:
        """Return the array of a .npy file; only one whose bytes are all there is allocated."""
        content = self.entry(name)
        file = io.BytesIO(content)
        try:
            version = np.lib.format.read_magic(file)
            header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, fortran, dtype = header(file, max_header_size=MAX_HEADER)
        except (
            *(ValueError, KeyError, TypeError, SyntaxError, RecursionError),
            tokenize.TokenError,  # NumPy reads headers that Python 2 wrote by their tokens
        ) as error:
            raise self.damaged(f"{name!r} is no .npy file") from error
        count = math.prod(shape)
        size = len(content) - file.tell()
        if dtype.hasobject or dtype.itemsize == 0 or min(shape, default=0) < 0:
            raise self.damaged(f"{name!r} holds {dtype}, which is not plain data")
        if len(shape) > MAX_AXES:
            raise self.damaged(f"{name!r} has {len(shape)} axes")
        if count * dtype.itemsize != size:
            raise self.damaged(f"{name!r} holds {size} bytes, not {count} of {dtype}")
        flat = np.frombuffer(content, dtype, count, file.tell())
        native = flat.astype(dtype.newbyteorder("="))
        return native.reshape(shape, order="F" if fortran else "C")


def _json(reader: Reader, state: dict[str, Any], depth: int) -> Any:
    return reader.parsed(member(reader, state, "content", str), "a value of its schema")


def member(reader: Reader, state: dict[str, Any], name: str, kind: type) -> Any:
    """Return a member of a node, which must be of one type."""
    value = state.get(name)
    if not isinstance(value, kind):
        raise reader.damaged(
            f"`{name}` of a node is a {type(value).__name__}, not a {kind.__name__}"
        )
    return value


def _list(reader: Reader, state: dict[str, Any], depth: int) -> list[Any]:
    return [reader.node(item, depth) for item in member(reader, state, "content", list)]


def _tuple(reader: Reader, state: dict[str, Any], depth: int) -> tuple[Any, ...]:
    return tuple(_list(reader, state, depth))


def _dict(reader: Reader, state: dict[str, Any], depth: int) -> dict[str, Any]:
    content = member(reader, state, "content", dict)
    return {key: reader.node(value, depth) for key, value in content.items()}


def _record(reader: Reader, state: dict[str, Any], depth: int) -> Record:
    content = reader.node(member(reader, state, "content", dict), depth)
    # The state of an object without attributes is null, that of some Cython classes a tuple.
    attributes = content if isinstance(content, dict) else {}
    return Record(state["__module__"], state["__class__"], attributes)


def _tree(reader: Reader, state: dict[str, Any], depth: int) -> Record:
    """Read scikit-learn's Tree: its state, and the numbers that it is constructed with."""
    record = _record(reader, state, depth)
    args = reader.node(member(reader, state, "__reduce__", dict).get("args"), depth)
    names = ("n_features", "n_classes", "n_outputs")
    if not isinstance(args, tuple) or len(args) != len(names):
        raise reader.damaged("a tree is not made of features, classes and outputs")
    attributes = {**record.state, **dict(zip(names, args, strict=True))}
    return Record(record.module, record.kind, attributes)


def _array(reader: Reader, state: dict[str, Any], depth: int) -> Any:
    if state.get("type") == "json":
        return _object_array(reader, state, depth)
    array = reader.array(member(reader, state, "file", str))
    # NumPy's scalars are kept as arrays without axes.
    return array if state["__class__"] == "ndarray" or array.ndim else array[()]


def _object_array(reader: Reader, state: dict[str, Any], depth: int) -> Array:
    shape = reader.node(state.get("shape"), depth)
    items = [reader.node(item, depth) for item in member(reader, state, "content", list)]
    if not isinstance(shape, tuple) or not 1 <= len(shape) <= 2:
        raise reader.damaged("an array of objects has no shape of one or two axes")
    if len(shape) == 2:
        items = [item for row in items for item in (row if isinstance(row, list) else [])]
    if any(type(n) is not int or n < 0 for n in shape) or math.prod(shape) != len(items):
        raise reader.damaged(f"an array of shape {shape} holds {len(items)} objects")
    flat = np.empty(len(items), dtype=object)
    for at, item in enumerate(items):
        flat[at] = item
    return flat.reshape(shape)


def _dtype(reader: Reader, state: dict[str, Any], depth: int) -> np.dtype:
    """Return the dtype of the array by which a file states it."""
    return np.asarray(reader.node(state.get("content"), depth)).dtype


_LOADERS: dict[str, Callable[[Reader, dict[str, Any], int], Any]] = {
    "JsonNode": _json,
    "ListNode": _list,
    "TupleNode": _tuple,
    "DictNode": _dict,
    "DTypeNode": _dtype,
    "ObjectNode": _record,
    "TreeNode": _tree,
    "NdArrayNode": _array,
}
"""Readers of the nodes that estimators are made of."""

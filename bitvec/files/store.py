"""Forests as files: one `.safetensors` file of the forest's arrays and a JSON record.

The arrays lie in the file under readable names (`tests.b`, `bitvectors.lo`, `leaves.v`), so any
safetensors reader opens it. `__metadata__` holds `format` ("bitvec.forest", "bitvec.machine" of a
decision machine, or "bitvec.composition"), `version` and `forest`, the record of all that is no
array, as JSON text in which non-finite numbers stand as NaN, Infinity and -Infinity. Other keys of
`__metadata__` are for others and are ignored; an unknown key of the record or an unknown tensor is
refused, since it could have changed the answers: whoever adds one raises the version. The same
forest always gives the same
bytes. No pickle is ever read.

A path that cannot be read or written raises the OSError of the operating system with one sentence;
contents that are no forest raise FileFormatError.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from bitvec.core.arrays import Array
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest, require_forest
from bitvec.core.machine import DecisionMachine
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError
from bitvec.files import atomic
from bitvec.files import sound as reading
from bitvec.files.composed_records import pack_composition, unpack_composition
from bitvec.files.fields import Record, Tensors
from bitvec.files.machines import pack_machine, unpack_machine
from bitvec.files.records import pack, unpack

Stored = TypeVar("Stored", bound=Forest | DecisionMachine | Composition)
Stores = Forest | DecisionMachine | Composition
Builds = dict[str, Callable[[Tensors, Record], Stored]]


class Kind(NamedTuple):
    """Content of a file of one format, and the call that reads it."""

    noun: str
    reader: str


FORMAT = "bitvec.forest"
MACHINE_FORMAT = "bitvec.machine"
COMPOSITION_FORMAT = "bitvec.composition"
KINDS = {
    FORMAT: Kind("forest", "bitvec.load"),
    MACHINE_FORMAT: Kind("decision machine", "bitvec.DecisionMachine.load"),
    COMPOSITION_FORMAT: Kind("composition", "bitvec.files.load_composition"),
}
VERSION = 1
"""Version of all formats."""
MAX_HEADER = 1 << 25
"""Largest JSON header in bytes; safetensors itself stops at 100 MB."""

_PREFIX = 8
"""A safetensors file begins with the length of its header, a little-endian uint64."""
_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint64": "U64",
    "uint32": "U32",
    "uint8": "U8",
    "bool": "BOOL",
}
_OTHER_KINDS = (
    (b"PK\x03\x04", "a zip archive (npz, skops or torch)"),
    (b"\x1f\x8b", "a gzip archive"),
    *((bytes([0x80, k]), "a pickle, which bitvec never loads") for k in range(2, 6)),
    (b"{", "JSON text"),
    (b"tree\n", "a LightGBM text model"),
)


def save(forest: Stores, path: str | os.PathLike[str]) -> None:
    """Write a forest to one file, which appears under its name only when it is whole.

    Parameters
    ----------
    forest : Forest, DecisionMachine or Composition
    path : path
        By convention it ends in `.safetensors`. A file that is there is replaced.

    Raises
    ------
    UnsupportedModelError
        If its feature map is not one of `bitvec.core.feature_maps`, its metadata are not JSON, or
        names, categories, classes and metadata do not fit in 32 MiB.
    OSError
        If the path cannot be written; a file that was there is then still whole.

    Examples
    --------
    >>> import tempfile
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(stump, f"{folder}/stump.safetensors")
    ...     identical(load(f"{folder}/stump.safetensors"), stump)
    True
    """
    parts = _parts(forest)
    atomic.write(path, lambda stream: stream.writelines(parts))


def dumps(forest: Stores) -> bytes:
    """Return the bytes of the file that `save` writes.

    Raises
    ------
    UnsupportedModelError
        As `save` does.
    """
    return b"".join(_parts(forest))


def loads(data: bytes) -> Forest:
    """Read a forest from the bytes of its file.

    Raises
    ------
    FileFormatError
        If they are not those of a whole file, or hold a decision machine.
    """
    try:
        length = int.from_bytes(data[:_PREFIX], "little")
        if len(data) < _PREFIX or length > min(MAX_HEADER, len(data) - _PREFIX):
            raise FileFormatError("they are cut short or of another kind.")
        with reading.sound("the bytes", "hold a whole forest"):
            return unpack(*_parse(data, FORMAT)[1:])
    except (FileFormatError, InvalidForestError) as error:
        raise FileFormatError(f"the bytes must hold a whole forest, but {error}") from None


def load(path: str | os.PathLike[str]) -> Forest:
    """Read a forest from a file; that of a decision machine is read by `DecisionMachine.load`.

    A hostile or damaged file costs about twice its size in memory.

    Raises
    ------
    FileFormatError
        If the file is truncated, damaged, of another kind, or made by a newer bitvec.
    OSError
        If there is no such file, or it cannot be read.
    """
    return _load(path, {FORMAT: unpack})


def load_machine(path: str | os.PathLike[str]) -> DecisionMachine:
    """Read a decision machine from a file, as `DecisionMachine.load` does.

    Raises
    ------
    FileFormatError, OSError
        As `load` does.
    """
    return _load(path, {MACHINE_FORMAT: unpack_machine})


def load_composition(path: str | os.PathLike[str]) -> Composition:
    """Read a composition from a file.

    Raises
    ------
    FileFormatError, OSError
        As `load` does.
    """
    return _load(path, {COMPOSITION_FORMAT: unpack_composition})


def load_converted(path: str | os.PathLike[str]) -> Forest | Composition:
    """Read what a model was converted to from a file: a forest, or a composition of several.

    Raises
    ------
    FileFormatError, OSError
        As `load` does.
    """
    builds: Builds[Forest | Composition] = {FORMAT: unpack, COMPOSITION_FORMAT: unpack_composition}
    return _load(path, builds)


def _load(path: str | os.PathLike[str], builds: Builds[Stored]) -> Stored:
    what = " or ".join(KINDS[form].noun for form in builds)
    data = _read(path, what)
    try:
        with reading.sound(path, f"hold a whole {what}"):
            form, tensors, record = _parse(data, *builds)
            del data  # the arrays are copies of it: never hold both while the forest is checked
            return builds[form](tensors, record)
    except (FileFormatError, InvalidForestError) as error:
        raise FileFormatError(f"{os.fspath(path)} must hold a whole {what}, but {error}") from None


def identical(a: Stores, b: Stores) -> bool:
    """Return whether two forests are equal bit for bit in every field: whether their files are.

    Raises
    ------
    UnsupportedModelError
        If one of them cannot be saved.
    """
    (form, tensors, record), (other_form, others, other_record) = _packed(a), _packed(b)
    return (
        form == other_form
        and _json(record, sort_keys=True) == _json(other_record, sort_keys=True)
        and tensors.keys() == others.keys()
        and all(_same_bits(array, others[name]) for name, array in tensors.items())
    )


def _packed(value: Stores) -> tuple[str, Tensors, Record]:
    if isinstance(value, DecisionMachine):
        return MACHINE_FORMAT, *pack_machine(value)
    if isinstance(value, Composition):
        return COMPOSITION_FORMAT, *pack_composition(value)
    require_forest(value)
    return FORMAT, *pack(value)


def _parts(forest: Stores) -> list[bytes | memoryview]:
    form, tensors, record = _packed(forest)
    # Wide elements first, so that each array is aligned to its own element size.
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header = _header(form, {name: tensors[name] for name in order}, record)
    return [header, *(_little_endian(tensors[name]) for name in order)]


def _same_bits(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)))


def _json(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=sort_keys)


def _header(form: str, tensors: Tensors, record: Record) -> bytes:
    entries: dict[str, Any] = {
        "__metadata__": {"format": form, "version": str(VERSION), "forest": _json(record)}
    }
    start = 0
    for name, array in tensors.items():
        entries[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = _json(entries).encode("ascii")
    text += b" " * (-len(text) % _PREFIX)
    if len(text) > MAX_HEADER:
        raise UnsupportedModelError(
            f"names, categories, classes and metadata must fit in {MAX_HEADER} bytes of JSON to be "
            f"saved, got {len(text)}: leave out metadata."
        )
    return len(text).to_bytes(_PREFIX, "little") + text


def _little_endian(array: Array) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def _read(path: str | os.PathLike[str], what: str) -> bytes:
    """Read a whole file, after its size and its first bytes allow that it is a safetensors file."""
    with atomic.one_sentence(path, "read"):
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):  # opening a named pipe would wait forever
            raise OSError("it is a directory or a device")
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_PREFIX + 1)
            length = int.from_bytes(head[:_PREFIX], "little")
            if head[_PREFIX:] == b"{" and length <= min(MAX_HEADER, size - _PREFIX):
                file.seek(0)
                return file.read(size)
    kind = next((kind for mark, kind in _OTHER_KINDS if head.startswith(mark)), None)
    if kind is None or length <= MAX_HEADER:
        kind = f"{size} bytes that are cut short or of another kind" if size else "an empty file"
    raise FileFormatError(
        f"{os.fspath(path)} must be a {what} saved by bitvec, got {kind}: a model of another "
        "library is read by bitvec.convert."
    )


def _parse(data: bytes, *forms: str) -> tuple[str, Tensors, Record]:
    length = int.from_bytes(data[:_PREFIX], "little")
    header = _object(data[_PREFIX : _PREFIX + length], "header")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not str(metadata.get("format")).startswith("bitvec."):
        raise FileFormatError("it is a safetensors file that bitvec did not write.")
    found: str = metadata["format"]
    if found not in KINDS:
        raise FileFormatError(f"it holds a {found[:60]!r}, not a {forms[0]!r}.")
    if found not in forms:
        noun, reader = KINDS[found]
        raise FileFormatError(f"it holds a {noun}: read it with {reader}.")
    _require_version(metadata.get("version"))
    known = _DTYPES.values()
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in known:
            raise FileFormatError(f"the tensor {name[:60]!r} must be of dtype {', '.join(known)}.")
    record = metadata.get("forest")
    if not isinstance(record, str):
        raise FileFormatError("`forest` must be there, a text.")
    tensors = _tensors(data)
    return found, tensors, _object(record.encode("utf-8", "surrogatepass"), "forest")


def _require_version(version: Any) -> None:
    if not isinstance(version, str) or not (version.isascii() and version.isdigit()):
        raise FileFormatError(f"`version` must be a whole number, got {str(version)[:60]!r}.")
    number = int(version[:9])
    if number > VERSION:
        raise FileFormatError(
            f"it was made by a newer bitvec, in version {number} of the format, and this one "
            f"reads up to version {VERSION}: upgrade bitvec."
        )
    if number != VERSION:
        raise FileFormatError(f"there was never a version {number} of the format.")


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text.decode("utf-8", "surrogatepass"), object_pairs_hook=_without_twins)
    except RecursionError:
        raise FileFormatError(f"its {what} is nested too deeply.") from None
    except ValueError as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"its {what} must be JSON: {error}.") from None
    if not isinstance(value, dict):
        raise FileFormatError(f"its {what} must be a JSON object.")
    return value


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FileFormatError("a name stands twice in one JSON object.")
    return result


def _tensors(data: bytes) -> Tensors:
    """Let safetensors check every shape, dtype and offset against the data, and copy the arrays."""
    try:
        tensors: Tensors = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, OverflowError) as error:
        raise FileFormatError(f"it is truncated or damaged: {error}.") from None
    for name, array in tensors.items():
        # A bool that is neither 0 nor 1 compares equal to neither.
        if array.dtype == np.bool_ and np.any(array.view(np.uint8) > 1):
            raise FileFormatError(f"the tensor {name[:60]!r} must hold 0 and 1 only.")
    return tensors

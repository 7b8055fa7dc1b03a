"""treelite's checkpoint files, read field by field without treelite.

treelite believes every length in a checkpoint, and reads past its end without a word: a damaged
file asks for any amount of memory, loops for hours, or becomes a model of uninitialised numbers.
What has passed here is whole: each field has the bytes that its length states, and none are left.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError

MAJOR: Final = 4
"""The format's major version, which is treelite's."""

BOOL, BYTE, INT, UINT, LONG, FLOAT, DOUBLE, VALUE, TEXT = (
    "?",
    "B",
    "i",
    "I",
    "Q",
    "f",
    "d",
    "T",
    "s",
)
"""Types of elements: those of `struct`, the model's own type of numbers, and UTF-8 text."""

_ELEMENT_TYPES: Final = {2: FLOAT, 3: DOUBLE}
"""By treelite's TypeInfo."""

_HEADER: Final = (
    ("num_feature", INT, False),
    ("task_type", BYTE, False),
    ("average_tree_output", BOOL, False),
    ("num_target", INT, False),
    ("num_class", INT, True),
    ("leaf_vector_shape", INT, True),
    ("target_id", INT, True),
    ("class_id", INT, True),
    ("postprocessor", TEXT, True),
    ("sigmoid_alpha", FLOAT, False),
    ("ratio_c", FLOAT, False),
    ("base_scores", DOUBLE, True),
    ("attributes", TEXT, True),
    ("num_opt_field_per_model", INT, False),
)
"""Name, type, and whether it is an array: a count and so many elements."""

_TREE: Final = (
    ("num_nodes", INT, False),
    ("has_categorical_split", BOOL, False),
    ("node_type", BYTE, True),
    ("cleft", INT, True),
    ("cright", INT, True),
    ("split_index", INT, True),
    ("default_left", BOOL, True),
    ("leaf_value", VALUE, True),
    ("threshold", VALUE, True),
    ("cmp", BYTE, True),
    ("category_list_right_child", BOOL, True),
    ("leaf_vector", VALUE, True),
    ("leaf_vector_begin", LONG, True),
    ("leaf_vector_end", LONG, True),
    ("category_list", UINT, True),
    ("category_list_begin", LONG, True),
    ("category_list_end", LONG, True),
    ("data_count", LONG, True),
    ("data_count_present", BOOL, True),
    ("sum_hess", DOUBLE, True),
    ("sum_hess_present", BOOL, True),
    ("gain", DOUBLE, True),
    ("gain_present", BOOL, True),
    ("num_opt_field_per_tree", INT, False),
    ("num_opt_field_per_node", INT, False),
)


class _Cursor:
    """A place in the file, moved over one field after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.at = 0

    def take(self, size: int, name: str) -> memoryview:
        if size > len(self.data) - self.at:
            raise FileFormatError(
                f"a treelite checkpoint must be whole, got one that ends inside `{name}`: "
                "copy or save it again."
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def scalar(self, kind: str, name: str) -> int:
        value: int = struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind), name))[0]
        return value

    def field(self, name: str, kind: str, *, is_array: bool) -> Array | str:
        """Return one field; a boolean must be 0 or 1, and text be UTF-8."""
        count = self.scalar(LONG, name) if is_array else 1
        body = self.take(count * (1 if kind == TEXT else struct.calcsize("<" + kind)), name)
        if kind == TEXT:
            try:
                return str(body, "utf-8")
            except UnicodeDecodeError:
                raise FileFormatError(f"`{name}` must be UTF-8 text, got other bytes.") from None
        if kind == BOOL and np.any(np.frombuffer(body, np.uint8) > 1):
            raise FileFormatError(f"`{name}` must hold 0 and 1, got another value.")
        if name.startswith("num_opt_field") and any(body):
            raise FileFormatError(
                f"`{name}` must be 0, got extensions of a newer treelite: save the model with "
                f"treelite {MAJOR}."
            )
        values: Array = np.frombuffer(body, np.dtype(kind).newbyteorder("<"))
        return values.astype(values.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a header or of a tree, as treelite's own accessors give them."""

    values: dict[str, Array | str]

    def get_field(self, name: str, /) -> Array | str:
        """Return a field: an array, of one value for a scalar, or text."""
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as a checkpoint holds it, with the accessors of a treelite.Model."""

    header: Fields
    trees: tuple[Fields, ...]

    @property
    def num_tree(self) -> int:
        """Number of trees."""
        return len(self.trees)

    def get_header_accessor(self) -> Fields:
        """Return the fields of the header."""
        return self.header

    def get_tree_accessor(self, tree_id: int, /) -> Fields:
        """Return the fields of one tree."""
        return self.trees[tree_id]


def read_checkpoint(data: bytes) -> Checkpoint:
    """Read a checkpoint, which must hold every field and nothing else.

    Parameters
    ----------
    data : bytes
        What `treelite.Model.serialize` wrote.

    Raises
    ------
    FileFormatError
        If it is no checkpoint of treelite 4, truncated, or longer than its trees.

    Notes
    -----
    The order of the fields is that of `Serializer` in treelite's src/serializer.cc. What the fields
    say is for `bitvec.converters.treelite.model` to check.
    """
    cursor = _Cursor(data)
    version = [cursor.scalar(INT, "version") for _ in range(3)]
    if version[0] != MAJOR:
        raise FileFormatError(
            f"a treelite checkpoint must be of version {MAJOR}, got {version[0]}, or no checkpoint "
            f"at all: save the model with treelite {MAJOR}."
        )
    kinds = [cursor.scalar(BYTE, name) for name in ("threshold_type", "leaf_output_type")]
    if kinds[0] != kinds[1] or kinds[0] not in _ELEMENT_TYPES:
        raise FileFormatError(
            f"thresholds and leaves must both be float32 or float64, got treelite's types {kinds}."
        )
    n_trees = cursor.scalar(LONG, "num_tree")
    names = ("major_ver", "minor_ver", "patch_ver", "threshold_type", "leaf_output_type")
    header: dict[str, Array | str] = {
        name: np.array([value]) for name, value in zip(names, [*version, *kinds], strict=True)
    }
    for name, kind, is_array in _HEADER:
        header[name] = cursor.field(name, kind, is_array=is_array)
    trees: list[Fields] = []
    while len(trees) < n_trees:  # each takes bytes, so a false count ends with the file
        fields = {}
        for name, kind, is_array in _TREE:
            own = _ELEMENT_TYPES[kinds[0]] if kind == VALUE else kind
            fields[name] = cursor.field(name, own, is_array=is_array)
        trees.append(Fields(fields))
    if cursor.at != len(data):
        raise FileFormatError(
            f"a treelite checkpoint must end after its {n_trees} trees, got "
            f"{len(data) - cursor.at} bytes more."
        )
    return Checkpoint(Fields(header), tuple(trees))

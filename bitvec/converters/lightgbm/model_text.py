"""LightGBM's text format, cut into its sections: header, trees, parameters, code books.

Nothing is interpreted here but the frame: which line belongs to which section, and that the
sections are whole. `tree_sizes` states how many bytes each tree takes, so that a text of which
bytes were lost or added is found out before anything is read from it, as LightGBM itself does.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.errors import FileFormatError, UnsupportedModelError

VERSIONS: Final = ("v2", "v3", "v4")
"""v2 of LightGBM 2.x, v3 of 3.x, v4 of 4.x: LightGBM 4 reads all three alike."""

HEADER_KEYS: Final = frozenset(
    {
        "version",
        "num_class",
        "num_tree_per_iteration",
        "label_index",
        "max_feature_idx",
        "objective",
        "average_output",
        "feature_names",
        "monotone_constraints",
        "feature_infos",
        "tree_sizes",
    }
)


@dataclass(frozen=True, slots=True)
class ModelText:
    """The sections of a model text.

    Parameters
    ----------
    header : dict
        Values of the first section by key.
    trees : list of dict
        For each tree the bytes after `key=`, by key.
    parameters : tuple of str
        The lines of training parameters, `[name: value]`.
    pandas_categorical : list, optional
        The categories of each category column of the data frame that the model was trained on.
    """

    header: dict[str, str]
    trees: list[dict[str, bytes]]
    parameters: tuple[str, ...]
    pandas_categorical: list[Any] | None

    def parameter(self, name: str) -> str | None:
        """Return the value of a training parameter, None where the text has none."""
        start = f"[{name}: "
        found = [line for line in self.parameters if line.startswith(start)]
        return found[-1][len(start) : -1] if found else None


def parse(data: bytes) -> ModelText:
    """Cut a model text into its sections.

    Raises
    ------
    UnsupportedModelError
        If the text is of another version, or has a header key that is not known.
    FileFormatError
        If it is no model text, truncated or edited.
    """
    if b"\r" in data:  # a text that went through Windows; `tree_sizes` counts bare newlines
        data = data.replace(b"\r\n", b"\n")
    if not data.startswith(b"tree\n"):
        raise FileFormatError(
            f"a LightGBM model text must begin with the line `tree`, got {data[:12]!r}: a text of "
            "LightGBM before 2.1 has to be loaded and saved again there, up to a newer version."
        )
    end = data.find(b"\n\n")
    if end < 0:
        raise FileFormatError("a LightGBM model text must have trees after its header, got none.")
    header = _header(data[5:end])
    if header.get("version") not in VERSIONS:
        raise UnsupportedModelError(
            f"the version of a LightGBM model text must be one of {', '.join(VERSIONS)}, got "
            f"{header.get('version', 'none')[:40]!r}."
        )
    trees, end = _trees(data, end, header)
    parameters, books = _tail(data[end:], header["version"])
    return ModelText(header, trees, parameters, books)


def _header(data: bytes) -> dict[str, str]:
    header: dict[str, str] = {}
    for line in decoded(data).split("\n"):
        key, _, value = line.partition("=")
        if key not in HEADER_KEYS:
            raise UnsupportedModelError(
                f"a header line must begin with one of {', '.join(sorted(HEADER_KEYS))}, got "
                f"{key[:80]!r}, whose meaning is not known."
            )
        if key in header:
            raise FileFormatError(f"`{key}` must stand once in the header, got it twice.")
        header[key] = value
    return header


def decoded(data: bytes) -> str:
    """Return text, or raise FileFormatError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"a LightGBM model text must be UTF-8, got {error}.") from error


def _trees(data: bytes, start: int, header: dict[str, str]) -> tuple[list[dict[str, bytes]], int]:
    """Cut the trees, and return where they end; they begin after the newlines at `start`."""
    if "tree_sizes" not in header:
        raise FileFormatError("the header must hold `tree_sizes`, got none.")
    start += 2
    sizes = integers([header["tree_sizes"].encode()], "tree_sizes")
    while data[start : start + 1] == b"\n":  # a model without trees has one newline more
        start += 1
    if sizes.size and (int(sizes.min()) < 1 or int(sizes.max()) > len(data)):
        raise FileFormatError(f"`tree_sizes` must lie in 1 ... {len(data)}, got other sizes.")
    trees, end = [], start
    for index, size in enumerate(sizes.tolist()):
        if not data.startswith(b"Tree=%d\n" % index, start):
            raise FileFormatError(
                f"tree {index} must begin with `Tree={index}` where `tree_sizes` says: the text is "
                "truncated or was edited."
            )
        end = data.find(b"\n\n", start)
        if end < 0:
            raise FileFormatError(f"tree {index} must end with an empty line: it is truncated.")
        trees.append(_tree(data[start:end], index))
        start += size
    return trees, end


def _tree(block: bytes, index: int) -> dict[str, bytes]:
    lines = block.split(b"\n")[1:]
    tree = {}
    for line in lines:
        key, equals, value = line.partition(b"=")
        if not equals:
            raise FileFormatError(f"tree {index}: a line must be `key=values`, got {line[:40]!r}.")
        tree[decoded(key)] = value
    if len(tree) < len(lines):
        raise FileFormatError(f"tree {index}: a key must stand once, got one twice.")
    return tree


def _tail(data: bytes, version: str) -> tuple[tuple[str, ...], list[Any] | None]:
    """Read what follows the trees: importances, parameters, and pandas' categories."""
    lines = [line.strip() for line in decoded(data).split("\n")]
    lines = [line for line in lines if line]
    # LightGBM 2.0 to 2.2 did not mark the end of the trees; `tree_sizes` gave it away already.
    if version != "v2" and lines[:1] != ["end of trees"]:
        got = lines[0][:40] if lines else "the end of the text"
        raise FileFormatError(f"the trees must be followed by `end of trees`, got {got!r}.")
    parameters: list[str] = []
    if "parameters:" in lines:
        first = lines.index("parameters:") + 1
        if "end of parameters" not in lines[first:]:
            raise FileFormatError(
                "`parameters:` must be closed by `end of parameters`: the text is truncated."
            )
        parameters = lines[first : lines.index("end of parameters", first)]
    last = lines[-1] if lines else ""
    if not last.startswith("pandas_categorical:"):
        return tuple(parameters), None
    try:
        books = json.loads(last.partition(":")[2])
    except (ValueError, RecursionError) as error:
        raise FileFormatError("`pandas_categorical` must be JSON: it is truncated.") from error
    if books is not None and not isinstance(books, list):
        raise FileFormatError("`pandas_categorical` must be a list, got another JSON value.")
    return tuple(parameters), books


def integers(lines: list[bytes], name: str) -> Int64[Array, " n"]:
    """Return the integers of some lines, one after the other."""
    return _numbers(lines, name, np.int64, b"0123456789- ")


def floats(lines: list[bytes], name: str) -> Float64[Array, " n"]:
    """Return the numbers of some lines, one after the other, each rounded to nearest."""
    return _numbers(lines, name, np.float64, b"0123456789+-.eE nif")


def _numbers(lines: list[bytes], name: str, dtype: type, alphabet: bytes) -> Array:
    joined = b" ".join(line for line in lines if line)
    if not joined:
        return np.zeros(0, dtype)
    good = not joined.translate(None, alphabet) and b"  " not in joined and b"- " not in joined
    values: Array | None = None
    if good and not joined.endswith(b"-"):
        try:
            with warnings.catch_warnings():  # before 2.3 NumPy only warned of a bad end
                warnings.simplefilter("error", DeprecationWarning)
                values = np.fromstring(joined, dtype, sep=" ")
        except (ValueError, DeprecationWarning):
            values = None
    if values is None or values.size != joined.count(b" ") + 1:
        raise FileFormatError(f"`{name}` must hold numbers with one blank between, got others.")
    return values


def one_each(
    trees: list[dict[str, bytes]], key: str, default: bytes | None = None
) -> Int64[Array, " n_trees"]:
    """Return the one integer that each tree holds under `key`, or `default`."""
    lines = [tree.get(key, default) for tree in trees]
    if any(not line or b" " in line for line in lines):
        raise FileFormatError(f"each tree must hold one `{key}`, got none or several.")
    return integers([line for line in lines if line], key)


def per_tree(
    trees: list[dict[str, bytes]], key: str, count: Array, *, optional: bool = False
) -> list[bytes]:
    """Return one line per tree, each with as many values as `count` says.

    An optional line that is missing counts as zeros.
    """
    lines = []
    for index, (tree, size) in enumerate(zip(trees, count.tolist(), strict=True)):
        line = tree.get(key, b"")
        if optional and not line:
            line = b" ".join([b"0"] * size)
        got = line.count(b" ") + 1 if line else 0
        if got != size:
            raise FileFormatError(f"tree {index}: `{key}` must have {size} values, got {got}.")
        lines.append(line)
    return lines


def integer(header: dict[str, str], name: str) -> int:
    """Return a header value that must be a whole number of at most nine digits."""
    text = header.get(name)
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise FileFormatError(
            f"the header must hold `{name}` with a whole number, got {(text or '')[:40]!r}."
        )
    return int(text)

"""What a model file begins with: its format is told by its content, whatever its name is."""

from __future__ import annotations

import re
import struct
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from bitvec.errors import InputError

_HEAD: Final = 4096
_UBJSON_LENGTHS: Final = b"iUIulmLM"
_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"([^"\\]{0,64})"')


@dataclass(frozen=True)
class Content:
    """The beginning of a file, or a directory: all that is read of it in order to recognise it."""

    path: Path
    head: bytes

    @classmethod
    def of(cls, path: Path) -> Content:
        """Read the beginning of a file.

        Raises
        ------
        InputError
            If there is no such file or it is empty.
        """
        try:
            is_directory, is_file = path.is_dir(), path.is_file()
        except (OSError, ValueError):  # no name that a file can have, a text perhaps
            is_directory = is_file = False
        if is_directory:
            return cls(path, b"")
        if not is_file:
            raise InputError(f"a model file must exist, got {str(path)[:200]!r}, which is none.")
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
        if not head:
            raise InputError(f"a model file must not be empty, got {path}.")
        return cls(path, head)

    @cached_property
    def members(self) -> frozenset[str]:
        """Names in a zip archive; none if the file is no such archive."""
        if not self.head.startswith(b"PK\x03\x04"):
            return frozenset()
        try:
            with zipfile.ZipFile(self.path) as archive:
                return frozenset(archive.namelist())
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return frozenset()

    @cached_property
    def first_key(self) -> str | None:
        """The first key of a JSON object; None if the file does not begin with one."""
        match = _FIRST_KEY.match(self.head)
        return None if match is None else match[1].decode("latin-1")

    def holds(self, *texts: bytes) -> bool:
        """Return whether each text stands somewhere in the file."""
        data = self.path.read_bytes()
        return all(text in data for text in texts)


def is_forest(content: Content) -> bool:
    """safetensors: the length of a JSON header in 8 bytes, then the header."""
    return len(content.head) > 8 and content.head[8:9] == b"{" and content.head[7:8] == b"\0"


def is_skops(content: Content) -> bool:
    """A zip archive with a schema."""
    return "schema.json" in content.members


def is_xgboost(content: Content) -> bool:
    """JSON or UBJSON with a `learner`, or the binary format of old versions."""
    if _is_ubjson(content.head) or is_xgboost_binary(content.head):
        return True
    if content.first_key in ("learner", "version"):
        return True
    return content.first_key is not None and content.holds(b'"learner"', b'"gradient_booster"')


def _is_ubjson(head: bytes) -> bool:
    return len(head) > 1 and head[:1] == b"{" and head[1] in _UBJSON_LENGTHS + b"$#"


def is_xgboost_binary(head: bytes) -> bool:
    """The magic word, or 136 bytes of parameters, a length and the name of an objective."""
    if head.startswith(b"binf"):
        return True
    if len(head) <= 144:
        return False
    (size,) = struct.unpack_from("<Q", head, 136)
    name = head[144 : 144 + size]
    return 0 < size <= 64 and len(name) == size and name.isascii() and b":" in name


def is_lightgbm(content: Content) -> bool:
    """The word tree on the first line, or in the oldest files gbdt."""
    return re.match(rb"\s*(tree|gbdt)\r?\n", content.head) is not None


def is_catboost(content: Content) -> bool:
    """The library's own binary format, or JSON with features and trees."""
    if content.head.startswith(b"CBM1"):
        return True
    return content.first_key is not None and content.holds(b'"features_info"', b'rees"')


def is_ydf(content: Content) -> bool:
    """A directory with a header and a data specification."""
    return all((content.path / name).is_file() for name in ("header.pb", "data_spec.pb"))


def is_treelite(content: Content) -> bool:
    """Three version numbers in 4 bytes each, the first of them 3 or 4, then two type codes."""
    if len(content.head) < 14:
        return False
    major, minor, patch = struct.unpack_from("<iii", content.head)
    codes = content.head[12], content.head[13]
    return major in (3, 4) and 0 <= minor < 100 and 0 <= patch < 100 and max(codes) <= 3


def is_onnx(content: Content) -> bool:
    """A protobuf message whose first field is a small number, the version of the format."""
    return len(content.head) > 2 and content.head[0] == 0x08 and 0 < content.head[1] < 0x40


def is_pickle(content: Content) -> bool:
    """A pickle of any protocol, also within a zip archive or as joblib and torch write it."""
    head = content.head
    if head[:1] == b"\x80" and len(head) > 1 and head[1] <= 5:
        return True
    if any(name.endswith(".pkl") for name in content.members):
        return True
    return re.match(rb"(\(dp|\(lp|\(i|c)[\w.]+\n", head) is not None


def is_compressed(content: Content) -> bool:
    """gzip, bzip2, xz, zlib (joblib's own choice) or zstandard."""
    head = content.head
    zlib = head[:1] == b"x" and len(head) > 1 and int.from_bytes(head[:2]) % 31 == 0
    return zlib or head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"))


def is_lightgbm_dump(content: Content) -> bool:
    """The JSON of LightGBM's dump_model, which rounds nothing but is no model file."""
    return content.first_key is not None and content.holds(b'"tree_info"', b'"max_feature_idx"')

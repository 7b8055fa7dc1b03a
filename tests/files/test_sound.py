"""The border of readers: what damage raises is one sentence, and what is no damage passes."""

from __future__ import annotations

import errno
import io
import json
import tokenize
import zipfile
from pathlib import Path

import numpy as np
import pytest

import bitvec
from bitvec.core.inputs import MAX_FEATURES, Inputs
from bitvec.errors import FileFormatError, InputError, InvalidForestError
from bitvec.files.sound import sound
from bitvec.runtime.predict import datafiles


class PanicException(BaseException):
    """The class that libraries in Rust raise where they stop."""


DAMAGE = [
    KeyError("trees"),
    TypeError("startswith first arg must be bytes"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    tokenize.TokenError("EOF in multi-line statement", (2, 0)),
    RecursionError("too deep. Really"),
    OSError(errno.EINVAL, "Invalid argument"),
    OSError("a message\nof two lines"),
    PanicException("index out of bounds"),
    Exception(),
]


@pytest.mark.parametrize("raised", DAMAGE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", [FileFormatError, InputError])
def test_whatever_damage_raises_is_one_sentence(raised, kind):
    said = r"^a\.model must be whole, got a damaged one"
    with pytest.raises(kind, match=said) as caught, sound("a.model", "be whole", error=kind):
        raise raised
    assert caught.value.__cause__ is raised
    assert str(caught.value).isprintable()
    assert ". " not in str(caught.value)


@pytest.mark.parametrize(
    "raised",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        MemoryError(),
        ImportError("no such library"),
        FileNotFoundError("a.model must be there"),
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EIO, "Input/output error"),
        InputError("said on purpose."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_damage_passes(raised):
    with pytest.raises(type(raised)) as caught, sound("a.model", "be whole"):
        raise raised
    assert caught.value is raised


def test_a_sentence_shows_what_it_quotes_of_a_file():
    with pytest.raises(InputError) as caught, sound("a.model", "be whole"):
        raise InputError(f"it must be x, got {chr(7)}\n{'y' * 70_000}.")
    assert str(caught.value).isprintable()
    assert r"\x07\n" in str(caught.value)
    assert len(str(caught.value)) < 3000


def test_a_small_skops_file_of_many_objects_is_refused_before_they_are_made(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    for content in ("[" + "{}," * 20_000_000 + "{}]", '["' + '","' * 10_000_000 + '"]'):
        schema = json.dumps({**node, "protocol": 2, "content": "HERE"}).replace('"HERE"', content)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("schema.json", schema)
        assert path.stat().st_size < 300_000
        with pytest.raises(FileFormatError, match="must unpack to at most"):
            bitvec.convert(path)


def test_a_skops_part_at_a_negative_offset_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("schema.json", "{}" * 100)
    content = bytearray(file.getvalue())
    end = content.rindex(b"PK\x05\x06")
    content[end + 16 : end + 20] = (2**31).to_bytes(4, "little")  # where the directory begins
    (tmp_path / "model.skops").write_bytes(content)
    with pytest.raises(FileFormatError):
        bitvec.convert(tmp_path / "model.skops")


def test_more_columns_than_a_row_can_be_made_of_are_refused():
    assert Inputs(MAX_FEATURES).n_features == MAX_FEATURES
    for n_features in (MAX_FEATURES + 1, 2**31, 2**62):
        with pytest.raises(InvalidForestError, match="`n_features` must be at most"):
            Inputs(n_features)


def test_a_parquet_file_that_unpacks_to_far_more_is_refused_unless_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "rows.parquet"
    polars.DataFrame({"a": np.zeros(20_000_000)}).write_parquet(path)
    assert path.stat().st_size < 200_000
    with pytest.raises(InputError, match=r"at most 16777216 cells, .*BITVEC_MAX_CELLS"):
        datafiles.read(path)
    monkeypatch.setenv("BITVEC_MAX_CELLS", "20000000")
    assert len(datafiles.read(path)) == 20_000_000

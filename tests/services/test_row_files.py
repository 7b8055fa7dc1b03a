"""Files of answers: what is written reads back, whole or not at all, in every format."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitvec.core.inputs import Inputs
from bitvec.errors import InputError, MissingLibraryError
from bitvec.runtime.predict import text_cells
from bitvec.runtime.predict.datafiles import read
from bitvec.services import answer_files, row_files


def write(path: Path, columns: Mapping[str, Any]) -> Path:
    answer_files.save(path, [columns])
    return path


def test_a_written_float_reads_back_bit_for_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 500, dtype=np.uint64, endpoint=False)
    values = bits.view(np.float64)
    values = np.where(np.isnan(values), -0.0, values)
    path = write(tmp_path / "rows.csv", {"x": values, "y": values[::-1]})
    got = read(path).data.to_numpy()
    assert got[:, 0].tobytes() == values.tobytes()
    assert got[:, 1].tobytes() == values[::-1].tobytes()


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=30))
def test_float32_text_is_the_shortest_that_reads_back(values: list[float]) -> None:
    column = np.array(values, np.float32)
    stream = io.BytesIO()
    answer_files.write(stream, ".csv", [{"x": column}])
    cells = stream.getvalue().decode().splitlines()[1:]
    assert np.array([float(c) for c in cells]).astype(np.float32).tobytes() == column.tobytes()


def test_write_npy_holds_a_vector_or_a_matrix(tmp_path: Path) -> None:
    column = np.array([1, 2, 3])
    assert np.load(write(tmp_path / "a.npy", {"p": column})).shape == (3,)
    assert np.load(write(tmp_path / "b.npy", {"p": column, "q": column})).shape == (3, 2)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", {"a": np.array([1, 2])})
    before = path.read_bytes()

    class Interrupts:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, part: slice) -> list[int]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, {"a": Interrupts()})  # type: ignore[dict-item]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    write(tmp_path / "link.csv", {"a": np.array([1, 2])})
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "rows.csv").read_text() == "a\n1\n2\n"


def test_a_path_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "rows.csv", tmp_path):
        target = path if path.suffix else path / "dir.csv"
        if target.parent == tmp_path:
            target.mkdir()
        with pytest.raises(OSError, match="must be a file that can be written, got: "):
            write(target, {"a": np.zeros(1)})
    with pytest.raises(InputError, match="must end in one of"):
        write(tmp_path / "rows.xlsx", {"a": np.zeros(1)})


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is full")
@pytest.mark.parametrize("suffix", row_files.SUFFIXES)
def test_a_link_to_a_device_is_refused_and_the_device_stays(tmp_path: Path, suffix: str) -> None:
    link = tmp_path / f"link{suffix}"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="a directory or a device"):
        write(link, {"a": np.zeros(3)})
    assert link.is_symlink()
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("suffix", row_files.SUFFIXES)
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    values = np.random.default_rng(0).random(50_000)  # that no format makes small
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="must be a file that can be written, got: ") as caught:
            write(tmp_path / f"rows{suffix}", {"a": values})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_a_table_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    says = r'run `pip install "bitvec-trees\[data\]'
    for suffix in (".parquet", ".arrow"):
        with pytest.raises(MissingLibraryError, match=says):
            write(tmp_path / f"out{suffix}", {"a": np.zeros(2)})
    assert list(tmp_path.iterdir()) == []


def test_a_text_file_in_many_parts_holds_what_it_would_in_one(tmp_path, monkeypatch):
    lines = [f"{at},{at}.0,{'a' if at % 3 else 'b'},{at},{at}" for at in range(300)]
    lines.append("0.5,1,,007,9")  # what the last cells are, whole columns are
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["x,y,colour,key,id", *lines]))
    pl, categories = pytest.importorskip("polars"), (None, None, ("a", "b"))
    inputs = Inputs(3, feature_names=("x", "y", "colour"), categories=categories)
    [whole] = row_files.batches(path, inputs, keep=["key", "id"])
    monkeypatch.setattr(text_cells, "BLOCK", 256)
    parts = [*row_files.batches(path, inputs, keep=["key", "id"])]
    assert len(parts) > 5
    assert pl.concat(parts).equals(whole)
    assert all(part.schema == whole.schema for part in parts)
    assert whole["x"][:2].to_list() == [0.0, 1.0]
    assert whole["key"][-2:].to_list() == ["299", "007"]
    assert whole["id"].dtype == pl.Int64


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_names_in_quotes_leave_the_rows_to_the_fast_way(tmp_path, monkeypatch, end):
    path = tmp_path / "rows.csv"
    path.write_bytes(end.join(['\ufeff"x","the ""y"", once"', "1,2.5", "3,4", ""]).encode())
    monkeypatch.setattr(text_cells, "CELLS", None)  # which the slow way would need
    table = read(path)
    assert table.names == ("x", 'the "y", once')
    assert table.data.to_numpy().tolist() == [[1.0, 2.5], [3.0, 4.0]]


def test_a_name_over_two_lines_is_read_in_the_slow_way(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('"x\nin metres",y\n1,2\n')
    table = read(path)
    assert table.names == ("x\nin metres", "y")
    assert table.data.to_numpy().tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_file_of_names_alone_has_no_rows(tmp_path, suffix):
    """As parts of a folder may be: they are answered by none."""
    path = tmp_path / f"part{suffix}"
    path.write_text("a,b\n".replace(",", "\t" if suffix == ".tsv" else ","))
    inputs = Inputs(2, ("a", "b"), categories=(None, ("red", "blue")))
    (part,) = row_files.batches(path, inputs)
    assert part.shape == (0, 2)
    assert [str(dtype) for dtype in part.dtypes] == ["Float64", "String"]
    with pytest.raises(InputError, match="a header only"):
        read(path)

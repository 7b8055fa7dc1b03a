"""Files of rows: blocks are read as the csv module reads them, damage is told."""

from __future__ import annotations

import csv
import io
import sys
import warnings
from itertools import chain
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bitvec.core.city_hash import category_hash
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError, MissingLibraryError
from bitvec.runtime.predict import text_cells, textfiles
from bitvec.runtime.predict.datafiles import read
from bitvec.runtime.predict.tables import rows
from bitvec.runtime.predict.textfiles import MISSING


def matrix(path: Path, names: tuple[str, ...] | None = None) -> np.ndarray:
    """Return a file's rows as a predictor of the columns `names` would read them."""
    table = read(path)
    names = names or table.names
    inputs = Inputs(table.data.shape[1] if names is None else len(names), names)
    return rows(table.data, inputs, np.dtype(np.float64))


def put(tmp_path: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_header_row_names_the_columns(tmp_path: Path) -> None:
    table = read(put(tmp_path, "a,b c\n1,2.5\n3,-4e-3\n"))
    assert table.names == ("a", "b c")
    assert len(table) == 2
    assert matrix(tmp_path / "rows.csv").tolist() == [[1, 2.5], [3, -0.004]]


def test_a_first_row_with_a_number_is_a_row(tmp_path: Path) -> None:
    table = read(put(tmp_path, "1,2\n3,4\n"))
    assert table.names is None
    assert table.data.tolist() == [[1, 2], [3, 4]]


def test_the_caller_may_say_whether_there_is_a_header(tmp_path: Path) -> None:
    path = put(tmp_path, "0,1,2\n5,6,7\n")
    with pytest.raises(InputError, match="may be names or values"):
        read(path)
    assert read(path, header=True).names == ("0", "1", "2")
    assert read(path, header=False).data.tolist() == [[0, 1, 2], [5, 6, 7]]


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "null"])
def test_each_spelling_of_missing_is_nan(tmp_path: Path, cell: str) -> None:
    got = matrix(put(tmp_path, f"a,b\n1,{cell}\n{cell},2\n"))
    assert np.array_equal(got, [[1, np.nan], [np.nan, 2]], equal_nan=True)


def test_an_empty_column_is_all_nan(tmp_path: Path) -> None:
    got = matrix(put(tmp_path, "a,b\n,1\n,2\n"))
    assert np.array_equal(got, [[np.nan, 1], [np.nan, 2]], equal_nan=True)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\r\n1,2\r\n3,4\r\n",
        "\ufeffa,b\n1,2\n3,4\n",
        "a,b\n1,2\n3,4",
        "a,b\n1,2\n3,4\n\n\n",
        'a,b\n"1","2"\n3,4\n',
        "a,b\n 1, 2\n3 ,4\n",
        "a,b\n1e0,+2\n3.,4\n",
        "a,b\r1,2\r3,4\r",
        "\ufeffa,b\r1,2\r3,4",
        "a,b\r1,2\n3,4\n",
        'a,"b"\r1,2\n3,4\n',
    ],
    ids=[
        "crlf",
        "bom",
        "no last newline",
        "blank lines at the end",
        "quotes",
        "spaces",
        "forms",
        "cr",
        "cr and bom",
        "several ends",
        "several ends and quotes",
    ],
)
def test_ways_to_write_a_table_read_the_same(tmp_path: Path, text: str) -> None:
    assert matrix(put(tmp_path, text)).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "whole", [2**63, 2**64 - 1, -(2**63) - 1, 2**64, 2**100 + 1, 10**60, 10**400]
)
@pytest.mark.parametrize("head", ["a,b\n", "0.5,1\n"])
def test_whole_numbers_of_any_size_are_read(tmp_path: Path, whole: int, head: str) -> None:
    got = matrix(put(tmp_path, f"{head}{whole},2\n-1,4\n"))
    assert got[-2:].tolist() == [[float(str(whole)), 2], [-1, 4]]


def test_what_a_column_of_numbers_must_not_hold_is_named(tmp_path: Path) -> None:
    inputs = Inputs(2, ("a", "b"))
    rows = {" 1 ,2\nred,3\n": "red", " 1 ,2\n0x10,3\n": "0x10", "1_000,2\n3,4\n": "1_000"}
    for text, culprit in rows.items():
        path = put(tmp_path, f"a,b\n{text}")
        for known in (inputs, Inputs(2)):
            with pytest.raises(InputError, match=rf"column 'a' must hold numbers, got '{culprit}'"):
                read(path, inputs=known)


def test_categories_that_look_like_dates_or_hexadecimals_stay_text(tmp_path: Path) -> None:
    path = put(tmp_path, "day,code,size\n2020-01-01,0x10,1\n2020-01-02,0x11,2\n")
    table = read(path)
    assert table.split("day")[1].tolist() == ["2020-01-01", "2020-01-02"]
    assert table.split("code")[1].tolist() == ["0x10", "0x11"]


# ---- names that are numbers


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("2019", "2020"), "2019,2020"),
        (("2019", "2020"), "2020,2019"),
        (("2019", "2020"), "2020,7,2019"),
        (("0", "1"), "y,1,0"),
        (("a", "1"), "1,a"),
        (("0.5", "1.5"), "1.5,0.5"),
    ],
)
def test_a_first_row_with_the_forests_names_is_the_header(
    tmp_path: Path, names: tuple[str, ...], first: str
) -> None:
    header = first.split(",")
    path = put(tmp_path, f"{first}\n{','.join(str(4 + at) for at in range(len(header)))}\n")
    table = read(path, inputs=Inputs(len(names), names))
    assert table.names == tuple(header)
    assert len(table) == 1


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("0", "1", "2"), "2,1,0"),
        (("0", "1", "2"), "0,1,2"),
        (("1", "2"), "2,1"),
        (("0", "1"), "1,0,2"),  # a third column: a target, named or not
        (("0", "1"), "1,0,17"),
        (("0",), "0"),
        (("2019", "2020"), "2018,2019"),
        (("2019", "2020"), "2017,2018"),
        (("a", "7"), "3,7"),
    ],
)
def test_a_first_row_that_may_be_names_or_values_is_refused(
    tmp_path: Path, names: tuple[str, ...], first: str
) -> None:
    path = put(tmp_path, f"{first}\n{first}\n")
    inputs = Inputs(len(names), names)
    with pytest.raises(InputError, match=r"may be names or values.*--header or --no-header"):
        read(path, inputs=inputs)
    assert read(path, inputs=inputs, header=False).names is None
    assert read(path, inputs=inputs, header=True).names == tuple(first.split(","))


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("0", "1", "2"), "5.1,3.5,1.4"),
        (("0", "1", "2"), "5,5,1"),
        (("a", "b", "c"), "5,3,1"),
        (None, "2019,2020,2021"),
    ],
)
def test_a_first_row_that_can_be_values_only_is_a_row(
    tmp_path: Path, names: tuple[str, ...] | None, first: str
) -> None:
    table = read(put(tmp_path, f"{first}\n4,4,4\n"), inputs=Inputs(3, names))
    assert table.names is None
    assert len(table) == 2


def test_tabs_separate_the_cells_of_tsv(tmp_path: Path) -> None:
    assert matrix(put(tmp_path, "a\tb\n1\t2\n", "rows.tsv")).tolist() == [[1, 2]]


def test_infinities_read_in_any_spelling(tmp_path: Path) -> None:
    got = matrix(put(tmp_path, "a,b\ninf,-Infinity\n-inf,1\n"))
    assert got.tolist() == [[np.inf, -np.inf], [-np.inf, 1]]


@given(st.lists(st.text("0123456789.eE+-_ \txdinfatyNA١", max_size=24) | st.floats().map(str)))
def test_a_cell_is_the_number_that_python_reads(cells: list[str]) -> None:
    numbers = [float(cell) if textfiles.is_number(cell) else None for cell in cells]
    series = polars.Series(cells, dtype=polars.String)
    assert str(textfiles._numbers(series, polars.Float64).to_list()) == str(numbers)


def read_in_blocks(path: Path, size: int, width: int) -> list[str] | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_cells, "BLOCK", size)
        patch.setattr(text_cells, "CELLS", size)
        try:
            found = text_cells.blocks(path, ",", width, header=False)
            blocks = [block.cells for block in found]
        except InputError as error:
            return str(error)
    assert all(len(block) % width == 0 for block in blocks)
    return [cell for block in blocks for cell in block]


@given(
    st.lists(st.lists(st.text('a0 ",\n', max_size=3), min_size=2, max_size=2), min_size=1),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 40),
)
def test_rows_in_blocks_of_any_size_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], end: str, size: int
) -> None:
    assume(end != "\r" or not any("\n" in cell for cell in chain.from_iterable(lines)))
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end).writerows(lines)
    path = put(tmp_path_factory.mktemp("blocks"), stream.getvalue())
    assert read_in_blocks(path, size, 2) == list(chain.from_iterable(lines))


CELLS = st.text("0123456789.+-eE", max_size=5) | st.floats().map(repr) | st.integers().map(str)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1), st.integers(1, 60))
def test_blocks_of_numbers_are_read_at_once_as_they_are_cell_by_cell(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], size: int
) -> None:
    path = put(tmp_path_factory.mktemp("blocks"), "a,b,c\n" + "".join(map(line_of, lines)))
    found = []
    for at_once in (text_cells.NumberBlock.columns, text_cells.Block.columns):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_cells, "BLOCK", size)
            patch.setattr(text_cells.NumberBlock, "columns", at_once)
            found += [read(path, header=True, text=text).data for text in ({}, {"b": ()})]
    for fast, slow in zip(found[:2], found[2:], strict=True):
        assert fast.schema == slow.schema
        assert fast.equals(slow)
        assert str(fast.rows()) == str(slow.rows())  # -0.0 too


def line_of(cells: list[str]) -> str:
    return ",".join(cells) + "\n"


@given(st.text('a,\n"\0', max_size=30), st.integers(1, 40), st.integers(1, 3))
def test_damage_is_told_alike_in_blocks_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, width: int
) -> None:
    path = put(tmp_path_factory.mktemp("blocks"), text)
    with path.open("rb") as stream:
        try:
            rows = list(chain.from_iterable(text_cells.rows_of(path, stream, ",", 0, width)))
        except InputError as error:
            rows = str(error)
    assert read_in_blocks(path, size, width) == rows


def test_text_columns_stay_text_beside_numbers(tmp_path: Path) -> None:
    table = read(put(tmp_path, "colour,size\nred,1\nblue,2\n"))
    rest, colours = table.split("colour")
    assert colours.tolist() == ["red", "blue"]
    assert rest.names == ("size",)


def test_named_text_columns_keep_categories_that_look_like_numbers(tmp_path: Path) -> None:
    path = put(tmp_path, "code,size\n01,1\n2,2\n")
    assert read(path, text={"code": (), "not there": ()}).split("code")[1].tolist() == ["01", "2"]
    assert read(path).split("code")[1].tolist() == [1, 2]


@pytest.mark.parametrize("cells", [("True", "False"), ("true", "FALSE"), ("TRUE", "false")])
def test_truth_values_may_be_spelled_as_libraries_write_them(
    tmp_path: Path, cells: tuple[str, str]
) -> None:
    path = put(tmp_path, "".join(["flag,size\n", *(f"{cell},1\n" for cell in (*cells, "NA"))]))
    table = read(path)
    np.testing.assert_array_equal(
        rows(table.data, Inputs(2), np.dtype(np.float32))[:, 0], [1, 0, np.nan]
    )
    path = put(tmp_path, "".join(["flag,size\n", *(f"{cell},1\n" for cell in cells)]))
    assert read(path).split("flag")[1].tolist() == [True, False]
    named = Inputs(2, ("flag", "size"), (("True", "False"), None))
    labels = {"True": 0.0, "False": 1.0}
    assert [row[0] for row in codes(path, named)] == [labels.get(cell, -1.0) for cell in cells]


CELLS = ["", "NA", "nan", "NaN", "null", "1", "01", "true", "red", " NA", "nil"]


def codes(path: Path, inputs: Inputs) -> list[list[float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unseen categories
        table = read(path, inputs=inputs)
        got = rows(table.data, inputs, np.dtype(np.float32))
    return [[str(x) if x != x else x for x in row] for row in got.tolist()]


@pytest.mark.parametrize("names", [("size", "colour"), None])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "book",
    [
        ("red", "", "NA", "nan"),
        ("nan", "NaN"),
        ("", "1"),
        ("null",),
        ("red", "green"),
        ("true", "false"),
        ("01", "1", "NA"),
    ],
)
def test_a_cell_is_missing_only_where_no_category_is_just_that_text(
    tmp_path: Path, names: tuple[str, ...] | None, end: str, book: tuple[str, ...]
) -> None:
    """Also in the first column of numbers, where the same cells are missing as ever."""
    known = {label: float(code) for code, label in enumerate(book)}
    wanted = [known.get(cell, "nan" if cell in MISSING else -1.0) for cell in CELLS]
    lines = ["size,colour", *(f"{k},{cell}" for k, cell in enumerate(CELLS)), "NA,red", ",nil"]
    path = put(tmp_path, end.join([*lines, ""]))
    inputs = Inputs(2, feature_names=names, categories=(None, book))
    last = [["nan", known.get("red", -1.0)], ["nan", -1.0]]
    assert codes(path, inputs) == [[float(k), x] for k, x in enumerate(wanted)] + last


@pytest.mark.parametrize("cells", [["nan", "nan"], ["NA", "1"], ["true", "true"], ["7", "8"], [""]])
def test_a_column_of_cells_that_look_otherwise_holds_categories(
    tmp_path: Path, cells: list[str]
) -> None:
    path = put(tmp_path, "\n".join(["size,colour", *(f"1,{cell}" for cell in cells), ""]))
    labels = ("x", *dict.fromkeys(cells))
    expected = [[1.0, float(labels.index(cell))] for cell in cells]
    hashes = tuple(map(category_hash, labels))
    assert codes(path, Inputs(2, ("size", "colour"), (None, labels))) == expected
    assert codes(path, Inputs(2, ("size", "colour"), (None, hashes), hashed=(1,))) == expected


def test_a_file_without_a_column_of_labels_is_read(tmp_path: Path) -> None:
    inputs = Inputs(2, ("size", "colour"), (None, ("red", "NA")))
    assert read(put(tmp_path, "size\n1\n"), inputs=inputs).names == ("size",)


def test_columns_without_names_are_counted_beside_the_target(tmp_path: Path) -> None:
    path = put(tmp_path, "colour,y,code\nNA,1,2\n,0,1\n")
    inputs = Inputs(2, categories=(("red", "NA"), ("2", "1")))
    table, y = read(path, inputs=inputs, target="y").split("y")
    assert y.tolist() == [1, 0]
    assert np.array_equal(
        rows(table.data, inputs, np.dtype(np.float64)),
        [[1, 0], [np.nan, 1]],
        equal_nan=True,
    )


def test_text_in_a_file_where_all_categories_are_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'colour' of .*0, 1, 2.*got the text 'red'"):
        codes(put(tmp_path, "colour\nred\n1\n"), Inputs(1, ("colour",), ((0, 1, 2),)))


def test_split_takes_the_target_out(tmp_path: Path) -> None:
    rest, y = read(put(tmp_path, "a,y,b\n1,0,2\n3,1,4\n")).split("y")
    assert rest.names == ("a", "b")
    assert y.tolist() == [0, 1]
    assert rest.data.shape == (2, 2)


def test_split_counts_columns_of_a_file_without_names(tmp_path: Path) -> None:
    table = read(put(tmp_path, "1,0,2\n3,1,4\n"))
    rest, y = table.split("1")
    assert rest.data.tolist() == [[1, 2], [3, 4]]
    assert y.tolist() == [0, 1]
    with pytest.raises(InputError, match="a number from 0 to 2"):
        table.split("label")


def test_a_target_must_be_there_in_each_row(tmp_path: Path) -> None:
    table = read(put(tmp_path, "a,y\n1,0\n3,\n"))
    with pytest.raises(InputError, match="each row must have a value of 'y'"):
        table.split("y")
    with pytest.raises(InputError, match="column 'z' must be in the data"):
        table.split("z")


DAMAGED = {
    "empty": (b"", "must hold rows, got an empty file"),
    "blank lines": (b"\n\n\n", "blank lines only"),
    "header only": (b"a,b\n", "a header only"),
    "too many cells": (b"a,b\n1,2\n1,2,3\n", "must have 2 cells .* got 3 in line 3"),
    "too few cells": (b"a,b\n1,2\n1\n", "must have 2 cells .* got 1 in line 3"),
    "blank line within": (b"a,b\n1,2\n\n3,4\n", "line 3 is blank"),
    "binary": (bytes(range(256)) * 4, "must be text in UTF-8"),
    "nul bytes": (b"\0" * 64, "must be text in UTF-8"),
    "a nul in a row": (b"a,b\n1,2\n3,\0\n", "must be text in UTF-8 .* got a null .* in line 3"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "must be text in UTF-8"),
    "repeated names": (b"a,b,a\n1,2,3\n", "distinct, got 'a' twice"),
    "semicolons": (b"a;b\n1;2\n", "must be separated by ',', got ';'"),
    "text without names": (b"1,2\n3,red\n", "column 1 must hold numbers, got 'red'"),
    "text among spaced numbers": (b"1,2\n3, 4 \n5,red\n", "column 1 .* got 'red'"),
    "hexadecimal": (b"1.5,2\n0x10,3\n", "column 0 must hold numbers, got '0x10'"),
    "digits in groups": (b"1.5,2\n1_000,3\n", "column 0 must hold numbers, got '1_000'"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_text_file_is_one_sentence(tmp_path: Path, damage: str) -> None:
    content, match = DAMAGED[damage]
    with pytest.raises(InputError, match=match) as caught:
        read(put(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_without_polars_text_and_parquet_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    says = (
        r'needs the library polars, which is not installed: run `pip install "bitvec-trees\[cli\]'
    )
    for name in ("rows.csv", "rows.tsv", "rows.parquet"):
        with pytest.raises(MissingLibraryError, match=says):
            read(put(tmp_path, "size,colour\n1,red\n", name))


def test_npy_reads_back_and_refuses_all_else(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    assert read(path).data.tolist() == rows.tolist()
    for bad in (np.zeros(3), np.zeros((2, 2, 2)), np.array([["a"]]), np.zeros((1, 1), complex)):
        np.save(path, bad)
        with pytest.raises(InputError, match="must hold a matrix of numbers"):
            read(path)
    np.save(path, np.array([[None]]), allow_pickle=True)
    with pytest.raises(InputError, match="must hold one array of numbers"):
        read(path)
    path.write_bytes(b"\x93NUMPY garbage")
    with pytest.raises(InputError, match="must hold one array of numbers"):
        read(path)


def test_an_npy_header_that_claims_terabytes_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)
    with pytest.raises(InputError, match="must hold one array of numbers"):
        read(path)


def test_parquet_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    polars.DataFrame({"a": [1.5, np.nan], "b": [3, 4]}).write_parquet(path)
    assert np.array_equal(matrix(path), [[1.5, 3], [np.nan, 4]], equal_nan=True)
    put(tmp_path, b"no parquet at all", "rows.parquet")
    with pytest.raises(InputError, match="must be a parquet file"):
        read(path)


def test_a_path_that_no_file_can_have_is_one_sentence(tmp_path: Path) -> None:
    for path in ("", "a\0.csv"):
        with pytest.raises((InputError, OSError), match=r"an empty path|null character") as caught:
            read(path)
        assert "\n" not in str(caught.value)
        assert "\0" not in str(caught.value)


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("rows.npz", "rows.pkl", "rows", "rows.xlsx"):
        with pytest.raises(InputError, match="must end in one of"):
            read(put(tmp_path, b"x", name))
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.csv")

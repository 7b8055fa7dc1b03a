"""Rows in text files: .csv and .tsv, with or without a header row.

A header row is one in which no cell is a number, or one that holds the names of all columns that
are wanted. Where names are numbers, so that they may as well be values, the caller has to say which
(`_is_header`). Cells that are empty or one of `MISSING` are missing, unless the column has a
category of just that text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError, needs
from bitvec.runtime.predict import text_cells
from bitvec.runtime.predict.code_books import CodeBook, Hashes, book_of

if TYPE_CHECKING:
    import polars

    Blocks: TypeAlias = Callable[[], Iterable[text_cells.Block | text_cells.NumberBlock]]

SEPARATORS = {".csv": ",", ".tsv": "\t"}

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Cells of a text file that stand for a missing value."""
TRUTHS = dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
"""Cells of a column of truth values."""

Rows: TypeAlias = tuple[Any, tuple[str, ...] | None]
"""A dataframe, or a float64 matrix; and the names of its columns, if it has names."""


def require_polars(purpose: str) -> Any:
    """Return polars.

    Raises
    ------
    MissingLibraryError
    """
    with needs("polars", "cli", purpose):
        import polars
    return polars


def read_text(
    path: Path,
    header: bool | None,
    inputs: Inputs | None,
    text: Mapping[str, Collection[str]],
    target: str | None,
) -> Rows:
    """Return the rows of a .csv or .tsv file; see `bitvec.runtime.predict.datafiles.read`."""
    polars = require_polars(f"Reading {path}")
    tables, names = text_tables(path, header, inputs, text, target)
    parts = list(tables())
    return (np.concatenate(parts) if names is None else polars.concat(parts)), names


def text_tables(
    path: Path,
    header: bool | None,
    inputs: Inputs | None,
    text: Mapping[str, Collection[str]],
    target: str | None,
    *,
    verbatim: Collection[str] = (),
    may_be_empty: bool = False,
) -> tuple[Callable[[], Iterator[Any]], tuple[str, ...] | None]:
    """Return what gives the rows of a .csv or .tsv file in parts, and the names of its columns.

    The file has been read once, in bounded memory, for what its columns hold; each call reads it
    again, a part at a time: dataframes, or float64 matrices where there are no names. Cells of
    `text` stay text, null where missing unless they are named; those of `verbatim` too, null where
    empty alone.
    """
    polars = require_polars(f"Reading {path}")
    separator = SEPARATORS[path.suffix.lower()]
    first = text_cells.first_row(path, separator)
    if header is None:
        header = _is_header(path, first, None if inputs is None else inputs.feature_names)
    if header and len(set(first)) < len(first):
        twice = next(name for name in first if first.count(name) > 1)
        raise InputError(f"{path}: column names must be distinct, got {twice!r} twice.")
    names = tuple(first) if header else None
    columns = names or tuple(map(str, range(len(first))))
    blocks: Blocks = partial(text_cells.blocks, path, separator, len(first), header)
    held = list(islice(blocks(), 2))
    if not held and not may_be_empty:
        raise InputError(f"{path} must hold rows, got a header only.")
    if len(held) == 1:  # else each pass splits the file again, in bounded memory
        blocks = partial(iter, held)
    if names is None and inputs is not None and inputs.category_hashes:
        raise InputError(
            f"{path}: a file with categories that are known by hashes of texts must have a first "
            "row of names, got none: add one."
        )
    books = _books(inputs, None if names is None else tuple(n for n in names if n != target))
    labels = {n for n in columns if (book := books.get(n)) and _needs_text(book)}
    wanted = (inputs.feature_names or ()) if inputs is not None else ()
    dropped = {n for at, n in enumerate(wanted) if inputs is not None and inputs.is_dropped(at)}
    if not held:  # but a header
        texts = {*(n for n, book in books.items() if book is not None), *text, *verbatim}
        schema = {n: polars.String if n in texts else polars.Float64 for n in columns}
        return lambda: iter([polars.DataFrame(schema=schema)]), names
    kinds = _kinds(blocks, len(first))
    for at, name in enumerate(columns):
        if name in verbatim:
            kinds[at] = "key"
        elif name in text or name in labels:
            kinds[at] = "text"
        elif (
            kinds[at] == "text"
            and name not in dropped
            and (names is None or books.get(name, True) is None)
        ):
            remedy = "the forest has no categories for it."
            if names is None:
                remedy = "a file with text needs a first row of names, none of which is a number."
            raise InputError(
                f"{path}: column {at if names is None else repr(name)} must hold numbers, got "
                f"{_not_a_number(blocks, at, len(first))[:40]!r}: {remedy}"
            )
    absent = {
        name: [cell for cell in MISSING if not book.holds(cell)]
        for name, book in books.items()
        if book is not None and name in labels
    } | {
        name: [cell for cell in MISSING if cell not in known]
        for name, known in text.items()
        if name in columns
    }

    def tables() -> Iterator[Any]:
        for block in blocks():
            frame = _typed(block, columns, kinds, absent)
            yield frame if names is not None else frame.cast(polars.Float64).to_numpy()

    return tables, names


# ---- names or values


def _is_header(path: Path, first: list[str], wanted: tuple[str, ...] | None) -> bool:
    """Return whether the first row holds names, where it can be told.

    A row without a number does, and so does one with each of the `wanted` names. Numbers may be
    names or values, and taking the one for the other would exchange columns in silence. So what is
    refused is: a row of the numbers from 0 or 1 up, in their order, or in any order if the wanted
    names are such numbers (they may be ranks, codes or counts); and, where wanted names are
    numbers, a row of distinct whole numbers that lacks one of those names.
    """
    if not any(map(is_number, first)):
        return True
    has_text = any(not is_number(cell) and cell not in MISSING for cell in first)
    counted = [{str(k + i) for i in range(len(first))} for k in (0, 1)]
    if wanted and set(wanted) <= set(first):
        if has_text or not any(set(wanted) <= numbers for numbers in counted):
            return True
        is_doubtful = True
    elif wanted and any(map(is_number, wanted)):
        is_doubtful = len(set(first)) == len(first) and all(map(_is_whole, first))
    else:
        in_order = [[str(k + i) for i in range(len(first))] for k in (0, 1)]
        is_doubtful = len(first) > 2 and first in in_order
    if is_doubtful:
        shown = ", ".join(first[:3]) + (", ..." if len(first) > 3 else "")
        raise InputError(
            f"{path}: the first row {shown} may be names or values: "
            "say which with header (on the command line --header or --no-header)."
        )
    return False


def _is_whole(cell: str) -> bool:
    return cell.isascii() and cell.strip().removeprefix("-").isdigit()


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, in decimal digits; 1_000 and 0x10 are text."""
    if "_" in cell or not cell.isascii():  # which Python alone allows
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


# ---- cells of text to columns


def _books(
    inputs: Inputs | None, names: tuple[str, ...] | None
) -> dict[str, CodeBook | Hashes | None]:
    """Return the code books of the columns that a forest reads, as far as they have names.

    A column without a code book holds numbers. A forest without names reads a table by position.
    """
    if inputs is None or names is None:
        return {}
    wanted = inputs.feature_names
    if wanted is None:
        wanted = names if len(names) == inputs.n_features else ()
    return {name: book_of(inputs, column) for column, name in enumerate(wanted)}


def _needs_text(book: CodeBook | Hashes) -> bool:
    """Return whether there may be a category such as "1", "nan" or "true"."""
    return (
        isinstance(book, Hashes)
        or book.hashed
        or book.decimals
        or any(map(book.holds, MISSING))
        or any(
            isinstance(label, str) and (is_number(label) or label.lower() in ("true", "false"))
            for label in book.labels
        )
    )


def _numbers(cells: polars.Series, kind: Any) -> polars.Series:
    """Return cells as numbers of a polars dtype, rounded to the nearest; null what is none."""
    return cells.str.strip_chars().cast(kind, strict=False)


def _is_text(cells: polars.Series) -> polars.Series:
    import polars

    return _is_given(cells) & _numbers(cells, polars.Float64).is_null()


def _is_given(cells: polars.Series) -> polars.Series:
    return ~cells.str.strip_chars().is_in(MISSING)


def _kinds(blocks: Blocks, width: int) -> list[str]:
    """Return what all cells of a column are: "whole" or "float" numbers, "truth" or "text"."""
    import polars

    found = np.zeros((4, width), bool)
    for block in blocks():
        numbers = block.columns(dict.fromkeys(range(width), polars.Float64))
        if numbers is not None:
            found |= _of_numbers(block, numbers, has_fraction=found[1])
            continue
        cells = block.cells
        given = _is_given(cells)
        tests = (
            given,
            given & _numbers(cells, polars.Int64).is_null(),
            given & _numbers(cells, polars.Float64).is_null(),
            ~cells.is_in((*MISSING, *TRUTHS)),
        )
        for row, test in zip(found, tests, strict=True):
            row |= test.to_numpy().reshape(-1, width).any(axis=0)
    has_given, has_fraction, has_text, has_other = found
    number = np.where(has_given & ~has_fraction, "whole", "float")
    kinds: list[str] = np.where(has_text, np.where(has_other, "text", "truth"), number).tolist()
    return kinds


def _of_numbers(
    block: text_cells.Block | text_cells.NumberBlock,
    numbers: polars.DataFrame,
    *,
    has_fraction: Array,
) -> Array:
    """Return what `_kinds` finds in a block that can be read as numbers."""
    import polars

    n_null = np.array([column.null_count() for column in numbers])
    given = n_null < len(numbers)
    fraction = has_fraction.copy()
    open_columns = np.flatnonzero(given & ~has_fraction).tolist()
    whole = None
    if open_columns:
        whole = block.columns(dict.fromkeys(open_columns, polars.Int64), strict=False)
    if whole is not None:
        fraction[open_columns] = [column.null_count() for column in whole] > n_null[open_columns]
    return np.stack([given, fraction, np.zeros_like(given), given])


def _not_a_number(blocks: Blocks, at: int, width: int) -> str:
    columns = (block.cells.gather_every(width, at) for block in blocks())
    return next(cell for cells in columns for cell in cells.filter(_is_text(cells)))


def _typed(
    block: text_cells.Block | text_cells.NumberBlock,
    columns: tuple[str, ...],
    kinds: list[str],
    absent: dict[str, list[str]],
) -> polars.DataFrame:
    """Return a block as a table, each column as its kind.

    Of labels `absent` says which cells are null.
    """
    import polars

    makers: dict[str, Callable[[], polars.Series]] = {
        "whole": lambda: _numbers(cells, polars.Int64),
        "float": lambda: _numbers(cells, polars.Float64),
        "truth": lambda: cells.replace_strict(TRUTHS, default=None),
        "text": lambda: cells.replace(MISSING, None),
        "key": lambda: cells.replace("", None),
        "label": lambda: cells,
    }
    kinds = ["label" if name in absent else kind for name, kind in zip(columns, kinds, strict=True)]
    dtypes: dict[str, Any] = {"whole": polars.Int64, "float": polars.Float64}
    dtypes |= dict.fromkeys(("text", "key"), polars.String)
    if set(kinds) <= dtypes.keys():
        table = block.columns({at: dtypes[kind] for at, kind in enumerate(kinds)})
        if table is not None:
            table.columns = list(columns)
            return table
    cells = block.cells
    # One series of rows, whose fields are the columns: the time for a column is next to nothing.
    tables = {
        kind: makers[kind]().reshape((-1, len(columns))).arr.to_struct(columns).struct.unnest()
        for kind in set(kinds)
    }
    table = polars.DataFrame([tables[kind].to_series(at) for at, kind in enumerate(kinds)])
    return table.with_columns(
        polars.col(name).replace(cells, None) for name, cells in absent.items() if cells
    )

"""The data sets, each split into rows to train on, rows to choose by, and rows to test on."""

from __future__ import annotations

import csv
import io
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Lines = list[list[str]]

HELD_OUT: Final = 0.15
"""Of the rows to train on: what is chosen, is chosen by them."""
TESTED: Final = 0.2
"""Of the rows of a set that comes without a test set of its own."""
UNSEEN: Final = "?"


@dataclass(frozen=True, slots=True)
class Split:
    """One data set for one seed.

    Parameters
    ----------
    fit, held_out, test : (X, y)
        X is float64 and may hold NaN; y holds class numbers, or a regressor's numbers.
    categorical : tuple of int
        Columns that hold category codes, NaN where missing.
    """

    name: str
    fit: tuple[Array, Array]
    held_out: tuple[Array, Array]
    test: tuple[Array, Array]
    categorical: tuple[int, ...] = ()

    @property
    def is_classifier(self) -> bool:
        """Whether y holds class numbers."""
        return self.fit[1].dtype.kind == "i"

    def ordinal(self) -> Split:
        """Return the rows with -1 for what is missing, for models that read neither."""
        parts = (self.fit, self.held_out, self.test)
        fit, held_out, test = ((np.where(np.isnan(X), -1.0, X), y) for X, y in parts)
        return Split(self.name, fit, held_out, test)

    def named(self) -> Split:
        """Return the rows with class numbers as words, as some libraries keep them."""
        parts = (self.fit, self.held_out, self.test)
        fit, held_out, test = ((X, y.astype(str)) for X, y in parts)
        return Split(self.name, fit, held_out, test, self.categorical)


@dataclass(frozen=True, slots=True)
class Table:
    """A data set as it is read; `n_train` is None where it has no test set of its own."""

    X: Array
    y: Array
    n_train: int | None
    categorical: tuple[int, ...] = ()


def _lines(text: str, separator: str | None = ",") -> Lines:
    if separator is None:
        return [line.split() for line in text.splitlines() if line.strip()]
    rows = csv.reader(io.StringIO(text), delimiter=separator)
    return [[field.strip() for field in row] for row in rows if row]


def _numbers(rows: Lines, columns: slice) -> Array:
    return np.array([row[columns] for row in rows], dtype=np.float64)


def _codes(values: list[str]) -> Array:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _label_last(rows: Lines, n_train: int | None) -> Table:
    return Table(_numbers(rows, slice(-1)), _codes([row[-1] for row in rows]), n_train)


def _label_first(rows: Lines, n_train: int | None) -> Table:
    return Table(_numbers(rows, slice(1, None)), _codes([row[0] for row in rows]), n_train)


def _letter(folder: Path) -> Table:
    return _label_first(_lines((folder / "letter-recognition.data").read_text()), 16_000)


def _two_files(
    train: str, test: str, *, separator: str | None = ",", skip: int = 0, first: bool = False
) -> Callable[[Path], Table]:
    def read(folder: Path) -> Table:
        texts = [(folder / name).read_text().splitlines()[skip:] for name in (train, test)]
        parts = [_lines("\n".join(text), separator) for text in texts]
        make = _label_first if first else _label_last
        return make([*parts[0], *parts[1]], len(parts[0]))

    return read


def _one_file(name: str, *, first: bool = False) -> Callable[[Path], Table]:
    def read(folder: Path) -> Table:
        make = _label_first if first else _label_last
        return make(_lines((folder / name).read_text()), None)

    return read


def _adult(folder: Path) -> Table:
    files = [folder / f"adult.{part}.xz" for part in ("data", "test")]
    parts = [_lines(lzma.decompress(file.read_bytes()).decode()) for file in files]
    rows = [*parts[0], *parts[1]]
    columns, categorical = [], []
    for number in range(14):
        values = [row[number] for row in rows]
        if all(value.lstrip("-").isdigit() for value in values):
            columns.append(np.array(values, np.float64))
            continue
        # Codes of what is known begin at 0 in every column, whether or not one is missing.
        known = sorted({value for value in values if value != UNSEEN})
        code = {value: float(place) for place, value in enumerate(known)} | {UNSEEN: np.nan}
        columns.append(np.array([code[value] for value in values]))
        categorical.append(number)
    y = np.array([row[14].startswith(">") for row in rows]).astype(np.int64)
    return Table(np.stack(columns, axis=1), y, len(parts[0]), tuple(categorical))


def _california(folder: Path) -> Table:
    """In units of 100,000 dollars; the blanks in the number of bedrooms are NaN."""
    with tarfile.open(folder / "housing.tgz") as archive:
        file = archive.extractfile("housing.csv")
        assert file is not None
        rows = _lines(file.read().decode())[1:]
    X = np.array([[float(field or "nan") for field in row[:8]] for row in rows])
    ocean = _codes([row[9] for row in rows]).astype(np.float64)
    y = np.array([float(row[8]) for row in rows]) / 1e5
    return Table(np.column_stack([X, ocean]), y, None, (8,))


_SEGMENTATION: Final = _two_files("segmentation.data", "segmentation.test", skip=5, first=True)


def _joined(folder: Path) -> Table:
    table = _SEGMENTATION(folder)
    return Table(table.X, table.y, None)


READERS: Final[dict[str, tuple[str, Callable[[Path], Table]]]] = {
    "letter": ("letter", _letter),
    "pendigits": ("pendigits", _two_files("pendigits.tra", "pendigits.tes")),
    "satimage": ("satimage", _two_files("sat.trn", "sat.tst", separator=None)),
    "optdigits": ("optdigits", _two_files("optdigits.tra", "optdigits.tes")),
    "segment": ("segmentation", _joined),
    "segmentation": ("segmentation", _SEGMENTATION),
    "adult": ("adult", _adult),
    "california": ("california", _california),
    "banknote": ("banknote", _one_file("data_banknote_authentication.txt")),
    "balance": ("balance_scale", _one_file("balance-scale.data", first=True)),
    "blood": ("transfusion", _one_file("transfusion.data")),
    "sonar": ("sonar", _one_file("sonar.all-data")),
}
"""Name of a data set to its folder and its reader; each keeps the file names of its source."""


def split(data: Path, name: str, seed: int) -> Split:
    """Read a data set and split it: its own test set, or a fifth of the rows, drawn by seed.

    Raises
    ------
    FileNotFoundError
        If the folder does not hold it.
    """
    folder, read = READERS[name]
    table = read(data / folder)
    drawn = np.random.default_rng(seed)
    order = np.arange(len(table.y))
    n_train = table.n_train
    if n_train is None:
        order = drawn.permutation(order)
        n_train = len(order) - round(TESTED * len(order))
    train, test = drawn.permutation(order[:n_train]), order[n_train:]
    n_held_out = round(HELD_OUT * n_train)
    places = (train[n_held_out:], train[:n_held_out], test)
    fit, held_out, tested = ((table.X[rows], table.y[rows]) for rows in places)
    return Split(name, fit, held_out, tested, table.categorical)

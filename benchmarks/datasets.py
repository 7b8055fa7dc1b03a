"""The data sets, as their files hold them: each name with its folder and its reader."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import sklearn.datasets

Array = np.ndarray[Any, Any]
Lines = list[list[str]]

UNSEEN: Final = "?"


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


def _glass(folder: Path) -> Table:
    rows = _lines((folder / "glass.data").read_text())
    return Table(_numbers(rows, slice(1, -1)), _codes([row[-1] for row in rows]), None)


def _segment_small(folder: Path) -> Table:
    """The 210 rows that come as a training set."""
    table = _SEGMENTATION(folder)
    return Table(table.X[: table.n_train], table.y[: table.n_train], None)


def _mnist(folder: Path) -> Table:
    """Pixels of 0 ... 255 in float32, 28 x 28 of them."""

    def bytes_of(name: str, skip: int) -> Array:
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8)[skip:]

    kinds = ("train", "t10k")
    X = np.concatenate([bytes_of(f"{kind}-images-idx3-ubyte.gz", 16) for kind in kinds])
    y = np.concatenate([bytes_of(f"{kind}-labels-idx1-ubyte.gz", 8) for kind in kinds])
    return Table(X.reshape(-1, 784).astype(np.float32), y.astype(np.int64), 60_000)


def _usps(folder: Path) -> Table:
    """Pixels of 0 ... 1, 16 x 16 of them."""
    with np.load(folder / "usps.npz") as file:
        X = np.concatenate([file["train_X"], file["test_X"]])
        y = np.concatenate([file["train_y"], file["test_y"]])
        return Table(X.astype(np.float64), y.astype(np.int64), len(file["train_y"]))


def _connect4(folder: Path) -> Table:
    """Three columns for each of the 42 squares: blank, first player, second player."""
    text = lzma.decompress((folder / "connect-4.data.xz").read_bytes()).decode()
    rows = np.array(_lines(text))
    X = (rows[:, :-1, None] == np.array(["b", "x", "o"])).reshape(len(rows), -1)
    return Table(X.astype(np.float64), _codes(rows[:, -1].tolist()), None)


def _covtype(folder: Path) -> Table:
    text = lzma.decompress((folder / "covtype.20k.data.xz").read_bytes()).decode()
    return _label_last(_lines(text), None)


def _higgs(folder: Path) -> Table:
    texts = [(folder / f"binary.{part}").read_text() for part in ("train", "test")]
    return _label_first(_lines("\n".join(texts), None), None)


def _elec(folder: Path) -> Table:
    return _label_last(_lines((folder / "elec.csv").read_text())[1:], None)


def _bike(folder: Path) -> Table:
    """In units of 100 hires an hour, without the dates and the two parts of the sum."""
    head, *rows = _lines((folder / "hour.csv").read_text())
    left_out = ("instant", "dteday", "casual", "registered", "cnt")
    columns = [number for number, name in enumerate(head) if name not in left_out]
    X = np.array([[row[number] for number in columns] for row in rows], dtype=np.float64)
    return Table(X, np.array([float(row[-1]) for row in rows]) / 100, None)


def _of_sklearn(load: str) -> Callable[[Path], Table]:
    def read(folder: Path) -> Table:
        X, y = getattr(sklearn.datasets, load)(return_X_y=True)
        return Table(X.astype(np.float64), y.astype(np.int64), None)

    return read


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
    "glass": ("glass", _glass),
    "ionosphere": ("ionosphere", _one_file("ionosphere.data")),
    "spambase": ("spambase", _one_file("spambase.data")),
    "mnist": ("mnist", _mnist),
    "fashion_mnist": ("fashion_mnist", _mnist),
    "usps": ("usps", _usps),
    "connect-4": ("connect-4", _connect4),
    "yeast": ("yeast", _one_file("yeast.txt")),
    "segment210": ("segmentation", _segment_small),
    "covtype": ("covtype", _covtype),
    "higgs": ("higgs_small", _higgs),
    "elec": ("elec", _elec),
    "bike": ("bike_sharing", _bike),
    "iris": ("", _of_sklearn("load_iris")),
    "wine": ("", _of_sklearn("load_wine")),
    "wdbc": ("", _of_sklearn("load_breast_cancer")),
}
"""Name of a data set to its folder and its reader; each keeps the file names of its source."""


def read(data: Path, name: str) -> Table:
    """Read a data set below a folder.

    Raises
    ------
    FileNotFoundError
        If the folder does not hold it.
    """
    folder, reader = READERS[name]
    return reader(data / folder)

"""Streams of rows in order: four of real data in the order of their files, four made with a drift.

Each is fixed here: rows of the start, rows of a block and number of blocks, which come after it.
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import datasets

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows in order.

    Parameters
    ----------
    n_classes : int
        0 for numbers.
    start, block : int
        Rows that the first model is fitted to, and rows of each block after them.
    drift : str
        Of made streams, how they change; of real ones, what their order is.
    """

    X: Array
    y: Array
    n_classes: int
    start: int
    block: int
    drift: str

    def first(self) -> tuple[Array, Array]:
        """Return the rows of the start."""
        return self.X[: self.start], self.y[: self.start]

    def blocks(self) -> list[tuple[Array, Array]]:
        """Return the blocks in order."""
        ends = range(self.start, len(self.X) - self.block + 1, self.block)
        return [(self.X[at : at + self.block], self.y[at : at + self.block]) for at in ends]

    def cut(self, n_blocks: int) -> Stream:
        """Return the start and the first blocks."""
        n = self.start + n_blocks * self.block
        return Stream(self.X[:n], self.y[:n], self.n_classes, self.start, self.block, self.drift)


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _elec(data: Path, _: int) -> Stream:
    """Prices of electricity, half hours: 16 weeks, then 10 blocks of 8 weeks."""
    rows = _csv(data / "elec" / "elec.csv")
    columns = [name for name in rows[0] if name != "class"]
    X = np.array([[float(row[name]) for name in columns] for row in rows])
    y = np.array([int(row["class"]) for row in rows])
    return Stream(X, y, 2, 5376, 2688, "in order of time").cut(10)


def _bike(data: Path, _: int) -> Stream:
    """Hours of two years: 4,000 of them, then 8 blocks of 1,600."""
    rows = _csv(data / "bike_sharing" / "hour.csv")
    left_out = ("instant", "dteday", "casual", "registered", "cnt", "yr")
    columns = [name for name in rows[0] if name not in left_out]
    X = np.array([[float(row[name]) for name in columns] for row in rows])
    y = np.array([float(row["cnt"]) for row in rows])
    return Stream(X, y, 0, 4000, 1600, "in order of time, without the year").cut(8)


def _covtype(data: Path, _: int) -> Stream:
    """The first 20,000 rows of the file: 4,000, then 8 blocks of 2,000."""
    text = lzma.decompress((data / "covtype" / "covtype.20k.data.xz").read_bytes()).decode()
    table = np.array([[float(cell) for cell in line.split(",")] for line in text.splitlines()])
    y = table[:, -1].astype(np.int64) - 1
    return Stream(table[:, :-1], y, 7, 4000, 2000, "in the order of the file").cut(8)


def _adult(data: Path, _: int) -> Stream:
    """Codes of categories as numbers: 6,000 rows, then 8 blocks of 4,000."""
    table = datasets.read(data, "adult")
    return Stream(table.X, table.y, 2, 6000, 4000, "in the order of the file").cut(8)


def _hyperplane(_: Path, seed: int) -> Stream:
    """Return labels by a plane in 10 columns whose weights turn steadily; 5 % of labels flipped."""
    rng = np.random.default_rng((1, seed))
    n, start, block = 24_000, 4000, 2000
    X = rng.uniform(size=(n, 10))
    first, last = rng.uniform(-1, 1, (2, 10))
    part = np.clip((np.arange(n) - start) / (n - start), 0, 1)[:, None]
    weight = (1 - part) * first + part * last
    y = ((weight * (X - 0.5)).sum(axis=1) > 0) ^ (rng.random(n) < 0.05)
    return Stream(X, y.astype(np.int64), 2, start, block, "a plane that turns steadily")


def _sea(_: Path, seed: int) -> Stream:
    """Return labels by x0 + x1 <= a, of three columns; a changes four times at once."""
    rng = np.random.default_rng((2, seed))
    n, start, block = 24_000, 4000, 2000
    X = rng.uniform(0, 10, size=(n, 3))
    concept = np.clip((np.arange(n) - start // 2) // 4400, 0, 4)
    limit = np.array([8.0, 9.0, 7.0, 9.5, 8.5])[concept]
    y = (X[:, 0] + X[:, 1] <= limit) ^ (rng.random(n) < 0.1)
    return Stream(X, y.astype(np.int64), 2, start, block, "a sum whose limit jumps four times")


def _centres(_: Path, seed: int) -> Stream:
    """Return five classes around 25 centres in 8 columns, each of which moves on a line."""
    rng = np.random.default_rng((3, seed))
    n, start, block = 20_000, 4000, 2000
    centre, width = rng.uniform(size=(25, 8)), rng.uniform(0.05, 0.15, 25)
    speed = rng.normal(size=(25, 8))
    speed *= 0.6 / np.linalg.norm(speed, axis=1, keepdims=True)
    kind, label = rng.integers(0, 25, n), rng.integers(0, 5, 25)
    part = np.clip((np.arange(n) - start) / (n - start), 0, 1)[:, None]
    X = centre[kind] + part * speed[kind] + width[kind][:, None] * rng.normal(size=(n, 8))
    return Stream(X, label[kind], 5, start, block, "centres that move steadily")


def _friedman(_: Path, seed: int) -> Stream:
    """Return Friedman's first function of 10 columns, whose columns change places half-way."""
    rng = np.random.default_rng((4, seed))
    n, start, block = 20_000, 4000, 2000
    X = rng.uniform(size=(n, 10))
    part = np.clip((np.arange(n) - 10_000) / 4000, 0, 1)  # over two blocks

    def value(Z: Array) -> Array:
        return (
            10 * np.sin(np.pi * Z[:, 0] * Z[:, 1])
            + 20 * (Z[:, 2] - 0.5) ** 2
            + 10 * Z[:, 3]
            + 5 * Z[:, 4]
        )

    y = (1 - part) * value(X) + part * value(X[:, [3, 4, 5, 0, 1]]) + rng.normal(size=n)
    return Stream(X, y, 0, start, block, "columns that change places half-way, over two blocks")


STREAMS: Final[dict[str, Callable[[Path, int], Stream]]] = {
    "elec": _elec,
    "bike_sharing": _bike,
    "covtype": _covtype,
    "adult": _adult,
    "hyperplane (made)": _hyperplane,
    "SEA (made)": _sea,
    "centres (made)": _centres,
    "friedman (made)": _friedman,
}
"""By name, from the folder of data and a seed; real rows do not depend on the seed."""

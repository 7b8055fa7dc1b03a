"""Real data as frames: numbers, categories, and blanks as NaN; `datasets` gives them as arrays."""

from __future__ import annotations

import io
import lzma
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file


@dataclass(frozen=True)
class Table:
    """Features as a frame (categorical columns as pandas categories), and a target."""

    frame: pd.DataFrame
    y: np.ndarray

    @property
    def categorical(self) -> list[int]:
        """Numbers of the categorical columns."""
        kinds = self.frame.dtypes
        return [i for i, kind in enumerate(kinds) if isinstance(kind, pd.CategoricalDtype)]

    @property
    def codes(self) -> np.ndarray:
        """All columns as float64: categories by code, blanks as NaN."""
        columns = [
            column.cat.codes.where(column.notna(), np.nan)
            if isinstance(column.dtype, pd.CategoricalDtype)
            else column
            for _, column in self.frame.items()
        ]
        return np.column_stack([np.asarray(column, np.float64) for column in columns])

    def head(self, n: int, seed: int = 0) -> Table:
        """Return n rows drawn without repetition."""
        pick = np.random.default_rng(seed).permutation(len(self.y))[:n]
        return Table(self.frame.iloc[pick].reset_index(drop=True), self.y[pick])

    def complete(self) -> Table:
        """Return the rows without blanks."""
        whole = self.frame.notna().all(axis=1).to_numpy()
        return Table(self.frame[whole].reset_index(drop=True), self.y[whole])

    def predicting(self, *names: object) -> Table:
        """Return the same rows with columns moved beside the target, categories by code."""
        moved = Table(self.frame[list(names)], self.y).codes.astype(self.y.dtype)
        return Table(self.frame.drop(columns=list(names)), np.column_stack([self.y, moved]))


class Data:
    """The folder of real data; each table is read when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cache  # noqa: B019 - one object, for the life of the process
    def adult(self) -> Table:
        """Income over 50K: 6 numbers, 8 categories, blanks in three of these."""
        path = self.folder / "adult" / "adult.data.xz"
        frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values="?")
        y = (frame.pop(14) == ">50K").to_numpy(np.int64)
        return Table(_categories(frame), y)

    @cache  # noqa: B019
    def california(self) -> Table:
        """House values in 100,000s: 8 numbers with blanks, 1 category."""
        with tarfile.open(self.folder / "california" / "housing.tgz") as archive:
            member = archive.extractfile("housing.csv")
            assert member is not None
            frame = pd.read_csv(io.BytesIO(member.read()))
        y = frame.pop("median_house_value").to_numpy(np.float64) / 1e5
        return Table(_categories(frame), y)

    @cache  # noqa: B019
    def covtype(self) -> Table:
        """Forest cover, 7 classes: 54 numbers, most of them 0 or 1."""
        text = lzma.decompress((self.folder / "covtype" / "covtype.20k.data.xz").read_bytes())
        frame = pd.read_csv(io.BytesIO(text), header=None)
        y = frame.pop(54).to_numpy(np.int64)
        return Table(frame.astype(np.float64), y)

    @cache  # noqa: B019
    def letter(self) -> Table:
        """Letters A to Z: 16 small numbers."""
        frame = pd.read_csv(self.folder / "letter" / "letter-recognition.data", header=None)
        y = frame.pop(0).to_numpy(str)
        return Table(frame.astype(np.float64), y)

    @cache  # noqa: B019
    def mushroom(self) -> Table:
        """Edible or not: 126 indicators."""
        path = self.folder / "mushroom_xgb" / "agaricus.txt.train"
        X, y = load_svmlight_file(str(path), n_features=127, zero_based=True)
        return Table(pd.DataFrame(X.toarray()), y.astype(np.int64))

    @cache  # noqa: B019
    def flights(self) -> Table:
        """Delayed or not: 8 columns of codes."""
        path = self.folder / "lgb_categorical" / "categorical.data"
        X, y = load_svmlight_file(str(path), n_features=8, zero_based=True)
        frame = pd.DataFrame(X.toarray().astype(np.int64)).astype("category")
        return Table(frame, y.astype(np.int64))

    @cache  # noqa: B019
    def higgs(self) -> Table:
        """Signal or background: 28 numbers."""
        path = self.folder / "higgs_small" / "binary.train"
        frame = pd.read_csv(path, sep="\t", header=None)
        y = frame.pop(0).to_numpy(np.int64)
        return Table(frame, y)


def _categories(frame: pd.DataFrame) -> pd.DataFrame:
    frame.columns = [str(name) for name in frame.columns]
    texts = frame.select_dtypes(exclude="number").columns
    numbers = frame.columns.difference(texts)
    kinds = dict.fromkeys(texts, "category") | dict.fromkeys(numbers, np.float64)
    return frame.astype(kinds)

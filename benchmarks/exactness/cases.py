"""A case: a model, the options that it stands for, and rows of real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.frames import Data
from bitvec.converters.dispatch import FORMATS
from tests.models.samples import Sample

OPTIONS = {source.name: source.supported for source in FORMATS}

TABLES = {
    "class": ("covtype", "letter"),
    "two": ("adult", "mushroom"),
    "grade": ("higgs", "covtype"),
}
NUMBERS = ("california", "adult")
"""Names of real data, by the label of a catalogue's model; of numbers, if none is named."""
ROWS = 3000


class Made(NamedTuple):
    """A trained model and what is asked of it.

    `model` is the object or path to convert, `X` rows for its forest. `oracle` answers for the
    library where that is not `model` itself: a file that its library reads only with another's
    help, say. `stored` are raw scores or predictions that came with the model.
    """

    model: Any
    X: np.ndarray | pd.DataFrame
    oracle: Any = None
    stored: Callable[[Any], tuple[np.ndarray, np.ndarray]] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One model of the benchmark.

    Parameters
    ----------
    name : str
        Distinct, for people: what was trained on what.
    format : str
        Name of an entry of `bitvec.converters.dispatch.FORMATS`.
    options : tuple of str
        Among that entry's `supported`: those that this model really exercises.
    make : callable
        Called with a folder to write files to.
    """

    name: str
    format: str
    options: tuple[str, ...]
    make: Callable[[Path], Made]

    def __post_init__(self) -> None:
        unknown = set(self.options) - set(OPTIONS[self.format])
        if unknown:
            raise ValueError(f"{self.name}: {self.format} has no options {sorted(unknown)}.")


def name_of_table(label: str, number: int) -> str:
    """Return the data for a model's label; the models of a catalogue take turns."""
    names = TABLES.get(label, NUMBERS)
    return names[number % len(names)]


def sample(data: Data, table: str) -> Sample:
    """Return 3,000 rows, categories by code."""
    part = getattr(data, table)().head(ROWS)
    return Sample(part.codes, part.y, tuple(part.categorical))

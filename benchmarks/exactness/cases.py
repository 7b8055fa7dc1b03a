"""A case: a model, the options that it stands for, and rows of real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bitvec.converters.dispatch import FORMATS

OPTIONS = {source.name: source.supported for source in FORMATS}


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

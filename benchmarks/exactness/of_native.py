"""Native trees: the models of their catalogue on real data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.exactness.cases import Case, Made, sample
from benchmarks.frames import Data
from tests.models.native import MODELS, Model, train
from tests.models.samples import Sample

TABLES = {"class": ("letter", "higgs"), "number": ("california", "higgs")}


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for name, model in MODELS.items():
        for table in TABLES[model.label]:
            make = partial(_made, model, partial(sample, data, table))
            yield Case(f"{name}, on {table}", "native trees", model.supported, make)


def _made(model: Model, data: Callable[[], Sample], folder: Path) -> Made:
    rows = data()
    rows = rows._replace(X=np.nan_to_num(rows.X))
    return Made(train(model, rows), rows.X)

"""scikit-learn: the models of its catalogue on real data, those of frames, and skops files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import skops.io
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.exactness.cases import NUMBERS, ROWS, Case, Made, name_of_table, sample
from benchmarks.frames import Data, Table
from tests.models.samples import Sample
from tests.models.sklearn import KINDS, MODELS, Model, train
from tests.models.sklearn import sample as learned

FILE = ("scikit-learn file", ("skops file",))
HISTOGRAMS = "HistGradientBoosting"


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for number, (name, model) in enumerate(MODELS.items()):
        numbers = "number" if model.codes else model.target  # which brings categories
        table = name_of_table(numbers, number // 2)
        blanks = table in NUMBERS and model.takes_missing
        kind = f"{HISTOGRAMS} NaN" if model.kind.startswith("Hist") else "NaN"
        made = partial(_made, model, partial(sample, data, table))
        options = (*model.supported, *([kind] if blanks else []))
        yield Case(f"{name}, on {table}", "scikit-learn", options, made)
        if name in KINDS.values():
            yield Case(f"{name}, on {table}, in a file", *FILE, partial(_saved, made))
    small = {"max_iter": 12, "max_leaf_nodes": 15, "random_state": 0}
    binary = (HISTOGRAMS, f"{HISTOGRAMS} loss log_loss")
    rising = HistGradientBoostingClassifier(**small, monotonic_cst={"4": 1})
    made = partial(_of_frame, data.adult, rising)
    options = (*binary, f"{HISTOGRAMS} NaN", f"{HISTOGRAMS} string categories")
    yield Case("a frame of adult", "scikit-learn", (*options, "monotonic constraints"), made)
    yield Case("a frame of adult, in a file", *FILE, partial(_saved, made))
    coded = HistGradientBoostingClassifier(**small, categorical_features=[0, 1])
    options = (*binary, f"{HISTOGRAMS} integer categories")
    made = partial(_of_frame, data.flights, coded, columns=lambda part: part.codes)
    yield Case("codes of flights", "scikit-learn", options, made)


def _made(model: Model, data: Callable[[], Sample], folder: Path) -> Made:
    rows = data()
    return Made(train(model, rows, n_estimators=12, max_depth=8), learned(model, rows).X)


def _of_frame(
    table: Callable[[], Table],
    model: Any,
    folder: Path,
    *,
    columns: Callable[[Table], Any] = lambda part: part.frame,
) -> Made:
    part = table().head(ROWS)
    X = columns(part)
    return Made(model.fit(X, part.y), X)


def _saved(make: Callable[[Path], Made], folder: Path) -> Made:
    """Convert what another case makes from a file."""
    made, path = make(folder), folder / "model.skops"
    skops.io.dump(made.model, path)
    return made._replace(model=path)

"""CatBoost: the models of its catalogue on real data, and texts of categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.exactness.cases import OPTIONS, ROWS, Case, Made, name_of_table, sample
from benchmarks.frames import Data, Table
from tests.models.catboost import MODELS, Model, pool, train
from tests.models.samples import Sample

FILES = {".json": "JSON file", ".cbm": "binary file", "": "fitted model"}
KNOWN = {*OPTIONS["CatBoost"]}
CATEGORICAL = ("california", "adult")


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for number, (name, model) in enumerate(MODELS.items()):
        table, suffix = name_of_table(model.label, number // 2), [*FILES][number % 3]
        found = [option for option in model.options if option in KNOWN]
        found += ["one-hot categories"] if table in CATEGORICAL else []
        make = partial(_made, model, suffix, partial(sample, data, table))
        yield Case(f"{name}, on {table}", "CatBoost", (*found, FILES[suffix]), make)
    for table in CATEGORICAL:
        options = ("Logloss", "SymmetricTree", "one-hot categories", "texts of categories")
        make = partial(_made, Model("Logloss"), ".json", partial(texts_of, getattr(data, table)))
        name = f"Logloss on {table}, with the texts of categories"
        yield Case(name, "CatBoost", (*options, FILES[".json"]), make)


def _made(model: Model, suffix: str, data: Callable[[], Sample], folder: Path) -> Made:
    """Train for 18 rounds; with a suffix, the model is saved and converted from there."""
    rows = data()
    bigger = {"iterations": 18, "depth": 5, "one_hot_max_size": 255, "thread_count": 2}
    made = train(model, rows, **bigger)
    X = rows.X
    if X.dtype != object:
        X = X.copy()
        columns = [*rows.categorical]
        X[:, columns] = np.nan_to_num(X[:, columns], nan=-1)
    if not suffix:
        return Made(made, X)
    path = folder / f"model{suffix}"
    texts = pool(model, rows) if rows.X.dtype == object else None
    made.save_model(str(path), format=suffix[1:], pool=texts)
    return Made(path, X)


def texts_of(table: Callable[[], Table]) -> Sample:
    """Return rows with categories as texts, blanks as one of them."""
    part = table().head(ROWS)
    frame = part.frame.copy()
    for column in frame.columns[part.categorical]:
        values = frame[column]
        frame[column] = values.astype(object).where(values.notna(), "").map(str)
    return Sample(frame.to_numpy(object), part.y, tuple(part.categorical))

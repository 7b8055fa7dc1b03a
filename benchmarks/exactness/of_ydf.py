"""YDF: the models of its catalogue on real data, as objects and as directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.exactness.cases import ROWS, Case, Made, name_of_table
from benchmarks.frames import Data, Table
from tests.models.samples import LABELS, groups
from tests.models.ydf import MODELS, Model, train

NUMBERS, CATEGORIES, BLANKS = "numerical conditions", "categorical conditions", "missing values"
BROUGHT = {
    "california": (NUMBERS, CATEGORIES, BLANKS),
    "adult": (NUMBERS, CATEGORIES, BLANKS),
    "covtype": (NUMBERS,),
    "letter": (NUMBERS,),
    "mushroom": ("boolean conditions",),
}
"""Options that real data have by themselves; the indicators of mushroom are truth values."""


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for number, (name, model) in enumerate(MODELS.items()):
        table = name_of_table(model.label, number // 2)
        saved = number % 2 == 0
        brought = BROUGHT[table]
        if {"sparse oblique conditions", "discretized numbers"} & {*model.supported}:
            brought = tuple(option for option in brought if option != NUMBERS)
        kind = "directory" if saved else "model object"
        made = partial(_made, model, getattr(data, table), saved)
        yield Case(f"{name}, on {table}", "YDF", (kind, *model.supported, *brought), made)


def _made(model: Model, table: Callable[[], Table], saved: bool, folder: Path) -> Made:
    """Train on 3,000 rows; one that is saved is converted from there."""
    part = table().head(ROWS)
    columns = _columns(part)
    label = {model.label: LABELS[model.label](part.y)} if model.label else {}
    ranked = {"group": groups(part.y)} if model.ranks else {}
    fitted = train(model, columns | label | ranked)
    X = np.column_stack([columns[name].astype(object) for name in fitted.input_feature_names()])
    if not saved:
        return Made(fitted, X)
    fitted.save(str(folder / "model"))
    return Made(folder / "model", X)


def _columns(part: Table) -> dict[str, np.ndarray]:
    """Return numbers as float32, or truth values, categories as texts, the empty one for blanks."""
    columns = {}
    for at, column in enumerate(part.frame.columns):
        values = part.frame[column]
        if at in part.categorical:
            found = values.astype(object).where(values.notna(), "").map(str).to_numpy(object)
        else:
            found = values.to_numpy(np.float32)
        truths = found.dtype != object and set(np.unique(found)) <= {0, 1}
        columns[f"f_{column}"] = found.astype(bool) if truths else found
    return columns

"""xgboost: the models of its catalogue on real data, and files that others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.exactness.cases import NUMBERS, OPTIONS, Case, Made, name_of_table, sample
from benchmarks.frames import Data
from tests.models.samples import Sample
from tests.models.xgboost import MODELS, Model, train

FILES = {".ubj": ("UBJ file",), ".json": ("JSON file",), "": ()}


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for number, (name, model) in enumerate(MODELS.items()):
        if not {*OPTIONS["xgboost"]}.issuperset(model.supported):
            continue  # an objective of an xgboost that is newer than the pinned one
        table = name_of_table(model.label, number // 2)
        suffix = "" if "missing" in model.parameters else [*FILES][number % 3]
        named = ("feature names and types",) if suffix and not model.wrapper else ()
        yield Case(
            f"{name}, on {table}",
            "xgboost",
            (*model.supported, *FILES[suffix], *named, *(("NaN",) if table in NUMBERS else ())),
            partial(_made, model, suffix, partial(sample, data, table)),
        )
    folder = models / "xgboost"
    for suffix, kind in ((".bin", "legacy binary file"), (".json", "JSON file")):
        for path in sorted(folder.glob(f"*{suffix}")):
            name = f"{path.name}, trained by others"
            yield Case(name, "xgboost", (kind, "gbtree"), partial(_old, path))


def _made(model: Model, suffix: str, data: Callable[[], Sample], folder: Path) -> Made:
    """Train for twice the rounds; with a suffix, the model is saved and converted from there."""
    rows = data()
    made = train(model._replace(rounds=2 * model.rounds), rows, max_depth=5, nthread=2)
    if not suffix:
        return Made(made, rows.X)
    path = folder / f"model{suffix}"
    made.save_model(path)
    return Made(path, rows.X)


def _old(path: Path, folder: Path) -> Made:
    X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    return Made(path, X)

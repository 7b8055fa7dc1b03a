"""LightGBM: the models of its catalogue on real data, and wrappers of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb

from benchmarks.exactness.cases import ROWS, Case, Made, name_of_table, sample
from benchmarks.frames import Data, Table
from tests.models.lightgbm import MODELS, Model, train
from tests.models.samples import Sample

BROUGHT = {"california": ("missing NaN", "categories"), "adult": ("categories",)}
"""Options that real data have by themselves; the blanks of adult are all among its categories."""


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for number, (name, model) in enumerate(MODELS.items()):
        table = name_of_table(model.label, number // 2)
        file = not model.wrapper and (number % 2 == 0 or bool(model.saved))
        brought = BROUGHT.get(table, ())
        if {"missing Zero", "missing None"} & {*model.supported}:
            brought = brought[-1:]
        kind = () if model.wrapper else ("text file" if file else "Booster",)
        yield Case(
            f"{name}, on {table}",
            "LightGBM",
            (*kind, *model.supported, *brought),
            partial(_made, model, file, partial(sample, data, table)),
        )
    small = {"n_estimators": 20, "num_leaves": 31, "random_state": 0, "n_jobs": 2, "verbose": -1}
    dart = lgb.LGBMRegressor(**small, objective="quantile", boosting_type="dart")
    for table, wrapper, options in (
        ("adult", lgb.LGBMClassifier(**small), ("binary", "gbdt")),
        ("california", dart, ("quantile", "dart", "missing NaN")),
        ("flights", lgb.LGBMClassifier(**small), ("binary", "gbdt")),
        ("letter", lgb.LGBMClassifier(**small | {"n_estimators": 4}), ("multiclass", "gbdt")),
    ):
        framed = () if table == "letter" else ("categories", "categories of a data frame")
        yield Case(
            f"{type(wrapper).__name__} of a data frame, {table}",
            "LightGBM",
            ("scikit-learn wrapper", *framed, *options),
            partial(_of_frame, getattr(data, table), wrapper),
        )


def _made(model: Model, file: bool, data: Callable[[], Sample], folder: Path) -> Made:
    """Train for twice the rounds; of a file, the model is saved and converted from there."""
    rows = data()
    booster = train(model._replace(rounds=2 * model.rounds), rows, num_leaves=31, num_threads=2)
    if not file:
        return Made(booster, rows.X)
    path = folder / "model.txt"
    booster.save_model(path, **model.saved)
    return Made(path, rows.X)


def _of_frame(table: Callable[[], Table], model: Any, folder: Path) -> Made:
    part = table().head(ROWS)
    return Made(model.fit(part.frame, part.y), part.frame)

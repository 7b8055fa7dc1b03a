"""CatBoost with statistics of categories: the models of its catalogue, and texts of real data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.exactness.cases import Case, Made
from benchmarks.exactness.of_catboost import FILES, KNOWN, texts_of
from benchmarks.frames import Data
from tests.models.catboost import CTR_LOSSES, CTR_MODELS, Model, pool, train, with_categories
from tests.models.samples import Sample

ADULT = {f"{loss} on adult, as it is": Model(loss, {"depth": 6}) for loss in CTR_LOSSES}


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for number, (name, model) in enumerate([*CTR_MODELS.items(), *ADULT.items()]):
        suffix = [*FILES][number % 3]
        found = [option for option in model.options if option in KNOWN]
        make = partial(_made, model, suffix, data if name in ADULT else None)
        yield Case(f"CTR {name}", "CatBoost", (*found, FILES[suffix]), make)


def _made(model: Model, suffix: str, data: Data | None, folder: Path) -> Made:
    rows: Sample = with_categories() if data is None else texts_of(data.adult)
    made = train(model, rows, **({} if data is None else {"one_hot_max_size": 2}))
    if not suffix:
        return Made(made, rows.X)
    path = folder / f"model{suffix}"
    made.save_model(str(path), format=suffix[1:], pool=pool(model, rows))
    # CatBoost's reader of JSON takes sums of targets that are not whole for 0.
    asked = made if suffix == ".json" and "BinarizedTargetMeanValue" in str(model) else None
    return Made(path, rows.X, asked)

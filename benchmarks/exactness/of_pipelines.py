"""scikit-learn pipelines: each step of the catalogue before trees of two libraries or three."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data
from tests.models.pipelines import OF_FRAMES, OF_NUMBERS, OPTIONS, TAKES_NAN, TREES, fits

NAMES = {"0": "age", "12": "fare", "9": "sex", "3": "city", "4": "klass", "10": "rating"}
"""Columns of adult by those of the catalogue: age, hours, sex, education, its years, gains."""
TOO_FLAT = (("powers", "histogram"), ("powers", "lightgbm"))
"""Pairs with thresholds where the function is too flat for its turns to be found: they are
refused."""
NOT_IN_FILES = ("chosen", "quantiles", "quantiles, normal")
"""Steps of which a file does not hold the choice or the arithmetic."""
N_ROWS = 1500


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    libraries, each = [*TREES], {"numbers": OF_NUMBERS, "adult": OF_FRAMES}
    for table, steps in each.items():
        rows = partial(_numbers if table == "numbers" else _adult, data)
        for at, name in enumerate(steps):
            for trees in (libraries[(at + 2 * which) % len(libraries)] for which in range(3)):
                if not fits(name, trees) or (name, trees) in TOO_FLAT:
                    continue
                made = partial(_made, steps[name], TREES[trees], partial(rows, name))
                title = f"{name} before {trees}, on {table}"
                yield Case(title, "scikit-learn pipeline", OPTIONS[name], made)
                if trees == "lightgbm" and table == "adult":
                    searched = partial(_searched, steps[name], TREES[trees], partial(rows, name))
                    options = (*OPTIONS[name], "search wrappers", "FrozenEstimator")
                    yield Case(f"{title}, searched", "scikit-learn pipeline", options, searched)
                if trees == "forest" and name not in NOT_IN_FILES:
                    in_file = partial(saved, made)
                    kind = "scikit-learn pipeline file"
                    yield Case(f"{title}, in a file", kind, ("skops file",), in_file)


def _numbers(data: Data, steps: str) -> tuple[Any, np.ndarray]:
    """Return numbers of higgs, or of california with blanks, and two classes."""
    if steps in TAKES_NAN:
        table = data.california().head(N_ROWS)
        return table.codes[:, :6], (table.y > 2).astype(int)
    table = data.higgs().head(N_ROWS)
    return table.codes[:, :6], table.y


def _adult(data: Data, steps: str) -> tuple[Any, np.ndarray]:
    table = data.adult().head(N_ROWS)
    frame = table.frame[[*NAMES]].rename(columns=NAMES)
    texts = frame.select_dtypes("category").columns
    return frame.astype(dict.fromkeys(texts, object)), table.y


def _made(
    steps: Callable[[], Any],
    trees: Callable[[], Any],
    rows: Callable[[], tuple[Any, np.ndarray]],
    folder: Path,
) -> Made:
    X, y = rows()
    return Made(make_pipeline(steps(), trees()).fit(X, y), X)


def _searched(
    steps: Callable[[], Any],
    trees: Callable[[], Any],
    rows: Callable[[], tuple[Any, np.ndarray]],
    folder: Path,
) -> Made:
    X, y = rows()
    pipeline = make_pipeline(steps(), trees())
    search = GridSearchCV(pipeline, {"lgbmclassifier__num_leaves": [7]}, cv=2).fit(X, y)
    return Made(FrozenEstimator(search), X)


def saved(make: Callable[[Path], Made], folder: Path) -> Made:
    """Convert what another case makes from a file."""
    made, path = make(folder), folder / "pipeline.skops"
    skops.io.dump(made.model, path)
    return made._replace(model=path)

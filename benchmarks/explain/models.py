"""Models whose explanations are timed: noise and a few products, of several libraries and kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.core.arrays import Array

TRAINED: Final = 20_000
CLASSES: Final = 5
CODES: Final = 40
"""Categories of each of the first columns of a model with sets."""
CODED: Final = 8


class Model(NamedTuple):
    """A trained model.

    Parameters
    ----------
    library : str
        Its baseline; "" of what no baseline explains.
    tolerance : float
        How far its library is from exact sums, of the largest value.
    sample : callable
        From a number of rows and a seed, rows.
    """

    model: Any
    library: str
    tolerance: float
    sample: Callable[[int, int], Array]

    def save(self, folder: Path) -> str:
        """Keep the model in a folder, and return the name of its file."""
        name = "model.json" if self.library == "xgboost" else "model.txt"
        self.model.save_model(folder / name)
        return name


def _samples(n_columns: int, coded: int, n_rows: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    X[:, :coded] = rng.integers(0, CODES, (n_rows, coded))
    return X


def _label(X: Array) -> Array:
    return X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] + 0.2 * X[:, 4:].sum(axis=1)


def _classes(X: Array) -> Array:
    label = _label(X)
    return np.searchsorted(np.quantile(label, np.arange(1, CLASSES) / CLASSES), label)


def _vectors(X: Array) -> Array:
    return np.stack([_label(np.roll(X, i, axis=1)) for i in range(CLASSES)], axis=1)


def _xgboost(
    trees: int,
    columns: int = 28,
    label: Callable[[Array], Array] = _label,
    **options: Any,
) -> Model:
    import xgboost as xgb

    sample = partial(_samples, columns, 0)
    X = sample(TRAINED, 0)
    given = {"eta": 0.1, "max_depth": 6, "nthread": 1, **options}
    booster = xgb.train(given, xgb.DMatrix(X, label(X)), trees)
    return Model(booster, "xgboost", 2e-6, sample)


def _lightgbm(trees: int, leaves: int, coded: int = 0, **options: Any) -> Model:
    import lightgbm as lgb

    sample = partial(_samples, 50, coded)
    X = sample(TRAINED, 0).astype(np.float64)
    given = {"num_leaves": leaves, "num_threads": 1, "verbose": -1, **options}
    data = lgb.Dataset(X, _label(X), categorical_feature=[*range(coded)])
    return Model(lgb.train(given, data, trees), "lightgbm", 1e-12, sample)


def _forest() -> Model:
    from sklearn.ensemble import RandomForestClassifier

    sample = partial(_samples, 28, 0)
    X = sample(TRAINED, 0)
    model = RandomForestClassifier(100, max_depth=8, random_state=0).fit(X, _classes(X))
    return Model(model, "", 0.0, sample)


_CLASSES: Final = {"objective": "multi:softprob", "num_class": CLASSES}
_DEEP: Final = {"max_depth": 20, "min_data_in_leaf": 2}
_MODELS: Final[dict[str, Callable[[], Model]]] = {
    "xgboost, 100 trees of depth 6": partial(_xgboost, 100),
    "LightGBM, 500 trees of 31 leaves": partial(_lightgbm, 500, 31),
    "xgboost, 50 trees of depth 12": partial(_xgboost, 50, max_depth=12),
    "LightGBM, 100 trees of 255 leaves": partial(_lightgbm, 100, 255),
    "LightGBM, 20 trees of depth 20": partial(_lightgbm, 20, 1023, **_DEEP),
    "xgboost, 5 classes, 100 trees": partial(_xgboost, 20, label=_classes, **_CLASSES),
    "xgboost, 100 trees of vectors of 5": partial(
        _xgboost, 100, label=_vectors, multi_strategy="multi_output_tree"
    ),
    "xgboost, DART, 100 trees": partial(_xgboost, 100, booster="dart", rate_drop=0.1),
    "LightGBM, category sets, 100 trees": partial(_lightgbm, 100, 63, coded=CODED),
    "scikit-learn, 100 averaged trees of depth 8": _forest,
    "xgboost, 127 columns": partial(_xgboost, 100, columns=127),
}


@cache
def trained(name: str) -> Model:
    """Return a model, trained once in a process."""
    return _MODELS[name]()

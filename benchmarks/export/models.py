"""The models that are exported, grown on the spot from fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sklearn.datasets import load_breast_cancer, make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from bitvec.core.arrays import Array

N_ROWS: Final = 20_000
N_FEATURES: Final = 30
N_CODES: Final = 20
"""Categories of a column that has some."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A fitted estimator and rows of its data, float32, that its latency is measured on."""

    estimator: Any
    X: Array
    is_classifier: bool


@dataclass(frozen=True, slots=True)
class Model:
    """A model by name.

    Parameters
    ----------
    grow : callable
        Takes the share of the trees to grow, from 0 to 1.
    library : str
        Whose model it is.
    baseline : str
        Who exports it to ONNX beside us.
    baseline_differs : bool
        Whether that baseline is known not to hold this kind of model.
    version : 3 or 5
        Of our file that is held against the baseline's, in size as in latency.
    """

    name: str
    grow: Callable[[float], Grown]
    library: str
    baseline: str
    baseline_differs: bool = False
    version: int = 5


def classes(n: int) -> tuple[Array, Array]:
    """Return rows and labels."""
    X, y = make_classification(N_ROWS, N_FEATURES, n_informative=20, n_classes=n, random_state=0)
    return X.astype(np.float32), y


def values() -> tuple[Array, Array]:
    """Return rows and values."""
    X, y = make_regression(N_ROWS, N_FEATURES, n_informative=20, noise=1.0, random_state=0)
    return X.astype(np.float32), y


def _trees(n: int, share: float) -> int:
    return max(2, int(n * share))


def _forest_of_classes(n: int) -> Callable[[float], Grown]:
    def grow(share: float) -> Grown:
        X, y = classes(n)
        forest = RandomForestClassifier(_trees(50, share), max_depth=8, random_state=0, n_jobs=2)
        return Grown(forest.fit(X, y), X, True)

    return grow


def _forest_of_values(share: float) -> Grown:
    X, y = values()
    forest = RandomForestRegressor(
        _trees(50, share), max_depth=8, max_features=0.3, random_state=0, n_jobs=2
    )
    return Grown(forest.fit(X, y), X, False)


def _xgboost_of_classes(share: float) -> Grown:
    import xgboost

    X, y = classes(2)
    booster = xgboost.XGBClassifier(n_estimators=_trees(100, share), max_depth=6, n_jobs=2)
    return Grown(booster.fit(X, y), X, True)


def _xgboost_of_values(share: float) -> Grown:
    import xgboost

    X, y = values()
    booster = xgboost.XGBRegressor(n_estimators=_trees(100, share), max_depth=6, n_jobs=2)
    return Grown(booster.fit(X, y), X, False)


def _forest_with_blanks(share: float) -> Grown:
    """Grow on scikit-learn's own data of tumours with every eighth value blanked."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(np.float32)
    X[np.random.default_rng(0).random(X.shape) < 1 / 8] = np.nan
    forest = RandomForestClassifier(_trees(50, share), max_depth=8, random_state=0, n_jobs=2)
    return Grown(forest.fit(X, y), X, True)


def _lightgbm_with_categories(share: float) -> Grown:
    import lightgbm

    X, y = classes(2)
    rng = np.random.default_rng(0)
    # A column's codes say its order but for noise, in an order of their own.
    for column in (0, 1, 2):
        place = np.argsort(np.argsort(X[:, column] + rng.normal(size=N_ROWS))) * N_CODES // N_ROWS
        X[:, column] = rng.permutation(N_CODES)[place]
    X[rng.random(N_ROWS) < 1 / 8, 2] = np.nan
    booster = lightgbm.LGBMClassifier(
        n_estimators=_trees(100, share), num_leaves=31, random_state=0, n_jobs=2, verbose=-1
    )
    return Grown(booster.fit(X, y, categorical_feature=[0, 1, 2]), X, True)


TEN, TWO, VALUES = "RandomForest, 10 classes", "RandomForest, 2 classes", "RandomForest, values"
BLANKS, CATEGORIES = "RandomForest with NaN", "LightGBM with categories"
XGBOOST, XGBOOST_VALUES = "xgboost, 2 classes", "xgboost, values"
MODELS: Final = (
    Model(TEN, _forest_of_classes(10), "sklearn", "skl2onnx", version=3),
    Model(TWO, _forest_of_classes(2), "sklearn", "skl2onnx", version=3),
    Model(VALUES, _forest_of_values, "sklearn", "skl2onnx", version=3),
    Model(XGBOOST, _xgboost_of_classes, "xgboost", "onnxmltools", version=3),
    Model(XGBOOST_VALUES, _xgboost_of_values, "xgboost", "onnxmltools", version=3),
    Model(BLANKS, _forest_with_blanks, "sklearn", "skl2onnx", True, version=3),
    Model(CATEGORIES, _lightgbm_with_categories, "lightgbm", "onnxmltools", True),
)
QUICK: Final = (TEN, BLANKS, XGBOOST)

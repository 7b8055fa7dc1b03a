"""Workloads of real data: three libraries, categories and blanks, classes, numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.engine.synthetic import Trained
from benchmarks.frames import Data

ROWS = 20_000


def adult(folder: Path, data: Data) -> Trained:
    """LightGBM, 300 trees of 31 leaves on adult: 8 categorical columns of 14, blanks."""
    import lightgbm

    table = data.adult()
    X = table.codes
    training = lightgbm.Dataset(X, table.y, categorical_feature=table.categorical)
    options = {"objective": "binary", "num_leaves": 31, "verbose": -1, "num_threads": 2}
    lightgbm.train(options, training, 300).save_model(folder / "model.txt")
    return "model.txt", X[:ROWS]


def adult_frame(folder: Path, data: Data) -> Trained:
    """LightGBM, 100 trees of 31 leaves on adult as a frame of pandas, with its categories."""
    import lightgbm

    table = data.adult()
    frame = table.frame.rename(columns=str)
    options = {"objective": "binary", "num_leaves": 31, "verbose": -1, "num_threads": 2}
    model = lightgbm.train(options, lightgbm.Dataset(frame, table.y), 100)
    model.save_model(folder / "model.txt")
    return "model.txt", table.codes[:ROWS]


def covtype(folder: Path, data: Data) -> Trained:
    """xgboost, 100 rounds of 7 trees of depth 6 on covtype: 54 columns, 7 classes."""
    import xgboost

    table = data.covtype()
    X = np.asarray(table.frame, np.float32)
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=6, tree_method="hist", n_jobs=2)
    model.fit(X[::2], table.y[::2] - 1).save_model(folder / "model.ubj")
    return "model.ubj", X[:ROWS]


def california(folder: Path, data: Data) -> Trained:
    """HistGradientBoostingRegressor, 300 trees of 31 leaves on california: 9 columns, blanks."""
    import skops.io
    from sklearn.ensemble import HistGradientBoostingRegressor

    table = data.california()
    X = table.codes
    model = HistGradientBoostingRegressor(max_iter=300, early_stopping=False, random_state=0)
    skops.io.dump(model.fit(X, table.y), folder / "model.skops")
    return "model.skops", X[:ROWS]


def california_catboost(folder: Path, data: Data) -> Trained:
    """CatBoost, 500 symmetric trees of depth 6 on california: 9 columns, blanks."""
    import catboost

    table = data.california()
    X = table.codes.astype(np.float32)
    model = catboost.CatBoostRegressor(
        iterations=500, depth=6, random_seed=0, thread_count=2, allow_writing_files=False
    )
    model.fit(X, table.y, verbose=False).save_model(str(folder / "model.cbm"))
    return "model.cbm", X[:ROWS]

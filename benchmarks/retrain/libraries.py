"""The libraries whose forests are retrained: how each grows one, and answers from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.retrain.data import Array, Split
from bitvec.converters.format import Target

Size = dict[str, Any]
ROUNDS: Final = 100
PATIENCE: Final = 10
"""Rounds without a better loss on the rows held out, after which boosting stops."""


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Parameters
    ----------
    grow : callable
        From a split, a seed and a size, the fitted model.
    others : sequence of (name, size)
        What its user could have grown instead.
    answers : callable
        Labels, or a regressor's numbers, and the scores behind them, that the library itself gives
        for rows from a file that was written for it.
    """

    name: str
    source: str
    to: Target
    suffix: str
    grow: Callable[[Split, int, Size], Any]
    size: Size
    others: tuple[tuple[str, Size], ...]
    answers: Callable[[Path, Split], tuple[Array, Array]]


def _xgboost(rows: Split, seed: int, size: Size) -> Any:
    import xgboost

    made = xgboost.XGBClassifier if rows.is_classifier else xgboost.XGBRegressor
    model = made(
        learning_rate=0.1,
        max_depth=6,
        enable_categorical=True,
        feature_types=_types(rows),
        random_state=seed,
        n_jobs=1,
        **size,
    )
    held_out = {"eval_set": [rows.held_out]} if "early_stopping_rounds" in size else {}
    return model.fit(*rows.fit, verbose=False, **held_out)


def _types(rows: Split) -> list[str]:
    return ["c" if column in rows.categorical else "q" for column in range(rows.fit[0].shape[1])]


def _labels(scores: Array, rows: Split) -> tuple[Array, Array]:
    if not rows.is_classifier:
        return scores, scores
    if scores.ndim == 1:
        return (scores > 0.5).astype(np.int64), np.stack([1 - scores, scores], axis=1)
    return scores.argmax(axis=1), scores


def _xgboost_answers(path: Path, rows: Split) -> tuple[Array, Array]:
    import xgboost

    matrix = xgboost.DMatrix(rows.test[0], feature_types=_types(rows), enable_categorical=True)
    return _labels(xgboost.Booster({"nthread": 1}, model_file=path).predict(matrix), rows)


def _lightgbm(rows: Split, seed: int, size: Size) -> Any:
    import lightgbm

    made = lightgbm.LGBMClassifier if rows.is_classifier else lightgbm.LGBMRegressor
    size = dict(size)
    patience = size.pop("early_stopping_rounds", None)
    stopped: dict[str, Any] = {}
    if patience is not None:
        stopped = {"eval_set": [rows.held_out]}
        stopped["callbacks"] = [lightgbm.early_stopping(patience, verbose=False)]
    model = made(random_state=seed, n_jobs=1, verbose=-1, **size)
    return model.fit(*rows.fit, categorical_feature=list(rows.categorical), **stopped)


def _lightgbm_answers(path: Path, rows: Split) -> tuple[Array, Array]:
    import lightgbm

    booster = lightgbm.Booster(model_file=path)
    return _labels(np.asarray(booster.predict(rows.test[0], num_threads=1)), rows)


def _forest(rows: Split, seed: int, size: Size) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    made = RandomForestClassifier if rows.is_classifier else RandomForestRegressor
    return made(random_state=seed, n_jobs=1, **size).fit(*rows.fit)


def _forest_answers(path: Path, rows: Split) -> tuple[Array, Array]:
    import skops.io

    # Written a moment ago, by this process.
    model = skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
    X = rows.test[0]
    if not rows.is_classifier:
        predicted = model.predict(X)
        return predicted, predicted
    return model.predict(X), model.predict_proba(X)


_BOOSTED: Final[Size] = {"n_estimators": ROUNDS, "early_stopping_rounds": PATIENCE}
_ROUNDS: Final[tuple[tuple[str, Size], ...]] = (
    ("200 rounds", {"n_estimators": 200}),
    ("400 rounds", {"n_estimators": 400}),
)
_FOREST: Final[Size] = {"n_estimators": 50, "max_depth": 8}

LIBRARIES: Final = (
    Library(
        "RandomForest",
        "RandomForest, 50 trees, depth 8",
        "sklearn",
        ".skops",
        _forest,
        _FOREST,
        (
            ("depth 16", _FOREST | {"max_depth": 16}),
            ("no limit of depth", _FOREST | {"max_depth": None}),
            ("200 trees", _FOREST | {"n_estimators": 200}),
        ),
        _forest_answers,
    ),
    Library(
        "xgboost",
        "xgboost, 100 rounds or fewer, depth 6",
        "xgboost",
        ".ubj",
        _xgboost,
        _BOOSTED,
        _ROUNDS,
        _xgboost_answers,
    ),
    Library(
        "LightGBM",
        "LightGBM, 100 rounds or fewer, 31 leaves",
        "lightgbm",
        ".txt",
        _lightgbm,
        _BOOSTED,
        _ROUNDS,
        _lightgbm_answers,
    ),
)

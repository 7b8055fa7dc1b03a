"""scikit-learn's ensembles of forests: voting, calibration, bagging and transformed targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import lightgbm
import numpy as np
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.exactness.cases import Case, Made
from benchmarks.exactness.of_pipelines import saved
from benchmarks.frames import Data, Table

N_ROWS: Final = 1500
SMALL: Final = {"n_estimators": 6, "max_depth": 5, "random_state": 0}


def _classifiers() -> list[tuple[str, Any]]:
    return [
        ("forest", RandomForestClassifier(**SMALL)),
        ("xgboost", xgboost.XGBClassifier(n_estimators=6, max_depth=4, n_jobs=1)),
        ("lightgbm", lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, n_jobs=1)),
    ]


def _regressors() -> list[tuple[str, Any]]:
    return [
        ("forest", RandomForestRegressor(**SMALL)),
        ("histogram", HistGradientBoostingRegressor(max_iter=6)),
    ]


OTHERS: Final = "members of xgboost and LightGBM"
CLASSIFIERS: Final[dict[str, tuple[Callable[[], Any], tuple[str, ...]]]] = {
    "soft voting": (
        lambda: VotingClassifier(_classifiers(), voting="soft", weights=[2, 1, 1.5]),
        ("VotingClassifier, soft", OTHERS),
    ),
    "sigmoid calibration": (
        lambda: CalibratedClassifierCV(GradientBoostingClassifier(**SMALL), cv=3),
        ("CalibratedClassifierCV, sigmoid",),
    ),
    "isotonic calibration": (
        lambda: CalibratedClassifierCV(
            make_pipeline(StandardScaler(), RandomForestClassifier(**SMALL)),
            method="isotonic",
            cv=3,
        ),
        ("CalibratedClassifierCV, isotonic", "members that are pipelines"),
    ),
    "calibration of one model": (
        lambda: CalibratedClassifierCV(
            RandomForestClassifier(**SMALL), method="isotonic", cv=3, ensemble=False
        ),
        ("CalibratedClassifierCV, isotonic",),
    ),
    "bagging": (
        lambda: BaggingClassifier(RandomForestClassifier(**SMALL), 4, max_features=0.7),
        ("Bagging of forests",),
    ),
}
REGRESSORS: Final[dict[str, tuple[Callable[[], Any], tuple[str, ...]]]] = {
    "voting": (lambda: VotingRegressor(_regressors()), ("VotingRegressor",)),
    "a transformed target": (
        lambda: TransformedTargetRegressor(
            RandomForestRegressor(**SMALL), func=np.log1p, inverse_func=np.expm1
        ),
        ("TransformedTargetRegressor",),
    ),
    "bagging of regressors": (
        lambda: BaggingRegressor(HistGradientBoostingRegressor(max_iter=6), 3, random_state=0),
        ("Bagging of forests",),
    ),
}


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    tables = {"classes": (data.higgs, data.letter), "numbers": (data.california, data.higgs)}
    for kind, makers in (("classes", CLASSIFIERS), ("numbers", REGRESSORS)):
        for name, (make, options) in makers.items():
            for table in tables[kind]:
                made = partial(_made, make, table, kind)
                title = f"{name} on {table.__name__}, {kind}"
                yield Case(title, "scikit-learn composition", options, made)
                if OTHERS not in options:
                    in_file = partial(saved, made)
                    kind_of_file = "scikit-learn composition file"
                    yield Case(f"{title}, in a file", kind_of_file, ("skops file",), in_file)


def _made(make: Callable[[], Any], table: Callable[[], Table], kind: str, folder: Path) -> Made:
    part = table().complete().head(N_ROWS)
    X = part.codes[:, :6]
    y = np.unique(part.y, return_inverse=True)[1] % 5 if kind == "classes" else abs(part.y)
    return Made(make().fit(X, y), X)

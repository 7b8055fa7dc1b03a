"""Kernel Density Decision Trees: ten-fold accuracy on the twelve data sets of the paper's Table 2.

The protocol is the paper's: features are standardised on the whole set before it is split (a small
leak, kept so that figures compare), the bandwidth is chosen by cross-validation within the training
folds, one for all features, and forests take the single tree's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from xgboost import XGBClassifier

from benchmarks.datasets import read
from bitvec.converters.native.kddt import from_kddt_forest
from bitvec.core.kernels import box
from bitvec.learners.kddt.events import densities_of
from bitvec.learners.kddt.expectations import expectations
from bitvec.learners.kddt.rules import GRID
from bitvec.learners.kddt.search import search
from bitvec.learners.kddt.sklearn import KDDTClassifier, KDDTRegressor
from bitvec.learners.kddt.sklearn_forests import (
    KDDTExtraTreesClassifier,
    KDDTRandomForestClassifier,
    KDDTRandomForestRegressor,
)
from bitvec.learners.kddt.tree import GrownTree, Limits, class_targets

Array = np.ndarray[Any, Any]

# Accuracy in the paper's Table 2: tree of scikit-learn, soft, crisp; random forest of scikit-learn,
# soft, crisp; extra trees of scikit-learn, soft, crisp; xgboost.
METHODS: Final = (
    "cart",
    "soft",
    "crisp",
    "rf",
    "rf soft",
    "rf crisp",
    "et",
    "et soft",
    "et crisp",
    "xgboost",
)
PAPER: Final = {
    "iris": (94.0, 96.7, 97.3, 94.0, 94.7, 95.3, 95.3, 95.3, 96.0, 94.0),
    "wine": (88.2, 97.7, 94.3, 97.7, 98.9, 98.9, 98.3, 98.3, 98.3, 96.0),
    "glass": (71.0, 73.3, 71.0, 78.6, 80.9, 77.6, 77.1, 76.7, 76.3, 78.1),
    "sonar": (72.0, 83.1, 78.3, 83.6, 86.0, 89.4, 88.0, 89.4, 89.4, 84.6),
    "segment210": (88.6, 89.5, 89.0, 91.9, 92.9, 92.4, 91.4, 92.9, 91.9, 87.6),
    "ionosphere": (87.8, 92.3, 93.2, 93.7, 94.9, 94.9, 94.3, 94.3, 94.3, 93.2),
    "yeast": (58.6, 61.3, 60.2, 61.9, 61.3, 62.3, 60.9, 61.5, 60.5, 59.4),
    "spambase": (92.1, 93.5, 92.2, 95.4, 95.6, 95.3, 96.0, 95.6, 95.5, 95.6),
    "optdigits": (90.8, 97.7, 94.9, 98.3, 98.6, 98.6, 98.5, 98.6, 98.6, 97.8),
    "pendigits": (96.3, 98.9, 98.0, 99.1, 99.3, 99.3, 99.4, 99.4, 99.3, 99.1),
    "satimage": (87.4, 90.6, 88.7, 92.0, 91.7, 91.7, 91.8, 91.7, 91.6, 92.1),
    "letter": (88.1, 94.5, 88.1, 96.8, 96.6, 96.6, 97.4, 97.5, 97.4, 96.5),
}
QUICK: Final = ("iris", "wine", "sonar")
LARGE: Final = ("optdigits", "pendigits", "satimage", "letter")
"""More than 5,000 rows: one seed."""
N_FOLDS: Final = 10
SEEDS: Final = 5
N_TREES: Final = 100
REGRESSION_SEEDS: Final = 3
ALPHAS: Final = np.logspace(-5, 0, 11)


REGRESSION: Final = "california"
GROWTH: Final = "growth"
LETTER: Final = "letter, bandwidth 0.1"
"""The whole of letter, one tree: its seconds are asked for."""
SIZES: Final = tuple(1 << power for power in range(10, 18))
"""Rows of drawn data, on which trees of one depth are timed."""


def units(*, quick: bool) -> list[tuple[Any, ...]]:
    """Return (name, seed, fold) of all that is to be measured: small sets first, seed by seed.

    A run that is stopped has every set, with fewer seeds. Of growth the last number is the number
    of rows.
    """
    sizes = SIZES[:4] if quick else SIZES
    found = [(GROWTH, 0, n_rows) for n_rows in sizes]
    if not quick:
        found += [(LETTER, 0, 0)]
        found += [(REGRESSION, seed, 0) for seed in range(REGRESSION_SEEDS)]
    return found + [
        (name, seed, fold)
        for seed in range(1 if quick else SEEDS)
        for name in PAPER
        if (not quick or name in QUICK) and (seed == 0 or name not in LARGE)
        for fold in range(N_FOLDS)
    ]


def measured(unit: tuple[Any, ...], data: Path) -> dict[str, Any]:
    """Return the accuracy of every method on one fold, with leaves, bandwidths and seconds."""
    name, seed, fold = unit
    if name == GROWTH:
        return growth(fold)
    if name == LETTER:
        return {"seconds": {"soft": _letter_seconds(data)}}
    if name == REGRESSION:
        return regression(data, seed)
    table = read(data, name)
    deviation = table.X.std(axis=0)
    X = (table.X - table.X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    folds = np.random.default_rng(seed).permutation(len(X)) % N_FOLDS
    rest = folds != fold
    of_fold = _Fold(X[rest], table.y[rest], X[~rest], table.y[~rest], 1000 * seed + fold)
    answer: dict[str, Any] = {"accuracy": {}, "seconds": {}, "leaves": {}}
    begin = time.perf_counter()
    answer["bandwidth"] = of_fold.bandwidths()
    answer["seconds"]["search"] = round(time.perf_counter() - begin, 3)
    same = answer["bandwidth"]["soft"] == answer["bandwidth"]["crisp"]
    models = _models(of_fold.seed, answer["bandwidth"])
    for method, model in models.items():
        begin = time.perf_counter()
        if same and method.endswith("crisp"):  # the trees are there, and only answer otherwise
            soft = method.replace("crisp", "soft")
            model = models[method] = crisply(models[soft])
            begin -= answer["seconds"][soft]
        else:
            model.fit(of_fold.X, of_fold.y)
        score = float(np.mean(model.predict(of_fold.test_X) == of_fold.test_y))
        answer["accuracy"][method] = round(score, 6)
        answer["seconds"][method] = round(time.perf_counter() - begin, 3)
        answer["leaves"][method] = _leaves(model)
    return answer


def crisply(model: Any) -> Any:
    """Return what the model would be if it had been fitted with `predict_kernel=None`."""
    trees = [replace(tree, kernel=None) for tree in model.trees_]
    other = copy(model)
    other.set_params(predict_kernel=None)
    other.trees_ = tuple(trees)
    other._hold(from_kddt_forest(trees) if hasattr(model, "n_estimators") else trees[0])
    return other


def growth(n_rows: int) -> dict[str, Any]:
    """Return the seconds of a tree of 256 leaves on drawn rows, the best of three."""
    drawn = np.random.default_rng(0)
    X = drawn.normal(size=(n_rows, 8))
    y = (X @ drawn.normal(size=(8, 4)) + drawn.normal(size=(n_rows, 4))).argmax(axis=1)
    model = KDDTClassifier(bandwidth=0.1, max_depth=8)
    seconds = []
    for _ in range(4):  # the first compiles
        begin = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - begin)
    return {"seconds": {"soft": round(min(seconds[1:]), 4)}, "leaves": model.forest_.n_leaves}


def _letter_seconds(data: Path) -> float:
    table = read(data, "letter")
    X = (table.X - table.X.mean(axis=0)) / table.X.std(axis=0)
    KDDTClassifier(bandwidth=0.1, max_depth=2).fit(X, table.y)  # compiles
    begin = time.perf_counter()
    KDDTClassifier(bandwidth=0.1).fit(X, table.y)
    return round(time.perf_counter() - begin, 3)


def regression(data: Path, seed: int) -> dict[str, Any]:
    """Return the error of regressors on a fifth of california's rows, drawn by seed.

    The blanks in the number of bedrooms become the median of the training rows.
    """
    table = read(data, "california")
    order = np.random.default_rng(seed).permutation(len(table.y))
    test, rest = order[: len(order) // 5], order[len(order) // 5 :]
    X = np.where(np.isnan(table.X), np.nanmedian(table.X[rest], axis=0), table.X)
    tuned = GridSearchCV(
        DecisionTreeRegressor(random_state=seed),
        {"ccp_alpha": np.logspace(-6, -2, 13), "min_samples_leaf": [1, 5, 10, 20]},
        cv=KFold(5, shuffle=True, random_state=seed),
        scoring="neg_mean_squared_error",
        n_jobs=1,
    )
    own: dict[str, Any] = {"min_weight": 5, "random_state": seed, "n_jobs": 1}
    models: dict[str, Any] = {
        "cart": tuned,
        "soft": KDDTRegressor(**own),
        "crisp": KDDTRegressor(**own, predict_kernel=None),
        "rf soft": KDDTRandomForestRegressor(**own, bandwidth="silverman", max_features=0.5),
        "rf": RandomForestRegressor(max_features=0.5, random_state=seed, n_jobs=1),
    }
    answer: dict[str, Any] = {"rmse": {}, "seconds": {}, "leaves": {}}
    for method, model in models.items():
        begin = time.perf_counter()
        model.fit(X[rest], table.y[rest])
        error = model.predict(X[test]) - table.y[test]
        answer["rmse"][method] = round(float(np.sqrt(np.mean(error**2))), 6)
        answer["seconds"][method] = round(time.perf_counter() - begin, 3)
        answer["leaves"][method] = _leaves(model)
    return answer


class _Fold:
    """Rows to learn from and rows to test on; classes are numbered as the former know them."""

    def __init__(self, X: Array, y: Array, test_X: Array, test_y: Array, seed: int) -> None:
        known, self.y = np.unique(y, return_inverse=True)
        # A class that no training row has is told wrong by every method.
        number = {label: code for code, label in enumerate(known.tolist())}
        self.test_y = np.array([number.get(label, -1) for label in test_y.tolist()])
        self.X, self.test_X, self.seed = X, test_X, seed

    def bandwidths(self) -> dict[str, float]:
        """Return the best bandwidth to predict softly, and to predict crisply, by ten folds."""
        n_features, n_classes = self.X.shape[1], int(self.y.max()) + 1
        folds = np.random.default_rng(self.seed).permutation(len(self.y)) % N_FOLDS

        def score(tree: GrownTree, bandwidth: Array, rows: Array) -> Array:
            right = []
            for widths in (bandwidth, np.zeros(n_features)):
                densities = densities_of(self.X[rows], [box(h) for h in widths])
                found = expectations(tree, densities).argmax(axis=1)
                right.append(float(np.sum(found == self.y[rows])))
            return np.array(right)

        found = search(
            self.X,
            class_targets(self.y, n_classes, "gini"),
            np.ones(len(self.y)),
            [box(1.0)] * n_features,
            np.ones(n_features),
            folds=folds,
            grid=GRID,
            limits=Limits(),
            score=score,
            n_kinds=2,
        )
        return {"soft": found.best(0), "crisp": found.best(1)}


def _models(seed: int, bandwidth: dict[str, float]) -> dict[str, Any]:
    """Return every method, to be fitted; each has one thread."""
    inner = KFold(N_FOLDS, shuffle=True, random_state=seed)
    tuned = GridSearchCV(
        DecisionTreeClassifier(random_state=seed), {"ccp_alpha": ALPHAS}, cv=inner, n_jobs=1
    )
    forests: dict[str, Callable[..., Any]] = {
        "rf": KDDTRandomForestClassifier,
        "et": KDDTExtraTreesClassifier,
    }
    own = {"n_estimators": N_TREES, "random_state": seed, "n_jobs": 1}
    models: dict[str, Any] = {
        "cart": tuned,
        "rf": RandomForestClassifier(**own),
        "et": ExtraTreesClassifier(**own),
        "xgboost": XGBClassifier(n_jobs=1, random_state=seed),
    }
    for kind, kernel in (("soft", "same"), ("crisp", None)):
        options: dict[str, Any] = {"bandwidth": bandwidth[kind], "predict_kernel": kernel}
        models[kind] = KDDTClassifier(**options, random_state=seed)
        for family, make in forests.items():
            models[f"{family} {kind}"] = make(**options, **own)
    return {method: models[method] for method in METHODS}


def _leaves(model: Any) -> int | None:
    """Return the leaves of a single tree."""
    if isinstance(model, GridSearchCV):
        return int(model.best_estimator_.get_n_leaves())
    if isinstance(model, KDDTClassifier | KDDTRegressor):
        return model.forest_.n_leaves
    return None

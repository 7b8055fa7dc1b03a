"""Workloads drawn at random: models that no kernel was tuned on.

Each has a number that seeds all of it: library, trees, leaves, columns and classes, all but the
library and classes uniform in their logarithm. Trees are fewer where a model would hold more leaves
than `MOST_LEAVES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from benchmarks.engine.workloads import Asks

MODELS: Final = 40
MOST_LEAVES: Final = 300_000
TEST_ROWS: Final = 20_000
LIBRARIES: Final = ("xgboost", "lightgbm", "catboost", "forest", "extra", "gradient", "tree")


@dataclass(frozen=True, slots=True)
class Draw:
    """One model to be trained; no classes make a regression."""

    library: str
    n_trees: int
    n_leaves: int
    n_features: int
    n_classes: int

    @property
    def depth(self) -> int:
        """Depth of complete trees of as many leaves, or the next more."""
        return int(np.ceil(np.log2(self.n_leaves)))


def draw(number: int) -> Draw:
    """Return the model of a number, from 1 on."""
    rng = np.random.default_rng(1000 + number)

    def uniform_in_log(low: int, high: int) -> int:
        return int(np.exp(rng.uniform(np.log(low), np.log(high))))

    library = str(rng.choice(LIBRARIES))
    leaves, columns = uniform_in_log(4, 20_000), uniform_in_log(5, 500)
    classes = int(rng.choice([0, 2, uniform_in_log(3, 20)], p=[0.4, 0.3, 0.3]))
    trees = 1 if library == "tree" else uniform_in_log(1, 2000)
    boosted_classes = classes if classes > 2 and library not in ("forest", "extra", "tree") else 1
    most = max(1, MOST_LEAVES // (leaves * boosted_classes))
    return Draw(library, min(trees, most), leaves, columns, classes)


def kind(number: int) -> tuple[str, Asks]:
    """Return the library of a number's model, and what it is asked for."""
    one = draw(number)
    library = one.library if one.library in _BOOSTERS else "sklearn"
    return library, "probabilities" if one.n_classes else "values"


def model(number: int, folder: Path, *, small: bool) -> tuple[str, np.ndarray]:
    """Model drawn at random."""
    one = draw(number)
    n = 1_000 if small else max(20_000, 3 * one.n_leaves)
    rng = np.random.default_rng(number)
    X = rng.normal(size=(n + TEST_ROWS, one.n_features)).astype(np.float32)
    y = _targets(X, one.n_classes, rng)[:n]
    return _BOOSTERS.get(one.library, _by_sklearn)(one, X[:n], y, folder), X[n:]


def _targets(X: np.ndarray, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers, or the class whose score is largest; not a plane, and with noise."""
    hidden = X[:, :20] @ rng.normal(size=(min(20, X.shape[1]), max(1, n_classes)))
    hidden += np.sin(3 * hidden) + X[:, :1] * X[:, -1:] + rng.normal(size=hidden.shape)
    return hidden.argmax(axis=1) if n_classes else hidden[:, 0]


def _by_xgboost(one: Draw, X: np.ndarray, y: np.ndarray, folder: Path) -> str:
    import xgboost

    kind = xgboost.XGBClassifier if one.n_classes else xgboost.XGBRegressor
    trained = kind(
        n_estimators=one.n_trees, max_depth=one.depth, max_leaves=one.n_leaves, tree_method="hist",
        n_jobs=2,
    )  # fmt: skip
    trained.fit(X, y).save_model(folder / "model.ubj")
    return "model.ubj"


def _by_lightgbm(one: Draw, X: np.ndarray, y: np.ndarray, folder: Path) -> str:
    import lightgbm

    objective = {0: "regression", 2: "binary"}.get(one.n_classes, "multiclass")
    options: dict[str, Any] = {"objective": objective, "num_leaves": one.n_leaves}
    options |= {"num_threads": 2, "verbose": -1, "min_data_in_leaf": 2}
    if objective == "multiclass":
        options["num_class"] = one.n_classes
    trained = lightgbm.train(options, lightgbm.Dataset(X, y), one.n_trees)
    trained.save_model(folder / "model.txt")
    return "model.txt"


def _by_catboost(one: Draw, X: np.ndarray, y: np.ndarray, folder: Path) -> str:
    import catboost

    kind = catboost.CatBoostClassifier if one.n_classes else catboost.CatBoostRegressor
    trained = kind(
        iterations=one.n_trees, depth=min(one.depth, 10), thread_count=2, random_seed=0,
        allow_writing_files=False,
    )  # fmt: skip
    trained.fit(X, y, verbose=False).save_model(str(folder / "model.cbm"))
    return "model.cbm"


def _by_sklearn(one: Draw, X: np.ndarray, y: np.ndarray, folder: Path) -> str:
    import skops.io
    from sklearn import ensemble, tree

    options: dict[str, Any] = {"max_leaf_nodes": one.n_leaves, "random_state": 0}
    name = {
        "forest": "RandomForest", "extra": "ExtraTrees", "gradient": "GradientBoosting"
    }.get(one.library, "DecisionTree")  # fmt: skip
    kind = getattr(
        ensemble if one.library != "tree" else tree,
        name + ("Classifier" if one.n_classes else "Regressor"),
    )
    if one.library != "tree":
        options["n_estimators"] = one.n_trees
    if one.library == "gradient":
        options |= {"max_depth": None, "max_features": "sqrt"}
    elif one.library != "tree":
        options["n_jobs"] = 2
    skops.io.dump(kind(**options).fit(X, y), folder / "model.skops")
    return "model.skops"


_BOOSTERS: Final[dict[str, Callable[[Draw, np.ndarray, np.ndarray, Path], str]]] = {
    "xgboost": _by_xgboost,
    "lightgbm": _by_lightgbm,
    "catboost": _by_catboost,
}

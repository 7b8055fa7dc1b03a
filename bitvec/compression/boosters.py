"""Boosters of few trees, tuned on the rows held out: what a user would take at the same size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

from bitvec.compression.problem import Problem
from bitvec.compression.storage import plain
from bitvec.converters.dispatch import convert_forest
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.engine import NumbaEngine

MOST_ROUNDS = 600
FEW_ROUNDS = 60
"""Rounds below which twice the rate is tried as well."""
ALONE = (4, 8, 16, 31)
"""Numbers of leaves where there is one library only."""
REACH = 8.0
"""Rate times rounds, between rates of .05 and .6."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A booster's options.

    Parameters
    ----------
    library : str
    leaves : int
        Of a tree.
    rate : float
    rounds : int
    """

    library: str
    leaves: int
    rate: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.library}, {self.leaves} leaves, rate {self.rate:g}"


@dataclass(frozen=True, slots=True, eq=False)
class Boosted:
    """A fitted booster.

    Parameters
    ----------
    setting : Setting
    forest : Forest
        Plain, in float32.
    by_round : float64, (n_rounds,)
        Mean loss on the rows held out after each round.
    """

    setting: Setting
    forest: Forest
    by_round: Array

    @property
    def trees_a_round(self) -> int:
        """Trees of a round."""
        return self.forest.n_trees // len(self.by_round)

    def prefix(self, rounds: int) -> Forest:
        """Return the forest of the first rounds."""
        return self.forest.take(np.arange(rounds * self.trees_a_round))

    def best(self, most: int) -> int:
        """Return the number of rounds, up to `most`, after which the loss is least."""
        return int(np.argmin(self.by_round[:most])) + 1


Fit = Callable[[Problem, Setting, Any], Any]


def _sklearn(problem: Problem, setting: Setting, y: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    made = HistGradientBoostingClassifier if problem.n_classes else HistGradientBoostingRegressor
    model = made(
        learning_rate=setting.rate,
        max_iter=setting.rounds,
        max_leaf_nodes=setting.leaves,
        min_samples_leaf=5,
        l2_regularization=1.0,
        early_stopping=False,
        categorical_features=list(problem.categorical) or None,
        monotonic_cst=None if problem.monotone is None else problem.monotone.signs.tolist(),
        random_state=problem.seed,
    )
    X = problem.fit.X.astype(np.float64)
    return model.fit(X, y, sample_weight=problem.fit.weight)


def _lightgbm(problem: Problem, setting: Setting, y: Any) -> Any:
    import lightgbm

    objective = {0: "regression", 2: "binary"}.get(problem.n_classes, "multiclass")
    options = {
        "objective": objective,
        "num_leaves": setting.leaves,
        "learning_rate": setting.rate,
        "min_data_in_leaf": 5,
        "feature_fraction": 0.8,
        "seed": problem.seed,
        "num_threads": 1,
        "verbose": -1,
        "deterministic": True,
        "force_row_wise": True,
    }
    if objective == "multiclass":
        options["num_class"] = problem.n_classes
    if problem.monotone is not None:
        options["monotone_constraints"] = problem.monotone.signs.tolist()
    data = lightgbm.Dataset(
        problem.fit.X,
        y,
        weight=problem.fit.weight,
        categorical_feature=list(problem.categorical),
        free_raw_data=False,
        params={"verbose": -1},
    )
    return lightgbm.train(options, data, setting.rounds)


def _xgboost(problem: Problem, setting: Setting, y: Any) -> Any:
    import xgboost

    options: dict[str, Any] = {
        "objective": {0: "reg:squarederror", 2: "binary:logistic"}.get(
            problem.n_classes, "multi:softprob"
        ),
        "eta": setting.rate,
        "max_leaves": setting.leaves,
        "max_depth": 0,
        "grow_policy": "lossguide",
        "tree_method": "hist",
        "colsample_bytree": 0.8,
        "subsample": 0.8,
        "seed": problem.seed,
        "nthread": 1,
        "verbosity": 0,
    }
    if problem.n_classes > 2:
        options["num_class"] = problem.n_classes
    if problem.monotone is not None:
        options["monotone_constraints"] = tuple(problem.monotone.signs.tolist())
    data = xgboost.DMatrix(problem.fit.X, y, weight=problem.fit.weight, nthread=1)
    return xgboost.train(options, data, setting.rounds)


LIBRARIES: Final[dict[str, tuple[Fit, tuple[int, ...]]]] = {
    "sklearn": (_sklearn, (16,)),
    "xgboost": (_xgboost, (8,)),
    "lightgbm": (_lightgbm, (4, 8, 16, 31)),
}
"""By the name that is imported: how a booster is fitted, and the numbers of leaves tried.

Of the last one that is installed larger rates are tried too."""


def libraries(problem: Problem) -> tuple[list[str], list[str]]:
    """Return the libraries whose boosters are tried, and why others are left out."""
    tried, notes = [], []
    for name in LIBRARIES:
        try:
            import_module(name)
        except (ImportError, OSError) as error:  # LightGBM without OpenMP raises the latter
            absent = isinstance(error, ModuleNotFoundError)
            why = "is not installed" if absent else f"cannot be loaded ({error})"
            notes.append(f"{name} {why}: its boosters were left out.")
            continue
        if name == "xgboost" and problem.categorical:
            notes.append("xgboost's boosters were left out: columns hold categories.")
        else:
            tried.append(name)
    return tried, notes


def settings(problem: Problem, names: list[str], room: Callable[[int], float]) -> Iterator[Setting]:
    """Yield settings for a size.

    Parameters
    ----------
    names : list of str
        Libraries.
    room : callable
        From the leaves of a tree to the number of such trees that there is about room for.
    """
    for name in names:
        leaf_counts = LIBRARIES[name][1]
        for leaves in leaf_counts if len(names) > 1 else ALONE:
            rounds = min(int(room(leaves) / problem.n_outputs), MOST_ROUNDS)
            if not rounds:
                continue
            rate = float(np.clip(round(REACH / rounds, 2), 0.05, 0.6))
            yield Setting(name, leaves, rate, rounds)
            if name == names[-1] and rounds < FEW_ROUNDS:
                yield Setting(name, leaves, min(2 * rate, 0.8), rounds)


def fitted(problem: Problem, setting: Setting) -> Boosted:
    """Fit a booster, and judge it after each round."""
    from threadpoolctl import threadpool_limits  # scikit-learn needs it as well

    with threadpool_limits(1):  # small fits are slower by several threads, which wait for others
        model = LIBRARIES[setting.library][0](problem, setting, problem.y)
    forest = problem.named(plain(convert_forest(model)))
    return Boosted(setting, forest, by_round(problem, forest, _rounds(problem, forest)))


def _rounds(problem: Problem, forest: Forest) -> int:
    return forest.n_trees // problem.n_outputs


def by_round(problem: Problem, forest: Forest, rounds: int) -> Array:
    """Return the mean loss on the rows held out after each round of trees."""
    data, each = problem.held_out, forest.n_trees // rounds
    exits = NumbaEngine(forest).exit_leaves(data.X).astype(np.int64)
    leaf = exits + forest.bitvectors.leaf_ptr[:-1]
    weight = data.weight / data.weight.sum()
    raw = np.tile(forest.output.base_score.astype(np.float64), (len(data), 1))
    found = np.empty(rounds)
    v, output = forest.leaves.v.astype(np.float64), forest.leaves.output
    for number in range(rounds):
        for tree in range(number * each, (number + 1) * each):
            part = v[leaf[:, tree]]
            if output is None:
                raw += part
            else:
                raw[:, output[leaf[0, tree]]] += part[:, 0]
        loss = problem.losses(forest.output, raw.astype(forest.output.dtype), data)
        found[number] = (loss * weight).sum()
    return found

"""Boosters of few trees, tuned on the rows held out: what a user would take at the same size.

And means of some of them, of other draws of rows and columns, whose trees stand round by round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

import numpy as np

from bitvec.compression.problem import Problem
from bitvec.compression.storage import plain
from bitvec.compression.sums import weighted_sum
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
SEED = 1_000_003
"""Between the seeds of boosters whose mean is taken."""
BAGS = 3
"""Boosters whose mean is tried."""
PLAIN, SAMPLED, RANDOM = "", ", sampled rows", ", random splits"
"""Names of ways to grow, as recipes are told. The last two draw, so that a mean gains."""
WAYS: Final[dict[str, dict[str, Any]]] = {
    PLAIN: {"feature_fraction": 0.8},
    SAMPLED: {
        "feature_fraction": 0.6,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
    },
    RANDOM: {
        "feature_fraction_bynode": 0.7,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
        "extra_trees": True,
    },
}
"""LightGBM's options for each."""


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
    way : str
        One of `WAYS`.
    bags : int
        Boosters of which this is the mean.
    """

    library: str
    leaves: int
    rate: float
    rounds: int
    way: str = PLAIN
    bags: int = 1

    def __str__(self) -> str:
        bags = "booster" if self.bags == 1 else f"mean of {self.bags} boosters"
        return f"{bags} of {self.library}, {self.leaves} leaves, rate {self.rate:g}{self.way}"

    @property
    def group(self) -> tuple[str, int]:
        """The way and the number of boosters."""
        return self.way, self.bags

    def in_bags(self) -> Setting:
        """Return the mean of `BAGS` boosters that takes the same room."""
        rounds = -(-self.rounds // BAGS)
        return replace(self, rounds=rounds, rate=rate_of(rounds), bags=BAGS)


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

    def best(self, most: int) -> int:
        """Return the number of rounds, up to `most`, after which the loss is least."""
        return int(np.argmin(self.by_round[:most])) + 1


Fit = Callable[[Problem, Setting, int], Any]


def _sklearn(problem: Problem, setting: Setting, seed: int) -> Any:
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
        random_state=seed,
    )
    X = problem.fit.X.astype(np.float64)
    return model.fit(X, problem.y, sample_weight=problem.fit.weight)


def _lightgbm(problem: Problem, setting: Setting, seed: int) -> Any:
    import lightgbm

    objective = {0: "regression", 2: "binary"}.get(problem.n_classes, "multiclass")
    options = {
        "objective": objective,
        "num_leaves": setting.leaves,
        "learning_rate": setting.rate,
        "min_data_in_leaf": 5,
        "seed": seed,
        "num_threads": 1,
        "verbose": -1,
        "deterministic": True,
        "force_row_wise": True,
    } | WAYS[setting.way]
    if objective == "multiclass":
        options["num_class"] = problem.n_classes
    if problem.monotone is not None:
        options["monotone_constraints"] = problem.monotone.signs.tolist()
    data = lightgbm.Dataset(
        problem.fit.X,
        problem.y,
        weight=problem.fit.weight,
        categorical_feature=list(problem.categorical),
        free_raw_data=False,
        params={"verbose": -1},
    )
    return lightgbm.train(options, data, setting.rounds)


def _xgboost(problem: Problem, setting: Setting, seed: int) -> Any:
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
        "seed": seed,
        "nthread": 1,
        "verbosity": 0,
    }
    if problem.n_classes > 2:
        options["num_class"] = problem.n_classes
    if problem.monotone is not None:
        options["monotone_constraints"] = tuple(problem.monotone.signs.tolist())
    data = xgboost.DMatrix(problem.fit.X, problem.y, weight=problem.fit.weight, nthread=1)
    return xgboost.train(options, data, setting.rounds)


@dataclass(frozen=True, slots=True)
class Library:
    """Library of boosters: the way to fit one, and what is tried of them.

    Parameters
    ----------
    fit : callable
    leaves : tuple of int
        Of a tree, where other libraries are there too.
    ways : tuple of str
        Of `WAYS`.
    draws : bool
        Whether rows or columns are drawn without any of these ways, so that a mean gains.
    """

    fit: Fit
    leaves: tuple[int, ...]
    ways: tuple[str, ...] = (PLAIN,)
    draws: bool = False


LIBRARIES: Final[dict[str, Library]] = {
    "sklearn": Library(_sklearn, (16,)),
    "xgboost": Library(_xgboost, (8,), draws=True),
    "lightgbm": Library(_lightgbm, (4, 8, 16, 31), tuple(WAYS)),
}
"""By the name that is imported. Of the last one that is installed larger rates are tried too."""


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
    """Yield settings for a size, of the first way to grow.

    Parameters
    ----------
    names : list of str
        Libraries.
    room : callable
        From the leaves of a tree to the number of such trees that there is about room for.
    """
    for name in names:
        for leaves in LIBRARIES[name].leaves if len(names) > 1 else ALONE:
            rounds = min(int(room(leaves) / problem.n_outputs), MOST_ROUNDS)
            if not rounds:
                continue
            yield Setting(name, leaves, rate_of(rounds), rounds)
            if name == names[-1] and rounds < FEW_ROUNDS:
                yield Setting(name, leaves, min(2 * rate_of(rounds), 0.8), rounds)


def draws(setting: Setting) -> bool:
    """Return whether boosters of other seeds differ, so that their mean gains."""
    return setting.way != PLAIN or LIBRARIES[setting.library].draws


def rate_of(rounds: int) -> float:
    """Return the rate of so many rounds."""
    return float(np.clip(round(REACH / rounds, 2), 0.05, 0.6))


def fitted(problem: Problem, setting: Setting) -> Boosted:
    """Fit a booster, and judge it after each round."""
    forest = grown(problem, setting)
    rounds = forest.n_trees // (setting.bags * problem.n_outputs)
    return Boosted(setting, forest, by_round(problem, forest, rounds))


def grown(problem: Problem, setting: Setting) -> Forest:
    """Return the forest of a setting, fitted: plain, its trees round by round."""
    from threadpoolctl import threadpool_limits  # scikit-learn needs it as well

    fit, seed = LIBRARIES[setting.library].fit, problem.seed
    with threadpool_limits(1):  # small fits are slower by several threads, which wait for others
        models = [fit(problem, setting, seed + SEED * number) for number in range(setting.bags)]
    parts = [problem.named(plain(convert_forest(model))) for model in models]
    if len(parts) == 1:
        return parts[0]
    rounds = min(part.n_trees for part in parts) // problem.n_outputs
    parts = [part.take(np.arange(rounds * problem.n_outputs)) for part in parts]
    order = np.arange(len(parts) * parts[0].n_trees).reshape(len(parts), rounds, -1)
    whole = weighted_sum(parts, [1 / len(parts)] * len(parts))
    return whole.take(order.transpose(1, 0, 2).ravel())


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

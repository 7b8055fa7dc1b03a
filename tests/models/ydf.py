"""Models of YDF: each learner and loss, ways of growing, kinds of conditions and of missing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import ydf

ydf.verbose(0)

FEATURES = ["a", "b", "c", "d"]
WORDS = ["w", "x", "y", "z", "café"]
TARGETS = {"two": "two classes", "class": "several classes", "number": "regression"}
"""Labels, and the options that they stand for; counts and groups are beside them."""


def table(seed: int = 0, n: int = 500) -> dict[str, np.ndarray]:
    """Numbers, categories and truth values, some missing, and labels of every kind."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n)).astype(np.float32)
    c, d = rng.choice(WORDS, n).astype(object), rng.random(n) < 0.5
    y = a + 0.5 * b + (c == "x") + d
    for column, missing in ((a, np.nan), (b, np.nan), (c, "")):
        column[rng.random(n) < 0.15] = missing
    return {
        "a": a,
        "b": b,
        "c": c,
        "d": d,
        "two": np.where(y > 0.8, "yes", "no"),
        "class": np.digitize(y, [0, 0.8, 1.6]),
        "number": y.astype(np.float32),
        "count": np.round(np.abs(y)).astype(np.float32),
        "group": rng.integers(0, 20, n),
    }


DATA = table()


class Model(NamedTuple):
    """How a model is trained.

    Parameters
    ----------
    learner : str
        Its class, without "Learner".
    label : str
        A column of the table; none for an isolation forest.
    """

    learner: str
    label: str = ""
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def ranks(self) -> bool:
        """Whether its task is a ranking."""
        return "NDCG" in self.options.get("loss", "")

    @property
    def supported(self) -> tuple[str, ...]:
        """The options of the format that this model has, beside those that its data bring."""
        losses = {"POISSON": "Poisson", "MEAN_AVERAGE_ERROR": "absolute error"}
        loss = losses.get(self.options.get("loss", ""))
        target = "ranking" if self.ranks else TARGETS.get(self.label, "regression")
        return (
            KINDS[self.learner],
            *([target] if self.label else []),
            *([loss] if loss else []),
            *(["shares"] if not self.options.get("winner_take_all", True) else []),
            *(["sparse oblique conditions"] if "split_axis" in self.options else []),
            *(["discretized numbers"] if BINS.items() <= self.options.items() else []),
        )


BOOSTED, FOREST, CART, ISOLATION = KINDS = {
    "GradientBoostedTrees": "gradient boosted trees",
    "RandomForest": "random forest",
    "Cart": "CART",
    "IsolationForest": "isolation forest",
}
COMMON: dict[str, dict[str, Any]] = {
    BOOSTED: {"num_trees": 4, "max_depth": 4, "validation_ratio": 0.0},
    FOREST: {"num_trees": 7, "max_depth": 6},
    CART: {},
    ISOLATION: {"num_trees": 5},
}
LOSSES = {
    **dict.fromkeys(("BINOMIAL_LOG_LIKELIHOOD", "BINARY_FOCAL_LOSS"), "two"),
    "MULTINOMIAL_LOG_LIKELIHOOD": "class",
    **dict.fromkeys(("SQUARED_ERROR", "MEAN_AVERAGE_ERROR"), "number"),
    **dict.fromkeys(("POISSON", "LAMBDA_MART_NDCG", "LAMBDA_MART_NDCG5", "XE_NDCG_MART"), "count"),
}
"""The label of each."""
OBLIQUE = {"split_axis": "SPARSE_OBLIQUE"}
BINS = {"discretize_numerical_columns": True}
BLANKS = {"allow_na_conditions": True}
OPTIONS: dict[str, dict[str, Any]] = {
    "oblique": OBLIQUE,
    "conditions on missing values": BLANKS,
    "oblique, conditions on missing values": {**OBLIQUE, **BLANKS},
    "bins": BINS,
    "one-hot": {"categorical_algorithm": "ONE_HOT"},
    "random categories": {"categorical_algorithm": "RANDOM"},
    "best first": {"growing_strategy": "BEST_FIRST_GLOBAL", "max_num_nodes": 9, "max_depth": -1},
    "large trees": {"max_depth": 12, "min_examples": 1},
    "global imputation": {"missing_value_policy": "GLOBAL_IMPUTATION"},
}
SHARES = {"winner_take_all": False}

MODELS: dict[str, Model] = {
    **{loss: Model(BOOSTED, label, {"loss": loss}) for loss, label in LOSSES.items()},
    **{
        f"{loss}, oblique": Model(BOOSTED, LOSSES[loss], {"loss": loss, **OBLIQUE})
        for loss in ("POISSON", "MEAN_AVERAGE_ERROR")
    },
    **{f"{FOREST}, {label}": Model(FOREST, label) for label in TARGETS},
    **{f"{CART}, {label}": Model(CART, label) for label in TARGETS},
    **{f"shares, {label}": Model(FOREST, label, SHARES) for label in ("two", "class")},
    **{
        f"an even number of trees, {label}": Model(FOREST, label, {"num_trees": 6})
        for label in ("two", "class")
    },
    **{
        f"{learner}, {name}, {label}": Model(learner, label, options)
        for name, options in OPTIONS.items()
        for label in TARGETS
        for learner in (BOOSTED, FOREST)
        if name != "one-hot" or (learner == FOREST and label != "number")  # all that is offered
    },
    ISOLATION: Model(ISOLATION),
    "oblique isolation": Model(ISOLATION, options=OBLIQUE),
}
MODELS = {name: model for name, model in MODELS.items() if hasattr(ydf, f"{model.learner}Learner")}


def train(model: Model, data: Mapping[str, np.ndarray] = DATA, **more: Any) -> Any:
    """Return a trained model; `more` options go before its own."""
    learner = getattr(ydf, f"{model.learner}Learner")
    options: dict[str, Any] = {**COMMON[model.learner], **more, **model.options}
    options["features"] = [name for name in data if name not in (*TARGETS, "count", "group")]
    if model.label:
        regression = "RANKING" if model.ranks else "REGRESSION"
        classes = model.label in ("two", "class")
        options["task"] = getattr(ydf.Task, "CLASSIFICATION" if classes else regression)
        options["label"] = model.label
    if model.ranks:
        options["ranking_group"] = "group"
    return learner(**options).train(data)


@cache
def trained(name: str) -> Any:
    """Return the model of this name; it is shared, so leave it as it is."""
    return train(MODELS[name])

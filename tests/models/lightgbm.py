"""Models of LightGBM: objectives by kinds of boosting, and the options of trees and of missing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np

from tests.models.samples import GROUP, LABELS, Sample, small

COMMON = {
    "verbose": -1,
    "num_threads": 1,
    "seed": 7,
    "deterministic": True,
    "num_leaves": 8,
    "min_data_in_leaf": 5,
    "min_data_per_group": 5,
    "cat_smooth": 1.0,
}


class Model(NamedTuple):
    """How a model is trained: in which label of a sample, by which parameters.

    Parameters
    ----------
    wrapper : str
        The class of the scikit-learn interface, if not `lightgbm.train`.
    saved : dict
        Of `save_model`: the iterations that a text holds.
    """

    parameters: Mapping[str, Any] = MappingProxyType({})
    label: str = "number"
    rounds: int = 5
    wrapper: str = ""
    saved: Mapping[str, int] = MappingProxyType({})

    @property
    def objective(self) -> str:
        """The objective, given or of the wrapper."""
        of_wrappers = {"LGBMClassifier": "multiclass", "LGBMRanker": "lambdarank"}
        if self.wrapper == "LGBMClassifier" and self.label == "two":
            return "binary"
        given = self.parameters.get("objective", of_wrappers.get(self.wrapper, "regression"))
        return "custom" if callable(given) else given

    @property
    def supported(self) -> tuple[str, ...]:
        """The options of the format that this model has, beside those that its data bring."""
        given = self.parameters
        sqrt = self.objective == "regression" and given.get("reg_sqrt")
        return (
            *([self.objective, *(["regression sqrt"] if sqrt else [])]),
            given.get("boosting", "gbdt"),
            *(["missing Zero"] if given.get("zero_as_missing") else []),
            *(["missing None"] if not given.get("use_missing", True) else []),
            *(["linear_tree"] if given.get("linear_tree") else []),
            *(["constant trees"] if given.get("min_data_in_leaf", 0) > 1000 else []),
            *(["best_iteration"] if "early_stopping_round" in given else []),
            *(["scikit-learn wrapper"] if self.wrapper else []),
        )


ZERO = float(np.float32(1e-35))
"""What is read as zero, up to here."""
SPECIAL = np.array(
    [
        *(0.0, -0.0, 5e-324, -5e-324, ZERO, -ZERO, 2e-35, -2e-35, 5e-36, -5e-36),
        *(np.nextafter(ZERO, 1), np.nextafter(-ZERO, -1), np.inf, -np.inf, np.nan, 1e300, -1e300),
        *(0.5, 2.7, -0.5, -1.0, 9.0, 31.0, 32.0, 40.0, 1e6, 2.0**31, -(2.0**31), 2.0**40),
    ]
)


def probes(n_rows: int = 1500) -> np.ndarray:
    """Rows of the sample of which a third of the values are special ones."""
    rng = np.random.default_rng(2)
    X = small().X[rng.integers(0, len(small().X), n_rows)]
    special = rng.random(X.shape) < 0.35
    X[special] = rng.choice(SPECIAL, int(special.sum()))
    return X


def squares(raw: np.ndarray, data: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of an objective of one's own."""
    return raw - data.get_label(), np.ones_like(raw)


OBJECTIVES = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile"), "number"),
    **dict.fromkeys(("poisson", "mape", "gamma", "tweedie"), "positive"),
    "binary": "two",
    **dict.fromkeys(("multiclass", "multiclassova"), "class"),
    **dict.fromkeys(("cross_entropy", "cross_entropy_lambda"), "share"),
    **dict.fromkeys(("lambdarank", "rank_xendcg"), "grade"),
}
"""The label of each."""
RF = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
SQRT = {"reg_sqrt": True}
OPTIONS: dict[str, dict[str, Any]] = {
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "goss": {"boosting": "goss", "learning_rate": 0.5},
    "zero as missing": {"zero_as_missing": True},
    "no missing": {"use_missing": False},
    "linear": {"linear_tree": True},
    "linear, no missing": {"linear_tree": True, "use_missing": False},
    "one category": {"max_cat_to_onehot": 100},
    "sigmoid": {"sigmoid": 0.7},
    "monotone": {"monotone_constraints": [0, 0, 1, -1]},
    "extra trees": {"extra_trees": True},
    "few bins": {"max_bin": 5},
    "many bins": {"max_bin": 1000},
    "stumps": {"num_leaves": 2},
    "depth": {"max_depth": 2},
    "constant trees": {"min_data_in_leaf": 10**6},
    "path smoothing": {"path_smooth": 1.0},
    "no average": {"boost_from_average": False},
    "feature fraction": {"feature_fraction": 0.4, "feature_fraction_bynode": 0.5},
    "no bundles": {"enable_bundle": False},
}
STOPS = {"learning_rate": 0.5, "early_stopping_round": 3}
PART = {"start_iteration": 2, "num_iteration": 3}

MODELS: dict[str, Model] = {
    **{
        f"{objective}{kind}": Model({"objective": objective, **more}, label)
        for objective, label in OBJECTIVES.items()
        for kind, more in (("", {}), (", rf", RF), (", square roots", SQRT))
    },
    **{
        f"{objective}, {name}": Model({"objective": objective, **more}, OBJECTIVES[objective])
        for name, more in OPTIONS.items()
        for objective in ("regression", "multiclass")
    },
    "regression, dart of square roots": Model({**SQRT, **OPTIONS["dart"]}),
    "binary, goss": Model({"objective": "binary", **OPTIONS["goss"]}, "two"),
    "binary, zero as missing": Model({"objective": "binary", "zero_as_missing": True}, "two"),
    "binary, sigmoid": Model({"objective": "binary", "sigmoid": 0.7}, "two"),
    "binary, unbalanced": Model({"objective": "binary", "is_unbalance": True}, "two"),
    "binary, weighted": Model({"objective": "binary", "scale_pos_weight": 3.0}, "two"),
    "binary, linear": Model({"objective": "binary", "linear_tree": True}, "two"),
    "multiclassova, sigmoid": Model({"objective": "multiclassova", "sigmoid": 0.7}, "class"),
    "custom": Model({"objective": squares}),
    "custom, dart": Model({"objective": squares, **OPTIONS["dart"]}),
    "stopped": Model(STOPS, rounds=200),
    "stopped, binary": Model({**STOPS, "objective": "binary"}, "two", rounds=200),
    "all iterations": Model(STOPS, rounds=200, saved={"num_iteration": -1}),
    "some iterations": Model({"objective": "multiclass"}, "class", 8, saved=PART),
    "some iterations, rf": Model({"objective": "binary", **RF}, "two", 8, saved=PART),
    "classifier of two": Model(label="two", wrapper="LGBMClassifier"),
    "classifier": Model(label="class", wrapper="LGBMClassifier"),
    "regressor": Model(wrapper="LGBMRegressor"),
    "regressor, dart": Model(
        {"objective": "quantile", "boosting": "dart"}, wrapper="LGBMRegressor"
    ),
    "stopped classifier": Model(STOPS, "two", 200, "LGBMClassifier"),
    "ranker": Model(label="grade", wrapper="LGBMRanker"),
}


def train(model: Model, data: Sample | None = None, **more: Any) -> Any:
    """Return a trained Booster or wrapper; `more` parameters go before its own."""
    data = small() if data is None else data
    y = LABELS[model.label](data.y)
    given = {**COMMON, **more, **model.parameters}
    group = [GROUP] * (len(y) // GROUP) if "rank" in model.objective else None
    if model.wrapper:
        return _wrapped(model, data, y, given, group)
    if "monotone_constraints" in given:
        signs = np.resize(given["monotone_constraints"], data.X.shape[1])
        signs[[*data.categorical]] = 0
        given["monotone_constraints"] = signs.tolist()
    if model.objective.startswith("multiclass"):
        given["num_class"] = int(y.max()) + 1
    with warnings.catch_warnings():
        # Codes of categories come as numbers, blanks among them.
        warnings.simplefilter("ignore", UserWarning)
        columns = [*data.categorical]
        if callable(given.get("objective")):
            return _by_hand(given, lgb.Dataset(data.X, y, categorical_feature=columns), model)
        if "early_stopping_round" not in given:
            rows = lgb.Dataset(data.X, y, group=group, categorical_feature=columns)
            return lgb.train(given, rows, model.rounds)
        half = len(y) // 2
        rows = lgb.Dataset(data.X[:half], y[:half], categorical_feature=columns)
        held_out = [rows.create_valid(data.X[half:], y[half:])]
        booster = lgb.train(
            given, rows, model.rounds, valid_sets=held_out, keep_training_booster=True
        )
    assert 0 < booster.best_iteration < booster.current_iteration()
    return booster


def _by_hand(given: dict[str, Any], rows: lgb.Dataset, model: Model) -> Any:
    """Train by gradients of one's own, which leaves no objective in the text."""
    objective = given.pop("objective")
    booster = lgb.Booster({**given, "objective": "none"}, rows)
    for _ in range(model.rounds):
        booster.update(fobj=objective)
    return booster


def _wrapped(
    model: Model, data: Sample, y: np.ndarray, given: dict[str, Any], group: list[int] | None
) -> Any:
    names = {"num_threads": "n_jobs", "seed": "random_state", "boosting": "boosting_type"}
    given = {names.get(key, key): value for key, value in given.items()}
    given = {key: value for key, value in given.items() if key != "early_stopping_round"}
    made = getattr(lgb, model.wrapper)(n_estimators=model.rounds, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if group is not None:
            return made.fit(data.X, y, group=group, categorical_feature=[*data.categorical])
        if "early_stopping_round" not in model.parameters:
            return made.fit(data.X, y, categorical_feature=[*data.categorical])
        half, stop = len(y) // 2, lgb.early_stopping(3, verbose=False)
        held_out = [(data.X[half:], y[half:])]
        return made.fit(data.X[:half], y[:half], eval_set=held_out, callbacks=[stop])


@cache
def trained(name: str) -> Any:
    """Return the model of this name, of the small sample; it is shared, so leave it as it is."""
    return train(MODELS[name])


@cache
def stump(node: str, leaves: str = "is_linear=0") -> Any:
    """Return a Booster of one stump on column 1, from the lines of its node and of its leaves."""
    text = train(Model(rounds=1), small()._replace(categorical=())).model_to_string()
    tree = (
        f"Tree=0\nnum_leaves=2\nnum_cat=0\nsplit_feature=1\n{node}\nleft_child=-1\n"
        f"right_child=-2\nleaf_value=1 2\n{leaves}\nshrinkage=1\n\n\n"
    )
    head = text[: text.index("tree_sizes")] + f"tree_sizes={len(tree)}\n\n"
    return lgb.Booster(model_str=head + tree + text[text.index("end of trees") :])

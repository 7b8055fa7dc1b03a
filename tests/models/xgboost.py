"""Models of xgboost: each objective, booster, tree method, kind of leaf and of category."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xgboost as xgb

from tests.models.samples import LABELS, Sample, groups, small

VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])


class Model(NamedTuple):
    """How a model is trained: in which label of a sample, by which parameters.

    Parameters
    ----------
    options : tuple of str
        Among `supported` of the format: what the parameters do not say.
    wrapper : str
        The class of the scikit-learn interface, if not `xgboost.train`.
    part : slice, optional
        The rounds that are kept.
    since : tuple of int
        The version of xgboost that trains it first.
    """

    parameters: Mapping[str, Any] = MappingProxyType({})
    label: str = "number"
    rounds: int = 5
    options: tuple[str, ...] = ()
    wrapper: str = ""
    categories: bool = False
    part: slice | None = None
    since: tuple[int, int] = (1, 0)

    @property
    def objective(self) -> str:
        """The objective, given or of the wrapper."""
        if "Classifier" in self.wrapper:
            implied = "multi:softprob" if self.label == "class" else "binary:logistic"
        else:
            implied = "rank:ndcg" if self.wrapper == "XGBRanker" else "reg:squarederror"
        return self.parameters.get("objective", implied)

    @property
    def n_bases(self) -> str:
        """Whether the file holds a base score for each output: "scalar" or "vector"."""
        several = self.label in ("class", "targets", "two labels")
        several |= isinstance(self.parameters.get("quantile_alpha"), list)
        estimated = "base_score" not in self.parameters and VERSION >= (3, 1)
        given = isinstance(self.parameters.get("base_score"), list)
        return "vector" if given or (several and estimated) else "scalar"

    @property
    def supported(self) -> tuple[str, ...]:
        """The options of the format that this model has."""
        known = (
            self.objective,
            self.parameters.get("booster", "gbtree"),
            f"base_score {self.n_bases}",
            *([] if "base_score" in self.parameters else ["base_score estimated"]),
            *(["num_parallel_tree"] if "num_parallel_tree" in self.parameters else []),
            *(["num_parallel_tree"] if "RF" in self.wrapper else []),
            *(["multi_output_tree"] if "multi_strategy" in self.parameters else []),
            *(["best_iteration"] if "early_stopping_rounds" in self.parameters else []),
            *(["iteration range"] if self.part else []),
        )
        return (*dict.fromkeys(known), *self.options)


class Objective(NamedTuple):
    label: str
    base: Any = 0.7
    parameters: Mapping[str, Any] = MappingProxyType({})
    since: tuple[int, int] = (1, 0)


OBJECTIVES = {
    "reg:squarederror": Objective("number"),
    "reg:squaredlogerror": Objective("number"),
    "reg:logistic": Objective("share", 0.3),
    "reg:pseudohubererror": Objective("number", parameters={"huber_slope": 1.2}),
    "reg:absoluteerror": Objective("number", since=(1, 7)),
    "reg:quantileerror": Objective(
        "number",
        0.7,
        # Since 3.4 the quantiles of a row are sorted, which is refused.
        {"quantile_alpha": [0.2, 0.5, 0.9] if VERSION < (3, 4) else 0.9},
        (2, 0),
    ),
    "reg:expectileerror": Objective("number", 0.7, {"expectile_alpha": 0.3}, (3, 3)),
    "reg:gamma": Objective("positive"),
    "reg:tweedie": Objective("number", parameters={"tweedie_variance_power": 1.3}),
    "binary:logistic": Objective("two", 0.3),
    "binary:logitraw": Objective("two", 0.3),
    "binary:hinge": Objective("two", 0.3),
    "count:poisson": Objective("count", parameters={"max_delta_step": 0.9}),
    "survival:cox": Objective("censored"),
    "survival:aft": Objective("positive", since=(1, 2)),
    "multi:softmax": Objective("class"),
    "multi:softprob": Objective("class"),
    "rank:pairwise": Objective("grade"),
    "rank:ndcg": Objective("grade"),
    "rank:map": Objective("two"),
}

DART = {"booster": "dart", "rate_drop": 0.5, "seed": 1}
FOREST = {"num_parallel_tree": 3, "subsample": 0.5, "colsample_bynode": 0.7}
CLASSES = {"objective": "multi:softprob"}
VECTORS = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
STOPS = {"learning_rate": 0.9, "early_stopping_rounds": 3}
LOSSGUIDE = {"tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0, "max_leaves": 9}
ONE_HOT, SETS = ("categories one-hot",), ("categories by partition",)

MODELS: dict[str, Model] = {
    **{
        f"{name}, base score {'given' if given else 'estimated'}": Model(
            {
                "objective": name,
                **about.parameters,
                **({"base_score": about.base} if given else {}),
            },
            about.label,
            since=about.since,
        )
        for name, about in OBJECTIVES.items()
        for given in (False, True)
    },
    "dart": Model(DART, rounds=12),
    "dart of classes": Model({**DART, **CLASSES}, "class"),
    "dart of forests": Model({**DART, **FOREST}),
    "dart without trees": Model({**DART, "base_score": 0.5}, rounds=0),
    "forests": Model(FOREST),
    "forests of classes": Model({**FOREST, **CLASSES}, "class", rounds=3),
    "approximate": Model({"tree_method": "approx"}),
    "by leaves": Model(LOSSGUIDE),
    "pruned": Model({"tree_method": "exact", "gamma": 5, "max_depth": 6}),
    "monotone": Model({"monotone_constraints": "(1,0,0,-1)"}),
    "deep": Model({"max_depth": 40, "min_child_weight": 0}, rounds=2),
    "single leaves": Model({"gamma": 1e12}, rounds=3),
    "no trees": Model({"base_score": 0.5}, rounds=0),
    "base score on the edge": Model(
        {"objective": "binary:logistic", "base_score": 0.0}, "two", since=(3, 2)
    ),
    "rounds 2 to 5": Model(part=slice(2, 5)),
    "rounds 2 to 5 of dart": Model(DART, part=slice(2, 5), rounds=6),
    "rounds 2 to 5 of forests": Model(FOREST, part=slice(2, 5)),
    "targets": Model({"base_score": 0.25}, "targets"),
    "base scores": Model({"base_score": [0.5, -1.5, 2.25]}, "targets", since=(3, 1)),
    "vectors": Model(VECTORS, "targets", since=(2, 0)),
    "vectors of classes": Model({**VECTORS, **CLASSES}, "class", since=(2, 0)),
    "vectors of forests": Model({**VECTORS, **FOREST}, "targets", since=(2, 0)),
    "one category": Model({"max_cat_to_onehot": 100}, options=ONE_HOT, categories=True),
    "sets": Model({"max_cat_to_onehot": 1}, options=SETS, categories=True),
    "both": Model({"max_cat_to_onehot": 8}, options=(*ONE_HOT, *SETS), categories=True),
    "sets, approximate": Model({"tree_method": "approx"}, options=SETS, categories=True),
    "sets, dart": Model(DART, options=SETS, categories=True),
    "sets, logistic": Model({"objective": "binary:logistic"}, "two", options=SETS, categories=True),
    "sets, targets": Model(label="targets", options=SETS, categories=True),
    "regressor": Model(wrapper="XGBRegressor"),
    "regressor of targets": Model(label="targets", wrapper="XGBRegressor"),
    "regressor of vectors": Model(VECTORS, "targets", wrapper="XGBRegressor", since=(2, 0)),
    "regressor of probabilities": Model(
        {"objective": "binary:logistic"}, "two", wrapper="XGBRegressor"
    ),
    "classifier of two": Model(label="two", wrapper="XGBClassifier"),
    "classifier": Model(label="class", wrapper="XGBClassifier"),
    "classifier by forests": Model(FOREST, "class", wrapper="XGBClassifier"),
    "classifier of labels": Model(label="two labels", wrapper="XGBClassifier"),
    "classifier of vectors": Model(VECTORS, "class", wrapper="XGBClassifier", since=(2, 0)),
    "classifier by shares": Model({"objective": "reg:logistic"}, "two", wrapper="XGBClassifier"),
    "classifier with a sentinel": Model({"missing": 0.0}, "class", wrapper="XGBClassifier"),
    "sentinel among codes": Model({"missing": 3.0}, wrapper="XGBRegressor", categories=True),
    "sentinel below codes": Model({"missing": -1.0}, wrapper="XGBRegressor", categories=True),
    "random forest": Model(wrapper="XGBRFRegressor"),
    "random forest of classes": Model(label="class", wrapper="XGBRFClassifier"),
    "ranker": Model(label="grade", wrapper="XGBRanker"),
    "stopped": Model(STOPS, rounds=60, wrapper="XGBRegressor"),
    "stopped classifier": Model(STOPS, "class", rounds=60, wrapper="XGBClassifier"),
}
MODELS = {name: model for name, model in MODELS.items() if model.since <= VERSION}


def train(model: Model, data: Sample | None = None, **more: Any) -> Any:
    """Return a trained booster or wrapper; `more` parameters go before its own."""
    data = small() if data is None else data
    y = LABELS[model.label](data.y)
    given = {"nthread": 1, "max_depth": 4, **more, **model.parameters}
    kinds = ["c" if i in data.categorical else "float" for i in range(data.X.shape[1])]
    types = {"feature_types": kinds, "enable_categorical": True} if model.categories else {}
    if model.wrapper:
        return _wrapped(model, data.X, y, {**given, **types})
    query = {"qid": groups(y)} if model.objective.startswith("rank:") else {}
    names = [f"column {i}" for i in range(data.X.shape[1])]
    aft = model.objective == "survival:aft"
    rows = xgb.DMatrix(data.X, None if aft else y, feature_names=names, nthread=1, **types, **query)
    if aft:
        rows.set_float_info("label_lower_bound", y)
        rows.set_float_info("label_upper_bound", np.where(y > np.median(y), np.inf, y * 1.5))
    if model.objective.startswith("multi:"):
        given["num_class"] = y.max() + 1
    booster = xgb.train(given, rows, model.rounds)
    return booster if model.part is None else booster[model.part]


def _wrapped(model: Model, X: np.ndarray, y: np.ndarray, given: dict[str, Any]) -> Any:
    given["n_jobs"] = given.pop("nthread")
    made = getattr(xgb, model.wrapper)(n_estimators=model.rounds, **given)
    if model.wrapper == "XGBRanker":
        return made.fit(X, y, qid=groups(y))
    if "early_stopping_rounds" not in given:
        return made.fit(X, y)
    half = len(y) // 2
    made.fit(X[:half], y[:half], eval_set=[(X[half:], y[half:])], verbose=False)
    assert made.best_iteration + 1 < made.get_booster().num_boosted_rounds()
    return made


@cache
def trained(name: str) -> Any:
    """Return the model of this name, of the small sample; it is shared, so leave it as it is."""
    return train(MODELS[name])


def of_frame() -> tuple[Any, Any]:
    """Return a regressor of a frame with categories that are texts and numbers, and the frame."""
    import pandas

    rng = np.random.default_rng(0)
    text = np.array(["north", "", "a b", "z"], object)[rng.integers(0, 4, 300)]
    number = np.array([10, -5, 20])[rng.integers(0, 3, 300)]
    table = pandas.DataFrame(
        {
            "text": pandas.Categorical(text, ["z", "north", "", "a b"]),
            "plain": rng.normal(size=300),
            "number": pandas.Categorical(number, [20, 10, -5]),
        }
    )
    y = (text == "north") * 2.0 + (number == 20) * table["plain"]
    table.loc[::17, "text"] = None
    model = xgb.XGBRegressor(n_estimators=5, n_jobs=1, enable_categorical=True, max_depth=4)
    return model.fit(table, y), table

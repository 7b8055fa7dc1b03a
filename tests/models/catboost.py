"""Models of CatBoost: each loss, way of growing, treatment of missing values and kind of label."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import catboost as cb
import numpy as np

from tests.models.samples import LABELS, Sample, groups, small

VERSION = tuple(int(part) for part in cb.__version__.split("."))

QUIET: dict[str, Any] = {
    "iterations": 9,
    "depth": 3,
    "learning_rate": 0.3,
    "one_hot_max_size": 100,
    "verbose": 0,
    "allow_writing_files": False,
    "thread_count": 1,
    "random_seed": 1,
}
POLICIES = ("SymmetricTree", "Depthwise", "Lossguide")
REGRESSIONS = {
    **dict.fromkeys(("RMSE", "MAE", "Quantile", "LogCosh", "Expectile:alpha=0.3"), "number"),
    **dict.fromkeys(("Lq:q=2.5", "Huber:delta=1", "LogLinQuantile"), "number"),
    **dict.fromkeys(("RMSEWithUncertainty", "MultiQuantile:alpha=0.1,0.5,0.9"), "number"),
    **dict.fromkeys(("MAPE", "Poisson", "Tweedie:variance_power=1.5"), "positive"),
    **({"RMSPE": "positive"} if VERSION >= (1, 2, 9) else {}),
    "Cox": "positive",
    "SurvivalAft": "interval",
    "MultiRMSE": "targets",
}
CLASSIFICATIONS = {
    **dict.fromkeys(("Logloss", "Focal:focal_alpha=0.5;focal_gamma=2"), "two"),
    "CrossEntropy": "share",
    **dict.fromkeys(("MultiClass", "MultiClassOneVsAll"), "class"),
    "MultiLogloss": "two labels",
    "MultiCrossEntropy": "shares",
}
RANKINGS = {
    **({"GroupQuantile": "number"} if VERSION >= (1, 2, 7) else {}),
    **dict.fromkeys(("QueryRMSE", "PairLogit", "YetiRank"), "number"),
    **dict.fromkeys(("StochasticRank:metric=NDCG", "LambdaMart"), "number"),
    "QuerySoftMax": "two",
}
LOSSES = {**REGRESSIONS, **CLASSIFICATIONS, **RANKINGS}
"""The label of each."""
NAMES = {"text": ("a", "é", "zz"), "integer": (-3, 7, 12)}
"""Of classes, the last of which goes on for all others."""


class Model(NamedTuple):
    """How a plain CatBoost is trained, which answers by its loss.

    Parameters
    ----------
    names : str
        Of `NAMES`, for the classes.
    scale_and_bias : tuple, optional
    """

    loss: str = "RMSE"
    parameters: Mapping[str, Any] = MappingProxyType({})
    names: str = ""
    scale_and_bias: tuple[float, float] | None = None

    @property
    def label(self) -> str:
        """The label of the sample that it learns."""
        return LOSSES[self.loss]

    @property
    def options(self) -> tuple[str, ...]:
        """Its options, those of the format and others."""
        mode = self.parameters.get("nan_mode")
        return (
            self.loss.partition(":")[0],
            self.parameters.get("grow_policy", "SymmetricTree"),
            *([f"nan_mode {mode}"] if mode else []),
            *(["labels of text"] if self.names == "text" else []),
            *(["scale and bias"] if self.scale_and_bias else []),
            *(
                f"CTR {kind}"
                for kind in CTR_TYPES
                if kind in str(self.parameters.get("simple_ctr"))
            ),
            *(["CTR combinations"] if self.parameters.get("max_ctr_complexity", 1) > 1 else []),
        )


MODELS: dict[str, Model] = {
    **{loss: Model(loss, {"grow_policy": POLICIES[len(loss) % 3]}) for loss in LOSSES},
    **{
        f"{loss}, {policy}": Model(loss, {"grow_policy": policy})
        for loss in ("RMSE", "Logloss", "MultiClass", "MultiRMSE")
        for policy in POLICIES
    },
    **{
        f"{loss}, depth 5": Model(loss, {"depth": 5})
        for loss in (
            *("CrossEntropy", "MultiLogloss", "Quantile", "RMSEWithUncertainty", "YetiRank"),
            *("Poisson", "Tweedie:variance_power=1.5"),
        )
    },
    **{
        f"nan_mode {mode}, {policy}": Model("RMSE", {"nan_mode": mode, "grow_policy": policy})
        for mode in ("Min", "Max")
        for policy in POLICIES
    },
    **{
        f"{policy}, scale and bias": Model("RMSE", {"grow_policy": policy}, "", (0.5, 3.25))
        for policy in POLICIES
    },
    **{
        ", ".join(f"{name}={value}" for name, value in more.items()): Model("RMSE", more)
        for more in (
            {"depth": 1},
            {"depth": 8},
            {"border_count": 4},
            {"boost_from_average": True},
            {"boosting_type": "Ordered"},
            {"bootstrap_type": "Bernoulli", "subsample": 0.5},
            {"rsm": 0.5},
            {"grow_policy": "Lossguide", "max_leaves": 5},
            {"iterations": 1},
        )
    },
    "monotone": Model("RMSE", {"monotone_constraints": {2: 1}}),
    **{
        f"{loss} of {names}": Model(loss, names=names)
        for loss in ("MultiClass", "MultiClassOneVsAll", "Logloss")
        for names in NAMES
    },
}


@cache
def with_texts(n_rows: int = 400) -> Sample:
    """Numbers, some missing, texts with the empty one, whole numbers, and texts of both kinds."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n_rows, 3)).astype(np.float32)
    texts = rng.choice(["x", "y", "zé", ""], n_rows)
    wholes = rng.integers(0, 5, n_rows)
    mixed = rng.choice(["1", "2", "unknown"], n_rows)
    y = numbers[:, 0] + (texts == "x") - (texts == "") + (wholes == 2) - (mixed == "1")
    X = np.empty((n_rows, 6), object)
    X[:, :3], X[:, 3], X[:, 4], X[:, 5] = numbers, texts, wholes, mixed
    X[::7, 1] = np.nan
    return Sample(X, y.astype(np.float64) - y.min(), (3, 4, 5))


CTR_TYPES = ("Borders", "Buckets", "BinarizedTargetMeanValue", "Counter")
CTR_LOSSES = ("Logloss", "MultiClass", "RMSE")


def ctr(kind: str, loss: str, depth: int, **more: Any) -> Model:
    """Return how a model is trained on statistics of one type, of up to `depth` columns each."""
    one = [f"{kind}:Prior=0.3/1:Prior=0.9/1"]
    if kind in ("Buckets", "BinarizedTargetMeanValue") and loss == "RMSE":
        one = [f"{one[0]}:TargetBorderCount=3"]
    parameters = {
        "simple_ctr": one,
        "combinations_ctr": one,
        "max_ctr_complexity": depth,
        "one_hot_max_size": 3,
        "iterations": 12,
        "depth": 4,
    }
    return Model(loss, {**parameters, **more})


CTR_MODELS: dict[str, Model] = {
    **{
        f"{kind} of {loss}, {depth} columns": ctr(kind, loss, depth)
        for kind in CTR_TYPES
        for loss in CTR_LOSSES
        for depth in (1, 4)
    },
    **{f"{loss} as it is": Model(loss, {"one_hot_max_size": 2}) for loss in CTR_LOSSES},
    **{
        f"Depthwise {loss}": Model(loss, {"one_hot_max_size": 2, "grow_policy": "Depthwise"})
        for loss in CTR_LOSSES
    },
}
"""Models with statistics of categories, which read the rows of `with_categories`."""


@cache
def with_categories(n_rows: int = 600) -> Sample:
    """Two numbers, one missing at times, texts, whole numbers; what three columns do together."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(2, n_rows)).astype(np.float32).astype(np.float64)
    shop, day, kind = (rng.integers(0, n, n_rows) for n in (7, 8, 5))
    side = rng.choice(["left", "", "right é"], n_rows)
    of_three = rng.normal(size=(7, 8, 5))[shop, day, kind]
    y = 3 * of_three + (side == "left") * (kind > 2) + 0.5 * (numbers[0] > 0)
    X = np.empty((n_rows, 6), object)
    X[:, 0], X[:, 4] = numbers
    X[:, 1] = np.array([f"shop {k}" for k in range(7)])[shop]
    X[:, 2], X[:, 3], X[:, 5] = day - 3, np.array(["u", "v", "w", "zé", ""])[kind], side
    X[::9, 0] = np.nan
    return Sample(X, y - y.min(), (1, 2, 3, 5))


def pool(model: Model, data: Sample) -> Any:
    """Return the rows, codes as whole numbers, with the label of a model."""
    X = data.X
    if X.dtype != object:
        X = X.astype(object)
        columns = [*data.categorical]
        X[:, columns] = np.nan_to_num(data.X[:, columns], nan=-1).astype(int)
    y = LABELS[model.label](data.y)
    if model.names:
        y = np.array(NAMES[model.names])[np.minimum(y, 2)]
    query = groups(data.y) if model.loss in RANKINGS else None
    return cb.Pool(X, y, cat_features=[*data.categorical], group_id=query)


def train(model: Model, data: Sample | None = None, **more: Any) -> Any:
    """Return a trained CatBoost; `more` parameters go before its own."""
    rows = pool(model, small() if data is None else data)
    made = cb.CatBoost({**QUIET, "loss_function": model.loss, **more, **model.parameters}).fit(rows)
    if model.scale_and_bias is not None:
        made.set_scale_and_bias(*model.scale_and_bias)
    return made


@cache
def trained(name: str) -> Any:
    """Return the model of this name, of the small sample; it is shared, so leave it as it is."""
    return train(MODELS[name])


def saved(model: Any, path: Path, *, texts: bool = True) -> Path:
    """Save a model of the sample with texts, with or without these."""
    model.save_model(str(path), format="json", pool=pool(Model(), with_texts()) if texts else None)
    return path

"""Pipelines of scikit-learn: steps by the options that they stand for, before each library's trees.

Each step is a maker of its own, of columns of numbers or of a frame with texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import sklearn
import xgboost
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

N = 160
NUMBERS, TEXTS = ["age", "fare"], ["sex", "city", "klass"]
TREES: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(3, max_depth=5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=4),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=3, max_depth=4, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(
        n_estimators=3, min_child_samples=4, verbose=-1, n_jobs=1
    ),
}
OF_NUMBERS: dict[str, Callable[[], Any]] = {
    "standard": StandardScaler,
    "standard, no mean": lambda: StandardScaler(with_mean=False),
    "standard, no deviation": lambda: StandardScaler(with_std=False),
    "min-max": MinMaxScaler,
    "min-max, clipped": lambda: MinMaxScaler((-2, 3), clip=True),
    "max-abs": MaxAbsScaler,
    "robust": RobustScaler,
    "three deep": lambda: make_pipeline(MinMaxScaler(), make_pipeline(RobustScaler(), Binarizer())),
    "imputed": lambda: make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
    "imputed by a number": lambda: SimpleImputer(strategy="constant", fill_value=-7.25),
    "a number is missing": lambda: SimpleImputer(missing_values=0.0, strategy="median"),
    "indicated": lambda: make_union(
        make_pipeline(SimpleImputer(strategy="most_frequent"), MinMaxScaler()),
        MissingIndicator(features="all"),
    ),
    "chosen": lambda: make_pipeline(RobustScaler(), VarianceThreshold(), SelectKBest(k=2)),
    "binarized": lambda: Binarizer(threshold=0.3),
    "places of bins": lambda: KBinsDiscretizer(4, encode="ordinal"),
    "bins": lambda: KBinsDiscretizer(4, encode="onehot-dense"),
    "bins, sparse": lambda: KBinsDiscretizer(3),
    "powers": lambda: PowerTransformer(),
    "powers of positive numbers": lambda: make_pipeline(
        MinMaxScaler((0.5, 9)), PowerTransformer("box-cox", standardize=False)
    ),
    "logarithms": lambda: make_pipeline(MinMaxScaler(), FunctionTransformer(np.log1p)),
    "quantiles": lambda: QuantileTransformer(n_quantiles=40),
    "quantiles, normal": lambda: QuantileTransformer(n_quantiles=40, output_distribution="normal"),
    "weighted union": lambda: FeatureUnion(
        [("a", StandardScaler()), ("b", MaxAbsScaler()), ("c", "passthrough"), ("d", "drop")],
        transformer_weights={"a": 0.3},
    ),
}
REFUSED = {"powers"} if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9) else set()
"""Steps that the scikit-learn at hand computes by a formula that cancels."""
OF_FLOAT64 = (
    "powers",
    "powers of positive numbers",
    "logarithms",
    "quantiles",
    "quantiles, normal",
)
"""Steps whose last bits are asked of NumPy, in float64 alone."""
TAKES_NAN = ("standard", "min-max", "max-abs", "robust", "imputed", "indicated")


def _one_hot(**options: Any) -> Callable[[], Any]:
    return lambda: ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
            ("texts", OneHotEncoder(**options), TEXTS),
        ],
        sparse_threshold=1.0,
    )


OF_FRAMES: dict[str, Callable[[], Any]] = {
    "one-hot, sparse": _one_hot(handle_unknown="ignore"),
    "one-hot, dense": _one_hot(handle_unknown="ignore", sparse_output=False),
    "one-hot, first dropped": _one_hot(drop="first"),
    "one-hot, binary dropped": _one_hot(drop="if_binary", handle_unknown="ignore"),
    "one-hot, infrequent": _one_hot(handle_unknown="infrequent_if_exist", min_frequency=12),
    "one-hot, few": _one_hot(handle_unknown="ignore", max_categories=3),
    "sparse, scaled": lambda: make_pipeline(
        ColumnTransformer(
            [("texts", OneHotEncoder(handle_unknown="ignore"), [*TEXTS, "rating"])],
            remainder=MinMaxScaler(),
            sparse_threshold=1.0,
        ),
        MaxAbsScaler(),
    ),
    "places": lambda: ColumnTransformer(
        [("texts", OrdinalEncoder(), [*TEXTS, "rating"])], remainder="passthrough"
    ),
    "places, unknown": lambda: ColumnTransformer(
        [
            (
                "texts",
                OrdinalEncoder(
                    handle_unknown="use_encoded_value",
                    unknown_value=-1,
                    encoded_missing_value=-2,
                    min_frequency=12,
                ),
                [*TEXTS, "rating"],
            ),
            ("fare", "passthrough", ["fare"]),
        ]
    ),
    "imputed texts": lambda: make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["sex", "city"]),
        (SimpleImputer(strategy="constant", fill_value=-1), ["fare"]),
    ),
    "imputed by a text": lambda: make_column_transformer(
        (
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="none", add_indicator=True),
                OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            ),
            ["sex", "city"],
        ),
        (MinMaxScaler(clip=True), slice(0, 2)),
    ),
}


OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("standard", "standard, no mean", "standard, no deviation"), ("StandardScaler",)
    ),
    **dict.fromkeys(("min-max", "min-max, clipped"), ("MinMaxScaler",)),
    "max-abs": ("MaxAbsScaler",),
    "robust": ("RobustScaler",),
    "three deep": ("MinMaxScaler", "RobustScaler", "Binarizer"),
    "imputed": ("SimpleImputer", "MissingIndicator", "StandardScaler"),
    **dict.fromkeys(("imputed by a number", "a number is missing"), ("SimpleImputer",)),
    "indicated": ("FeatureUnion", "MissingIndicator", "SimpleImputer", "MinMaxScaler"),
    "chosen": ("RobustScaler", "selectors of columns"),
    "binarized": ("Binarizer",),
    **dict.fromkeys(("places of bins", "bins", "bins, sparse"), ("KBinsDiscretizer",)),
    **dict.fromkeys(("powers", "powers of positive numbers"), ("PowerTransformer",)),
    "logarithms": ("FunctionTransformer of NumPy's functions", "MinMaxScaler"),
    **dict.fromkeys(("quantiles", "quantiles, normal"), ("QuantileTransformer",)),
    "weighted union": ("FeatureUnion", "StandardScaler", "MaxAbsScaler", "passthrough"),
    **{
        name: ("ColumnTransformer", "OneHotEncoder", "SimpleImputer", "StandardScaler")
        for name in OF_FRAMES
        if name.startswith("one-hot")
    },
    "sparse, scaled": ("ColumnTransformer", "OneHotEncoder", "MinMaxScaler", "MaxAbsScaler"),
    **dict.fromkeys(
        ("places", "places, unknown"), ("ColumnTransformer", "OrdinalEncoder", "passthrough")
    ),
    "imputed texts": ("ColumnTransformer", "SimpleImputer", "OneHotEncoder"),
    "imputed by a text": ("ColumnTransformer", "SimpleImputer", "OrdinalEncoder", "MinMaxScaler"),
}
"""Options that the steps stand for."""


def fits(steps: str, trees: str) -> bool:
    """Return whether a library's trees take what the steps make."""
    if trees == "boosting":  # no missing values
        leaves = ("standard", "min-max", "max-abs", "robust", "places", "sparse, scaled")
        return steps not in (*leaves, "places, unknown", "imputed by a text")
    sparse = steps in ("bins, sparse", "sparse, scaled", "imputed texts")
    sparse |= steps.startswith("one-hot") and steps != "one-hot, dense"
    return trees != "histogram" or not sparse


def numbers(dtype: str, *, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) * [1, 10, 1000, 1e-3] + [0, 3, -50, 7]
    y = (X[:, 0] + X[:, 1] / 10 > 0.1).astype(int) + (X[:, 3] > 7)
    X[::9, 1] = 0.0
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(dtype), y


def frame(*, missing: bool = True) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(1)
    city = rng.choice(["rome", "oslo", "paris", "lima", "bonn"], N, p=[0.5, 0.3, 0.1, 0.05, 0.05])
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "fare": rng.gamma(2, 20, N),
            "sex": rng.choice(["m", "f"], N),
            "city": city.astype(object),
            "klass": rng.choice([1, 2, 3], N),
            "rating": rng.choice([-1.5, -0.5, 0.25, 1.75], N),
        }
    )
    if missing:
        table.loc[rng.random(N) < 0.1, "fare"] = np.nan
        table.loc[rng.random(N) < 0.15, "city"] = np.nan
    y = ((table.sex == "f") ^ (table.age > 50) ^ (table.klass == 2) ^ (city == "lima")).astype(int)
    return table, y.to_numpy()

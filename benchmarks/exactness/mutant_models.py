"""Small models of every library, so small that all cells of their columns can be enumerated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.models.samples import Sample

Maker = Callable[[], Any]


def models(library: str) -> dict[str, Maker]:
    """Return functions that train a model of a library, by name."""
    return _LIBRARIES[library]()


def rows(n: int = 200) -> tuple[Any, Any]:
    """Return numbers, codes, missing values, and a target that depends on all of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).round(2)
    X[:, 2] = rng.integers(0, 6, n)
    y = np.where(X[:, 0] < 0, 0, np.where(X[:, 1] < -0.5, 5, 9)) + (X[:, 2] % 2)
    X[rng.random(n) < 0.15, 1] = np.nan
    return X, y


def _plain() -> tuple[Any, Any]:
    X, y = rows()
    return np.nan_to_num(X), y


def _classes(y: Any, n: int = 3) -> Any:
    return np.digitize(y, np.quantile(y, np.linspace(0, 1, n + 1)[1:-1]))


def _of_sklearn() -> dict[str, Maker]:
    from tests.models.sklearn import MODELS, train

    names = (
        *("DecisionTreeRegressor", "DecisionTreeClassifier, classes"),
        *("DecisionTreeClassifier, text labels", "RandomForestRegressor"),
        *("RandomForestClassifier, bool labels", "ExtraTreesClassifier, text labels"),
        *("BaggingRegressor, estimator=DecisionTreeRegressor(max_depth=2)",),
        *("GradientBoostingRegressor, loss=squared_error",),
        *("GradientBoostingClassifier, two, loss=log_loss, text labels",),
        *(
            "GradientBoostingClassifier, text labels",
            "HistGradientBoostingRegressor, interaction_cst=pairwise, weighted",
        ),
        *("HistGradientBoostingClassifier, two, codes", "AdaBoostRegressor, loss=linear"),
        *("AdaBoostClassifier, learning_rate=0.3, weighted", "IsolationForest, max_samples=8"),
    )
    X, y = rows()
    sample = Sample(X, y + np.arange(len(y)) / 1e6, (2,))  # so many numbers are three classes
    small = {"n_estimators": 3, "max_depth": 2, "max_iter": 2, "min_samples_leaf": 5}
    return {name: partial(train, MODELS[name], sample, **small) for name in names}


def _of_xgboost() -> dict[str, Maker]:
    from tests.models.xgboost import MODELS, train

    names = (
        *("both", "one category", "sets, logistic", "forests of classes", "dart"),
        *("reg:gamma, base score estimated", "vectors", "classifier of two", "pruned"),
    )
    sample = Sample(*rows(), (2,))
    return {
        name: partial(train, MODELS[name]._replace(rounds=2), sample, max_depth=2) for name in names
    }


def _of_lightgbm() -> dict[str, Maker]:
    from tests.models.lightgbm import MODELS, train

    names = (
        *("regression", "regression, zero as missing", "binary", "multiclass", "regression, rf"),
        *("regression, dart", "regression, linear", "classifier of two"),
    )
    sample = Sample(*rows(), (2,))

    def small(name: str, categorical: tuple[int, ...] = (2,)) -> Any:
        data = sample._replace(categorical=categorical)
        return train(MODELS[name]._replace(rounds=2), data, num_leaves=4)

    plain = {"no categories": partial(small, "regression", ())}
    return {**{name: partial(small, name) for name in names}, **plain}


def _of_catboost() -> dict[str, Maker]:
    from tests.models.catboost import MODELS, train

    names = ("RMSE", "nan_mode Max, Depthwise", "Logloss", "MultiClass", "MultiRMSE")
    sample = Sample(*rows(), (2,))
    small = {"iterations": 2, "depth": 2}
    return {name: partial(train, MODELS[name], sample, **small) for name in names}


def _of_treelite() -> dict[str, Maker]:
    import treelite

    from tests.models.treelite import build

    def tree(number: int, operator: str) -> list[dict[str, Any]]:
        sides = ("left_child_key", "right_child_key")
        test = {"feature_id": number, "threshold": 0.3, "opname": operator}
        codes = {"feature_id": 2, "category_list": [0, 3], "category_list_right_child": number == 0}
        return [
            test | {"default_left": number == 1} | dict(zip(sides, (1, 2), strict=True)),
            codes | {"default_left": number == 2} | dict(zip(sides, (3, 4), strict=True)),
            *({"leaf": value} for value in (0.1, 0.25 + number, -0.7)),
        ]

    built = partial(
        build,
        [tree(number, operator) for number, operator in enumerate(("<", "<=", ">"))],
        postprocessor="sigmoid",
        sigmoid_alpha=1.5,
    )
    sklearn, boosted = _of_sklearn(), _of_xgboost()
    return {
        "built, float32": partial(built, dtype="float32", base_scores=[0.1]),
        "built, a mean of float64": partial(built, average=True),
        **{
            name: lambda name=name: treelite.sklearn.import_model(sklearn[name]())
            for name in (
                *("RandomForestClassifier, bool labels", "IsolationForest, max_samples=8"),
                "GradientBoostingRegressor, loss=squared_error",
            )
        },
        "softmax": lambda: treelite.frontend.from_xgboost(boosted["forests of classes"]()),
    }


def _of_onnx() -> dict[str, Maker]:
    from tests.models.onnx import MODELS, drawn, train

    names = (
        *("mixed modes, version 1", "mixed modes, version 3", "AVERAGE", "MAX on a base"),
        *("SOFTMAX of 3 texts", "SUM of sets, version 5", "targets of leaves, version 5"),
    )

    def small(name: str, seed: int) -> Any:
        model = MODELS[f"{name}, float32"]
        return train(model, drawn(model, seed, n_trees=2, most=3))

    return {name: partial(small, name, seed) for seed, name in enumerate(names)}


def _of_ydf() -> dict[str, Maker]:
    from tests.models.ydf import MODELS, train

    names = (
        *("SQUARED_ERROR", "BINOMIAL_LOG_LIKELIHOOD", "MULTINOMIAL_LOG_LIKELIHOOD"),
        *("GradientBoostedTrees, oblique, number", "RandomForest, two", "shares, class"),
        "Cart, number",
    )
    X, y = rows()
    table = {
        "a": X[:, 0].astype(np.float32),
        "b": X[:, 1].astype(np.float32),
        "c": np.array(list("uvwxyz"))[X[:, 2].astype(int)],
        "number": y.astype(np.float32),
        "two": np.array(["no", "yes"])[_classes(y, 2)],
        "class": np.array(["p", "q", "r"])[_classes(y)],
    }

    def small(name: str) -> Any:
        trees = {} if name.startswith("Cart") else {"num_trees": 1 if "MULTI" in name else 3}
        own = MODELS[name].options
        return train(MODELS[name]._replace(options={**own, "max_depth": 3, **trees}), table)

    return {name: partial(small, name) for name in names}


def _of_native() -> dict[str, Maker]:
    from tests.models.native import small

    return {name: partial(small().__getitem__, name) for name in small()}


_LIBRARIES: dict[str, Callable[[], dict[str, Maker]]] = {
    "scikit-learn": _of_sklearn,
    "xgboost": _of_xgboost,
    "LightGBM": _of_lightgbm,
    "CatBoost": _of_catboost,
    "treelite": _of_treelite,
    "ONNX": _of_onnx,
    "YDF": _of_ydf,
    "native": _of_native,
}
LIBRARIES = tuple(_LIBRARIES)

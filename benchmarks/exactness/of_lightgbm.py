"""LightGBM: objectives, boosting types, missing types, categories, linear leaves, wrappers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table

ROWS = 3000
HOUSE = ("missing NaN", "categories")
"""What california brings about by itself; the blanks of adult are all among its categories."""
KINDS: dict[str, dict[str, Any]] = {
    "dart": {"boosting": "dart", "drop_rate": 0.4},
    "goss": {"data_sample_strategy": "goss"},
    "rf": {"boosting": "rf", "bagging_fraction": 0.7, "bagging_freq": 1},
}
"""Parameters of the boosting types; goss begins after 1 / learning_rate rounds."""
SMALL: dict[str, Any] = {
    "n_estimators": 20,
    "num_leaves": 31,
    "random_state": 0,
    "n_jobs": 2,
    "verbose": -1,
}
"""Parameters of the wrappers."""
Column = Callable[[Table], Any]


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    yield from _regressions(data)
    yield from _two_classes(data)
    yield from _more_classes(data)
    yield from _rankings(data)
    yield from _missing(data)
    yield from _linear(data)
    yield from _constant(data)
    yield from _stopped(data)
    yield from _wrapped(data)


def _regressions(data: Data) -> Iterator[Case]:
    kinds = cycle(KINDS)
    for objective in (
        "regression",
        "regression_l1",
        "huber",
        "fair",
        "poisson",
        "quantile",
        "mape",
        "gamma",
        "tweedie",
    ):
        yield _trained(
            f"{objective} on california",
            data.california,
            {"objective": objective},
            (objective, "gbdt", *HOUSE),
            file=True,
        )
        kind = next(kinds)
        yield _trained(
            f"{objective} on california, {kind}",
            data.california,
            {"objective": objective, **KINDS[kind], "num_leaves": 15},
            (objective, kind, "missing NaN"),
        )
    for kind in ("dart", "goss"):
        yield _trained(
            f"regression sqrt on california, {kind}",
            data.california,
            {"objective": "regression", "reg_sqrt": True, **KINDS[kind]},
            ("regression sqrt", "regression", kind, *HOUSE),
            file=True,
        )
    for name, table, pull in (("california", data.california, 2.0), ("higgs", data.higgs, 0.5)):
        yield _trained(
            f"an asymmetric objective of one's own on {name}",
            table,
            {"objective": _asymmetric(pull)},
            ("custom", "gbdt", *(HOUSE if name == "california" else ())),
            file=name == "higgs",
        )


def _two_classes(data: Data) -> Iterator[Case]:
    kinds = cycle(KINDS)
    for objective in ("binary", "cross_entropy", "cross_entropy_lambda"):
        yield _trained(
            f"{objective} on adult",
            data.adult,
            {"objective": objective},
            (objective, "gbdt", "categories"),
            file=True,
        )
        kind = next(kinds)
        yield _trained(
            f"{objective} on higgs, {kind}",
            data.higgs,
            {"objective": objective, **KINDS[kind]},
            (objective, kind),
        )
    yield _trained(
        "binary on flights, sigmoid 0.7",
        data.flights,
        {"objective": "binary", "sigmoid": 0.7, "min_data_per_group": 5, "cat_smooth": 1.0},
        ("binary", "gbdt", "categories"),
        rounds=3,
        file=True,
    )
    yield _trained(
        "binary on adult, monotonic, weighted, one-hot categories",
        data.adult,
        {
            "objective": "binary",
            "max_cat_to_onehot": 16,
            "monotone_constraints": [int(column in (0, 4)) for column in range(14)],
        },
        ("binary", "gbdt", "categories"),
        file=True,
        weight=lambda part: part.frame["2"],
    )


def _more_classes(data: Data) -> Iterator[Case]:
    for objective in ("multiclass", "multiclassova"):
        yield _trained(
            f"{objective} on covtype, rf",
            data.covtype,
            {"objective": objective, "num_class": 7, **KINDS["rf"]},
            (objective, "rf"),
            y=_numbers,
            rounds=4,
        )
        yield _trained(
            f"{objective} on letter",
            data.letter,
            {"objective": objective, "num_class": 26, "num_leaves": 12},
            (objective, "gbdt"),
            y=_numbers,
            rounds=4,
            file=True,
        )


def _rankings(data: Data) -> Iterator[Case]:
    for objective in ("lambdarank", "rank_xendcg"):
        for kind, parameters in (("gbdt", {}), ("dart", KINDS["dart"])):
            yield _trained(
                f"{objective} on higgs, {kind}",
                data.higgs,
                {"objective": objective, **parameters},
                (objective, kind),
                file=kind == "gbdt",
                group=lambda part: np.full(len(part.y) // 20, 20),
            )


def _missing(data: Data) -> Iterator[Case]:
    """Name models that read blanks, or zeros, in other ways than by default."""
    for objective in ("regression", "poisson"):
        yield _trained(
            f"{objective} on california, blanks read as zero",
            data.california,
            {"objective": objective, "use_missing": False},
            (objective, "gbdt", "missing None", "categories"),
            file=objective == "poisson",
        )
    for name, objective, categories in (
        ("adult", "binary", ("categories",)),
        ("higgs", "binary", ()),
        ("covtype", "regression", ()),
    ):
        yield _trained(
            f"{objective} on {name}, zeros read as missing",
            getattr(data, name),
            {"objective": objective, "zero_as_missing": True},
            (objective, "gbdt", "missing Zero", *categories),
            file=name == "adult",
        )


def _linear(data: Data) -> Iterator[Case]:
    for name, objective, options in (
        ("california", "regression", HOUSE),
        ("higgs", "binary", ()),
        ("adult", "binary", ("categories",)),
    ):
        yield _trained(
            f"linear leaves for {objective} on {name}",
            getattr(data, name),
            {"objective": objective, "linear_tree": True, "linear_lambda": 0.1, "num_leaves": 8},
            ("linear_tree", objective, "gbdt", *options),
            file=name == "adult",
        )


def _constant(data: Data) -> Iterator[Case]:
    yield _trained(
        "poisson on california, no split allowed",
        data.california,
        {"objective": "poisson", "min_data_in_leaf": ROWS},
        ("constant trees", "poisson", "gbdt"),
    )
    yield _trained(
        "multiclass on covtype, some classes too rare to split",
        data.covtype,
        {"objective": "multiclass", "num_class": 7, "min_sum_hessian_in_leaf": 200},
        ("constant trees", "multiclass", "gbdt"),
        y=_numbers,
        rounds=4,
        file=True,
    )


def _stopped(data: Data) -> Iterator[Case]:
    """Name boosters that hold more trees than they predict with."""
    for name, objective, options in (
        ("adult", "binary", ("categories",)),
        ("california", "regression", HOUSE),
    ):

        def make(folder: Path, name: str = name, objective: str = objective) -> Made:
            part = getattr(data, name)().head(ROWS)
            X, y, half = part.codes, part.y, len(part.y) // 2
            parameters = _parameters({"objective": objective, "learning_rate": 0.9})
            train = lgb.Dataset(X[:half], y[:half], categorical_feature=part.categorical)
            booster = lgb.train(
                parameters,
                train,
                60,
                valid_sets=[train.create_valid(X[half:], y[half:])],
                callbacks=[lgb.early_stopping(5, verbose=False)],
                keep_training_booster=True,
            )
            return Made(booster, X)

        yield Case(
            f"{objective} on {name}, stopped early",
            "LightGBM",
            ("Booster", "best_iteration", objective, "gbdt", *options),
            make,
        )


def _wrapped(data: Data) -> Iterator[Case]:
    """Name the scikit-learn wrappers, of frames with categories and of labels of text."""
    for name, table, model, options in (
        ("adult", data.adult, lgb.LGBMClassifier(**SMALL), ("binary", "gbdt", "categories")),
        (
            "california",
            data.california,
            lgb.LGBMRegressor(**SMALL, objective="quantile", boosting_type="dart"),
            ("quantile", "dart", *HOUSE),
        ),
        ("flights", data.flights, lgb.LGBMClassifier(**SMALL), ("binary", "gbdt", "categories")),
    ):

        def of_frame(folder: Path, table: Callable[[], Table] = table, model: Any = model) -> Made:
            part = table().head(ROWS)
            return Made(model.fit(part.frame, part.y), part.frame)

        yield Case(
            f"{type(model).__name__} of a data frame, {name}",
            "LightGBM",
            ("scikit-learn wrapper", "categories of a data frame", *options),
            of_frame,
        )

    def of_texts(folder: Path) -> Made:
        part = data.letter().head(ROWS)
        model = lgb.LGBMClassifier(**(SMALL | {"n_estimators": 4}))
        return Made(model.fit(part.codes, part.y), part.codes)

    def ranker(folder: Path) -> Made:
        part = data.higgs().head(ROWS)
        model = lgb.LGBMRanker(**SMALL)
        return Made(model.fit(part.codes, part.y, group=[20] * (ROWS // 20)), part.codes)

    wrapper = "scikit-learn wrapper"
    yield Case("LGBMClassifier of letters", "LightGBM", (wrapper, "multiclass", "gbdt"), of_texts)
    yield Case("LGBMRanker on higgs", "LightGBM", (wrapper, "lambdarank", "gbdt"), ranker)


def _trained(
    name: str,
    table: Callable[[], Table],
    parameters: dict[str, Any],
    options: tuple[str, ...],
    *,
    y: Column = lambda part: part.y,
    rounds: int = 25,
    file: bool = False,
    **rows: Column,
) -> Case:
    """Train on 3,000 rows; of a file, the model is saved and converted from there."""

    def make(folder: Path) -> Made:
        part = table().head(ROWS)
        given = {key: value(part) for key, value in rows.items()}
        X = part.codes
        train = lgb.Dataset(X, y(part), categorical_feature=part.categorical, **given)
        with warnings.catch_warnings():
            # Codes of categories come as numbers, blanks among them.
            warnings.simplefilter("ignore", UserWarning)
            booster = lgb.train(_parameters(parameters), train, rounds)
        if not file:
            return Made(booster, X)
        path = folder / "model.txt"
        booster.save_model(path)
        return Made(path, X)

    return Case(name, "LightGBM", ("text file" if file else "Booster", *options), make)


def _parameters(own: dict[str, Any]) -> dict[str, Any]:
    common = {"num_leaves": 31, "min_data_in_leaf": 5, "learning_rate": 0.3, "seed": 0}
    return common | {"num_threads": 2, "deterministic": True, "verbose": -1} | own


def _numbers(part: Table) -> np.ndarray:
    """Return the classes as 0, 1, 2, ..."""
    return np.unique(part.y, return_inverse=True)[1]


def _asymmetric(pull: float) -> Callable[[np.ndarray, lgb.Dataset], tuple[np.ndarray, np.ndarray]]:
    """Return a squared error that weighs what is predicted too low by `pull`."""

    def gradients(raw: np.ndarray, train: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
        error = raw - train.get_label()
        weight = np.where(error < 0, pull, 1.0)
        return weight * error, weight

    return gradients

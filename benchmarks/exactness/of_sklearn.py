"""scikit-learn: trees and ensembles of them, losses, labels, missing values, and skops files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import skops.io
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table

ROWS = 3000
FILE = ("skops file",)
Column = Callable[[Table], Any]


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    yield from _trees(data)
    yield from _averages(data)
    yield from _gradient_boosting(data)
    yield from _histograms(data)
    yield from _other_ensembles(data)
    yield from _files(data)


def _trees(data: Data) -> Iterator[Case]:
    adult, house, cover, letter = data.adult, data.california, data.covtype, data.letter
    yield _trained(
        "DecisionTreeClassifier on adult, weighted",
        adult,
        DecisionTreeClassifier(max_depth=8, random_state=0),
        ("DecisionTree", "NaN", "sample weights"),
        weight=_census_weight,
    )
    yield _trained(
        "DecisionTreeClassifier on letter, unlimited",
        letter,
        DecisionTreeClassifier(random_state=0),
        ("DecisionTree", "labels of text"),
    )
    yield _trained(
        "DecisionTreeClassifier on adult, monotonic, labels of bool",
        adult,
        DecisionTreeClassifier(max_leaf_nodes=60, monotonic_cst=_rising(14, 0, 4), random_state=0),
        ("DecisionTree", "NaN", "monotonic constraints", "labels of bool"),
        y=_as_bool,
    )
    yield _trained(
        "DecisionTreeClassifier on mushroom, five labels",
        lambda: _mushroom_labels(data),
        DecisionTreeClassifier(max_depth=10, random_state=0),
        ("DecisionTree", "multi-label", "multi-output"),
    )
    yield _trained(
        "DecisionTreeClassifier on adult, targets of 2, 2 and 5 classes",
        lambda: adult().predicting("9", "8"),
        DecisionTreeClassifier(max_depth=8, random_state=0),
        ("DecisionTree", "multi-output", "NaN"),
    )
    yield _trained(
        "DecisionTreeRegressor on california, monotonic",
        house,
        DecisionTreeRegressor(max_depth=8, monotonic_cst=_rising(9, 7), random_state=0),
        ("DecisionTree", "NaN", "monotonic constraints"),
    )
    yield _trained(
        "DecisionTreeRegressor on california, two targets",
        lambda: house().predicting("median_income"),
        DecisionTreeRegressor(max_depth=8, random_state=0),
        ("DecisionTree", "multi-output", "NaN"),
    )
    yield _trained(
        "ExtraTreeClassifier on covtype, labels of float",
        cover,
        ExtraTreeClassifier(max_depth=12, random_state=0),
        ("ExtraTree", "labels of float"),
        y=_as_float,
    )
    yield _trained(
        "ExtraTreeRegressor on california",
        house,
        ExtraTreeRegressor(max_depth=10, random_state=0),
        ("ExtraTree", "NaN"),
    )


def _averages(data: Data) -> Iterator[Case]:
    adult, house, cover, letter = data.adult, data.california, data.covtype, data.letter
    small = {"n_estimators": 20, "max_depth": 8, "random_state": 0, "n_jobs": 2}
    yield _trained(
        "RandomForestClassifier on letter",
        letter,
        RandomForestClassifier(**small),
        ("RandomForest", "labels of text"),
    )
    yield _trained(
        "RandomForestClassifier on adult, weighted, labels of bool",
        adult,
        RandomForestClassifier(**small, class_weight="balanced"),
        ("RandomForest", "NaN", "sample weights", "labels of bool"),
        y=_as_bool,
        weight=_census_weight,
    )
    yield _trained(
        "RandomForestRegressor on california, two targets",
        lambda: house().predicting("median_income"),
        RandomForestRegressor(**small),
        ("RandomForest", "NaN", "multi-output"),
    )
    yield _trained(
        "ExtraTreesClassifier on covtype, labels of float",
        cover,
        ExtraTreesClassifier(**small),
        ("ExtraTrees", "labels of float"),
        y=_as_float,
    )
    yield _trained(
        "ExtraTreesClassifier on mushroom, five labels",
        lambda: _mushroom_labels(data),
        ExtraTreesClassifier(**small),
        ("ExtraTrees", "multi-label", "multi-output"),
    )
    yield _trained(
        "ExtraTreesRegressor on california, monotonic",
        house,
        ExtraTreesRegressor(**small, monotonic_cst=_rising(9, 7)),
        ("ExtraTrees", "NaN", "monotonic constraints"),
    )


def _gradient_boosting(data: Data) -> Iterator[Case]:
    """Name the cases of GradientBoosting, which takes no blanks."""
    small = {"n_estimators": 40, "max_depth": 4, "random_state": 0}
    names = ("GradientBoosting", "GradientBoosting constant init")
    for loss in ("squared_error", "absolute_error", "huber", "quantile"):
        options = (names[0], f"GradientBoosting loss {loss}")
        yield _trained(
            f"GradientBoostingRegressor on california, {loss}",
            data.california,
            GradientBoostingRegressor(**small, loss=loss),
            options,
            complete=True,
        )
        inits = {"absolute_error": "zero", "quantile": DummyRegressor(strategy="median")}
        yield _trained(
            f"GradientBoostingRegressor on california, {loss}, init given, subsamples",
            data.california,
            GradientBoostingRegressor(
                **small, loss=loss, init=inits.get(loss, DummyRegressor()), subsample=0.6
            ),
            (*options, names[1]),
            complete=True,
        )
    for loss in ("log_loss", "exponential"):
        options = (names[0], f"GradientBoosting loss {loss}")
        yield _trained(
            f"GradientBoostingClassifier on adult, {loss}, weighted",
            data.adult,
            GradientBoostingClassifier(**small, loss=loss, learning_rate=0.3),
            (*options, "sample weights"),
            complete=True,
            weight=_census_weight,
        )
        yield _trained(
            f"GradientBoostingClassifier on higgs, {loss}, init given",
            data.higgs,
            GradientBoostingClassifier(**small, loss=loss, init=DummyClassifier(strategy="prior")),
            (*options, names[1]),
        )
    for name, table in (("covtype", data.covtype), ("letter", data.letter)):
        yield _trained(
            f"GradientBoostingClassifier on {name}",
            table,
            GradientBoostingClassifier(n_estimators=5, random_state=0),
            (
                names[0],
                "GradientBoosting loss log_loss",
                *(("labels of text",) if name == "letter" else ()),
            ),
        )


def _histograms(data: Data) -> Iterator[Case]:
    small = {"max_iter": 12, "max_leaf_nodes": 15, "random_state": 0}
    named = ("HistGradientBoosting", "HistGradientBoosting NaN")
    codes = "HistGradientBoosting integer categories"
    texts = "HistGradientBoosting string categories"
    for loss in ("squared_error", "absolute_error", "poisson", "gamma", "quantile"):
        more = {"quantile": 0.8} if loss == "quantile" else {}
        options = (*named, f"HistGradientBoosting loss {loss}")
        yield _trained(
            f"HistGradientBoostingRegressor on california, {loss}",
            data.california,
            HistGradientBoostingRegressor(**small, **more, loss=loss, categorical_features=[8]),
            (*options, codes),
        )
        yield _trained(
            f"HistGradientBoostingRegressor on california, {loss}, categories of text",
            data.california,
            HistGradientBoostingRegressor(
                **small, **more, loss=loss, categorical_features=["ocean_proximity"]
            ),
            (*options, texts),
            X=_texts,
        )
    options = (*named, "HistGradientBoosting loss log_loss")
    yield _trained(
        "HistGradientBoostingClassifier on adult, weighted",
        data.adult,
        HistGradientBoostingClassifier(**small, categorical_features=[1, 3, 5, 6, 7, 8, 9, 13]),
        (*options, codes, "sample weights"),
        weight=_census_weight,
    )
    yield _trained(
        "HistGradientBoostingClassifier on adult, a frame of categories",
        data.adult,
        HistGradientBoostingClassifier(
            **small, categorical_features="from_dtype", monotonic_cst={"4": 1}
        ),
        (*options, texts, "monotonic constraints", "labels of bool"),
        X=lambda part: part.frame,
        y=_as_bool,
    )
    yield _trained(
        "HistGradientBoostingClassifier on flights",
        data.flights,
        HistGradientBoostingClassifier(**small, categorical_features=[0, 1]),
        (named[0], options[2], codes),
    )
    for name, table in (("covtype", data.covtype), ("letter", data.letter)):
        yield _trained(
            f"HistGradientBoostingClassifier on {name}",
            table,
            HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=15, random_state=0),
            (named[0], options[2], *(("labels of text",) if name == "letter" else ())),
        )


def _other_ensembles(data: Data) -> Iterator[Case]:
    subsets = "Bagging feature subsets"
    small = {"n_estimators": 12, "random_state": 0}
    for name, table, max_features in (
        ("higgs", data.higgs, 1.0),
        ("adult", data.adult, 0.5),
        ("california", data.california, 4),
    ):
        yield _trained(
            f"IsolationForest on {name}",
            table,
            IsolationForest(**small, max_samples=128, max_features=max_features),
            ("IsolationForest", *(() if name == "higgs" else ("NaN",))),
            y=lambda part: None,
        )
    yield _trained(
        "AdaBoostClassifier on adult, weighted",
        data.adult,
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), **small),
        ("AdaBoostClassifier", "sample weights"),
        complete=True,
        weight=_census_weight,
    )
    yield _trained(
        "AdaBoostClassifier on letter",
        data.letter,
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=7), **small),
        ("AdaBoostClassifier", "labels of text"),
    )
    for loss in ("linear", "square", "exponential"):
        yield _trained(
            f"AdaBoostRegressor on california, {loss}",
            data.california,
            AdaBoostRegressor(DecisionTreeRegressor(max_depth=5), loss=loss, **small),
            ("AdaBoostRegressor",),
            complete=True,
        )
    yield _trained(
        "BaggingClassifier on letter",
        data.letter,
        BaggingClassifier(DecisionTreeClassifier(max_depth=7), **small),
        ("Bagging", "labels of text"),
    )
    yield _trained(
        "BaggingClassifier on adult, half of the columns",
        data.adult,
        BaggingClassifier(DecisionTreeClassifier(max_depth=7), max_features=0.5, **small),
        ("Bagging", subsets, "NaN"),
    )
    yield _trained(
        "BaggingRegressor on california, some columns twice, two targets",
        lambda: data.california().predicting("median_income"),
        BaggingRegressor(
            ExtraTreeRegressor(max_depth=7), max_features=6, bootstrap_features=True, **small
        ),
        ("Bagging", subsets, "NaN", "multi-output"),
    )


def _files(data: Data) -> Iterator[Case]:
    small = {"n_estimators": 8, "random_state": 0}
    for name, table, model in (
        ("california", data.california, DecisionTreeRegressor(max_depth=8, random_state=0)),
        ("letter", data.letter, RandomForestClassifier(**small, max_depth=6)),
        ("adult", data.adult, ExtraTreesClassifier(**small, max_depth=8)),
        ("higgs", data.higgs, GradientBoostingClassifier(**small, loss="exponential")),
        ("higgs", data.higgs, IsolationForest(**small, max_samples=128)),
        ("letter", data.letter, AdaBoostClassifier(DecisionTreeClassifier(max_depth=6), **small)),
        ("adult", data.adult, BaggingClassifier(DecisionTreeClassifier(max_depth=6), **small)),
    ):
        yield _trained(f"{type(model).__name__} on {name}, in a file", table, model, FILE)
    yield _trained(
        "HistGradientBoostingClassifier on adult, a frame of categories, in a file",
        data.adult,
        HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=15, random_state=0),
        FILE,
        X=lambda part: part.frame,
    )


def _trained(
    name: str,
    table: Callable[[], Table],
    model: Any,
    options: tuple[str, ...],
    *,
    X: Column = lambda part: part.codes,
    y: Column = lambda part: part.y,
    weight: Column | None = None,
    complete: bool = False,
) -> Case:
    """Train on 3,000 rows, on those without blanks if `complete`; a file is read from there."""

    def make(folder: Path) -> Made:
        part = table().head(ROWS)
        part = part.complete() if complete else part
        rows = X(part)
        weights = {} if weight is None else {"sample_weight": weight(part)}
        fitted = clone(model).fit(rows, y(part), **weights)
        if options != FILE:
            return Made(fitted, rows)
        path = folder / "model.skops"
        skops.io.dump(fitted, path)
        return Made(path, rows)

    return Case(name, "scikit-learn file" if options == FILE else "scikit-learn", options, make)


def _texts(part: Table) -> pd.DataFrame:
    """Return the frame with its categories as plain texts."""
    texts = part.frame.columns[part.categorical]
    return part.frame.astype(dict.fromkeys(texts, object))


def _as_bool(part: Table) -> np.ndarray:
    return part.y.astype(bool)


def _as_float(part: Table) -> np.ndarray:
    return part.y.astype(np.float64)


def _census_weight(part: Table) -> pd.Series:
    """Return how many people of the population a row of adult stands for."""
    return part.frame["2"]


def _mushroom_labels(data: Data) -> Table:
    """Return the table of mushroom: is it edible, does it bruise, its gills and its stalk."""
    return data.mushroom().predicting(21, 36, 39, 54)


def _rising(n_features: int, *columns: int) -> np.ndarray:
    """Return the constraint that the target rises with these columns."""
    return np.isin(np.arange(n_features), columns).astype(np.int8)

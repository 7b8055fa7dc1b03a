"""Models of scikit-learn: each estimator by its losses, criteria, labels, weights and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn import __version__, ensemble, tree
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from threadpoolctl import threadpool_limits

from tests.models.samples import LABELS, Sample, small

RELEASE = tuple(int(part) for part in __version__.split(".")[:2])
COMMON = {
    "n_estimators": 7,
    "max_iter": 5,
    "max_depth": 4,
    "random_state": 0,
    "early_stopping": False,
    "categorical_features": None,
}
"""Parameters of the estimators that have them."""
NAMES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "integer": lambda number: 5 * number - 3,
    "float": lambda number: number * 2.0 - 1,
    "text": lambda number: np.array(["b", "é", "", *"zyxwvutsrqponmlkjihgfedca"])[number],
    "object": lambda number: NAMES["text"](number).astype(object),
    "bool": lambda number: number > 0,
}
"""The classes, of their numbers."""


def texts(X: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    """Return rows as objects with a text for each code; texts have the order of the codes."""
    table = X.astype(object)
    for column in columns:
        table[:, column] = [code if np.isnan(code) else _text(code) for code in X[:, column]]
    return table


def _text(code: float) -> str:
    known = code >= 0 and float(code).is_integer()
    return ("" if code == 0 else f"é{int(code):02d}") if known else "unseen"


def _apart(step: int) -> Callable[[Sample], Sample]:
    def made(data: Sample) -> Sample:
        X = data.X.copy()
        X[:, data.categorical] *= step
        return data._replace(X=X)

    return made


def _missing_alone(data: Sample) -> Sample:
    missing = np.isnan(data.X[:, -1:])
    return Sample(np.where(missing, np.nan, 1.0), missing[:, 0] * 1.0)


COLUMNS: dict[str, Callable[[Sample], Sample]] = {
    "numbers": lambda data: data._replace(categorical=()),
    "codes": _apart(1),
    "every third code": _apart(3),
    "codes far apart": _apart(150),
    "texts": _apart(1),
    "missing alone": _missing_alone,
}


class Model(NamedTuple):
    """How an estimator is trained.

    Parameters
    ----------
    kind : str
        Its class.
    label : str
        Of `LABELS`; if none is named, classes or numbers.
    names : str
        Of `NAMES`, for the classes.
    columns : str
        Of `COLUMNS`.
    """

    kind: str
    parameters: Mapping[str, Any] = MappingProxyType({})
    label: str = ""
    names: str = "integer"
    weighted: bool = False
    columns: str = "numbers"

    @property
    def target(self) -> str:
        """The label, named or of the kind."""
        return self.label or ("class" if "Classifier" in self.kind else "number")

    @property
    def name(self) -> str:
        """Its name, which tells what is not as usual."""
        said = (
            self.label,
            *(f"{name}={value}" for name, value in self.parameters.items()),
            f"{self.names} labels" * (self.names != "integer"),
            "weighted" * self.weighted,
            self.columns * (self.columns != "numbers"),
        )
        return ", ".join([self.kind, *filter(None, said)])

    @property
    def estimator(self) -> type:
        """The class."""
        return getattr(ensemble, self.kind, None) or getattr(tree, self.kind)

    @property
    def takes_missing(self) -> bool:
        """Whether the installed version trains it on missing values."""
        if RELEASE < (1, 9) and "monotonic_cst" in self.parameters:
            return "Hist" in self.kind
        made = self.estimator(**self.parameters)
        if RELEASE < (1, 6):
            return made._get_tags()["allow_nan"]
        return made.__sklearn_tags__().input_tags.allow_nan

    @property
    def supported(self) -> tuple[str, ...]:
        """The options of the format that this model has, beside those that its data bring."""
        family = self.kind.removesuffix("Classifier").removesuffix("Regressor")
        boosting = family.endswith("GradientBoosting")
        loss = "log_loss" if "Classifier" in self.kind else "squared_error"
        several = self.target in ("classes", "targets", "two labels")
        subsets = family == "Bagging" and "max_features" in self.parameters
        kinds = {"float": "float", "text": "text", "object": "text", "bool": "bool"}
        codes = "string" if self.columns == "texts" else "integer"
        return (
            self.kind if family == "AdaBoost" else family,
            *([f"{family} loss {self.parameters.get('loss', loss)}"] if boosting else []),
            *(["GradientBoosting constant init"] if "init" in self.parameters else []),
            *([f"{family} {codes} categories"] if self.codes else []),
            *(["Bagging feature subsets"] if subsets else []),
            *(["multi-output"] if several else []),
            *(["multi-label"] if self.target == "two labels" else []),
            *([f"labels of {kinds[self.names]}"] if self.names in kinds else []),
            *(["sample weights"] if self.weighted else []),
            *(["monotonic constraints"] if "monotonic_cst" in self.parameters else []),
        )

    @property
    def codes(self) -> bool:
        """Whether there are columns of categories."""
        return self.columns not in ("numbers", "missing alone")


CART = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")
SIGNS = {"monotonic_cst": (1, -1, 0, 0)}
EXTRA = tree.ExtraTreeRegressor(max_depth=4, random_state=0)
PAIR = tree.DecisionTreeRegressor(max_depth=2)
SUBSETS: tuple[dict[str, Any], ...] = (
    {},
    {"max_features": 0.5},
    {"max_features": 0.5, "bootstrap_features": True},
    {"bootstrap_features": True},
    {"bootstrap": False, "max_samples": 0.5},
)


def _cart(name: str) -> Iterator[Model]:
    classifier, regressor = f"{name}Classifier", f"{name}Regressor"
    yield from (Model(classifier, names=names) for names in NAMES)
    yield from (Model(classifier, label=label) for label in ("classes", "two labels"))
    yield Model(classifier, label="classes", names="text")
    yield Model(classifier, label="one class", names="text")
    yield from (Model(classifier, {"criterion": name}) for name in ("entropy", "log_loss"))
    yield Model(classifier, {"class_weight": "balanced"}, weighted=True)
    yield Model(classifier, {"max_depth": None})
    yield from (Model(regressor, label=label) for label in ("", "targets", "one class"))
    for criterion in ("absolute_error", "poisson"):
        yield Model(regressor, {"criterion": criterion}, "positive")
    yield Model(regressor, {"ccp_alpha": 0.01, "max_leaf_nodes": 6})
    yield from (Model(kind, SIGNS, label) for kind, label in ((classifier, "two"), (regressor, "")))


def _other_ensembles() -> Iterator[Model]:
    yield Model("RandomForestClassifier", {"bootstrap": False, "max_features": 0.5})
    yield Model("RandomForestClassifier", {"class_weight": "balanced_subsample"}, "two")
    yield Model("RandomForestClassifier", {"max_leaf_nodes": 2})
    for subset in SUBSETS:
        yield Model("BaggingClassifier", subset, names="text")
        yield Model("BaggingRegressor", subset)
        yield Model("BaggingRegressor", {"estimator": EXTRA, **subset}, "targets")
    yield Model("BaggingRegressor", {"estimator": PAIR})
    for depth in (1, 3):
        for kind in (tree.DecisionTreeClassifier, tree.ExtraTreeClassifier):
            member = {"estimator": kind(max_depth=depth, random_state=0)}
            yield Model("AdaBoostClassifier", member, names="text")
            yield Model("AdaBoostClassifier", member, "two", names="bool")
    yield Model("AdaBoostClassifier", {"learning_rate": 0.3}, weighted=True)
    yield Model("AdaBoostClassifier", {"estimator": tree.DecisionTreeClassifier()})
    for loss in ("linear", "square", "exponential"):
        yield Model("AdaBoostRegressor", {"loss": loss})
    for options in (
        {},
        {"max_features": 0.5},
        {"max_samples": 2},
        {"max_samples": 8},
        {"contamination": 0.1, "max_samples": 0.5},
        {"bootstrap": True, "contamination": 0.25, "max_features": 3},
    ):
        yield Model("IsolationForest", options)


def _gradient_boosting() -> Iterator[Model]:
    classifier, regressor = "GradientBoostingClassifier", "GradientBoostingRegressor"
    some = (DummyClassifier(strategy=name) for name in ("prior", "most_frequent"))
    for init in ("zero", *some, DummyClassifier(strategy="constant", constant=1)):
        for loss in ("log_loss", "exponential"):
            yield Model(classifier, {"loss": loss, "init": init}, "two")
        yield Model(classifier, {"init": init})
    for loss in ("log_loss", "exponential"):
        yield Model(classifier, {"loss": loss}, "two", "text")
    for loss in ("squared_error", "absolute_error", "huber", "quantile"):
        yield Model(regressor, {"loss": loss})
        yield Model(regressor, {"loss": loss, "init": DummyRegressor(), "subsample": 0.6})
    for init in (
        "zero",
        DummyRegressor(strategy="median"),
        DummyRegressor(strategy="quantile", quantile=0.3),
        DummyRegressor(strategy="constant", constant=2.5),
    ):
        yield Model(regressor, {"init": init})
    yield from (Model(classifier, names=names) for names in NAMES)
    stops = {"n_estimators": 80, "n_iter_no_change": 2, "subsample": 0.7}
    yield Model(classifier, stops, weighted=True)
    yield Model(classifier, {"max_leaf_nodes": 5, "max_depth": None}, "two", weighted=True)
    criterion = {"criterion": "squared_error"} if RELEASE < (1, 9) else {}
    yield Model(regressor, {**criterion, "max_leaf_nodes": 6, "max_depth": None})


def _histograms() -> Iterator[Model]:
    classifier, regressor = "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"
    for loss in ("squared_error", "absolute_error", "gamma", "poisson", "quantile"):
        more: dict[str, Any] = {"loss": loss, **({"quantile": 0.3} if loss == "quantile" else {})}
        for columns in ("numbers", "codes", "texts"):
            yield Model(regressor, more, "positive", columns=columns)
    yield from (Model(classifier, names=names) for names in NAMES)
    yield from (Model(classifier, label="two", columns=columns) for columns in COLUMNS)
    yield from (Model(classifier, columns=columns) for columns in ("codes", "texts"))
    yield Model(regressor, columns="missing alone")
    yield Model(regressor, label="one class")
    for growth in (
        SIGNS,
        {"interaction_cst": "pairwise"},
        {"l2_regularization": 2.0, "max_bins": 16, "max_depth": 3},
        {"early_stopping": True, "max_iter": 60, "n_iter_no_change": 2},
        {**SIGNS, "interaction_cst": "pairwise", "early_stopping": True, "max_leaf_nodes": 7},
    ):
        yield Model(regressor, growth, weighted=True)
    yield Model(classifier, SIGNS, "two", columns="codes")


MODELS: dict[str, Model] = {
    model.name: model
    for made in (
        *map(_cart, CART),
        *(_other_ensembles(), _gradient_boosting(), _histograms()),
    )
    for model in made
}
KINDS = {model.kind: name for name, model in MODELS.items()}
"""The last model of each class."""


def sample(model: Model, data: Sample | None = None) -> Sample:
    """Return the rows that a model learns: its columns, complete if it takes no blanks."""
    data = COLUMNS[model.columns](small() if data is None else data)
    if not model.takes_missing:
        whole = ~np.isnan(data.X).any(axis=1)
        data = data._replace(X=data.X[whole], y=data.y[whole])
    # Of so many rows a tenth and a quarter fall on one, whose score bounds the outliers.
    n_rows = (len(data.X) - 1) // 20 * 20 + 1 if model.kind == "IsolationForest" else len(data.X)
    return data._replace(X=data.X[:n_rows], y=data.y[:n_rows])


def with_texts(model: Model, X: np.ndarray, columns: tuple[int, ...] = (0, 1)) -> np.ndarray:
    """Return rows as they are given to the estimator: with texts for its codes, if it has any."""
    return texts(X, columns) if model.columns == "texts" else X


def train(model: Model, data: Sample | None = None, **more: Any) -> Any:
    """Return a fitted estimator; those of `more` parameters that it has go before its own."""
    X, y, categorical = sample(model, data)
    known = model.estimator().get_params()
    options = {name: value for name, value in {**COMMON, **more}.items() if name in known}
    options |= model.parameters
    if "monotonic_cst" in options:
        signs = np.resize(options["monotonic_cst"], X.shape[1])
        signs[[*categorical]] = 0
        options["monotonic_cst"] = signs
    if categorical:
        options["categorical_features"] = [*categorical]
    if model.kind == "AdaBoostClassifier" and RELEASE == (1, 5):
        options["algorithm"] = "SAMME"
    target = LABELS[model.target](y)
    target = NAMES[model.names](target) if "Classifier" in model.kind else target
    weight = np.random.default_rng(0).random(len(y)) + 0.05
    weights = {"sample_weight": weight} if model.weighted else {}
    # Threads of small fits only wait for each other.
    with threadpool_limits(1, user_api="openmp"):
        # A clone: boosting fits the very `init` that it is given.
        return clone(model.estimator(**options)).fit(
            with_texts(model, X, categorical), target, **weights
        )


@cache
def trained(name: str) -> Any:
    """Return the model of this name, of the small sample; it is shared, so leave it as it is."""
    return train(MODELS[name])

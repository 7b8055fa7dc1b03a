"""Base of the retraining estimators: hold rows out, fit on the rest, convert, and retrain."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bitvec.converters.dispatch import convert_forest
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Int64, Shaped
from bitvec.errors import InputError, needs
from bitvec.learners.held_out import held_out
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.retrained.sklearn_input import checked_rows, input_tags, taken, training_rows
from bitvec.learners.sklearn_base import SEEDS
from bitvec.runtime.predict.predictor import compile

with needs("scikit-learn", "sklearn", "RetrainedClassifier"):
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.frozen import FrozenEstimator
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import has_fit_parameter

if TYPE_CHECKING:
    from bitvec.runtime.train.retrain import RetrainResult

WANT_CODES = ("xgboost",)
"""Packages whose classifiers take no labels but 0 ... k − 1."""
OWN_ARGUMENTS = ("trainable", "sample_weight", "validation", "seed")
"""Arguments of `bitvec.retrain` that the estimator gives itself."""
DEPTH = 8
"""Most levels of the tree that is grown where no model is given."""


@estimator
class Retrained(BaseEstimator):  # type: ignore[misc]
    """Base of the classifier and the regressor."""

    model_: Any = attribute(
        "The model, fitted on the rows that were not held out; one of xgboost by numbers of labels."
    )
    forest_: Forest = attribute("The forest that predicts; on the rows held out never worse.")
    retrain_result_: RetrainResult | None = attribute(
        "Result of `bitvec.retrain`; None where there were too few rows to retrain."
    )
    n_features_in_: int = attribute("Columns of X.")
    feature_names_in_: Shaped[Array, " n_features"] = attribute(
        "Names of the columns, where X has names."
    )
    model: Any = parameter(
        "Estimator that `bitvec.convert` accepts, unfitted: of scikit-learn, xgboost, LightGBM or "
        "CatBoost. By default a decision tree of 8 levels, of a classifier grown by entropy, whose "
        "topology retrains best. Seeds that it does not set itself are drawn from `random_state`.",
        default=None,
        kw_only=False,
    )
    trainable: Any = parameter(
        "Names, or a mapping, of what may move, as `bitvec.retrain` takes it: by default S, b and "
        "v of a single tree, and v of several.",
        default=None,
    )
    validation: float | tuple[Any, ...] = parameter(
        "Share of the rows, and of each class, to hold out and choose by; or rows to choose by, "
        "(X, y) or (X, y, sample_weight), and none are held out.",
        default=0.15,
    )
    prefit: bool = parameter(
        "Whether `model` is fitted already (or the path of a model's file): `fit` then retrains it "
        "by rows that it should not have seen. `sklearn.frozen.FrozenEstimator(model)` says the "
        "same and survives cloning, as in a search.",
        default=False,
    )
    retrain_options: dict[str, Any] | None = parameter(
        'Further arguments of `bitvec.retrain`, for example {"budget": "thorough"}.', default=None
    )
    random_state: int | np.random.RandomState | None = parameter(
        "Seed of the rows held out, of the model and of retraining.", default=None
    )

    _default: ClassVar[Callable[..., Any]]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model on some of the rows and retrain it, chosen by the others.

        Parameters
        ----------
        X : array, sparse matrix or data frame, (n_rows, n_features)
        y : (n_rows,)
        sample_weight : (n_rows,), optional
            A row of weight 0 counts as not there.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If X, y, weights or a parameter is out of place.
        UnsupportedModelError
            If the model cannot be converted, or its forest not be relaxed.

        Warns
        -----
        UserWarning
            If there are too few rows to hold any out: the model is then fitted on all of them and
            not retrained.
        """
        options = self._options()
        fitted = self._fitted_model()
        X, y, weight = training_rows(self, X, y, sample_weight, is_classifier=self._is_classifier)
        if self._is_classifier and fitted is None and not _codes(y).any():
            raise InputError(
                f"`y` must have at least 2 classes, got 1 class in {len(y)} rows: a classifier has "
                "nothing to tell apart."
            )
        random = check_random_state(self.random_state)
        seed = int(random.randint(SEEDS))
        (X, y, weight), validation = self._split(X, y, weight, random)
        model = self._fit_model(X, y, weight, random) if fitted is None else fitted
        forest = self._with_labels(
            convert_forest(model), y, coded=fitted is None and _is_coded(model)
        )
        result = None
        if validation is not None:
            from bitvec.learners.retrained.retrain import retrain

            result = retrain(
                forest, X, y, sample_weight=weight, validation=validation, seed=seed, **options
            )
            forest = result.forest
        self.model_, self.forest_, self.retrain_result_ = model, forest, result
        self._predictor = compile(forest)
        return self

    def predict(self, X: Any) -> Array:
        """Return what the retrained forest predicts for each row."""
        rows = checked_rows(self, X)
        return self._predictor.predict(rows)

    def apply(self, X: Any) -> Int64[Array, "n_rows n_trees"]:
        """Return the leaf that each row comes to in each tree, by the model's own ids."""
        rows = checked_rows(self, X)
        return self._predictor.apply(rows)

    def _options(self) -> dict[str, Any]:
        options = dict(self.retrain_options or {})
        own = sorted(set(options) & set(OWN_ARGUMENTS))
        if own:
            raise InputError(
                f"`retrain_options` must not name {', '.join(own)}, which are arguments of the "
                "estimator or of `fit`, or come from `random_state`."
            )
        return options if self.trainable is None else {**options, "trainable": self.trainable}

    def _fitted_model(self) -> Any:
        """Return the model if it is fitted already, else None."""
        if isinstance(self.model, FrozenEstimator):
            return self.model.estimator
        if self.prefit and self.model is None:
            raise InputError("`model` must be a fitted model where `prefit` is true, got None.")
        return self.model if self.prefit else None

    def _split(
        self, X: Any, y: Array, weight: Array | None, random: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        """Return the rows to fit on, and the rows to choose by, None where there are none."""
        rows = (X, y, weight)
        share: Any = self.validation
        if isinstance(share, (tuple, list)):
            return rows, tuple(share)
        is_number = isinstance(share, (float, int, np.floating, np.integer))
        if not is_number or not 0 < share < 1:
            raise InputError(
                "`validation` must be a share between 0 and 1, or rows as (X, y) or "
                f"(X, y, sample_weight), got {share!r}: pass one of them."
            )
        drawn = held_out(len(y), float(share), random, _codes(y) if self._is_classifier else None)
        if not drawn.any():
            warnings.warn(
                f"a share of {share} of {len(y)} rows is too little to choose by: the model is "
                "fitted on all rows and not retrained. Pass more rows or a larger `validation`.",
                UserWarning,
                stacklevel=3,
            )
            return rows, None
        chosen_by = taken(rows, np.flatnonzero(drawn))
        return taken(rows, np.flatnonzero(~drawn)), chosen_by[: 2 if weight is None else 3]

    def _fit_model(self, X: Any, y: Array, weight: Array | None, random: Any) -> Any:
        model = clone(self._template())
        _seed(model, random)
        if self._is_classifier and _is_coded(model):
            y = _codes(y)
        if weight is None:
            return model.fit(X, y)
        if not has_fit_parameter(model, "sample_weight"):
            raise InputError(
                f"`sample_weight` must be left out with a {type(model).__name__}, whose `fit` does "
                "not take it."
            )
        return model.fit(X, y, sample_weight=weight)

    def _with_labels(self, forest: Forest, y: Array, *, coded: bool) -> Forest:
        """Return the forest, with the labels of y where the model knows their codes."""
        classes = forest.output.classes
        if (classes is not None) != self._is_classifier or len(forest.output.groups) > 1:
            kind = "classifier" if self._is_classifier else "regressor"
            raise InputError(
                f"`model` must be a {kind} of one target, got {type(self.model).__name__}."
            )
        if classes is None:
            return forest
        if coded:
            forest = replace(forest, output=replace(forest.output, classes=(np.unique(y),)))
        assert forest.output.classes is not None
        labels = forest.output.classes[0]
        self.classes_ = labels.astype(object) if y.dtype == object else labels
        return forest

    def _template(self) -> Any:
        return self._default(max_depth=DEPTH) if self.model is None else self.model

    @property
    def _is_classifier(self) -> bool:
        return isinstance(self, ClassifierMixin)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_predictor")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name, value in input_tags(self._template()).items():
            setattr(tags.input_tags, name, value)
        return tags


def _is_coded(model: Any) -> bool:
    return type(model).__module__.split(".")[0] in WANT_CODES


def _codes(y: Array) -> Int64[Array, " n_rows"]:
    """Return the number of each label among those of y, ascending."""
    codes: Array = np.unique(y, return_inverse=True)[1]
    return codes


def _seed(model: Any, random: Any) -> None:
    """Seed what the model leaves to chance, the models within it too."""
    unset = sorted(
        name
        for name, value in model.get_params().items()
        if value is None and name.split("__")[-1] == "random_state"
    )
    model.set_params(**{name: int(random.randint(SEEDS)) for name in unset})

"""Estimators of scikit-learn's interface around converted models: fitted already, never refitted.

As `sklearn.frozen.FrozenEstimator` does, `fit` changes nothing and a clone is the estimator itself,
so a search or a cross-validation scores the given model and fits no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from bitvec.converters.dispatch import convert_forest
from bitvec.core.arrays import Array
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float
from bitvec.errors import UnsupportedModelError, needs
from bitvec.files import dumps, loads
from bitvec.learners.parameters import estimator, parameter
from bitvec.runtime.predict.predictor import Predictor, compile

with needs("scikit-learn", "sklearn", "as_estimator"):
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.metaestimators import available_if


@estimator
class ConvertedModel(BaseEstimator):  # type: ignore[misc]
    """Base of the classifier and the regressor; see `as_estimator`."""

    forest: Forest = parameter("The forest that predicts.", kw_only=False)
    n_jobs: int | None = parameter("Threads, 1 if not given, all cores if −1.", default=None)

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        return self.forest.n_features

    @property
    def feature_names_in_(self) -> Array:
        """The names of the columns, where the model has them."""
        names = self.forest.inputs.feature_names
        if names is None:
            raise AttributeError("the model has no `feature_names_in_`")
        return np.array(names, object)

    def fit(self, X: Any = None, y: Any = None, **fit_params: Any) -> Self:
        """Return the estimator as it is: the model is fitted already."""
        return self

    def predict(self, X: Any) -> Array:
        """Return the label of each row, or its value, or values: (n_rows,) or (n_rows, n_outputs).

        Parameters
        ----------
        X : array, sparse matrix or data frame, (n_rows, n_features)
        """
        return self._predictor().predict(X)

    def _predictor(self) -> Predictor:
        made = self.__dict__.get("_made")
        if made is None or made[0] is not self.forest or made[1] != self.n_jobs:
            predictor = compile(self.forest, n_jobs=self.n_jobs or 1)
            made = self._made = (self.forest, self.n_jobs, predictor)
        return made[2]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = "missing" not in self._predictor().info()["refuses"]
        tags.target_tags.required = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {"forest": dumps(self.forest), "n_jobs": self.n_jobs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        forest = loads(state["forest"])
        self.forest, self.n_jobs = forest, state["n_jobs"]


def _has_decision(estimator: Any) -> bool:
    """Return whether raw scores are something else than probabilities."""
    output = estimator.forest.output
    return output.post_transform is not PostTransform.IDENTITY or output.labels_from_raw


@estimator
class ConvertedClassifier(ClassifierMixin, ConvertedModel):  # type: ignore[misc]
    """A converted classifier; made by `as_estimator`."""

    @property
    def classes_(self) -> Any:
        """The labels, ascending as the source has them; of several targets a list of them."""
        classes = self.forest.output.classes or ()
        return classes[0] if len(classes) == 1 else list(classes)

    def predict_proba(self, X: Any) -> Float[Array, "n_rows n_classes"] | list[Array]:
        """Return the probabilities of `classes_`."""
        found: Array | list[Array] = self._predictor().predict_proba(X)
        return found

    @available_if(_has_decision)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Return the raw scores, where they are not probabilities already."""
        return self._predictor().decision_function(X)


@estimator
class ConvertedRegressor(RegressorMixin, ConvertedModel):  # type: ignore[misc]
    """A converted regressor; made by `as_estimator`."""


def as_estimator(
    model: Any, *, n_jobs: int | None = None
) -> ConvertedClassifier | ConvertedRegressor:
    """Return a fitted scikit-learn estimator that predicts with a converted model.

    Parameters
    ----------
    model : Forest, object or path
        A forest, or what `bitvec.convert` takes: a model of any library, or its file.
    n_jobs : int, optional
        Threads: None for one, -1 for all cores.

    Returns
    -------
    ConvertedClassifier or ConvertedRegressor
        With `classes_`, `n_features_in_` and `feature_names_in_` where the model has them, and
        `decision_function` where raw scores are no probabilities. `fit` changes nothing, and a
        clone is the estimator itself. A pickle of it holds the forest as the bytes of its file.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be converted exactly to one forest, or is an isolation forest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(5, random_state=0).fit(X, y)
    >>> as_estimator(model).score(X, y) == model.score(X, y)
    True
    """
    if isinstance(model, Composition):
        raise UnsupportedModelError(
            f"an estimator must be made of one forest, got a {model.kind or 'composition'} of "
            f"{len(model.members)}: use bitvec.compile, whose predictor has the same methods."
        )
    forest = model if isinstance(model, Forest) else convert_forest(model)
    if forest.output.post_transform is PostTransform.EXPONENTIAL_STANDARD_RATIO:
        raise UnsupportedModelError(
            "an estimator must be made of a classifier or a regressor, got an isolation forest: "
            "use bitvec.compile, whose predictor has `score_samples`."
        )
    made: Callable[..., Any] = (
        ConvertedClassifier if forest.output.is_classifier else ConvertedRegressor
    )
    return made(forest, n_jobs=n_jobs)

"""A classifier and a regressor of trees that are retrained end to end after they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from jaxtyping import Float

from bitvec.core.arrays import Array
from bitvec.errors import MissingLibraryError
from bitvec.learners.retrained.sklearn_base import Retrained
from bitvec.learners.retrained.sklearn_input import checked_rows

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    from sklearn.utils.metaestimators import available_if
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "RetrainedClassifier") from error


def _model_has(name: str) -> Callable[[Any], bool]:
    """Return whether an estimator's model has a method."""
    return lambda estimator: hasattr(estimator._template(), name)


class RetrainedClassifier(ClassifierMixin, Retrained):  # type: ignore[misc]
    """A classifier of trees: fitted, converted, and retrained end to end, chosen by rows held out.

    Parameters
    ----------
    model : estimator, optional
        A classifier that `bitvec.convert` accepts, unfitted: of scikit-learn, xgboost, LightGBM or
        CatBoost. By default a decision tree of 8 levels grown by entropy, whose topology retrains
        best. Seeds that it does not set itself are drawn from `random_state`.
    trainable : names or mapping, optional
        What may move, as `bitvec.retrain` takes it: by default S, b and v of a single tree, and v
        of several.
    validation : float, (X, y) or (X, y, sample_weight)
        The share of each class to hold out and choose by; or the rows to choose by, and none are
        held out.
    prefit : bool
        Whether `model` is fitted already (or the path of a model's file): `fit` then retrains it
        by rows that it should not have seen. `sklearn.frozen.FrozenEstimator(model)` says the same
        and survives cloning, as in a search.
    retrain_options : dict, optional
        Further arguments of `bitvec.retrain`, for example {"steps": 500}.
    random_state : int, RandomState or None
        Decides the rows held out, the model's seeds and those of retraining.

    Attributes
    ----------
    model_ : estimator
        The model, fitted on the rows that were not held out; one of xgboost by numbers of labels.
    forest_ : Forest
        What predicts; on the rows held out never worse than the model.
    retrain_result_ : RetrainResult or None
        None where there were too few rows to retrain.
    classes_ : (n_classes,)
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = RetrainedClassifier(retrain_options={"steps": 50}, random_state=0).fit(X, y)
    >>> tree.score(X, y) > 0.9
    True
    """

    _default = staticmethod(partial(DecisionTreeClassifier, criterion="entropy"))

    def predict(self, X: Any) -> Array:
        """Return the label of each row."""
        labels: Array = super().predict(X)
        return labels.astype(self.classes_.dtype, copy=False)

    def predict_proba(self, X: Any) -> Float[Array, "n_rows n_classes"]:
        """Return the probabilities of `classes_`."""
        rows = checked_rows(self, X)
        return self._predictor.predict_proba(rows)

    @available_if(_model_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Return the raw scores, of two classes those for the second, where the model has them."""
        rows = checked_rows(self, X)
        return self._predictor.decision_function(rows)


class RetrainedRegressor(RegressorMixin, Retrained):  # type: ignore[misc]
    """A regressor of trees: fitted, converted, and retrained end to end, chosen by rows held out.

    Parameters and attributes are those of `RetrainedClassifier`, without classes; the default model
    is a decision tree of 8 levels.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tree = RetrainedRegressor(retrain_options={"steps": 50}, random_state=0).fit(X, y)
    >>> tree.forest_.n_trees, tree.predict(X).shape
    (1, (442,))
    """

    _default = staticmethod(DecisionTreeRegressor)

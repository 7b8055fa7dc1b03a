"""A classifier and a regressor of trees that are retrained end to end after they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Shaped
from bitvec.errors import needs
from bitvec.learners.parameters import attribute, estimator
from bitvec.learners.retrained.sklearn_base import Retrained
from bitvec.learners.retrained.sklearn_input import checked_rows

with needs("scikit-learn", "sklearn", "RetrainedClassifier"):
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    from sklearn.utils.metaestimators import available_if


def _model_has(name: str) -> Callable[[Any], bool]:
    """Return whether an estimator's model has a method."""
    return lambda estimator: hasattr(estimator._template(), name)


@estimator
class RetrainedClassifier(ClassifierMixin, Retrained):  # type: ignore[misc]
    """A classifier of trees: fitted, converted, and retrained end to end, chosen by rows held out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> quick = {"budget": None, "schedule": {"steps": 50}}
    >>> tree = RetrainedClassifier(retrain_options=quick, random_state=0).fit(X, y)
    >>> tree.score(X, y) > 0.9
    True
    """

    classes_: Shaped[Array, " n_classes"] = attribute("Labels, ascending.")

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


@estimator
class RetrainedRegressor(RegressorMixin, Retrained):  # type: ignore[misc]
    """A regressor of trees: fitted, converted, and retrained end to end, chosen by rows held out.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> quick = {"budget": None, "schedule": {"steps": 50}}
    >>> tree = RetrainedRegressor(retrain_options=quick, random_state=0).fit(X, y)
    >>> tree.forest_.n_trees, tree.predict(X).shape
    (1, (442,))
    """

    _default = staticmethod(DecisionTreeRegressor)

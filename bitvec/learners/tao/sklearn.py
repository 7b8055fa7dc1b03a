"""scikit-learn estimators of trees by tree alternating optimisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bitvec.converters import native
from bitvec.converters.native.tao import TAO
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Float64, Int64
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.sklearn_base import (
    NativeClassifier,
    NativeRegressor,
    forest_labels,
    labels,
    values,
)
from bitvec.learners.tao.fit import TAOResult
from bitvec.learners.tao.sklearn_base import SingleTAOEstimator, TAOEstimator
from bitvec.runtime.predict.predictor import compile


@estimator
class TAOLabelEstimator(NativeClassifier, TAOEstimator):
    """Base of the classifiers: class numbers, and shares of classes at leaves."""

    smoothing: float = parameter(
        "Added to the weight of each class at each leaf before shares are taken; 1 is Laplace's.",
        default=0.0,
    )

    def _target(self, y: Any) -> Int64[Array, " n_rows"]:
        self.classes_, codes = labels(y)
        return codes.astype(np.int64)

    def _options(self, weight: Array) -> dict[str, Any]:
        options.positive("smoothing", self.smoothing, or_zero=True)
        return super()._options(weight) | {"n_classes": self.classes_.size}


@estimator
class TAOValueEstimator(NativeRegressor, TAOEstimator):
    """Base of the regressors: values of one output or several, and linear leaves."""

    leaves: Literal["constant", "linear"] = parameter(
        "Linear leaves are ridge regressions on all columns.", default="constant"
    )
    ridge: float = parameter(
        "Factor of the squared weights of linear leaves, of columns of deviation 1.", default=1e-3
    )

    def _target(self, y: Any) -> Float64[Array, "n_rows n_outputs"]:
        return values(y)

    def _told(self, result: TAOResult) -> TAO:
        return result.tree


@estimator
class TAOClassifier(TAOLabelEstimator, SingleTAOEstimator):
    """A tree that classifies, axis-aligned or oblique, by tree alternating optimisation.

    It makes the number of wrong labels small, or their cost, over the whole tree at once: each node
    in turn is solved anew for the rows that its two sides would label differently.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAOClassifier(max_depth=2, oblique=True, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.97
    True

    Notes
    -----
    "Alternating optimization of decision trees, with application to learning sparse oblique trees"
    (Carreira-Perpiñán and Tavallali, 2018).

    The probabilities of a row are the shares of training weight, by class, at its leaf. The label
    is that of largest share; where several have it, the one that the tree was optimised with, whose
    share is then given as the next larger float. With `cost` the label is the one of least cost,
    which may not be the most probable: then `forest_` holds labels and `predict_proba` shares.
    """

    tree_: TAO = attribute(
        "The tree in the paper's symbols; V holds what `predict_proba` says, or with `cost` 1 for "
        "the label."
    )
    objective_ = attribute(
        'Weight, or cost, of wrongly labelled training rows, and the penalty of "l1".'
    )
    cost: ArrayLike | None = parameter(
        "Costs, (n_classes, n_classes): cost[k, l] of a row of class k that is labelled l, in the "
        "order of `classes_`.",
        default=None,
    )

    @property
    def _beside_forest(self) -> str | None:
        if self.cost is None:
            return None
        return "with `cost`, whose probabilities are shares where the forest holds labels"

    def predict_proba(self, X: Any) -> Float[Array, "n_rows n_classes"]:
        """Return the share of each of `classes_` in the training weight at the leaf of each row.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
        """
        rows = self._rows(X)
        if self.cost is None:
            return self._predictor.predict_proba(rows)
        return self._shares.predict_proba(rows)

    def _told(self, result: TAOResult) -> TAO:
        named = replace(result.tree, classes=forest_labels(self.classes_))
        label = result.tree.V.argmax(axis=1)
        shares = class_shares(result.leaf_weight, label, float(self.smoothing))
        if self.cost is None:
            return replace(named, V=with_labels(shares, label))
        self._shares = compile(native.convert(replace(named, V=shares)), n_jobs=self.n_jobs or 1)
        return named


@estimator
class TAORegressor(TAOValueEstimator, SingleTAOEstimator):
    """A tree that predicts values, by tree alternating optimisation of squared errors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAORegressor(max_depth=2, leaves="linear", ridge=10, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True

    Notes
    -----
    The paper names any loss at the leaves; squared errors weigh the care rows of a node by how much
    its two sides differ (Carreira-Perpiñán and Tavallali, 2018).
    """

    objective_ = attribute('Squared errors of the training rows, and the penalty of "l1".')


def class_shares(
    weight: Float64[Array, "n_leaves n_classes"], label: Int64[Array, " n_leaves"], smoothing: float
) -> Float64[Array, "n_leaves n_classes"]:
    """Return the shares of classes at each leaf; all to its label at a leaf of no weight.

    Parameters
    ----------
    weight
        Of the training rows at each leaf, by class.
    smoothing : float
        Added to each weight.
    """
    smoothed = weight + smoothing
    total = smoothed.sum(axis=1, keepdims=True)
    shares: Array = smoothed / np.where(total > 0, total, 1.0)
    return np.where(total > 0, shares, np.eye(weight.shape[1])[label])


def with_labels(
    shares: Float64[Array, "n_leaves n_classes"], label: Int64[Array, " n_leaves"]
) -> Float64[Array, "n_leaves n_classes"]:
    """Return shares whose first maximum is the label, by one float more where others share it."""
    other = shares.argmax(axis=1) != label
    leaf = np.flatnonzero(other)
    result = shares.copy()
    result[leaf, label[leaf]] = np.nextafter(shares[leaf].max(axis=1), np.inf)
    return result

"""scikit-learn estimators of oblique forests that are trained jointly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core import transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.links import SIGMOIDS, SOFTMAXES
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError
from bitvec.learners.oblique.candidates_fit import ObliqueFit
from bitvec.learners.oblique.sklearn_base import F64, ObliqueForestEstimator
from bitvec.learners.parameters import estimator
from bitvec.learners.sizes import require_moderate_values
from bitvec.learners.sklearn_base import (
    NativeClassifier,
    NativeRegressor,
    forest_labels,
    labels,
    validation_codes,
    values,
)
from bitvec.runtime.train.joint import CompleteTrees


@estimator
class ObliqueForestClassifier(NativeClassifier, ObliqueForestEstimator):
    """A forest of oblique trees that classifies by the softmax of the sum of their leaf vectors.

    All trees are complete and trained at once, softly, by the log loss of their sum, from boosted
    trees on; what answers is the hard forest, which rows held out have chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ObliqueForestClassifier(
    ...     n_estimators=4, depth=2, steps=100, teacher=None, random_state=0
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.forest_
    Forest(4 trees, 12 nodes, 16 leaves, 4 features -> 3 outputs, float64)
    """

    def decision_function(self, X: Any) -> Array:
        """Return the raw scores, (n_rows, n_classes), or (n_rows,) of the second of two classes.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
        """
        raw = self._soft_raw(X)
        if raw is None:
            return self._predictor.decision_function(self._rows(X))
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_proba(self, X: Any) -> Float[Array, "n_rows n_classes"]:
        """Return the probabilities of `classes_`.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
        """
        raw = self._soft_raw(X)
        if raw is None:
            return super().predict_proba(X)
        return transforms.probabilities(self.forest_.output, raw)[0]

    def _target(self, y: Any, *, more: bool = False) -> Array:
        if not more:
            self.classes_, codes = labels(y)
            self._labels = forest_labels(self.classes_)
            return codes.astype(np.int64)[:, None]
        return validation_codes(self.classes_, y)[:, None]

    def _output(self) -> Output:
        two = self.classes_.size == 2
        return Output(
            1 if two else self.classes_.size,
            F64,
            post_transform=PostTransform.SIGMOID if two else PostTransform.SOFTMAX,
            classes=(self._labels,),
        )

    def _own_leaves(self, forest: Forest, trees: CompleteTrees) -> CompleteTrees | None:
        output, n = forest.output, self.classes_.size
        classes = output.classes
        if classes is None or len(classes) != 1:
            raise InputError(f"`start` must be a classifier of one target, got {forest}.")
        numbers = np.array_equal(classes[0], np.arange(n))
        if not numbers and not np.array_equal(classes[0], self._labels):
            raise InputError(
                f"`start` must know the {n} classes of y, or their numbers from 0, got "
                f"{classes[0]!r}."
            )
        if output.aggregate is not Aggregate.SUM:
            return None
        if n == 2 and output.n_outputs == 1 and output.post_transform in SIGMOIDS:
            c = output.parameter
            return replace(trees, v=trees.v * c, base_score=trees.base_score * c)
        if n > 2 and output.n_outputs == n and output.post_transform in SOFTMAXES:
            c = output.parameter
            return replace(trees, v=trees.v / c, base_score=trees.base_score / c)
        return None

    def _finished(self, result: ObliqueFit) -> ObliqueFit:
        return result


@estimator
class ObliqueForestRegressor(NativeRegressor, ObliqueForestEstimator):
    """A forest of oblique trees that predicts by the sum of their leaf vectors.

    All trees are complete and trained at once, softly, by the squared error of their sum, from
    boosted trees on; what answers is the hard forest, which rows held out have chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ObliqueForestRegressor(
    ...     n_estimators=4, depth=2, steps=100, teacher=None, random_state=0
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.4
    True
    """

    def _target(self, y: Any, *, more: bool = False) -> Array:
        Y = values(y)
        require_moderate_values("validation[1]" if more else "y", Y)
        if not more:
            spread = Y.std(axis=0)
            self._center, self._spread = Y.mean(axis=0), np.where(spread > 0, spread, 1.0)
        if Y.shape[1] != len(self._center):
            raise InputError(
                f"`validation[1]` must have {len(self._center)} columns, got {Y.shape[1]}."
            )
        return (Y - self._center) / self._spread

    def _output(self) -> Output:
        return Output(len(self._center), F64)

    def _told(self, y: Array) -> Array:
        return (
            y * self._spread + self._center
            if y.ndim == 2
            else y * self._spread[0] + self._center[0]
        )

    def _own_leaves(self, forest: Forest, trees: CompleteTrees) -> CompleteTrees | None:
        output = forest.output
        if output.is_classifier or output.n_outputs != len(self._center):
            raise InputError(
                f"`start` must be a regressor of {len(self._center)} outputs, got {forest}."
            )
        if output.post_transform is not PostTransform.IDENTITY:
            return None
        base = (trees.base_score - self._center) / self._spread
        return replace(trees, v=trees.v / self._spread, base_score=base)

    def _finished(self, result: ObliqueFit) -> ObliqueFit:
        def in_units(trees: CompleteTrees) -> CompleteTrees:
            base = trees.base_score * self._spread + self._center
            return replace(trees, v=trees.v * self._spread, base_score=base)

        trees = in_units(result.trees)
        soft = None if result.soft is None else in_units(result.soft)
        forest = trees.to_forest(result.forest.output, result.forest.inputs)
        return replace(result, trees=trees, soft=soft, forest=forest)

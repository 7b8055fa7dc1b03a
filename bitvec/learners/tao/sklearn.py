"""scikit-learn estimators of trees by tree alternating optimisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int64

from bitvec.converters import native
from bitvec.converters.native.tao import TAO
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.errors import MissingLibraryError
from bitvec.learners.sklearn_base import NativeClassifier, forest_labels, labels, values
from bitvec.learners.tao.fit import TAOResult
from bitvec.learners.tao.optimise import MAX_ITER
from bitvec.learners.tao.sklearn_base import TAOEstimator
from bitvec.runtime.predict.predictor import Predictor, compile

try:
    from sklearn.base import RegressorMixin
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "TAOClassifier") from error


class TAOClassifier(NativeClassifier, TAOEstimator):
    """A tree that classifies, axis-aligned or oblique, by tree alternating optimisation.

    It makes the number of wrong labels small, or their cost, over the whole tree at once: each node
    in turn is solved anew for the rows that its two sides would label differently.

    Parameters
    ----------
    max_depth : int
        Of the start, unless that is a tree.
    oblique : bool
        Test w · x + bias > 0, instead of one column.
    start : "auto", "cart", "oblique_cart", "random", TAO or Forest
        "auto" is "cart" for axis-aligned trees and "random" for oblique ones. "oblique_cart" takes
        the best of coordinate descents from `restarts` random hyperplanes; "random" is complete.
        A tree of another library is converted first, by `bitvec.convert`, and of an estimator its
        `forest_` is passed, which clones keep.
    penalty : "l1" or "l2"
        Of the support vector machines at oblique nodes; "l1" gives sparse ones.
    C : float
        Of "l2": what squared hinges count, for weights of mean 1.
    lambda_ : float
        Of "l1": what Σ |w_j| · s_j of a node counts, in rows; s_j is the deviation of column j.
    cost : (n_classes, n_classes), optional
        Of a row of class k that is labelled l: cost[k, l], in the order of `classes_`.
    smoothing : float
        Added to the weight of each class at each leaf before shares are taken; 1 is Laplace's.
    monotone : bool
        Whether an oblique node must not raise the objective. Else that is asked only where no tree
        on the way is better than the start; the best one is returned either way.
    tol : float, optional
        Passes end where one lowers the objective, by row, by less; 5e-4 for oblique trees if not
        given, and 0 for others: until nothing changes.
    max_iter : int
        Passes at most.
    prune : bool
        Remove what decides no training row's label.
    restarts : int
        Random hyperplanes at each node of "oblique_cart". Of "random", starts that get two passes;
        the first of least objective is fitted in full.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads, 1 if not given, all cores if −1; the tree does not depend on it.
    verbose : bool
        Print the objective of each pass on standard error, of each tree that is fitted.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    tree_ : TAO
        The tree in the paper's symbols; V holds what `predict_proba` says, or with `cost` 1 for the
        label.
    result_ : TAOResult
        What `fit_tao` returned: sizes, operations, leaf weights.
    objective_ : float
        Weight, or cost, of wrongly labelled training rows, and the penalty of "l1".
    n_iter_ : int
        Passes that were made.
    history_ : tuple of Iteration
        The objective at the start and after each pass.
    node_statistics_ : NodeStatistics
        Rows and care rows of each node, and what became of it, at the last pass.
    classes_ : (n_classes,)
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

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

    _shares: Predictor

    @property
    def _beside_forest(self) -> str | None:
        if self.cost is None:
            return None
        return "with `cost`, whose probabilities are shares where the forest holds labels"

    def __init__(
        self,
        *,
        max_depth: int = 6,
        oblique: bool = False,
        start: Any = "auto",
        penalty: str = "l2",
        C: float = 1.0,
        lambda_: float = 1.0,
        cost: Any = None,
        smoothing: float = 0.0,
        monotone: bool = False,
        tol: float | None = None,
        max_iter: int = MAX_ITER,
        prune: bool = True,
        restarts: int = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            max_depth=max_depth,
            oblique=oblique,
            start=start,
            penalty=penalty,
            C=C,
            lambda_=lambda_,
            monotone=monotone,
            tol=tol,
            max_iter=max_iter,
            prune=prune,
            restarts=restarts,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.cost = cost
        self.smoothing = smoothing

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

    def _target(self, y: Any) -> Int64[Array, " n_rows"]:
        self.classes_, codes = labels(y)
        return codes.astype(np.int64)

    def _options(self, weight: Array) -> dict[str, Any]:
        options.positive("smoothing", self.smoothing, or_zero=True)
        own = {"n_classes": self.classes_.size, "cost": self.cost}
        return super()._options(weight) | own

    def _told(self, result: TAOResult) -> TAO:
        named = replace(result.tree, classes=forest_labels(self.classes_))
        label = result.tree.V.argmax(axis=1)
        shares = class_shares(result.leaf_weight, label, float(self.smoothing))
        if self.cost is None:
            return replace(named, V=with_labels(shares, label))
        self._shares = compile(native.convert(replace(named, V=shares)), n_jobs=self.n_jobs or 1)
        return named


class TAORegressor(RegressorMixin, TAOEstimator):  # type: ignore[misc]
    """A tree that predicts values, by tree alternating optimisation of squared errors.

    Parameters
    ----------
    max_depth : int
        Of the start, unless that is a tree.
    oblique : bool
        Test w · x + bias > 0, instead of one column.
    leaves : "constant" or "linear"
        Linear leaves are ridge regressions on all columns.
    ridge : float
        Of linear leaves: times the squared weights, of columns of deviation 1.
    start : "auto", "cart", "oblique_cart", "random", TAO or Forest
        "auto" is "cart" for axis-aligned trees and "random" for oblique ones. "oblique_cart" takes
        the best of coordinate descents from `restarts` random hyperplanes; "random" is complete.
        A tree of another library is converted first, by `bitvec.convert`, and of an estimator its
        `forest_` is passed, which clones keep.
    penalty : "l1" or "l2"
        Of the support vector machines at oblique nodes; "l1" gives sparse ones.
    C : float
        Of "l2": what squared hinges count, for weights of mean 1.
    lambda_ : float
        Of "l1": what Σ |w_j| · s_j of a node counts, in squared units of y.
    monotone : bool
        Whether an oblique node must not raise the objective. Else that is asked only where no tree
        on the way is better than the start; the best one is returned either way.
    tol : float, optional
        Passes end where one lowers the objective, by row, by less; 5e-4 for oblique trees if not
        given, and 0 for others: until nothing changes.
    max_iter : int
        Passes at most.
    prune : bool
        Remove what decides nothing for the training rows.
    restarts : int
        Random hyperplanes at each node of "oblique_cart". Of "random", starts that get two passes;
        the first of least objective is fitted in full.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads, 1 if not given, all cores if −1; the tree does not depend on it.
    verbose : bool
        Print the objective of each pass on standard error, of each tree that is fitted.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    tree_ : TAO
        The tree in the paper's symbols.
    result_ : TAOResult
        What `fit_tao` returned: sizes, operations, leaf weights.
    objective_ : float
        Squared errors of the training rows, and the penalty of "l1".
    n_iter_ : int
        Passes that were made.
    history_ : tuple of Iteration
        The objective at the start and after each pass.
    node_statistics_ : NodeStatistics
        Rows and care rows of each node, and what became of it, at the last pass.
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

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

    def __init__(
        self,
        *,
        max_depth: int = 6,
        oblique: bool = False,
        leaves: str = "constant",
        ridge: float = 1e-3,
        start: Any = "auto",
        penalty: str = "l2",
        C: float = 1.0,
        lambda_: float = 1.0,
        monotone: bool = False,
        tol: float | None = None,
        max_iter: int = MAX_ITER,
        prune: bool = True,
        restarts: int = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            max_depth=max_depth,
            oblique=oblique,
            start=start,
            penalty=penalty,
            C=C,
            lambda_=lambda_,
            monotone=monotone,
            tol=tol,
            max_iter=max_iter,
            prune=prune,
            restarts=restarts,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.leaves = leaves
        self.ridge = ridge

    def _target(self, y: Any) -> Float64[Array, "n_rows n_outputs"]:
        return values(y)

    def _options(self, weight: Array) -> dict[str, Any]:
        ridge = options.positive("ridge", self.ridge, or_zero=True)
        own = {"leaves": self.leaves, "ridge": ridge}
        return super()._options(weight) | own

    def _told(self, result: TAOResult) -> TAO:
        return result.tree

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn 1.5
        return {"multioutput": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


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

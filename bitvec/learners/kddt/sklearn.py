"""scikit-learn estimators of single Kernel Density Decision Trees."""

from __future__ import annotations

from bitvec.learners.kddt.sklearn_trees import KernelClassifier, SingleTree
from bitvec.learners.parameters import estimator
from bitvec.learners.sklearn_base import NativeRegressor


@estimator
class KDDTClassifier(KernelClassifier, SingleTree):
    """A Kernel Density Decision Tree that classifies: CART on the density of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KDDTClassifier(bandwidth=0.2).fit(X, y)
    >>> model.score(X, y) > 0.95
    True

    Notes
    -----
    "Kernel Density Decision Trees" (Good et al., 2022): CART on a kernel density estimate.
    Algorithm 1 finds splits exactly; Algorithm 2 predicts. Where the text of section 3.2.1 gives
    the left weight for the right, this follows Algorithm 2.
    """


@estimator
class KDDTRegressor(NativeRegressor, SingleTree):
    """A Kernel Density Decision Tree that predicts means, of one output or several.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KDDTRegressor(bandwidth="silverman", min_weight=20).fit(X, y)
    >>> model.score(X, y) > 0.4
    True

    Notes
    -----
    "Kernel Density Decision Trees" (Good et al., 2022): CART on a kernel density estimate.
    Algorithm 1 finds splits exactly; Algorithm 2 predicts. Where the text of section 3.2.1 gives
    the left weight for the right, this follows Algorithm 2.
    """

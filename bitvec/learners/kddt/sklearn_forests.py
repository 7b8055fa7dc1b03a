"""scikit-learn estimators of forests of Kernel Density Decision Trees."""

from __future__ import annotations

from typing import Any

from bitvec.core import options
from bitvec.learners.kddt.sklearn_trees import KernelClassifier, KernelTrees
from bitvec.learners.parameters import estimator, parameter
from bitvec.learners.sklearn_base import NativeRegressor


@estimator
class KernelForest(KernelTrees):
    """Base of the forests."""

    n_estimators: int = parameter("Number of trees.", default=100)
    bootstrap: bool = parameter("Grow each tree on rows drawn with replacement.", default=True)

    @property
    def _n_trees(self) -> int | None:
        return options.whole("n_estimators", self.n_estimators)

    @property
    def _bootstrap(self) -> Any:  # type: ignore[override]
        return self.bootstrap


@estimator
class KDDTRandomForestClassifier(KernelClassifier, KernelForest):
    """A random forest of Kernel Density Decision Trees that classifies by their mean.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KDDTRandomForestClassifier(n_estimators=20, bandwidth=0.2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True

    Notes
    -----
    "Kernel Density Decision Trees" (Good et al., 2022): CART on a kernel density estimate.
    Algorithm 1 finds splits exactly; Algorithm 2 predicts. Where the text of section 3.2.1 gives
    the left weight for the right, this follows Algorithm 2.
    """

    max_features = "sqrt"


@estimator
class KDDTRandomForestRegressor(NativeRegressor, KernelForest):
    """A random forest of Kernel Density Decision Trees that predicts by their mean.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KDDTRandomForestRegressor(n_estimators=10, bandwidth="silverman", random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.5
    True

    Notes
    -----
    "Kernel Density Decision Trees" (Good et al., 2022): CART on a kernel density estimate.
    Algorithm 1 finds splits exactly; Algorithm 2 predicts. Where the text of section 3.2.1 gives
    the left weight for the right, this follows Algorithm 2.
    """

    max_features = 1.0


@estimator
class KDDTExtraTreesClassifier(KDDTRandomForestClassifier):
    """Extremely randomised Kernel Density Decision Trees that classify by their mean.

    Each node draws one threshold for each feature that it looks at, uniformly where its rows have
    density, and takes the best.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KDDTExtraTreesClassifier(n_estimators=20, bandwidth=0.2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _random_thresholds = True
    bootstrap = False


@estimator
class KDDTExtraTreesRegressor(KDDTRandomForestRegressor):
    """Extremely randomised Kernel Density Decision Trees that predict by their mean.

    Each node draws one threshold for each feature that it looks at, uniformly where its rows have
    density, and takes the best.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KDDTExtraTreesRegressor(n_estimators=10, bandwidth=0.01, random_state=0).fit(X, y)
    >>> model.predict(X).shape
    (442,)
    """

    _random_thresholds = True
    bootstrap = False

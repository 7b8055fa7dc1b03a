"""scikit-learn estimators of forests of Kernel Density Decision Trees."""

from __future__ import annotations

from typing import Any

from bitvec.core import options
from bitvec.errors import MissingLibraryError
from bitvec.learners.kddt.sklearn_trees import KernelClassifier, KernelTrees

try:
    from sklearn.base import RegressorMixin
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "KDDTRandomForestClassifier") from error


class _KernelForest(KernelTrees):
    """What the forests share."""

    n_estimators: int
    bootstrap: bool

    @property
    def _n_trees(self) -> int | None:
        return options.whole("n_estimators", self.n_estimators)

    @property
    def _bootstrap(self) -> Any:  # type: ignore[override]
        return self.bootstrap


class KDDTRandomForestClassifier(KernelClassifier, _KernelForest):
    """A random forest of Kernel Density Decision Trees that classifies by their mean.

    Parameters
    ----------
    criterion : "gini" or "entropy"
    n_estimators : int
        Number of trees.
    bootstrap : bool
        Whether each tree grows on rows drawn with replacement.
    kernel : "box", "gaussian", FeatureKernel, or one FeatureKernel per feature
        The density of x' around each training value x; see `bitvec.core.kernels.FeatureKernel` for
        asymmetric kernels and for bandwidths that depend on x, which `bandwidth` multiplies.
    bandwidth : number, (n_features,) numbers, "cv", "silverman" or "likelihood"
        Half the width of a box, the standard deviation of a Gaussian, in each feature's own units;
        None is 0, and the tree is CART. "cv" cross-validates the whole tree over `bandwidths`,
        with one factor for all features; "silverman" and "likelihood" go by feature.
    n_pieces : int
        Pieces that stand for a Gaussian, cut at 3 standard deviations.
    predict_kernel : "same", None, or like `kernel`
        The density of x' around a row to predict; None predicts crisply, by one leaf.
    predict_bandwidth : number or (n_features,) numbers, optional
        Of the prediction kernel; `bandwidth_` if not given.
    bandwidths : (n_bandwidths,), optional
        What "cv" and "likelihood" try, in standard deviations of each feature; 7 from 0.01 to 1 if
        not given.
    cv : int
        Folds of the cross-validation, drawn by `random_state`.
    max_depth : int, optional
    min_weight : float
        Least weight of a leaf, in rows of weight 1.
    min_gain : float
        Least decrease of the mean loss by a split.
    max_features : int, float, "sqrt" or "log2", optional
        Features that each node looks at, drawn anew; all if not given.
    ccp_alpha : float
        Price of a leaf in minimal cost-complexity pruning; 0 prunes nothing.
    merge_leaves : bool
        Merge sibling leaves of equal label (classifiers; crisp labels stay as they are) or value.
    n_jobs : int, optional
        Threads for folds and trees, 1 if not given, all cores if −1.
    random_state : int, RandomState or None
    verbose : bool
        Show progress on standard error.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    trees_ : tuple of KDDT
        The trees in the paper's symbols.
    bandwidth_ : (n_features,)
        In each feature's own units.
    search_ : Search or None
        What each bandwidth scored, of "cv".
    feature_importances_ : (n_features,)
        Shares of the decrease of the loss.
    classes_ : (n_classes,)
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

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
    the left mass for the right, this follows Algorithm 2.
    """

    def __init__(
        self,
        *,
        criterion: str = "gini",
        n_estimators: int = 100,
        bootstrap: bool = True,
        kernel: Any = "box",
        bandwidth: Any = "cv",
        n_pieces: int = 24,
        predict_kernel: Any = "same",
        predict_bandwidth: Any = None,
        bandwidths: Any = None,
        cv: int = 5,
        max_depth: int | None = None,
        min_weight: float = 1.0,
        min_gain: float = 0.0,
        max_features: Any = "sqrt",
        ccp_alpha: float = 0.0,
        merge_leaves: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            kernel=kernel,
            bandwidth=bandwidth,
            n_pieces=n_pieces,
            predict_kernel=predict_kernel,
            predict_bandwidth=predict_bandwidth,
            bandwidths=bandwidths,
            cv=cv,
            max_depth=max_depth,
            min_weight=min_weight,
            min_gain=min_gain,
            max_features=max_features,
            ccp_alpha=ccp_alpha,
            merge_leaves=merge_leaves,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.criterion = criterion
        self.n_estimators = n_estimators
        self.bootstrap = bootstrap


class KDDTRandomForestRegressor(RegressorMixin, _KernelForest):  # type: ignore[misc]
    """A random forest of Kernel Density Decision Trees that predicts by their mean.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    bootstrap : bool
        Whether each tree grows on rows drawn with replacement.
    kernel : "box", "gaussian", FeatureKernel, or one FeatureKernel per feature
        The density of x' around each training value x; see `bitvec.core.kernels.FeatureKernel` for
        asymmetric kernels and for bandwidths that depend on x, which `bandwidth` multiplies.
    bandwidth : number, (n_features,) numbers, "cv", "silverman" or "likelihood"
        Half the width of a box, the standard deviation of a Gaussian, in each feature's own units;
        None is 0, and the tree is CART. "cv" cross-validates the whole tree over `bandwidths`,
        with one factor for all features; "silverman" and "likelihood" go by feature.
    n_pieces : int
        Pieces that stand for a Gaussian, cut at 3 standard deviations.
    predict_kernel : "same", None, or like `kernel`
        The density of x' around a row to predict; None predicts crisply, by one leaf.
    predict_bandwidth : number or (n_features,) numbers, optional
        Of the prediction kernel; `bandwidth_` if not given.
    bandwidths : (n_bandwidths,), optional
        What "cv" and "likelihood" try, in standard deviations of each feature; 7 from 0.01 to 1 if
        not given.
    cv : int
        Folds of the cross-validation, drawn by `random_state`.
    max_depth : int, optional
    min_weight : float
        Least weight of a leaf, in rows of weight 1.
    min_gain : float
        Least decrease of the mean loss by a split.
    max_features : int, float, "sqrt" or "log2", optional
        Features that each node looks at, drawn anew; all if not given.
    ccp_alpha : float
        Price of a leaf in minimal cost-complexity pruning; 0 prunes nothing.
    merge_leaves : bool
        Merge sibling leaves of equal label (classifiers; crisp labels stay as they are) or value.
    n_jobs : int, optional
        Threads for folds and trees, 1 if not given, all cores if −1.
    random_state : int, RandomState or None
    verbose : bool
        Show progress on standard error.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    trees_ : tuple of KDDT
        The trees in the paper's symbols.
    bandwidth_ : (n_features,)
        In each feature's own units.
    search_ : Search or None
        What each bandwidth scored, of "cv".
    feature_importances_ : (n_features,)
        Shares of the decrease of the loss.
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

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
    the left mass for the right, this follows Algorithm 2.
    """

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        bootstrap: bool = True,
        kernel: Any = "box",
        bandwidth: Any = "cv",
        n_pieces: int = 24,
        predict_kernel: Any = "same",
        predict_bandwidth: Any = None,
        bandwidths: Any = None,
        cv: int = 5,
        max_depth: int | None = None,
        min_weight: float = 1.0,
        min_gain: float = 0.0,
        max_features: Any = 1.0,
        ccp_alpha: float = 0.0,
        merge_leaves: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            kernel=kernel,
            bandwidth=bandwidth,
            n_pieces=n_pieces,
            predict_kernel=predict_kernel,
            predict_bandwidth=predict_bandwidth,
            bandwidths=bandwidths,
            cv=cv,
            max_depth=max_depth,
            min_weight=min_weight,
            min_gain=min_gain,
            max_features=max_features,
            ccp_alpha=ccp_alpha,
            merge_leaves=merge_leaves,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_estimators = n_estimators
        self.bootstrap = bootstrap


class KDDTExtraTreesClassifier(KDDTRandomForestClassifier):
    """Extremely randomised Kernel Density Decision Trees that classify by their mean.

    Each node draws one threshold for each feature that it looks at, uniformly where its rows have
    density, and takes the best. Parameters and attributes are those of
    `KDDTRandomForestClassifier`; rows are not drawn unless `bootstrap` says so.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KDDTExtraTreesClassifier(n_estimators=20, bandwidth=0.2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _random_thresholds = True

    def __init__(
        self,
        *,
        criterion: str = "gini",
        n_estimators: int = 100,
        bootstrap: bool = False,
        kernel: Any = "box",
        bandwidth: Any = "cv",
        n_pieces: int = 24,
        predict_kernel: Any = "same",
        predict_bandwidth: Any = None,
        bandwidths: Any = None,
        cv: int = 5,
        max_depth: int | None = None,
        min_weight: float = 1.0,
        min_gain: float = 0.0,
        max_features: Any = "sqrt",
        ccp_alpha: float = 0.0,
        merge_leaves: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            criterion=criterion,
            n_estimators=n_estimators,
            bootstrap=bootstrap,
            kernel=kernel,
            bandwidth=bandwidth,
            n_pieces=n_pieces,
            predict_kernel=predict_kernel,
            predict_bandwidth=predict_bandwidth,
            bandwidths=bandwidths,
            cv=cv,
            max_depth=max_depth,
            min_weight=min_weight,
            min_gain=min_gain,
            max_features=max_features,
            ccp_alpha=ccp_alpha,
            merge_leaves=merge_leaves,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )


class KDDTExtraTreesRegressor(KDDTRandomForestRegressor):
    """Extremely randomised Kernel Density Decision Trees that predict by their mean.

    Each node draws one threshold for each feature that it looks at, uniformly where its rows have
    density, and takes the best. Parameters and attributes are those of
    `KDDTRandomForestRegressor`; rows are not drawn unless `bootstrap` says so.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KDDTExtraTreesRegressor(n_estimators=10, bandwidth=0.01, random_state=0).fit(X, y)
    >>> model.predict(X).shape
    (442,)
    """

    _random_thresholds = True

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        bootstrap: bool = False,
        kernel: Any = "box",
        bandwidth: Any = "cv",
        n_pieces: int = 24,
        predict_kernel: Any = "same",
        predict_bandwidth: Any = None,
        bandwidths: Any = None,
        cv: int = 5,
        max_depth: int | None = None,
        min_weight: float = 1.0,
        min_gain: float = 0.0,
        max_features: Any = 1.0,
        ccp_alpha: float = 0.0,
        merge_leaves: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            n_estimators=n_estimators,
            bootstrap=bootstrap,
            kernel=kernel,
            bandwidth=bandwidth,
            n_pieces=n_pieces,
            predict_kernel=predict_kernel,
            predict_bandwidth=predict_bandwidth,
            bandwidths=bandwidths,
            cv=cv,
            max_depth=max_depth,
            min_weight=min_weight,
            min_gain=min_gain,
            max_features=max_features,
            ccp_alpha=ccp_alpha,
            merge_leaves=merge_leaves,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )

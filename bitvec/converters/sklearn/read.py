"""scikit-learn's tree models, lifted exactly, and the library's own answers to compare with."""

from __future__ import annotations

from typing import Any

from bitvec.converters.sklearn.lift import lift
from bitvec.converters.sklearn.nodes import round_down as round_down
from bitvec.core.forest import Forest
from bitvec.errors import MissingLibraryError
from bitvec.verify.oracle import Oracle

try:
    import sklearn
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "lifting a scikit-learn model") from error


def convert(model: Any) -> Forest:
    """Lift a fitted tree model of scikit-learn.

    Parameters
    ----------
    model : estimator
        DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting, HistGradientBoosting,
        Bagging or AdaBoost (over trees), classifier or regressor, or IsolationForest. A subclass is
        accepted if it inherits the methods that predict.

    Returns
    -------
    Forest
        Its raw scores, in float64, are: the probabilities of a tree or an average of trees, one
        output group per target; `decision_function` of a boosted classifier; `predict` of a
        regressor, before its link; minus the sum of depths of an isolation forest, whose labels
        are 1 and -1. It compares in float32, for HistGradientBoosting in float64.

    Raises
    ------
    UnsupportedModelError
        If the model is of another class, not fitted, or answers in its own way.
    InvalidForestError
        If its arrays do not describe trees, as those of a damaged model may not.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
    Forest(1 tree, 2 nodes, 3 leaves, 4 features -> 3 outputs, float32, from sklearn)
    """
    return lift(model)


def oracle_of(model: Any) -> Oracle:
    """Return the model as the other side of a comparison.

    `raw` is the library's public prediction function where it returns what `convert` calls the raw
    score, of a shallow copy with `n_jobs=1`: with more threads scikit-learn adds the trees in the
    order in which they finish.

    Raises
    ------
    UnsupportedModelError, InvalidForestError
        As `convert`: nothing is run before its arrays are known to be sound.
    """
    from bitvec.converters.sklearn.oracle import oracle_of_estimator

    return oracle_of_estimator(model, lift(model), sklearn.__version__)

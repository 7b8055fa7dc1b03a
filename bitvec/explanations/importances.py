"""Importances of columns, from the counts, gains and covers of the nodes that read them."""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest, require_forest
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError, UnsupportedModelError

ImportanceKind = Literal["splits", "gain", "mean_gain", "cover", "mean_cover"]
KINDS: Final = get_args(ImportanceKind)


def split_importances(
    forest: Forest, kind: ImportanceKind = "gain"
) -> Float64[Array, " n_features"]:
    """Return the importance of each column by the nodes that read it.

    Parameters
    ----------
    forest : Forest
        Its nodes read one column of X each.
    kind : str
        "splits" counts nodes (xgboost's "weight", LightGBM's "split"). "gain" sums what the source
        library recorded as a node's gain (xgboost's "total_gain", LightGBM's "gain"; of
        scikit-learn the decrease of impurity, weighted by rows), "cover" the training weight that
        reached nodes (xgboost's "total_cover"). "mean_gain" and "mean_cover" divide by the splits
        (xgboost's "gain" and "cover").

    Returns
    -------
    float64, (n_features,)
        In the source's own units, not normalised; 0 for a column that no node reads.

    Raises
    ------
    InputError
        If `kind` is none of these, or the forest has no such record: retrained forests and
        CatBoost's have no gains.
    UnsupportedModelError
        If a node reads several columns, or columns of a feature map.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import bitvec
    >>> X, y = np.array([[0, 5], [1, 5], [2, 5], [3, 6]]), [0, 0, 1, 0]
    >>> forest = bitvec.convert(DecisionTreeClassifier(random_state=0).fit(X, y))
    >>> split_importances(forest, "splits").tolist()
    [2.0, 0.0]
    >>> split_importances(forest, "mean_cover").tolist()
    [3.0, 0.0]
    """
    require_forest(forest)
    if kind not in KINDS:
        raise InputError(
            f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}: choose one of them."
        )
    if forest.feature_map is not None or not np.all(forest.tests.is_one_hot):
        raise UnsupportedModelError(
            "importances need nodes that read one column of X each, got a forest with others: "
            "take permutation importances, which need predictions only."
        )
    column, n_features = forest.tests.feature, forest.n_features
    splits = np.bincount(column, minlength=n_features).astype(np.float64)
    if kind == "splits":
        return splits
    total = np.bincount(column, _record(forest, kind), n_features)
    if kind.startswith("mean_"):
        return np.divide(total, splits, out=np.zeros(n_features), where=splits > 0)
    return total


def _record(forest: Forest, kind: str) -> Float64[Array, " n_nodes"]:
    name = "gain" if kind.endswith("gain") else "node_cover"
    record = None if forest.source is None else getattr(forest.source, name)
    if not forest.n_nodes:
        return np.zeros(0)
    if record is None:
        hint = "take another kind"
        if name == "node_cover":
            hint = "count rows by `bitvec.explanations.covers.with_cover(forest, X)`"
        raise InputError(
            f"importances by {kind} need `source.{name}`, got a forest without it: {hint}."
        )
    return record

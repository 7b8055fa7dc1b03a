"""Native trees' own traversal by their papers' rules."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bitvec.converters.native import fitted_estimators
from bitvec.converters.native.forest_arrays import trees_of
from bitvec.converters.native.read import require_native
from bitvec.converters.native.walker import is_walked, source_trees
from bitvec.distribution import version
from bitvec.verify.oracle import LeafValues, Oracle


def oracle_of(model: Any) -> Oracle:
    """Return the answers that a converted native tree is compared with.

    For an estimator they are those of its trees and of the estimator itself.

    Raises
    ------
    UnsupportedModelError
        As `convert`.
    """
    if fitted_estimators.is_estimator(model):
        return fitted_estimators.oracle_of_estimator(model, oracle_of)
    require_native(model)
    trees = trees_of(model)
    first = trees[0]
    n_leaves = np.array([tree.n_leaves for tree in trees])
    ids = np.arange(n_leaves.sum()) - np.repeat(np.cumsum(n_leaves) - n_leaves, n_leaves)
    leaf_values = LeafValues(
        np.repeat(np.arange(len(trees)), n_leaves),
        ids,
        np.concatenate([tree.values for tree in trees]),
    )
    return Oracle(
        name=type(model).__name__.lower(),
        version=version(),
        raw=model.raw,
        leaf_ids=lambda X: np.stack([tree.decide(X) for tree in trees], axis=1),
        ids="source",
        predict=model.raw if model.classes is None else model.predict,
        scores=None if model.classes is None else getattr(model, "predict_proba", model.raw),
        leaf_values=lambda: leaf_values,
        trees=partial(source_trees, model) if is_walked(model) else None,
        n_trees=len(trees),
        n_features=first.n_features,
        n_outputs=first.n_outputs,
    )

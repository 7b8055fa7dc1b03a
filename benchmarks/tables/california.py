"""The rows of california for trees that want finite numbers, and trees to stand beside."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.tree import DecisionTreeRegressor

from bitvec.learners.kddt.sklearn import KDDTRegressor

Array = np.ndarray[Any, Any]
Record = dict[str, Any]
Rows = tuple[Array, Array]

ALPHAS: Final = np.logspace(-5, -1, 13)
TUNED: Final = {"ccp_alpha": np.logspace(-6, -2, 13), "min_samples_leaf": [1, 5, 10, 20]}
MIN_WEIGHT: Final = 5
"""Rows that a leaf of a Kernel Density Decision Tree has at least."""


def split(n_rows: int, seed: int) -> tuple[Array, Array]:
    """Return the rows to train on and a fifth of them to test on."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_test = n_rows // 5
    return order[n_test:], order[:n_test]


def numeric(X: Array, train: Array) -> Array:
    """Return the numbers, blanks filled by the training median, and a column a kind of coast."""
    numbers, coast = X[:, :-1].copy(), X[:, -1].astype(int)
    middle = np.nanmedian(numbers[train], axis=0)
    numbers = np.where(np.isnan(numbers), middle, numbers)
    return np.column_stack([numbers, np.eye(coast.max() + 1)[coast]])


def parts(X: Array, y: Array, seed: int) -> tuple[Array, Array, Rows]:
    """Return numeric rows to train on, their values, and rows to test on."""
    train, test = split(len(y), seed)
    Z = numeric(X, train)
    return Z[train], y[train], (Z[test], y[test])


def pruned_cart(X: Array, y: Array, seed: int) -> DecisionTreeRegressor:
    """Return a CART pruned by cross-validation."""
    cart = GridSearchCV(DecisionTreeRegressor(random_state=seed), {"ccp_alpha": ALPHAS}, cv=5)
    return cart.fit(X, y).best_estimator_


def cart(X: Array, y: Array, test: Rows, seed: int) -> Record:
    """Return what a CART comes to whose pruning and least leaf cross-validation chooses."""
    inner = KFold(5, shuffle=True, random_state=seed)
    tuned = GridSearchCV(
        DecisionTreeRegressor(random_state=seed), TUNED, cv=inner, scoring="neg_mean_squared_error"
    )
    begin = time.process_time()
    tuned.fit(X, y)
    end = time.process_time()
    model = tuned.best_estimator_
    n = int(model.get_n_leaves())
    depth = float(model.decision_path(test[0]).sum() / len(test[0]) - 1)
    size = {"leaves": n, "rows_of_S": n - 1, "operations": depth}
    return {"rmse": rmse(model, *test), **size, "seconds": end - begin}


def kddt(X: Array, y: Array, test: Rows, seed: int) -> Record:
    """Return what a Kernel Density Decision Tree comes to that answers crisply, and softly.

    Each has the bandwidth that cross-validation chooses for its answers.
    """
    answer: Record = {}
    for kind, kernel in (("crisp", None), ("soft", "same")):
        model = KDDTRegressor(
            min_weight=MIN_WEIGHT, predict_kernel=kernel, random_state=seed, n_jobs=1
        )
        begin = time.process_time()
        model.fit(X, y)
        answer[kind] = {
            "seconds": time.process_time() - begin,
            "rmse": rmse(model, *test),
            "leaves": model.forest_.n_leaves,
            "rows_of_S": model.forest_.tests.n_rows,
        }
    return answer


def rmse(model: Any, X: Array, y: Array) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))

"""The rows of california for trees that want finite numbers, and a pruned CART to stand beside."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor

Array = np.ndarray[Any, Any]

ALPHAS: Final = np.logspace(-5, -1, 13)


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


def pruned_cart(X: Array, y: Array, seed: int) -> DecisionTreeRegressor:
    """Return a CART pruned by cross-validation."""
    cart = GridSearchCV(DecisionTreeRegressor(random_state=seed), {"ccp_alpha": ALPHAS}, cv=5)
    return cart.fit(X, y).best_estimator_


def rmse(model: Any, X: Array, y: Array) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))

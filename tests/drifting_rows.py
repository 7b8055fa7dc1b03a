"""Rows that drift, and boosters that updates start from."""

from __future__ import annotations

import numpy as np


def stream(seed=0, n=700, n_classes=2):
    """Old rows, and new ones whose boundary has another shape."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 4))
    X[rng.random(X.shape) < 0.03] = np.nan
    Z = np.nan_to_num(X, nan=-1.0)
    is_new = np.arange(2 * n) >= n
    line = np.where(is_new, Z[:, 0] * Z[:, 2] + Z[:, 3], Z[:, 0] + Z[:, 1])
    line += 0.3 * rng.normal(size=2 * n)
    y = line
    if n_classes:
        y = np.digitize(line, [0.0] if n_classes == 2 else [-0.7, 0.7])
    return (X[:n], y[:n]), (X[n:], y[n:])


def booster(X, y, n_classes=2, *, rounds=10, **options):
    """Return a booster of LightGBM, of small trees on one thread."""
    import lightgbm

    objective = {0: "regression", 2: "binary"}.get(n_classes, "multiclass")
    given = {"objective": objective, "num_leaves": 8, "verbose": -1, "num_threads": 1, **options}
    given |= {"num_class": n_classes} if n_classes > 2 else {}
    return lightgbm.train(given, lightgbm.Dataset(X, y), rounds)

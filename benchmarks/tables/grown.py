"""What the tables of trees that grow by stumps share: choosing on validation rows, and sizes.

Settings are chosen by the validation rows that each fit holds out of its training rows; test rows
are looked at once. Trees are hard.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.metrics import roc_auc_score

import bitvec
from benchmarks.datasets import Table, read
from benchmarks.tables import california
from bitvec.forest import Forest

Array = np.ndarray[Any, Any]
Record = dict[str, Any]
Unit = tuple[Any, ...]

SEEDS: Final = 3
N_ANNULUS: Final = (2_000, 4_000)
"""Rows to train on, and rows to test on."""
RADII: Final = (0.4, 0.8)
TEST_SHARE: Final = 0.25
"""Of data sets that have no test rows of their own."""
DTSEMNET: Final = {
    "pendigits": 0.9702,
    "satimage": 0.8755,
    "segmentation": 0.961,
    "optdigits": 0.933,
    "balance": 0.902,
    "banknote": 0.998,
    "blood": 0.785,
    "sonar": 0.821,
}
"""Accuracy in DTSemNet's own logs; of segmentation and the last four, other splits than ours."""


def measured(unit: Unit, data: Path, make: Callable[..., Any], settings: Any) -> Record:
    """Return what one unit comes to.

    Parameters
    ----------
    make : callable
        From the kind of target, "labels" or "values", and settings to an estimator.
    settings : callable
        From the part and the data set to the settings to choose from.
    """
    part, name, *rest = unit
    if part == "annulus":
        return annulus(make, settings(part, name)[0], rest[0])
    table = read(data, name)
    if part == "values":
        return values(make, settings(part, name), table, rest[0])
    if part == "seconds":
        return seconds(make, settings(part, name)[0], table)
    return tree(make, settings(part, name), table, rest[0])


def tree(
    make: Callable[..., Any], settings: Sequence[dict[str, Any]], table: Table, seed: int
) -> Record:
    """Fit a classifier with each of the settings, and test the one that validation chose."""
    X, y, test = split(table, seed)
    begin = time.perf_counter()
    fitted = [make("labels", random_state=seed, **one).fit(X, y) for one in settings]
    scores = [_validation(model) for model in fitted]
    best = int(np.argmax(scores))
    model = fitted[best]
    return {
        "chosen": settings[best],
        "held_out": scores[best],
        "train": float(model.score(X, y)),
        "test": float(model.score(*test)),
        **sizes(model.forest_, test[0]),
        "seconds": time.perf_counter() - begin,
        "settings": len(settings),
    }


def split(table: Table, seed: int) -> tuple[Array, Array, tuple[Array, Array]]:
    """Return training rows, their labels, and test rows: the table's own, or drawn by the seed."""
    n = table.n_train
    order = np.arange(len(table.y))
    if n is None:
        order = np.random.default_rng(seed).permutation(len(table.y))
        n = len(order) - int(TEST_SHARE * len(order))
    train, test = order[:n], order[n:]
    return table.X[train], table.y[train], (table.X[test], table.y[test])


def _validation(model: Any) -> float:
    return -np.inf if model.refinement_ is None else float(model.refinement_.score)


def sizes(forest: Forest, X: Array) -> Record:
    """Return leaves, rows of S, and multiply-adds of a row on the way to its leaf, on average."""
    tests = forest.tests
    weights = np.diff(tests.row_ptr[tests.node_ptr])
    visits = np.asarray(bitvec.compile(forest).decision_path(X).sum(axis=0)).ravel()
    return {
        "leaves": forest.n_leaves,
        "rows_of_S": tests.n_rows,
        "facets": int(np.diff(tests.node_ptr).max(initial=0)),
        "operations": float(visits @ weights / len(X)),
    }


def annulus(make: Callable[..., Any], settings: dict[str, Any], seed: int) -> Record:
    """Three leaves for a ring in the plane."""
    (X, y), (test, test_y) = (ring(n, [seed, part]) for part, n in enumerate(N_ANNULUS))
    begin = time.perf_counter()
    model = make("labels", random_state=seed, **settings).fit(X, y)
    end = time.perf_counter()
    return {
        "auc": float(roc_auc_score(test_y, model.predict_proba(test)[:, 1])),
        **sizes(model.forest_, test),
        "seconds": end - begin,
    }


def ring(n: int, seed: Any) -> tuple[Array, Array]:
    """Return rows of the square [-1, 1]² and whether each lies between the radii."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    radius = np.hypot(*X.T)
    return X, ((radius > RADII[0]) & (radius < RADII[1])).astype(np.int64)


def seconds(make: Callable[..., Any], settings: dict[str, Any], table: Table) -> Record:
    """Time growth and refinement of one fit, on two threads."""
    X, y, test = split(table, 0)
    model = make("labels", random_state=0, n_jobs=2, **settings)
    begin = time.perf_counter()
    model.fit(X, y)
    end = time.perf_counter()
    return {"test": float(model.score(*test)), "seconds": end - begin, "chosen": settings}


def values(
    make: Callable[..., Any], settings: Sequence[dict[str, Any]], table: Table, seed: int
) -> Record:
    """Fit regressors on four fifths of the rows, beside CART pruned by cross-validation."""
    train, test = california.split(len(table.y), seed)
    X, y = california.numeric(table.X, train), table.y
    begin = time.perf_counter()
    cart = california.pruned_cart(X[train], y[train], seed)
    grown = time.perf_counter()
    fitted = [make("values", random_state=seed, **one).fit(X[train], y[train]) for one in settings]
    best = int(np.argmax([_validation(model) for model in fitted]))
    model = fitted[best]
    end = time.perf_counter()
    return {
        "cart": {
            "rmse": california.rmse(cart, X[test], y[test]),
            "leaves": int(cart.get_n_leaves()),
            "seconds": grown - begin,
        },
        "ours": {
            "rmse": california.rmse(model, X[test], y[test]),
            **sizes(model.forest_, X[test]),
            "seconds": end - grown,
            "chosen": settings[best],
        },
    }

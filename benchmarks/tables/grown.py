"""Units of one fit each, and their records, for the tables of trees that grow by stumps.

Settings are chosen by rows held out of the training rows, `held_out` in a record. Each setting's
test accuracy is kept beside it, and only that of the chosen one is shown. Trees are hard.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.metrics import roc_auc_score

import bitvec
from benchmarks.datasets import Table, read
from benchmarks.tables import california
from bitvec.core.feature_maps import Concatenate, Conv2d, Layers, Linear
from bitvec.core.forest import Forest

Array = np.ndarray[Any, Any]
Record = dict[str, Any]
Settings = dict[str, Any]
Unit = tuple[str, str, int, str]
"""Part, data set, seed, and settings as JSON: other settings are another unit."""
Rows = tuple[Array, Array]

N_ANNULUS: Final = (2_000, 4_000)
"""Rows to train on, and rows to test on."""
RADII: Final = (0.4, 0.8)
TEST_SHARE: Final = 0.25
"""Share of test rows in data sets that have none of their own."""
FOLDS: Final = 5
FEW: Final = 2_500
"""Rows below which settings are chosen by cross-validation: a seventh of so few says little."""
DTSEMNET: Final = {
    "pendigits": 0.9702,
    "satimage": 0.8755,
    "segment": 0.961,
    "optdigits": 0.933,
    "balance": 0.902,
    "banknote": 0.998,
    "blood": 0.785,
    "sonar": 0.821,
}
"""Accuracy in DTSemNet's own logs; of segment and the last four, other splits than ours."""
MANY: Final = ("usps", "connect-4", "mnist", "fashion_mnist")
"""Data sets of more than 7,000 training rows of many columns: one seed."""
SEEDS: Final = 3
"""Seeds of each of the other data sets."""
BASELINES: Final[dict[str, Callable[..., Record]]] = {
    "cart": california.cart,
    "kddt": california.kddt,
}
"""Baselines that regressors are compared with."""
SECONDS: Final = "letter, depth 10"
"""Data set and depth of the fit that is timed, on two threads; nothing else should run then."""


def seeds_of(name: str) -> int:
    """Return how many seeds a data set's fits are repeated with."""
    return 1 if name in MANY else SEEDS


def fits(part: str, name: str, seeds: int | None, *settings: Settings) -> list[Unit]:
    """Return a unit for each seed and setting, seed by seed; of `seeds_of` seeds if not given.

    Examples
    --------
    >>> fits("tree", "balance", 1, {"max_depth": 2})
    [('tree', 'balance', 0, '{"max_depth": 2}')]
    """
    told = [json.dumps(one, sort_keys=True) for one in settings]
    n_seeds = seeds_of(name) if seeds is None else seeds
    return [(part, name, seed, one) for seed in range(n_seeds) for one in told]


def regressions(name: str, settings: Sequence[Settings]) -> list[Unit]:
    """Return the units of regressors, and of those that they stand beside."""
    beside = [unit for method in BASELINES for unit in fits(method, name, None, {})]
    return [*beside, *fits("values", name, None, *settings)]


def measured(unit: Unit, data: Path, make: Callable[..., Any]) -> Record:
    """Return what one unit comes to.

    Parameters
    ----------
    make : callable
        From the kind of estimator, "labels" or "values", and settings to an estimator.
    """
    part, name, seed, told = unit
    settings = json.loads(told)
    if part == "annulus":
        return annulus(make, settings, seed)
    table = read(data, name.partition(",")[0])
    if part in BASELINES:
        return BASELINES[part](*california.parts(table.X, table.y, seed), seed)
    if part == "values":
        return values(make, settings, table, seed)
    if part == "seconds":
        return seconds(make, settings, table)
    return tree(make, settings, table, seed)


def tree(make: Callable[..., Any], settings: Settings, table: Table, seed: int) -> Record:
    """Fit a classifier and test it."""
    X, y, test = split(table, seed)
    begin = time.process_time()
    folds = None
    if len(table.y) <= FEW:
        folds = crossed(lambda: make("labels", random_state=seed, **settings), X, y, seed)
    tried = time.process_time()
    model = make("labels", random_state=seed, **settings).fit(X, y)
    end = time.process_time()
    return {
        "held_out": validation(model) if folds is None else folds,
        "train": float(model.score(X, y)),
        "test": float(model.score(*test)),
        **sizes(model.forest_, test[0]),
        "seconds": end - tried,
        "seconds_of_folds": tried - begin,
    }


def split(table: Table, seed: int) -> tuple[Array, Array, Rows]:
    """Return training rows, their labels, and test rows: the table's own, or drawn by the seed."""
    n = table.n_train
    order = np.arange(len(table.y))
    if n is None:
        order = np.random.default_rng(seed).permutation(len(table.y))
        n = len(order) - int(TEST_SHARE * len(order))
    train, test = order[:n], order[n:]
    return table.X[train], table.y[train], (table.X[test], table.y[test])


def crossed(make: Callable[[], Any], X: Array, y: Array, seed: int) -> float:
    """Return the mean accuracy on folds of the training rows, each left out once."""
    fold = np.random.default_rng([seed, 1]).permutation(len(X)) % FOLDS
    right = 0.0
    for left_out in range(FOLDS):
        out = fold == left_out
        right += make().fit(X[~out], y[~out]).score(X[out], y[out]) * out.sum()
    return float(right / len(X))


def validation(model: Any) -> float | None:
    """Return the score on the rows that the fit held out; None where it needed none."""
    return None if model.refinement_ is None else float(model.refinement_.score)


def sizes(forest: Forest, X: Array) -> Record:
    """Return leaves, rows of S, and what a row asks on the way to its leaves, on average.

    `splits` are nodes; `operations` their multiply-adds, those of a node's own network among them.
    """
    tests = forest.tests
    cost = np.diff(tests.row_ptr[tests.node_ptr]) + network_operations(forest)
    visits = visits_of(forest, X)
    return {
        "leaves": forest.n_leaves,
        "rows_of_S": tests.n_rows,
        "facets": int(np.diff(tests.node_ptr).max(initial=0)),
        "splits": float(visits.sum()),
        "operations": float(visits @ cost),
    }


def visits_of(forest: Forest, X: Array) -> Array:
    """Return the share of rows that pass each node."""
    B = forest.bitvectors
    passes = bitvec.compile(forest).decision_path(X)
    indicator = passes if forest.n_trees == 1 else passes[0]
    columns = np.arange(B.n_nodes) + B.leaf_ptr[B.tree_of_node]
    return np.asarray(indicator.sum(axis=0)).ravel()[columns] / len(X)


def network_operations(forest: Forest) -> Array:
    """Return the multiply-adds of the network that each node asks; zeros where there are none."""
    joined = forest.feature_map
    if joined is None or not forest.tests.n_rows:
        return np.zeros(forest.tests.n_nodes)
    parts = joined.maps if isinstance(joined, Concatenate) else (joined,)
    cost = np.array([_multiply_adds(part) for part in parts])
    end = np.cumsum([part.n_features for part in parts])
    ptr = forest.tests.row_ptr[forest.tests.node_ptr]
    found = np.zeros(forest.tests.n_nodes)
    for node in np.flatnonzero(np.diff(ptr)):
        found[node] = cost[np.searchsorted(end, forest.tests.column[ptr[node]], side="right")]
    return found


def _multiply_adds(phi: Any) -> int:
    if not isinstance(phi, Layers):
        return 0
    total, shape = 0, phi.input_shape
    for layer in phi.layers:
        shape = layer.output_shape(shape)
        if isinstance(layer, Linear):
            total += layer.weight.size
        elif isinstance(layer, Conv2d):
            total += layer.weight.size * int(np.prod(shape[1:]))
    return total


def annulus(make: Callable[..., Any], settings: Settings, seed: int) -> Record:
    """Three leaves for a ring in the plane."""
    (X, y), (test, test_y) = (ring(n, [seed, part]) for part, n in enumerate(N_ANNULUS))
    begin = time.process_time()
    model = make("labels", random_state=seed, **settings).fit(X, y)
    end = time.process_time()
    return {
        "auc": float(roc_auc_score(test_y, model.predict_proba(test)[:, 1])),
        **sizes(model.forest_, test),
        "seconds": end - begin,
    }


def ring(n: int, seed: Any) -> Rows:
    """Return rows of the square [-1, 1]² and whether each lies between the radii."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    radius = np.hypot(*X.T)
    return X, ((radius > RADII[0]) & (radius < RADII[1])).astype(np.int64)


def seconds(make: Callable[..., Any], settings: Settings, table: Table) -> Record:
    """Time growth and refinement of one fit, on two threads."""
    X, y, test = split(table, 0)
    model = make("labels", random_state=0, n_jobs=2, **settings)
    begin = time.perf_counter()
    model.fit(X, y)
    end = time.perf_counter()
    return {"test": float(model.score(*test)), "seconds": end - begin}


def values(make: Callable[..., Any], settings: Settings, table: Table, seed: int) -> Record:
    """Fit a regressor on four fifths of the rows."""
    X, y, test = california.parts(table.X, table.y, seed)
    begin = time.process_time()
    model = make("values", random_state=seed, **settings).fit(X, y)
    end = time.process_time()
    return {
        "held_out": validation(model),
        "rmse": california.rmse(model, *test),
        **sizes(model.forest_, test[0]),
        "seconds": end - begin,
    }

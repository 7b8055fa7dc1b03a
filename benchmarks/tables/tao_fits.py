"""Tree alternating optimisation: the tables of the paper's supplement, oblique trees, its path.

Whatever is chosen is chosen by rows held out of the training rows; test rows are looked at once.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import bitvec
from benchmarks.datasets import Table, read
from benchmarks.tables import california, tao_forests
from bitvec.learners.tao import PathPoint, tao_path
from bitvec.learners.tao.sklearn import TAOClassifier, TAORegressor

Array = np.ndarray[Any, Any]
Record = dict[str, Any]

# Supplement, Table 1: of OCT the test accuracy; of CART and TAO accuracy in training and test.
PAPER: Final = {
    ("balance", 2): (67.1, 70.0, 63.9, 72.5, 69.5),
    ("balance", 3): (68.9, 75.8, 71.1, 76.9, 71.6),
    ("balance", 4): (71.6, 81.0, 77.9, 84.0, 79.8),
    ("banknote", 2): (90.1, 90.3, 88.9, 91.9, 90.6),
    ("banknote", 3): (89.6, 95.0, 93.9, 96.0, 95.7),
    ("banknote", 4): (90.7, 97.7, 96.2, 98.9, 97.2),
    ("blood", 2): (75.5, 76.0, 75.2, 78.0, 75.8),
    ("blood", 3): (77.0, 79.0, 76.7, 79.5, 77.0),
    ("blood", 4): (77.0, 80.0, 76.6, 81.6, 77.2),
    ("wdbc", 2): (91.9, 93.5, 91.0, 95.0, 92.7),
    ("wdbc", 3): (91.5, 95.0, 93.0, 97.0, 93.1),
    ("wdbc", 4): (91.5, 97.4, 93.0, 98.0, 93.2),
    ("spambase", 2): (84.3, 83.5, 83.6, 86.5, 86.1),
    ("spambase", 3): (86.0, 87.8, 86.9, 90.0, 89.1),
    ("spambase", 4): (86.1, 90.7, 89.5, 91.8, 90.3),
}
SPLITS: Final = 10
SEEDS: Final = 3
C: Final = (0.1, 1.0, 10.0)
OBLIQUE: Final = {
    "segmentation": (3, 4, 5),
    "satimage": (4, 6, 8),
    "optdigits": (4, 6, 8),
    "pendigits": (6, 8, 10),
    "letter": (8, 10, 12),
}
"""Data sets with test rows of their own, and the depths that are tried."""
HELD_OUT: Final = 0.25
"""Share of the training rows by which depth, start and C are chosen; then all are fitted."""
LETTER_DEPTH: Final = 10
DEPTH: Final = 8
LAMBDAS: Final = (30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Strengths of the penalty along the path on mnist, in rows."""
N_HELD: Final = 10_000
"""Training rows of mnist that the strength of the penalty is chosen by."""
SHOWN: Final = 7
"""Nodes whose weights a plot shows."""
VALUES: Final = {
    "axis-aligned": [{"max_depth": depth} for depth in (4, 6, 8, 10)],
    "oblique": [
        {"oblique": True, "max_depth": depth, "C": c, **start}
        for depth, c, start in product(
            (4, 6, 8, 10), (0.1, 1.0, 10.0), ({}, {"start": "cart", "monotone": True})
        )
    ],
    "axis-aligned, linear leaves": [
        {"leaves": "linear", "max_depth": depth, "ridge": ridge}
        for depth, ridge in product((2, 4, 6, 8), (0.1, 1.0, 10.0))
    ],
    "oblique, linear leaves": [
        {"leaves": "linear", "oblique": True, "max_depth": depth, "ridge": ridge, **start}
        for depth, ridge, start in product(
            (2, 4, 6), (0.1, 1.0, 10.0), ({}, {"start": "cart", "monotone": True})
        )
    ],
}
"""Settings that are tried on california, by method."""
QUICK: Final = ("balance", "banknote", "blood")


def units(*, quick: bool) -> list[tuple[Any, ...]]:
    """Return (part, name, ...) of all that is to be measured, the longest first."""
    found: list[tuple[Any, ...]] = []
    if not quick:
        found += [("path", "mnist")]
        found += [("oblique", name, seed) for name in reversed(OBLIQUE) for seed in range(SEEDS)]
        found += [("values", "california", seed) for seed in range(SEEDS)]
        found += [("seconds", "letter")]
        found += product(("forests",), tao_forests.DATA_SETS, range(tao_forests.SEEDS))
    for name, depth in PAPER:
        if not quick or name in QUICK:
            splits = range(3 if quick else SPLITS)
            found += [("supplement", name, depth, seed) for seed in splits]
    return found


def measured(unit: tuple[Any, ...], data: Path) -> Record:
    """Return what one unit comes to."""
    _compile()
    part, name, *rest = unit
    if part == "forests":
        return tao_forests.measured(name, *rest, data)
    table = read(data, name)
    measure: Any = {
        "supplement": _supplement,
        "oblique": _oblique,
        "values": _values,
        "path": _path,
        "seconds": _seconds,
    }[part]
    record: Record = measure(table, *([name, *rest] if part == "oblique" else rest))
    return record


@functools.cache
def _compile() -> None:
    """Fit something small, so that no measured time is that of a compiler."""
    X = np.random.default_rng(0).standard_normal((60, 3))
    y = (X[:, 0] > 0).astype(int)
    for options in ({}, {"oblique": True}, {"oblique": True, "penalty": "l1"}):
        TAOClassifier(max_depth=2, **options).fit(X, y).predict(X)


def _supplement(table: Table, depth: int, seed: int) -> Record:
    """Axis-aligned TAO from CART: half of the rows to train, a quarter to test."""
    order = np.random.default_rng(seed).permutation(len(table.y))
    n_train, n_test = len(order) // 2, len(order) // 4
    train, test = order[:n_train], order[-n_test:]
    # CART compares in float32; so both see the same numbers.
    X, y = table.X.astype(np.float32), table.y
    begin = time.perf_counter()
    cart = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(X[train], y[train])
    grown = time.perf_counter()
    model = TAOClassifier(start=bitvec.convert(cart), random_state=seed).fit(X[train], y[train])
    end = time.perf_counter()
    return {
        "cart": [cart.score(X[rows], y[rows]) for rows in (train, test)],
        "tao": [model.score(X[rows], y[rows]) for rows in (train, test)],
        "passes": model.n_iter_,
        "leaves": [int(cart.get_n_leaves()), model.forest_.n_leaves],
        "seconds": [grown - begin, end - grown],
    }


def _oblique(table: Table, name: str, seed: int) -> Record:
    """Oblique TAO, its settings chosen by held-out training rows, beside CART of full depth."""
    n = table.n_train
    assert n is not None
    X, y, test, test_y = table.X[:n], table.y[:n], table.X[n:], table.y[n:]
    cart = DecisionTreeClassifier(random_state=seed).fit(X, y)
    settings = [
        {"max_depth": depth, "start": start, "C": c}
        for depth, start, c in product(OBLIQUE[name], ("random", "cart"), C)
    ]
    base = TAOClassifier(oblique=True, restarts=1, random_state=seed)
    fit, held = _held_out(n, seed)
    begin = time.perf_counter()
    chosen, score = _chosen(base, settings, X, y, fit, held)
    searched = time.perf_counter()
    model = clone(base).set_params(**chosen).fit(X, y)
    end = time.perf_counter()
    return {
        "chosen": chosen,
        "held_out": score,
        "train": model.score(X, y),
        "test": model.score(test, test_y),
        "cart": [cart.score(test, test_y), int(cart.get_n_leaves())],
        **_sizes(model.result_),
        "passes": model.n_iter_,
        "seconds": [searched - begin, end - searched],
    }


def _held_out(n: int, seed: int) -> tuple[Array, Array]:
    order = np.random.default_rng(seed).permutation(n)
    n_held = int(HELD_OUT * n)
    return order[n_held:], order[:n_held]


def _chosen(
    base: Any, settings: Sequence[dict[str, Any]], X: Array, y: Array, fit: Array, held: Array
) -> tuple[dict[str, Any], float]:
    """Return the settings that score best on the rows that are held out, and their score."""
    best: tuple[dict[str, Any], float] = ({}, -np.inf)
    for options in settings:
        model = clone(base).set_params(**options).fit(X[fit], y[fit])
        score = float(model.score(X[held], y[held]))
        if score > best[1]:
            best = (options, score)
    return best


def _sizes(result: Any) -> Record:
    return {
        "leaves": int(result.tree.n_leaves),
        "weights": int(result.n_weights),
        "parameters": int(result.n_parameters),
        "operations": float(result.mean_operations),
    }


def _seconds(table: Table) -> Record:
    """A fit of letter, by two threads."""
    n = table.n_train
    model = TAOClassifier(max_depth=LETTER_DEPTH, oblique=True, random_state=0, n_jobs=2)
    begin = time.perf_counter()
    model.fit(table.X[:n], table.y[:n])
    end = time.perf_counter()
    return {"depth": LETTER_DEPTH, "seconds": end - begin, "passes": model.n_iter_}


def _path(table: Table) -> Record:
    """Sparse oblique trees over the strength of their penalty, each from the one before."""
    n = table.n_train
    assert n is not None
    order = np.random.default_rng(0).permutation(n)
    fit, held = order[N_HELD:], order[:N_HELD]
    X, y = table.X, table.y
    begin = time.perf_counter()
    points = tao_path(X[fit], y[fit], LAMBDAS, start="random", depth=DEPTH, seed=0, n_jobs=1)
    seconds = time.perf_counter() - begin

    def error(point: PathPoint, rows: Any) -> float:
        return float(np.mean(point.result.tree.predict(X[rows]) != y[rows]))

    test = slice(n, None)
    found = [
        {
            "lambda": point.lambda_,
            "train": error(point, fit),
            "held_out": error(point, held),
            "test": error(point, test),
            **_sizes(point.result),
            "passes": point.result.n_iter,
        }
        for point in points
    ]
    best = int(np.argmin([point["held_out"] for point in found]))
    return {
        "rows": len(fit),
        "points": found,
        "chosen": best,
        "nodes": list(_plotted(points[best])),
        "seconds": seconds,
    }


def _plotted(point: PathPoint) -> Iterator[list[int]]:
    """Yield the weights of the nodes nearest to the root, in hundredths of each one's largest."""
    W = point.result.tree.W
    for node in range(min(SHOWN, W.n_rows)):
        dense = np.zeros(W.n_columns)
        part = slice(W.ptr[node], W.ptr[node + 1])
        dense[W.column[part]] = W.weight[part]
        size = np.abs(dense).max()
        yield np.rint(100 * dense / (size if size else 1)).astype(int).tolist()


def _values(table: Table, seed: int) -> Record:
    """Trees of values on california: 80 of 100 rows to train, beside a tuned CART."""
    train, test = california.split(len(table.y), seed)
    X, y = california.numeric(table.X, train), table.y
    begin = time.perf_counter()
    tree = california.pruned_cart(X[train], y[train], seed)
    methods: Record = {
        "CART": {
            "rmse": california.rmse(tree, X[test], y[test]),
            "leaves": int(tree.get_n_leaves()),
            "parameters": int(tree.tree_.node_count + tree.get_n_leaves() - 1),
            "chosen": {"ccp_alpha": float(tree.ccp_alpha)},
            "seconds": time.perf_counter() - begin,
        }
    }
    fit, held = _held_out(len(train), seed)
    for method, settings in VALUES.items():
        begin = time.perf_counter()
        base = TAORegressor(random_state=seed)
        chosen, _ = _chosen(base, settings, X[train], y[train], fit, held)
        model = clone(base).set_params(**chosen).fit(X[train], y[train])
        methods[method] = {
            "rmse": california.rmse(model, X[test], y[test]),
            "chosen": chosen,
            **_sizes(model.result_),
            "seconds": time.perf_counter() - begin,
        }
    return {"methods": methods}

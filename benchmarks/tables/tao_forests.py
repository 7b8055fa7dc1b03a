"""Bagged and boosted forests of TAO beside axis-aligned ones of as many trees.

Sets, settings, seeds and numbers of rows were written down before the first run: of each set and
seed 1,500 rows to fit and 500 to choose by, all 2,000 for the chosen settings, and up to 5,000 test
rows of its own or drawn. Every method has four settings, of which that of least log loss or RMSE on
the 500 rows is taken, and 30 trees: a round of a booster that grows a tree for each class counts as
one. Codes of categories are numbers, and what is missing is -1.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.metrics import log_loss, root_mean_squared_error

import bitvec
from benchmarks.report import Column, Row, groups, one
from benchmarks.retrain.data import Split, split
from bitvec.core.forest import Forest

Array = np.ndarray[Any, Any]
Rows = tuple[Array, Array]

DATA_SETS: Final = (
    "letter",
    "pendigits",
    "satimage",
    "optdigits",
    "segment",
    "spambase",
    "adult",
    "covtype",
    "california",
    "bike",
)
SEEDS: Final = 3
TREES: Final = 30
N_ROWS: Final = {"fit": 1500, "held_out": 500, "test": 5000}
BAGGED, BOOSTED = "TAO bagged", "TAO boosted"
RIVALS: Final = ("RandomForest", "ExtraTrees", "xgboost", "LightGBM")
METHODS: Final = (BAGGED, BOOSTED, *RIVALS)


def _grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


SETTINGS: Final = {
    BAGGED: _grid(max_depth=(6, 8), C=(0.1, 1.0)),
    BOOSTED: _grid(max_depth=(4, 6), learning_rate=(0.2, 0.4)),
    "RandomForest": _grid(min_samples_leaf=(1, 3), max_features=("sqrt", 0.5)),
    "ExtraTrees": _grid(min_samples_leaf=(1, 3), max_features=("sqrt", 1.0)),
    "xgboost": _grid(max_depth=(4, 6), learning_rate=(0.2, 0.4)),
    "LightGBM": _grid(num_leaves=(15, 31), learning_rate=(0.2, 0.4)),
}


def measured(name: str, seed: int, data: Path) -> Row:
    """Return the figures of all methods on one set."""
    rows = split(data, name, seed).ordinal().head(**N_ROWS)
    return {
        "measure": "accuracy" if rows.is_classifier else "RMSE",
        "n_rows": [len(part[1]) for part in (rows.fit, rows.held_out, rows.test)],
        "methods": {method: _method(method, rows, seed) for method in METHODS},
    }


def _method(method: str, rows: Split, seed: int) -> Row:
    begin = time.process_time()
    losses = []
    for options in SETTINGS[method]:
        model = _made(method, options, rows, seed).fit(*rows.fit)
        losses.append(_figures(model, rows.held_out, rows)["loss"])
    chosen = SETTINGS[method][int(np.argmin(losses))]
    searched = time.process_time()
    X, y = (np.concatenate(parts) for parts in zip(rows.fit, rows.held_out, strict=True))
    model = _made(method, chosen, rows, seed).fit(X, y)
    fitted = time.process_time()
    return {
        **_figures(model, rows.test, rows),
        **sizes(bitvec.convert(model)),
        "chosen": chosen,
        "seconds": [searched - begin, fitted - searched],
    }


def _made(method: str, options: dict[str, Any], rows: Split, seed: int) -> Any:
    """Return an unfitted model, on one thread."""
    kind = "Classifier" if rows.is_classifier else "Regressor"
    every = {"n_estimators": TREES, "random_state": seed, "n_jobs": 1, **options}
    if method == BAGGED:
        return getattr(bitvec.learners, f"TAOForest{kind}")(**every)
    if method == BOOSTED:
        return getattr(bitvec.learners, f"TAOBoosting{kind}")(**every, validation=None)
    if method == "xgboost":
        import xgboost

        return getattr(xgboost, f"XGB{kind}")(**every)
    if method == "LightGBM":
        import lightgbm

        return getattr(lightgbm, f"LGBM{kind}")(**every, verbose=-1)
    import sklearn.ensemble

    return getattr(sklearn.ensemble, method + kind)(**every)


def _figures(model: Any, part: Rows, rows: Split) -> Row:
    """Return accuracy and log loss, or RMSE, which is the loss of a regressor."""
    X, y = part
    if not rows.is_classifier:
        error = float(root_mean_squared_error(y, model.predict(X)))
        return {"score": error, "loss": error}
    p = np.asarray(model.predict_proba(X), np.float64)
    right = float(np.mean(p.argmax(axis=1) == y))
    loss = log_loss(y, p / p.sum(axis=1, keepdims=True), labels=np.arange(p.shape[1]))
    return {"score": right, "loss": float(loss)}


def sizes(forest: Forest) -> Row:
    """Return trees, leaves, nonzero weights and bytes of a forest of one-row tests.

    A threshold, a weight of an oblique test and each number of a leaf count 4 bytes, a column and a
    child 2.

    Examples
    --------
    >>> sizes(bitvec.Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
    {'trees': 1, 'leaves': 2, 'weights': 1, 'bytes': 18}
    """
    n_weights = int(np.count_nonzero(forest.tests.weight))
    stored = 0 if forest.tests.is_one_hot.all() else 4 * n_weights
    return {
        "trees": forest.n_trees,
        "leaves": forest.n_leaves,
        "weights": n_weights,
        "bytes": 8 * forest.n_nodes + 2 * n_weights + stored + 4 * forest.leaves.v.size,
    }


def rows(records: Sequence[Row]) -> list[Row]:
    """Return a row for each set and method, of means over seeds."""
    found = []
    for (name,), own in groups([_named(record) for record in records], "data").items():
        for method in METHODS:
            each = [record["methods"][method] for record in own]
            mean = {
                key: float(np.mean([one[key] for one in each]))
                for key in ("score", "loss", "trees", "leaves", "weights", "bytes")
            }
            found.append(
                {
                    "part": "forests",
                    "data": name,
                    "method": method,
                    "measure": own[0]["measure"],
                    "seeds": len(own),
                    **{key: float(f"{value:.6g}") for key, value in mean.items()},
                    "score_by_seed": [round(one["score"], 4) for one in each],
                    "loss_by_seed": [round(one["loss"], 4) for one in each],
                    "seconds_to_choose": _seconds(each, 0),
                    "seconds": _seconds(each, 1),
                }
            )
    return found


def _named(record: Row) -> Row:
    return record | {"data": record["unit"][1]}


def _seconds(records: Sequence[Row], which: int) -> float:
    return round(float(np.mean([record["seconds"][which] for record in records])), 2)


def against(every: Sequence[Row]) -> list[Row]:
    """Return for bagged and boosted trees on how many sets they are better than each rival."""
    found = []
    for method, key in product((BAGGED, BOOSTED), ("loss", "score")):
        line: Row = {"method": method, "by": _MEASURES[key]}
        for rival in RIVALS:
            pairs = [
                (one(every, part="forests", data=name, method=method), other)
                for name in DATA_SETS
                if (other := one(every, part="forests", data=name, method=rival))
            ]
            better = sum(_is_better(own, other, key) for own, other in pairs)
            line[rival] = f"{better} of {len(pairs)}"
        found += [line] if any(one(every, part="forests")) else []
    return found


_MEASURES: Final = {"loss": "log loss, RMSE", "score": "accuracy, RMSE"}


def _is_better(own: Row, other: Row, key: str) -> bool:
    if key == "score" and own["measure"] == "accuracy":
        return bool(own[key] > other[key])
    return bool(own[key] < other[key])


def _score(row: Row) -> str:
    scale, form = (100, ".1f") if row["measure"] == "accuracy" else (1, ".3f")
    mean, spread = scale * row["score"], scale * np.std(row["score_by_seed"])
    return f"{mean:{form}} ± {spread:{form}}" + ("" if scale == 100 else " RMSE")


COLUMNS: Final = (
    Column("data", "data"),
    Column("forest", "method"),
    Column("test", _score),
    Column("log loss", lambda row: row["loss"] if row["measure"] == "accuracy" else None, ".3f"),
    Column("trees", "trees", ",.0f"),
    Column("leaves", "leaves", ",.0f"),
    Column("nonzero weights", "weights", ",.0f"),
    Column("KB", lambda row: row["bytes"] / 1000, ",.0f"),
    Column("CPU s, choosing", "seconds_to_choose", ".1f"),
    Column("fit", "seconds", ".2f"),
)
AGAINST: Final = (
    Column("better by means over seeds", "method"),
    Column("by", "by"),
    *(Column(f"than {rival}", rival) for rival in RIVALS),
)

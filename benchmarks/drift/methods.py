"""Ways to keep a booster up to date: each is given the blocks in order, and answers for the next.

Every library starts from the same size: 60 rounds, 30 of more than two classes, of 31 leaves or of
depth 5, at a rate of .1, four fifths of the columns for each tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import lightgbm as lgb
import numpy as np
import xgboost as xgb

import bitvec
from benchmarks.drift.streams import Array, Stream

MORE_ROUNDS: Final = 20
"""Rounds that continued boosting adds at each block."""
WINDOW: Final = 4
"""Blocks of a window, the newest among them; the rows of the start before them."""
Rows = tuple[Array, Array]


class Method(Protocol):
    """A model that is kept up to date."""

    def learn(self, X: Array, y: Array) -> None:
        """Take the labels of the newest block."""
        ...

    def answer(self, X: Array) -> Array:
        """Return class probabilities, (batch, n_classes), or numbers, (batch,)."""
        ...

    @property
    def leaves(self) -> int:
        """Number of leaves, of a tree for each class and round."""
        ...


def rounds(stream: Stream) -> int:
    """Return the rounds of a fresh fit."""
    return 30 if stream.n_classes > 2 else 60


def _wide(p: Array) -> Array:
    return np.stack([1 - p, p], axis=1)


def _lightgbm_options(stream: Stream, seed: int) -> dict[str, Any]:
    objective = {0: "regression", 2: "binary"}.get(stream.n_classes, "multiclass")
    options = {
        "objective": objective,
        "num_leaves": 31,
        "learning_rate": 0.1,
        "feature_fraction": 0.8,
        "seed": seed,
        "num_threads": 1,
        "verbose": -1,
    }
    return options | ({"num_class": stream.n_classes} if objective == "multiclass" else {})


class Frozen:
    """LightGBM fitted to the start, and left so."""

    def __init__(self, stream: Stream, seed: int) -> None:
        self.stream, self.options = stream, _lightgbm_options(stream, seed)
        self.booster = self.fit(*stream.first())

    def fit(self, X: Array, y: Array, n: int | None = None, start: Any = None) -> lgb.Booster:
        """Return a booster of n rounds more than the start."""
        data = lgb.Dataset(X, y, free_raw_data=False)
        n = rounds(self.stream) if n is None else n
        return lgb.train(self.options, data, n, init_model=start)

    def learn(self, X: Array, y: Array) -> None:
        """Take nothing."""

    def answer(self, X: Array) -> Array:
        """Return what the booster predicts."""
        found = np.asarray(self.booster.predict(X, num_threads=1))
        return _wide(found) if self.stream.n_classes == 2 else found

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return sum(tree["num_leaves"] for tree in self.booster.dump_model()["tree_info"])


class Refit(Frozen):
    """LightGBM's `refit`, with its own decay of .9."""

    def learn(self, X: Array, y: Array) -> None:
        """Refit the leaves."""
        self.booster = self.booster.refit(X, y, decay_rate=0.9, num_threads=1)


class Continued(Frozen):
    """LightGBM that is trained on, 20 rounds a block."""

    def learn(self, X: Array, y: Array) -> None:
        """Add rounds."""
        self.booster = self.fit(X, y, MORE_ROUNDS, self.booster)


class FreshBlock(Frozen):
    """LightGBM fitted to the newest block alone."""

    def learn(self, X: Array, y: Array) -> None:
        """Fit anew."""
        self.booster = self.fit(X, y)


class FreshWindow(Frozen):
    """LightGBM fitted to the newest blocks; `n_blocks` None: to all rows."""

    n_blocks: int | None = WINDOW

    def __init__(self, stream: Stream, seed: int) -> None:
        super().__init__(stream, seed)
        self.seen: list[Rows] = [stream.first()]

    def learn(self, X: Array, y: Array) -> None:
        """Fit anew to the window."""
        self.seen.append((X, y))
        kept = self.seen if self.n_blocks is None else self.seen[-self.n_blocks :]
        self.booster = self.fit(*_joined(kept))


class FreshAll(FreshWindow):
    """LightGBM fitted to all rows so far."""

    n_blocks = None


def _joined(rows: list[Rows]) -> Rows:
    return np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows])


class Refreshed:
    """xgboost whose leaves are refreshed, `process_type=update`."""

    def __init__(self, stream: Stream, seed: int) -> None:
        self.stream = stream
        objective = {0: "reg:squarederror", 2: "binary:logistic"}.get(
            stream.n_classes, "multi:softprob"
        )
        self.options: dict[str, Any] = {
            "objective": objective,
            "max_depth": 5,
            "eta": 0.1,
            "colsample_bytree": 0.8,
            "seed": seed,
            "nthread": 1,
            "verbosity": 0,
        }
        if stream.n_classes > 2:
            self.options["num_class"] = stream.n_classes
        self.booster = xgb.train(self.options, self._matrix(*stream.first()), rounds(stream))

    def _matrix(self, X: Array, y: Array | None = None) -> xgb.DMatrix:
        return xgb.DMatrix(X, y, nthread=1)

    def learn(self, X: Array, y: Array) -> None:
        """Refresh the leaves."""
        options = self.options | {
            "process_type": "update", "updater": "refresh", "refresh_leaf": True
        }  # fmt: skip
        n = self.booster.num_boosted_rounds()
        self.booster = xgb.train(options, self._matrix(X, y), n, xgb_model=self.booster)

    def answer(self, X: Array) -> Array:
        """Return what the booster predicts."""
        found = self.booster.predict(self._matrix(X))
        return _wide(found) if self.stream.n_classes == 2 else found

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return int(sum(tree.count("leaf=") for tree in self.booster.get_dump()))


class ContinuedXgboost(Refreshed):
    """xgboost that is trained on, 20 rounds a block."""

    def learn(self, X: Array, y: Array) -> None:
        """Add rounds."""
        matrix = self._matrix(X, y)
        self.booster = xgb.train(self.options, matrix, MORE_ROUNDS, xgb_model=self.booster)


class Updated(Frozen):
    """`bitvec.update` of the LightGBM model, with the newest block alone."""

    grow = False

    def __init__(self, stream: Stream, seed: int) -> None:
        super().__init__(stream, seed)
        self.forest = bitvec.convert(self.booster)
        self.seed = seed

    def learn(self, X: Array, y: Array) -> None:
        """Update the forest."""
        self.forest = bitvec.update(self.forest, X, y, grow=self.grow, seed=self.seed).forest

    def answer(self, X: Array) -> Array:
        """Return what the forest predicts."""
        predictor = bitvec.compile(self.forest, n_jobs=1)
        found = predictor.predict_proba(X) if self.stream.n_classes else predictor.predict(X)
        return np.asarray(found)

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return self.forest.n_leaves


class UpdatedWindow(Updated):
    """`bitvec.update` that may replay the window: the newest rows choose."""

    n_blocks: int | None = WINDOW - 1

    def __init__(self, stream: Stream, seed: int) -> None:
        super().__init__(stream, seed)
        self.seen: list[Rows] = [stream.first()]

    def learn(self, X: Array, y: Array) -> None:
        """Update the forest."""
        old = _joined(self.seen if self.n_blocks is None else self.seen[-self.n_blocks :])
        self.seen.append((X, y))
        found = bitvec.update(
            self.forest, X, y, replay=old, replay_weight="auto", grow=self.grow, seed=self.seed
        )
        self.forest = found.forest


class Grown(Updated):
    """`bitvec.update` that may add and drop trees, with the newest block alone."""

    grow = True


class GrownWindow(UpdatedWindow):
    """The same, which may replay the window."""

    grow = True


class GrownAll(GrownWindow):
    """The same, which may replay all rows so far."""

    n_blocks = None


class RiverForest:
    """river's adaptive random forest of 10 trees, row by row; where river is installed."""

    def __init__(self, stream: Stream, seed: int) -> None:
        from river import forest

        self.stream = stream
        made = forest.ARFClassifier if stream.n_classes else forest.ARFRegressor
        self.model = made(n_models=10, seed=seed)
        self.learn(*stream.first())

    def learn(self, X: Array, y: Array) -> None:
        """Learn each row once."""
        for row, label in zip(X, y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row.tolist())), label)

    def answer(self, X: Array) -> Array:
        """Return what the model says of each row."""
        rows = (dict(enumerate(row.tolist())) for row in X)
        if not self.stream.n_classes:
            return np.array([self.model.predict_one(row) for row in rows])
        known = [self.model.predict_proba_one(row) for row in rows]
        found = np.array([[p.get(k, 0.0) for k in range(self.stream.n_classes)] for p in known])
        total = found.sum(axis=1, keepdims=True)
        return np.where(total > 0, found / np.where(total > 0, total, 1), 1 / self.stream.n_classes)

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return sum(member.n_leaves for member in self.model)


UPDATE, UPDATE_WINDOW = "bitvec.update", "bitvec.update, may replay the window"
GROW = "bitvec.update, grow"
GROW_WINDOW, GROW_ALL = (f"{GROW}, may replay {rows}" for rows in ("the window", "all rows"))
METHODS: Final[dict[str, Callable[[Stream, int], Method]]] = {
    "no update": Frozen,
    "LightGBM refit": Refit,
    "LightGBM, 20 rounds more": Continued,
    "LightGBM fresh, block": FreshBlock,
    "LightGBM fresh, window": FreshWindow,
    "LightGBM fresh, all rows": FreshAll,
    "xgboost refresh": Refreshed,
    "xgboost, 20 rounds more": ContinuedXgboost,
    "river ARF": RiverForest,
    UPDATE: Updated,
    UPDATE_WINDOW: UpdatedWindow,
    GROW: Grown,
    GROW_WINDOW: GrownWindow,
    GROW_ALL: GrownAll,
}
"""By name; those of this package come last."""

"""Synthetic workloads: each function trains a model and keeps it in its library's own format.

Sizes are chosen so that one is shallow boosting, one leaf-wise boosting, one a deep forest, one a
large boosting, one a single tree. `small` makes a quick stand-in of the same kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

Rows = np.ndarray
Trained = tuple[str, Rows]
"""The name of the model's file, and the rows that are predicted."""

CODES: Final = {"few": 60, "many": 400}
"""Categories of each categorical column."""


def _numbers(n: int, n_features: int, n_informative: int, seed: int) -> tuple[Rows, Rows]:
    from sklearn.datasets import make_regression

    X, y = make_regression(
        n_samples=n,
        n_features=n_features,
        n_informative=n_informative,
        noise=5.0,
        random_state=seed,
    )
    X = X.astype(np.float32)
    # An interaction, so that trees have something to find beyond a plane.
    return X, (y / np.std(y) + np.sin(3 * X[:, 0]) * X[:, 1]).astype(np.float32)


def _classes() -> tuple[Rows, Rows]:
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n_samples=50_000,
        n_features=30,
        n_informative=18,
        n_classes=10,
        n_clusters_per_class=2,
        random_state=2,
        flip_y=0.05,
    )
    return X.astype(np.float32), y


def w1(folder: Path, *, small: bool) -> Trained:
    """xgboost, 100 trees of depth 6, 28 features."""
    import xgboost

    X, y = _numbers(120_000, 28, 20, 0)
    n, trees = (5000, 20) if small else (50_000, 100)
    model = xgboost.XGBRegressor(
        n_estimators=trees, max_depth=6, learning_rate=0.1, tree_method="hist", n_jobs=2
    )
    model.fit(X[:n], y[:n]).save_model(folder / "model.ubj")
    return "model.ubj", X[:100_000]


def w2(folder: Path, *, small: bool) -> Trained:
    """LightGBM, 500 trees of 31 leaves, 50 features."""
    import lightgbm

    X, y = _numbers(120_000, 50, 30, 1)
    n, trees = (5000, 50) if small else (50_000, 500)
    options = {
        "objective": "regression",
        "num_leaves": 31,
        "learning_rate": 0.05,
        "num_threads": 2,
        "verbose": -1,
        "min_data_in_leaf": 20,
    }
    booster = lightgbm.train(options, lightgbm.Dataset(X[:n], y[:n]), trees)
    booster.save_model(folder / "model.txt")
    return "model.txt", X[:100_000]


def w3(folder: Path, *, small: bool) -> Trained:
    """RandomForestClassifier, 100 trees of unlimited depth, 30 features, 10 classes."""
    from sklearn.ensemble import RandomForestClassifier

    X, y = _classes()
    n, trees = (2000, 10) if small else (20_000, 100)
    model = RandomForestClassifier(trees, random_state=0, n_jobs=2).fit(X[:n], y[:n])
    return _by_skops(folder, model), X[20_000:40_000]


def w4(folder: Path, *, small: bool) -> Trained:
    """xgboost, 1000 trees of depth 8, 100 features."""
    import xgboost

    X, y = _numbers(60_000, 100, 60, 3)
    n, trees = (5000, 50) if small else (30_000, 1000)
    model = xgboost.XGBRegressor(
        n_estimators=trees, max_depth=8, learning_rate=0.05, tree_method="hist", n_jobs=2
    )
    model.fit(X[:n], y[:n]).save_model(folder / "model.ubj")
    return "model.ubj", X[-20_000:]


def w5(folder: Path, *, small: bool) -> Trained:
    """DecisionTreeClassifier of depth 10, 30 features, 10 classes."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = _classes()
    n = 5000 if small else 20_000
    model = DecisionTreeClassifier(max_depth=10, random_state=0).fit(X[:n], y[:n])
    return _by_skops(folder, model), np.vstack([X, X + np.float32(1e-3)])


def binary(folder: Path, *, small: bool) -> Trained:
    """LightGBM, 100 trees of 31 leaves, 28 features, two classes."""
    import lightgbm

    X, y = _numbers(120_000, 28, 20, 6)
    n, trees = (5000, 20) if small else (50_000, 100)
    options = {"objective": "binary", "num_leaves": 31, "num_threads": 2, "verbose": -1}
    booster = lightgbm.train(options, lightgbm.Dataset(X[:n], y[:n] > 0), trees)
    booster.save_model(folder / "model.txt")
    return "model.txt", X[:100_000]


def digits_tree(folder: Path, *, small: bool) -> Trained:
    """DecisionTreeClassifier of depth 8 on digits: 64 features, 10 classes."""
    from sklearn.datasets import load_digits
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_digits(return_X_y=True)
    model = DecisionTreeClassifier(max_depth=8, random_state=0).fit(X, y)
    rng = np.random.default_rng(7)
    n = 2_000 if small else 100_000
    rows = X[rng.integers(0, len(X), n)] + rng.normal(size=(n, X.shape[1]))
    return _by_skops(folder, model), rows.astype(np.float32)


def deep_boosting(folder: Path, *, small: bool) -> Trained:
    """xgboost, 200 trees of depth 10, 28 features with 1,000 thresholds each."""
    import xgboost

    X, y = _numbers(120_000, 28, 20, 8)
    n, trees = (5000, 20) if small else (50_000, 200)
    model = xgboost.XGBRegressor(
        n_estimators=trees, max_depth=10, tree_method="hist", max_bin=1024, n_jobs=2
    )
    model.fit(X[:n], y[:n]).save_model(folder / "model.ubj")
    return "model.ubj", X[:100_000]


def oblivious(depth: int, folder: Path, *, small: bool) -> Trained:
    """CatBoost, 500 symmetric trees of the depth in the name, 28 features."""
    import catboost

    X, y = _numbers(120_000, 28, 20, 9)
    n, trees = (5000, 20) if small else (20_000, 500)
    model = catboost.CatBoostRegressor(
        iterations=trees, depth=depth, random_seed=0, thread_count=2, allow_writing_files=False
    )
    model.fit(X[:n], y[:n], verbose=False).save_model(str(folder / "model.cbm"))
    return "model.cbm", X[:100_000]


def _by_skops(folder: Path, model: Any) -> str:
    import skops.io

    skops.io.dump(model, folder / "model.skops")
    return "model.skops"


def few_sets(folder: Path, *, small: bool) -> Trained:
    """LightGBM, 500 trees of 31 leaves, 6 columns of 60 categories, split one against the rest."""
    return _categories(folder, CODES["few"], one_hot=True, trees=50 if small else 500)


def many_sets(folder: Path, *, small: bool) -> Trained:
    """LightGBM, 500 trees of 31 leaves, 6 columns of 400 categories, split into sets."""
    return _categories(folder, CODES["many"], one_hot=False, trees=50 if small else 500)


def _categories(folder: Path, codes: int, *, one_hot: bool, trees: int) -> Trained:
    import lightgbm

    rng = np.random.default_rng(4)
    n, n_categorical, n_numeric = 50_000, 6, 14
    code = rng.integers(0, codes, (n, n_categorical))
    number = rng.normal(size=(n, n_numeric)).astype(np.float32)
    effect = rng.normal(size=(n_categorical, codes)) * (1.0 if one_hot else 0.5)
    y = effect[np.arange(n_categorical), code].sum(axis=1) + effect[0, code[:, 1]] * number[:, 0]
    y += number[:, :7].sum(axis=1) * 0.5 + np.sin(3 * number[:, 1]) * number[:, 2]
    X = np.column_stack([code.astype(np.float32), number])
    options = {
        "objective": "regression",
        "num_leaves": 31,
        "learning_rate": 0.05,
        "num_threads": 2,
        "verbose": -1,
        "max_cat_to_onehot": codes + 1 if one_hot else 1,
        "min_data_per_group": 10,
        "cat_smooth": 1.0,
        "cat_l2": 1.0,
        "max_cat_threshold": codes,
    }
    data = lightgbm.Dataset(X, y, categorical_feature=list(range(n_categorical)))
    lightgbm.train(options, data, trees).save_model(folder / "model.txt")
    return "model.txt", X[:20_000]


def oblique_forest(folder: Path, *, small: bool) -> Trained:
    """50 complete trees of depth 6 whose every node reads all of 30 features."""
    return _oblique(folder, 5 if small else 50, 6, 30)


def oblique_tree(folder: Path, *, small: bool) -> Trained:
    """One complete tree of depth 10 whose every node reads all of 64 features."""
    return _oblique(folder, 1, 6 if small else 10, 64)


def _oblique(folder: Path, n_trees: int, depth: int, n_features: int) -> Trained:
    import bitvec
    from bitvec.core.forest import Forest
    from bitvec.core.inputs import Inputs
    from bitvec.core.leaves import Leaves
    from bitvec.core.node_tests import from_rows
    from bitvec.core.output import Aggregate, Output
    from bitvec.core.structure import from_children

    rng = np.random.default_rng(5)
    per_tree = 2**depth - 1
    n = n_trees * per_tree
    place = np.arange(per_tree)
    tree = np.arange(n_trees)[:, None]

    def child(side: int) -> np.ndarray:
        below = 2 * place + side
        leaf = below - per_tree + tree * (per_tree + 1)
        return np.where(below < per_tree, below + tree * per_tree, ~leaf).ravel()

    weight = rng.normal(size=(n, n_features)).astype(np.float32)
    weight /= np.linalg.norm(weight, axis=1, keepdims=True)
    tests = from_rows(
        np.arange(n + 1) * n_features,
        np.tile(np.arange(n_features), n),
        weight.ravel(),
        (0.3 * rng.normal(size=n)).astype(np.float32),
    )
    forest = Forest(
        tests,
        from_children(child(1), child(2), np.arange(n_trees) * per_tree),
        Leaves(rng.normal(size=(n_trees * (per_tree + 1), 1)).astype(np.float32)),
        Output(1, np.dtype(np.float32), Aggregate.MEAN),
        Inputs(n_features),
    )
    bitvec.save(forest, folder / "model.safetensors")
    return "model.safetensors", rng.normal(size=(20_000, n_features)).astype(np.float32)


def sparse_rows(folder: Path, *, small: bool) -> Trained:
    """LightGBM, 100 trees of 31 leaves on 5,000 sparse rows of 50,000 columns, .2 % filled."""
    import lightgbm
    import scipy.sparse

    rng = np.random.default_rng(8)
    n, columns = (500, 5_000) if small else (5_000, 50_000)
    X = scipy.sparse.random(n, columns, density=0.002, format="csr", random_state=8)
    y = np.asarray(X[:, :500].sum(axis=1)).ravel() + 0.1 * rng.normal(size=n)
    scipy.sparse.save_npz(folder / "rows.npz", X)
    options = {"objective": "regression", "verbose": -1, "min_data_in_leaf": 5, "num_threads": 2}
    lightgbm.train(options, lightgbm.Dataset(X, y), 100).save_model(folder / "model.txt")
    return "model.txt", np.zeros((1, columns))

"""Train small LightGBM models of every option, and keep their texts with what the library answers.

    python tests/versions/lightgbm.py FOLDER

Runs by itself, with the numpy and lightgbm of whatever version is installed. FOLDER then holds the
model texts, rows.npy with missing, special and unseen values, for each model its raw scores (those
of a random forest divided by its iterations), its predictions and its leaf ids, and manifest.json,
a list of {"model", "rows", "raw", "predict", "leaves", "options"}; "predict" holds scores after the
objective's transform, not labels.
"""

import json
import sys
from pathlib import Path

# This file has the name of the library, which must not be looked for beside it.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]

import lightgbm as lgb  # noqa: E402
import numpy as np  # noqa: E402

N_ROWS, N_ANSWERED = 600, 3000
COMMON = {
    "verbose": -1,
    "num_threads": 1,
    "num_leaves": 15,
    "min_data_in_leaf": 5,
    "seed": 7,
    "deterministic": True,
}
ZERO = float(np.float32(1e-35))
SPECIAL = [
    *(0.0, -0.0, 5e-324, -5e-324, 5e-36, -5e-36, ZERO, -ZERO, 2e-35, -2e-35),
    *(np.nextafter(ZERO, 1), np.nextafter(-ZERO, -1), np.inf, -np.inf, np.nan, 1e300, -1e300),
    *(0.5, 2.7, -0.5, -1.0, 9.0, 31.0, 32.0, 69.0, 70.0, 1e6, 2.0**31, -(2.0**31), 2.0**40),
]
CLASSES = {"binary": 2, "multiclass": 4, "multiclassova": 4}
OBJECTIVES = (
    *("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma"),
    *("tweedie", "binary", "multiclass", "multiclassova", "cross_entropy"),
    *("cross_entropy_lambda", "lambdarank", "rank_xendcg"),
)
RF = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
OPTIONS = {
    "gbdt": {},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "rf": RF,
    "goss": {"boosting": "goss", "learning_rate": 0.5},
    "zero_as_missing": {"zero_as_missing": True},
    "use_missing=false": {"use_missing": False},
    "linear_tree": {"linear_tree": True},
    "linear_tree, use_missing=false": {"linear_tree": True, "use_missing": False},
    "reg_sqrt": {"reg_sqrt": True},
    "max_cat_to_onehot": {"max_cat_to_onehot": 100},
    "monotone_constraints": {"monotone_constraints": [1, -1, 0, 0, 0, 0]},
    "extra_trees": {"extra_trees": True},
    "max_bin": {"max_bin": 5},
    "max_bin=1000": {"max_bin": 1000},
    "stumps": {"num_leaves": 2},
    "max_depth": {"max_depth": 2},
    "constant trees": {"min_data_in_leaf": 10**6},
    "path_smooth": {"path_smooth": 1.0},
    "boost_from_average=false": {"boost_from_average": False},
    "feature_fraction": {"feature_fraction": 0.4, "feature_fraction_bynode": 0.5},
    "enable_bundle=false": {"enable_bundle": False},
}
SIGMOID = {
    "sigmoid": {"sigmoid": 0.7},
    "is_unbalance": {"is_unbalance": True},
    "scale_pos_weight": {"scale_pos_weight": 3.0},
}


def columns(rng, n):
    """Draw amounts with many zeros, tiny and missing values, and two columns of codes."""
    X = rng.normal(size=(n, 6))
    X[:, 0] = np.where(rng.random(n) < 0.5, 0.0, X[:, 0])
    X[:, 2] = rng.choice([-1.0, 0.0, 1e-36, 1e-34, 1.0, 3.0], n)
    X[:, 3] = rng.integers(0, 9, n)
    X[:, 4] = rng.integers(0, 70, n)
    return X


def training_data():
    rng = np.random.default_rng(1)
    X = columns(rng, N_ROWS)
    y = 1 + np.abs(X[:, 1]) + (X[:, 3] % 3 == 2) + (X[:, 4] % 5 == 1) + 0.3 * (X[:, 0] > 0)
    X[:, :5][rng.random((N_ROWS, 5)) < 0.1] = np.nan
    return X, y


def answered_rows():
    """Return rows of which a third of the values are special ones."""
    rng = np.random.default_rng(2)
    X = columns(rng, N_ANSWERED)
    special = rng.random(X.shape) < 0.35
    X[special] = rng.choice(SPECIAL, int(special.sum()))
    return X


def trained(objective, rounds=6, *, stop_early=False, **options):
    X, y = training_data()
    group, settings = None, {**COMMON, "objective": objective, **options}
    cuts = np.quantile(y, np.linspace(0, 1, CLASSES.get(objective, 4) + 1)[1:-1])
    if objective in CLASSES:
        y = np.digitize(y, cuts)
        if CLASSES[objective] > 2:
            settings["num_class"] = CLASSES[objective]
    elif objective in ("cross_entropy", "cross_entropy_lambda"):
        y = y / y.max()
    elif objective in ("lambdarank", "rank_xendcg"):
        y, group = np.digitize(y, cuts), [N_ROWS // 3] * 3
    elif objective == "custom":
        return by_hand(X, y, rounds, settings)
    rows = lgb.Dataset(X, y, group=group, categorical_feature=[3, 4])
    if not stop_early:
        return lgb.train(settings, rows, rounds)
    held_out = lgb.Dataset(X[::2], y[::-2], reference=rows)
    model = lgb.train(
        settings, rows, rounds, valid_sets=[held_out], callbacks=[lgb.early_stopping(5)]
    )
    assert 0 < model.best_iteration < rounds
    return model


def by_hand(X, y, rounds, settings):
    """Train by gradients of our own, which leaves no objective in the text."""
    booster = lgb.Booster({**settings, "objective": "none"}, lgb.Dataset(X, y))
    for _ in range(rounds):
        booster.update(fobj=lambda score, data: (score - data.get_label(), np.ones_like(score)))
    return booster


def models():
    """Yield the name, the options and the text of each model."""
    for objective in OBJECTIVES:
        yield objective, [objective], trained(objective), {}
        yield f"{objective}, rf", [objective, "rf"], trained(objective, **RF), {}
    for name, options in OPTIONS.items():
        for objective in ("regression", "multiclass"):
            yield f"{objective}, {name}", [objective, name], trained(objective, **options), {}
    for name, options in SIGMOID.items():
        yield f"binary, {name}", ["binary", name], trained("binary", **options), {}
    ova = trained("multiclassova", sigmoid=0.7)
    yield "multiclassova, sigmoid", ["multiclassova", "sigmoid"], ova, {}
    for objective in ("regression_l1", "quantile", "mape", "fair"):
        model = trained(objective, reg_sqrt=True)
        yield f"{objective}, reg_sqrt", [objective, "reg_sqrt"], model, {}
    yield "custom", ["custom"], trained("custom"), {}
    stopped = trained("regression", 200, stop_early=True, learning_rate=0.5)
    yield "best iteration", ["best_iteration", "early stopping"], stopped, {}
    whole = {"num_iteration": -1}
    yield "all iterations", ["num_iteration"], stopped, whole
    part = {"start_iteration": 2, "num_iteration": 3}
    yield "some iterations", ["start_iteration", "num_iteration"], trained("multiclass", 8), part
    forest = trained("binary", 8, **RF)
    yield "some iterations, rf", ["start_iteration", "num_iteration", "rf"], forest, part


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    X = answered_rows()
    np.save(folder / "rows.npy", X)
    manifest = []
    for number, (name, options, model, saved) in enumerate(models()):
        path = folder / f"{number}.txt"
        model.save_model(str(path), **saved)
        loaded = lgb.Booster(model_file=str(path))
        raw = loaded.predict(X, raw_score=True)
        if "\naverage_output\n" in path.read_text().partition("Tree=0")[0]:
            raw = raw / (loaded.num_trees() // loaded.num_model_per_iteration())
        answers = {
            "raw": raw,
            "predict": loaded.predict(X),
            "leaves": loaded.predict(X, pred_leaf=True).reshape(len(X), -1),
        }
        entry = {"model": path.name, "rows": "rows.npy"}
        for kind, answer in answers.items():
            entry[kind] = f"{number}.{kind}.npy"
            np.save(folder / entry[kind], answer)
        options = [*options, name, f"lightgbm {lgb.__version__}"]
        manifest.append({**entry, "options": list(dict.fromkeys(options))})
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

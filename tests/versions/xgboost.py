"""Train small xgboost models of every option, and save them with the library's own answers.

Runs on its own in an environment that has numpy and xgboost, of any version from 1.7 on; models of
the scikit-learn wrappers are made where scikit-learn is installed too:

    python tests/versions/xgboost.py FOLDER

`FOLDER/manifest.json` then lists the models for `check.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]

import numpy as np  # noqa: E402
import xgboost as xgb  # noqa: E402

VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])
N_FEATURES = 4


def numeric(rng):
    """Rows on a grid, so that thresholds fall on values of the rows."""
    X = rng.integers(-6, 7, (240, N_FEATURES)).astype(np.float32) / 2
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + rng.normal(size=len(X))
    return X, y


def around(X):
    """The rows, the rows one ulp to each side, signed zeros, huge and tiny values, all missing."""
    special = np.array([0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, np.nan], np.float32)
    return np.concatenate(
        [
            X,
            np.nextafter(X, np.float32(np.inf)),
            np.nextafter(X, np.float32(-np.inf)),
            np.resize(special, (special.size * 5, X.shape[1])),
            np.full((1, X.shape[1]), np.nan, np.float32),
        ]
    )


def codes(rng):
    """Two columns of categories and two of numbers."""
    X, _ = numeric(rng)
    X[:, 0] = rng.integers(0, 40, len(X))
    X[:, 1] = rng.integers(0, 3, len(X))
    X[::9, 0] = np.nan
    y = np.isin(X[:, 0] % 5, (1, 3)) * 2.0 + (X[:, 1] == 1) * np.nan_to_num(X[:, 2])
    return X, y


def code_rows(X):
    """Rows with known, fractional, negative, unseen and huge codes."""
    special = [0.5, -0.0, -0.5, -1, 2.7, 39, 39.9, 40, 41, 63, 64, 1e6, 2**24 - 1, 2**24, 3e38]
    rows = np.repeat(X[:20], len(special), axis=0)
    rows[:, 0] = np.resize(special, len(rows))
    rows[::3, 1] = np.resize(special, len(rows[::3]))
    return np.concatenate([X, rows])


class Folder:
    """Where models, rows and answers are saved, and the manifest that lists them."""

    def __init__(self, path):
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.entries = []

    def array(self, name, values):
        np.save(self.path / name, values)
        return name

    def add(self, stem, model, X, options, *, labels=False, raw=None, predict=None):
        """Save a model in each format that this version writes, with its answers on X."""
        booster = model if isinstance(model, xgb.Booster) else model.get_booster()
        if raw is None:
            rows = xgb.DMatrix(X, nthread=1)
            raw = booster.predict(rows, output_margin=True, validate_features=False)
            predict = booster.predict(rows, validate_features=False)
            predict = predict.astype(np.int64) if labels else predict
        common = {
            "rows": self.array(f"{stem}.X.npy", X),
            "raw": self.array(f"{stem}.raw.npy", raw),
            "predict": self.array(f"{stem}.predict.npy", predict),
        }
        for suffix in ("json", "ubj", "bin"):
            if suffix == "bin" and (
                VERSION >= (3, 1) or {"categories", "vector leaves"} & {*options}
            ):
                continue  # not written any more, or not by this format
            file = f"{stem}.{suffix}"
            if suffix == "bin":  # the suffix by which 2.1 and 3.0 still write it
                old = self.path / f"{stem}.deprecated"
                model.save_model(old)
                old.replace(self.path / file)
            else:
                model.save_model(self.path / file)
            self.entries.append({"model": file, **common, "options": [*options, suffix]})

    def close(self):
        (self.path / "manifest.json").write_text(json.dumps(self.entries, indent=1) + "\n")


def labelled(X, y, objective):
    """The rows with labels that the objective admits."""
    n_classes = 4
    positive = np.exp(y / 4)
    bins = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
    label = {
        "reg:logistic": y > 0,
        "reg:squaredlogerror": positive,
        "reg:gamma": positive,
        "reg:tweedie": positive,
        "count:poisson": positive.round(),
        "survival:cox": np.where(y > 0, positive, -positive),
    }.get(objective, y)
    if objective.startswith("binary:"):
        label = y > 0
    if objective.startswith(("multi:", "rank:")):
        label = np.digitize(y, bins) if objective != "rank:map" else y > 0
    rows = xgb.DMatrix(X, label.astype(np.float32), nthread=1)
    if objective.startswith("rank:"):
        rows.set_group([40] * (len(X) // 40))
    if objective == "survival:aft":
        rows.set_float_info("label_lower_bound", positive)
        rows.set_float_info("label_upper_bound", np.where(y > 0, positive * 2, np.inf))
    return rows


OBJECTIVES = {
    "reg:squarederror": (1, 0),
    "reg:squaredlogerror": (1, 0),
    "reg:logistic": (1, 0),
    "reg:pseudohubererror": (1, 0),
    "reg:absoluteerror": (1, 7),
    "reg:quantileerror": (2, 0),
    "reg:gamma": (1, 0),
    "reg:tweedie": (1, 0),
    "binary:logistic": (1, 0),
    "binary:logitraw": (1, 0),
    "binary:hinge": (1, 0),
    "count:poisson": (1, 0),
    "survival:cox": (1, 0),
    "survival:aft": (1, 2),
    "multi:softmax": (1, 0),
    "multi:softprob": (1, 0),
    "rank:pairwise": (1, 0),
    "rank:ndcg": (1, 0),
    "rank:map": (1, 0),
}
"""Since when there are models of each."""

BASE_SCORES = {"reg:logistic": 0.3, "binary:logistic": 0.3}


def objectives(folder, X, y):
    """Every objective, with an estimated and a given base score."""
    for objective, since in OBJECTIVES.items():
        if since > VERSION:
            continue
        parameters = {"objective": objective, "max_depth": 4, "nthread": 1, "eta": 0.4}
        if objective.startswith("multi:"):
            parameters["num_class"] = 4
        if objective == "reg:quantileerror":
            parameters["quantile_alpha"] = [0.2, 0.5, 0.9]
        rows = labelled(X, y, objective)
        for base in ("estimated", "given"):
            given = {"base_score": BASE_SCORES.get(objective, 0.7)} if base == "given" else {}
            folder.add(
                f"{objective.replace(':', '-')}-{base}",
                xgb.train({**parameters, **given}, rows, 5),
                around(X),
                ["gbtree", objective, f"base_score {base}"],
                labels=objective == "multi:softmax",
            )


def boosters(folder, X, y):
    """Dart, forests, tree methods, shapes, names; categories and vector leaves where they exist."""
    names = [f"column {i}" for i in range(N_FEATURES)]
    plain = {"nthread": 1, "max_depth": 4}
    classes = {"objective": "multi:softprob", "num_class": 4}
    dart = {"booster": "dart", "rate_drop": 0.5, "seed": 1}
    forest = {"num_parallel_tree": 3, "subsample": 0.5, "colsample_bynode": 0.7}
    lossguide = {"tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0}
    for stem, rounds, parameters, options in (
        ("dart", 12, dart, ["dart"]),
        ("dart-classes", 6, {**dart, **classes}, ["dart", "multi:softprob"]),
        ("dart-forests", 6, {**dart, **forest}, ["dart", "num_parallel_tree"]),
        ("forests", 4, forest, ["num_parallel_tree"]),
        ("forests-classes", 3, {**forest, **classes}, ["num_parallel_tree", "multi:softprob"]),
        ("exact", 4, {"tree_method": "exact", "gamma": 2}, ["exact", "pruned"]),
        ("approximate", 4, {"tree_method": "approx"}, ["approx"]),
        ("lossguide", 4, {**lossguide, "max_leaves": 9}, ["lossguide"]),
        ("deep", 3, {"max_depth": 30, "min_child_weight": 0}, ["deep"]),
        ("leaves", 3, {"gamma": 1e12}, ["single leaves"]),
        ("monotone", 4, {"monotone_constraints": "(1,-1,0,0)"}, ["monotone"]),
    ):
        objective = parameters.get("objective", "reg:squarederror")
        rows = labelled(X, y, objective)
        rows.feature_names = names
        model = xgb.train({**plain, **parameters}, rows, rounds)
        folder.add(stem, model, around(X), [*options, "feature names"])
    rows = xgb.DMatrix(X, np.stack([y, -y, y**2], axis=1), nthread=1)
    folder.add("targets", xgb.train(plain, rows, 4), around(X), ["targets"])
    if VERSION >= (3, 1):
        model = xgb.train({**plain, "base_score": [0.5, -1.5, 2.25]}, rows, 4)
        folder.add("base-scores", model, around(X), ["targets", "base_score vector"])
    if VERSION >= (2, 0):
        vectors = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
        for stem, rows_of, parameters in (
            ("vectors", rows, {}),
            ("vectors-classes", labelled(X, y, "multi:softprob"), classes),
            ("vectors-forests", rows, forest),
        ):
            model = xgb.train({**plain, **vectors, **parameters}, rows_of, 4)
            folder.add(stem, model, around(X), ["vector leaves"])


def categories(folder, rng):
    """Splits on one category, on sets of them, and both."""
    X, y = codes(rng)
    types = ["c", "c", "q", "float"]
    rows = xgb.DMatrix(X, y, feature_types=types, enable_categorical=True, nthread=1)
    for stem, most, extra in (
        ("one-hot", 100, {}),
        ("partition", 1, {}),
        ("either", 4, {}),
        ("approximate", 1, {"tree_method": "approx"}),
        ("dart", 1, {"booster": "dart", "rate_drop": 0.4}),
    ):
        parameters = {"nthread": 1, "tree_method": "hist", "max_cat_to_onehot": most, **extra}
        model = xgb.train(parameters, rows, 5)
        answer_rows = code_rows(X)
        asked = xgb.DMatrix(answer_rows, feature_types=types, enable_categorical=True, nthread=1)
        raw = model.predict(asked, output_margin=True)
        options = ["categories", stem, "feature types"]
        folder.add(
            f"categories-{stem}",
            model,
            answer_rows,
            options,
            raw=raw,
            predict=model.predict(asked),
        )


def wrappers(folder, X, y):
    """The scikit-learn wrappers: labels, early stopping, a sentinel for missing values."""
    quarter = np.digitize(y, np.quantile(y, (0.25, 0.5, 0.75)))
    common = {"n_jobs": 1, "max_depth": 3, "tree_method": "hist"}
    stopping = {"n_estimators": 60, "learning_rate": 0.6, "early_stopping_rounds": 3}
    held_out = {"eval_set": [(X[160:], y[160:])], "verbose": False}
    held_out_classes = {"eval_set": [(X[160:], quarter[160:])], "verbose": False}
    for stem, model, label, fit, options in (
        ("regressor", xgb.XGBRegressor(n_estimators=5, **common), y, {}, []),
        ("classifier", xgb.XGBClassifier(n_estimators=5, **common), quarter, {}, []),
        ("two-classes", xgb.XGBClassifier(n_estimators=5, **common), y > 0, {}, []),
        ("forest", xgb.XGBRFRegressor(n_estimators=5, **common), y, {}, ["num_parallel_tree"]),
        ("stopped", xgb.XGBRegressor(**stopping, **common), y, held_out, ["best_iteration"]),
        (
            "stopped-classes",
            xgb.XGBClassifier(**stopping, **common),
            quarter,
            held_out_classes,
            ["best_iteration", "multi:softprob"],
        ),
    ):
        size = 160 if fit else len(X)
        model.fit(X[:size], label[:size].astype(np.float64 if label is y else np.int64), **fit)
        if "best_iteration" in options:
            assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
        rows = around(X)
        raw = model.predict(rows, output_margin=True)
        folder.add(
            f"wrapper-{stem}",
            model,
            rows,
            ["wrapper", *options],
            raw=raw,
            predict=model.predict(rows),
        )


def main(path):
    rng = np.random.default_rng(0)
    folder = Folder(path)
    X, y = numeric(rng)
    objectives(folder, X, y)
    boosters(folder, X, y)
    categories(folder, rng)
    try:
        import sklearn  # noqa: F401
    except ImportError:
        print("scikit-learn is not installed: no models of its wrappers are made", file=sys.stderr)
    else:
        wrappers(folder, X, y)
    folder.close()
    print(f"xgboost {xgb.__version__}: {len(folder.entries)} models")


if __name__ == "__main__":
    main(sys.argv[1])

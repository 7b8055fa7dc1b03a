"""Train small scikit-learn models of every option, and save them with the library's own answers.

    python tests/versions/sklearn.py FOLDER

Runs by itself, with the numpy, scikit-learn (1.5 or later) and skops of whatever version is
installed. FOLDER then holds for each model a .skops file, the rows that it was asked, its raw
scores and what it predicts, and manifest.json, a list of {"model", "rows", "raw", "predict",
"options"}. Rows hold values at thresholds, one float32 to each side, and, where the version takes
them, missing values and infinities; categories that are strings stand in them as their codes.
"""

import json
import sys
import warnings
from pathlib import Path

# This file has the name of the library, which must not be looked for beside it.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]

import numpy as np  # noqa: E402
import skops.io  # noqa: E402
from sklearn import __version__, ensemble, tree  # noqa: E402
from sklearn.dummy import DummyClassifier, DummyRegressor  # noqa: E402

RELEASE = tuple(int(part) for part in __version__.split(".")[:2])
N_ROWS, N_FEATURES, N_ANSWERED = 300, 6, 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, N_FEATURES)).round(2)
HOLES = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
Y = X[:, 0] + np.abs(X[:, 1]) + 0.2 * RNG.normal(size=N_ROWS)
BINARY, MANY = (Y > 0.7).astype(int), np.digitize(Y, [0, 0.7, 1.4])
WORDS = np.array(["", "zero", "é", "x y", "last"])
WEIGHT = RNG.random(N_ROWS) + 0.05
LABELS = {
    "int": np.array([-3, 7, 0, 12])[MANY],
    "float": np.array([0.5, -1.0, 2.0, 7.0]).round()[MANY],
    "str": np.array(["a", "é", "", "zz"])[MANY],
    "object": np.array(["a", "é", "", "zz"], dtype=object)[MANY],
    "bool": BINARY.astype(bool),
}
MONOTONIC = [1, -1, 0, 0, 0, 0]
SPLITS = {"max_depth": 5, "random_state": 0}
FOREST = {"n_estimators": 7, "random_state": 0}


def cart():
    """Yield the options, the estimator, its rows and targets of trees and their averages."""
    kinds = ("DecisionTree", "ExtraTree"), ("RandomForest", "ExtraTrees")
    for module, names, options in ((tree, kinds[0], SPLITS), (ensemble, kinds[1], FOREST)):
        for name in names:
            classifier = getattr(module, f"{name}Classifier")
            regressor = getattr(module, f"{name}Regressor")
            for kind, labels in LABELS.items():
                yield [name, f"{kind} labels"], classifier(**options), X, labels, {}
            both = np.stack([MANY, BINARY], axis=1)
            yield [name, "multi-output"], classifier(**options), X, both, {}
            multi = np.stack([BINARY, Y > 0, Y < 1], axis=1).astype(int)
            yield [name, "multi-label"], classifier(**options), X, multi, {}
            yield [name, "values"], regressor(**options), X, Y, {}
            yield [name, "multi-output values"], regressor(**options), X, np.stack([Y, -Y], 1), {}
            weight = {"sample_weight": WEIGHT}
            yield [name, "weights"], classifier(class_weight="balanced", **options), X, MANY, weight
            pruned = {**options, "ccp_alpha": 0.01, "max_leaf_nodes": 6}
            yield [name, "pruned"], regressor(**pruned), X, Y, {}
            monotonic = classifier(monotonic_cst=MONOTONIC, **options)
            yield [name, "monotonic"], monotonic, X, BINARY, {}
            monotonic = regressor(monotonic_cst=MONOTONIC, **options)
            yield [name, "monotonic values"], monotonic, X, Y, {}
            for criterion in ("gini", "entropy", "log_loss"):
                yield [name, criterion], classifier(criterion=criterion, **options), X, MANY, {}
            for criterion in ("squared_error", "absolute_error", "poisson"):
                model = regressor(criterion=criterion, **options)
                yield [name, criterion], model, X, Y - Y.min(), {}
            if RELEASE >= (1, 6) or name in ("DecisionTree", "RandomForest"):
                yield [name, "missing values"], classifier(**options), HOLES, MANY, {}
                yield [name, "missing values"], regressor(**options), HOLES, Y, {}
    yield (
        ["RandomForest", "no bootstrap"],
        ensemble.RandomForestClassifier(bootstrap=False, max_features=0.5, **FOREST),
        X,
        MANY,
        {},
    )


def bagged_and_voted():
    """Yield the same of Bagging, AdaBoost and IsolationForest."""
    for options in (
        {},
        {"max_features": 0.5},
        {"max_features": 0.5, "bootstrap_features": True},
        {"bootstrap": False, "max_samples": 0.5},
    ):
        names = ["Bagging", *(f"{name}={value}" for name, value in options.items())]
        yield names, ensemble.BaggingClassifier(**FOREST, **options), X, LABELS["str"], {}
        yield names, ensemble.BaggingRegressor(**FOREST, **options), X, Y, {}
        extra = ensemble.BaggingRegressor(tree.ExtraTreeRegressor(), **FOREST, **options)
        yield [*names, "ExtraTree"], extra, X, Y, {}
    holes = ensemble.BaggingClassifier(max_features=0.5, **FOREST)
    yield ["Bagging", "missing values"], holes, HOLES, MANY, {}
    old = {"algorithm": "SAMME"} if RELEASE == (1, 5) else {}
    for depth in (1, 3):
        for kind in (tree.DecisionTreeClassifier, tree.ExtraTreeClassifier):
            for labels in (LABELS["bool"], LABELS["str"]):
                member = kind(max_depth=depth, random_state=0)
                model = ensemble.AdaBoostClassifier(member, **FOREST, **old)
                yield ["AdaBoost", f"depth {depth}", kind.__name__], model, X, labels, {}
    model = ensemble.AdaBoostClassifier(learning_rate=0.3, **FOREST, **old)
    yield ["AdaBoost", "weights"], model, X, MANY, {"sample_weight": WEIGHT}
    for loss in ("linear", "square", "exponential"):
        yield ["AdaBoost", loss], ensemble.AdaBoostRegressor(loss=loss, **FOREST), X, Y, {}
    rows = HOLES if RELEASE >= (1, 6) else X
    for options in (
        {},
        {"max_features": 0.5},
        {"contamination": 0.1, "max_samples": 0.5},
        {"bootstrap": True, "contamination": 0.25, "max_features": 3},
    ):
        names = ["IsolationForest", *(f"{name}={value}" for name, value in options.items())]
        # With 201 rows a tenth and a quarter fall on a training row.
        yield names, ensemble.IsolationForest(**FOREST, **options), rows[:201], None, {}


def boosted():
    """Yield the same of GradientBoosting."""
    few = {"n_estimators": 5, "random_state": 0}
    classifier, regressor = ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor
    initial = ("zero", *(DummyClassifier(strategy=name) for name in ("prior", "most_frequent")))
    for init in (None, *initial, DummyClassifier(strategy="constant", constant=1)):
        shown = f"init={init}"
        for loss in ("log_loss", "exponential"):
            model = classifier(loss=loss, init=init, **few)
            yield ["GradientBoosting", loss, shown], model, X, BINARY, {}
        yield ["GradientBoosting", "log_loss", shown], classifier(init=init, **few), X, MANY, {}
    for loss in ("squared_error", "absolute_error", "huber", "quantile"):
        yield ["GradientBoosting", loss], regressor(loss=loss, **few), X, Y, {}
    constant = (
        "zero",
        DummyRegressor(strategy="mean"),
        DummyRegressor(strategy="median"),
        DummyRegressor(strategy="quantile", quantile=0.3),
        DummyRegressor(strategy="constant", constant=2.5),
    )
    for init in constant:
        yield ["GradientBoosting", f"init={init}"], regressor(init=init, **few), X, Y, {}
    for kind, labels in LABELS.items():
        yield ["GradientBoosting", f"{kind} labels"], classifier(**few), X, labels, {}
    stopped = classifier(n_estimators=80, n_iter_no_change=2, subsample=0.7, random_state=0)
    weight = {"sample_weight": WEIGHT}
    yield ["GradientBoosting", "early stopping", "weights"], stopped, X, MANY, weight
    friedman = regressor(criterion="squared_error", max_leaf_nodes=6, max_depth=None, **few)
    yield ["GradientBoosting", "max_leaf_nodes"], friedman, X, Y, {}


def binned():
    """Yield the same of HistGradientBoosting; rows of texts are given as their codes."""
    few = {"max_iter": 5, "max_leaf_nodes": 8, "random_state": 0, "early_stopping": False}
    few |= {"categorical_features": None}
    classifier = ensemble.HistGradientBoostingClassifier
    regressor = ensemble.HistGradientBoostingRegressor
    positive = Y - Y.min() + 0.1
    for loss in ("squared_error", "absolute_error", "gamma", "poisson"):
        yield ["HistGradientBoosting", loss], regressor(loss=loss, **few), HOLES, positive, {}
    quantile = regressor(loss="quantile", quantile=0.3, **few)
    yield ["HistGradientBoosting", "quantile"], quantile, HOLES, Y, {}
    for kind, labels in LABELS.items():
        yield ["HistGradientBoosting", f"{kind} labels"], classifier(**few), HOLES, labels, {}
    for extra in (
        {"monotonic_cst": MONOTONIC},
        {"interaction_cst": "pairwise"},
        {"l2_regularization": 2.0, "max_bins": 16, "max_depth": 3},
        {"early_stopping": True, "max_iter": 60, "n_iter_no_change": 2},
    ):
        model = regressor(**{**few, **extra})
        weight = {"sample_weight": WEIGHT}
        yield ["HistGradientBoosting", *extra, "weights"], model, HOLES, Y, weight
    missing = np.where(RNG.random((N_ROWS, 1)) < 0.5, np.nan, 1.0)
    nan_split = regressor(**few)
    yield (
        ["HistGradientBoosting", "split on missing"],
        nan_split,
        missing,
        np.isnan(missing)[:, 0],
        {},
    )
    for n_codes, step in ((5, 1), (60, 3), (32, 1), (2, 6000)):
        coded, target = HOLES.copy(), BINARY.copy()
        for column in (1, 3):
            codes = RNG.integers(n_codes, size=N_ROWS)
            coded[:, column] = codes * step
            coded[RNG.random(N_ROWS) < 0.1, column] = np.nan
            target = (target + (codes % 3 == column // 2)) % 2
        model = classifier(**{**few, "categorical_features": [1, 3]})
        yield ["HistGradientBoosting", "integer categories"], model, coded, target, {}
    words = HOLES.copy()
    words[:, 2] = RNG.integers(5, size=N_ROWS)
    words[RNG.random(N_ROWS) < 0.1, 2] = np.nan
    target = (BINARY + (words[:, 2] % 2 == 0)) % 2
    model = classifier(**{**few, "categorical_features": [2]})
    yield ["HistGradientBoosting", "string categories"], model, words, target, {"texts": 2}


def as_texts(rows, column):
    """Return rows as objects, the codes of one column replaced by their texts, others unseen."""
    table = rows.astype(object)
    book = sorted(WORDS.tolist())
    for at, code in enumerate(rows[:, column]):
        known = code == code and code in range(len(book))
        table[at, column] = book[int(code)] if known else ("unseen" if code == code else np.nan)
    return table


def thresholds(model):
    """Return what the trees compare with."""
    if hasattr(model, "_predictors"):
        nodes = np.concatenate([part.nodes for stage in model._predictors for part in stage])
        inner = (nodes["is_leaf"] == 0) & (nodes["is_categorical"] == 0)
        return nodes["num_threshold"][inner]
    members = getattr(model, "estimators_", [model])
    trees = [member.tree_ for member in np.ravel(np.array(members, dtype=object)).tolist()]
    found = [part.threshold[part.children_left >= 0] for part in trees]
    return np.concatenate(found)


def rows_for(model, trained, answer, categorical):
    """Return rows around the training ones, with every kind of value that the model takes."""
    rng = np.random.default_rng(1)
    rows = trained[rng.integers(len(trained), size=N_ANSWERED)].copy()
    found = thresholds(model)
    wide = hasattr(model, "_predictors")
    with np.errstate(over="ignore"):
        near = found if wide else found.astype(np.float32)
        values = [near, *(np.nextafter(near, near.dtype.type(s)) for s in (-np.inf, np.inf))]
    values = np.concatenate([*values, [0.0, -0.0, 1e-45, -1e-45, 1e30, -1e30]]).astype(np.float64)
    values = values[np.isfinite(values)]
    for extra in ([np.nan], [np.inf, -np.inf]):
        trial = np.zeros((2, rows.shape[1]))
        trial[0] = extra[0]
        try:
            answer(trial)
        except ValueError:
            continue
        values = np.concatenate([values, np.repeat(extra, max(4, len(values) // 10))])
    put = rng.random(rows.shape) < 0.3
    put[:, categorical] = False
    rows[put] = rng.choice(values, int(put.sum()))
    for column in categorical:
        codes = [*range(6), 59, 60, 177, 180, 255, 256, 6000, 1e9, -1, 0.5, -0.0, np.nan]
        put = rng.random(len(rows)) < 0.4
        rows[put, column] = rng.choice(codes, int(put.sum()))
    return rows if wide else rows.astype(np.float32).astype(np.float64)


def raw_of(model):
    """Return the function of rows that answers with the raw scores."""
    if isinstance(model, ensemble.IsolationForest):
        return lambda rows: depths(model, rows)
    if hasattr(model, "_predictors"):
        return model._raw_predict
    if hasattr(model, "decision_function"):
        return model.decision_function
    return model.predict_proba if hasattr(model, "predict_proba") else model.predict


def depths(model, rows):
    """Return minus the sum of depths behind the scores of an isolation forest."""
    total = np.zeros(len(rows))
    narrow = rows.astype(np.float32)
    model.score_samples(rows[:1])
    subset = model._max_features != model.n_features_in_
    for at, (member, columns) in enumerate(
        zip(model.estimators_, model.estimators_features_, strict=True)
    ):
        leaf = member.tree_.apply(np.ascontiguousarray(narrow[:, columns]) if subset else narrow)
        lengths = model._decision_path_lengths[at][leaf]
        total += lengths + model._average_path_length_per_tree[at][leaf] - 1.0
    return -total


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    manifest = []
    for every in (cart, bagged_and_voted, boosted, binned):
        for options, model, trained, target, extra in every():
            column = extra.pop("texts", None)
            given = trained if column is None else as_texts(trained, column)
            if target is None:
                model.fit(given, **extra)
            else:
                model.fit(given, target, **extra)
            categorical = np.flatnonzero(getattr(model, "is_categorical_", None)).tolist()

            def asked(rows, answer, column=column):
                return answer(rows if column is None else as_texts(rows, column))

            raw = raw_of(model)
            rows = rows_for(model, trained, lambda rows, raw=raw: asked(rows, raw), categorical)
            scores, predict = asked(rows, raw), np.asarray(asked(rows, model.predict))
            if isinstance(scores, list):
                scores = np.concatenate(scores, axis=1)
            number = len(manifest)
            skops.io.dump(model, folder / f"{number}.skops")
            entry = {"model": f"{number}.skops"}
            predict = predict.astype(str) if predict.dtype == object else predict
            if "float labels" in options:  # a reader would take them for values
                predict = None
            for name, array in (("rows", rows), ("raw", scores), ("predict", predict)):
                if array is None:
                    entry[name] = None
                    continue
                entry[name] = f"{number}.{name}.npy"
                np.save(folder / entry[name], array)
            entry["options"] = [*dict.fromkeys(options), f"scikit-learn {__version__}"]
            manifest.append(entry)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

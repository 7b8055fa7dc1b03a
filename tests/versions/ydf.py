"""Train small YDF models of every option, and save them with the library's own answers.

    python tests/versions/ydf.py FOLDER [--few]

Runs in an environment that has numpy and ydf, of any version from 0.10 on. FOLDER then holds model
directories, rows, raw scores, predictions, and manifest.json. Words stand in rows as their codes in
the dictionary: 0 is a word that is not there, and NaN a missing one. With `--few` one model in six
is made.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from itertools import islice
from pathlib import Path

from saving import Folder

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]

import numpy as np  # noqa: E402
import ydf  # noqa: E402

N_ROWS, N_ANSWERED = 500, 400
LOSS_FIELD, SQUARED_ERROR = 3, 2
"""The number of a field in the header of boosted trees, and one of its values."""
FEATURES = ["a", "b", "word", "truth"]
WORDS = ["w", "x", "y", "z", "café"]


def table():
    """Return numbers, words and truth values, some missing, and labels of every kind."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, (2, N_ROWS)) / 4).astype(np.float32)
    word, truth = rng.choice(WORDS, N_ROWS).astype(object), rng.random(N_ROWS) < 0.4
    y = a + 0.5 * a * b + (word == "x") + truth + 0.2 * rng.normal(size=N_ROWS)
    for column, missing in ((a, np.nan), (b, np.nan), (word, "")):
        column[rng.random(N_ROWS) < 0.15] = missing
    return {
        "a": a,
        "b": b,
        "word": word,
        "truth": truth,
        "two": np.where(y > 0.8, "yes", "no"),
        "many": np.digitize(y, [0, 0.8, 1.6]),
        "number": y.astype(np.float32),
        "count": np.round(np.abs(y)).astype(np.float32),
        "group": rng.integers(0, 20, N_ROWS),
    }


DATA = table()
BOOSTED, FOREST = ydf.GradientBoostedTreesLearner, ydf.RandomForestLearner
BOOST = {"num_trees": 4, "max_depth": 4, "validation_ratio": 0.0}
GROWN = {"num_trees": 7, "max_depth": 6}
REGRESSION = {"task": ydf.Task.REGRESSION}
RANKING = {"task": ydf.Task.RANKING, "ranking_group": "group"}
OBLIQUE = {"split_axis": "SPARSE_OBLIQUE"}
LOSSES = {
    "BINOMIAL_LOG_LIKELIHOOD": ("two", {}),
    "BINARY_FOCAL_LOSS": ("two", {}),
    "MULTINOMIAL_LOG_LIKELIHOOD": ("many", {}),
    "SQUARED_ERROR": ("number", REGRESSION),
    "MEAN_AVERAGE_ERROR": ("number", REGRESSION),
    "POISSON": ("count", REGRESSION),
    "LAMBDA_MART_NDCG5": ("count", RANKING),
    "XE_NDCG_MART": ("count", RANKING),
}
OPTIONS = {
    "oblique": OBLIQUE,
    "conditions on missing values": {"allow_na_conditions": True},
    "bins": {"discretize_numerical_columns": True},
    "one-hot": {"categorical_algorithm": "ONE_HOT"},
    "random categories": {"categorical_algorithm": "RANDOM"},
    "best first": {"growing_strategy": "BEST_FIRST_GLOBAL", "max_num_nodes": 9, "max_depth": -1},
    "large trees": {"max_depth": 12, "min_examples": 1},
    "global imputation": {"missing_value_policy": "GLOBAL_IMPUTATION"},
}
LABELS = {"two": {}, "many": {}, "number": REGRESSION}


def trained(learner, label, **options):
    named = {} if label is None else {"label": label}
    return learner(features=FEATURES, **named, **options).train(DATA)


def models():
    """Yield the options of each model, and how it is made."""
    for loss, (label, task) in LOSSES.items():
        yield ["boosted trees", loss], partial(trained, BOOSTED, label, loss=loss, **BOOST, **task)
    for name, options in OPTIONS.items():
        for label, task in LABELS.items():
            kind = {"boosted trees": (BOOSTED, BOOST), "random forest": (FOREST, GROWN)}
            for described, (learner, common) in kind.items():
                if name == "one-hot" and (learner is BOOSTED or task):
                    continue  # not offered
                make = partial(trained, learner, label, **{**common, **task, **options})
                yield [described, name, label], make
    for label, task in LABELS.items():
        yield ["random forest", label], partial(trained, FOREST, label, **GROWN, **task)
        yield ["CART", label], partial(trained, ydf.CartLearner, label, **task)
        if not task:
            make = partial(trained, FOREST, label, winner_take_all=False, **GROWN)
            yield ["random forest", "shares", label], make
            make = partial(trained, FOREST, label, **{**GROWN, "num_trees": 6})
            yield ["random forest", "an even number of trees", label], make
    for name, options in {"axis-aligned": {}, "oblique": OBLIQUE}.items():
        if hasattr(ydf, "IsolationForestLearner"):
            make = partial(trained, ydf.IsolationForestLearner, None, num_trees=5, **options)
            yield ["isolation forest", name], make


def answered():
    """Return rows with special and missing values, and the columns that YDF reads for them."""
    rng = np.random.default_rng(1)
    grid = (np.arange(-16, 17) / 8).astype(np.float32)
    special = [0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan, np.nan]
    beside = [np.nextafter(grid, np.float32(side)) for side in (-np.inf, np.inf)]
    values = np.concatenate([*beside, np.array(special, np.float32)])
    X = rng.choice(grid, (N_ANSWERED, 4))
    put = rng.random(X.shape) < 0.4
    X[put] = rng.choice(values, int(put.sum()))
    X[:, 2] = rng.integers(-1, len(WORDS) + 1, N_ANSWERED)
    X[:, 3] = rng.random(N_ANSWERED) < 0.5
    X[X[:, 2] < 0, 2] = np.nan
    return X


def columns(model, X):
    """Return rows as the columns that YDF reads."""
    (word,) = (c for c in model.data_spec().columns if c.name == "word")
    items = word.categorical.items
    texts = ["no word of the training", *sorted(items, key=lambda text: items[text].index)[1:]]
    codes = np.where(np.isnan(X[:, 2]), len(texts), X[:, 2]).astype(int)
    named = {"a": X[:, 0], "b": X[:, 1], "word": np.array([*texts, ""], object)[codes]}
    return {**named, "truth": X[:, 3] == 1}


def raw_of(model, saved, asked, predict, loss):
    """Return the scores behind predictions; None where YDF tells none."""
    if loss == "POISSON":
        # Under another loss it gives their sums: a field that is set again counts.
        copy = saved.with_name(f"{saved.name}.sums")
        shutil.copytree(saved, copy)
        with (copy / "gradient_boosted_trees_header.pb").open("ab") as header:
            header.write(bytes([LOSS_FIELD << 3, SQUARED_ERROR]))
        return ydf.load_model(str(copy)).predict(asked)
    if model.task() in (ydf.Task.REGRESSION, ydf.Task.RANKING):
        return predict
    if not (hasattr(model, "set_output_logits") and hasattr(model, "initial_predictions")):
        return None
    if len(model.initial_predictions()) > 1 and np.any(model.initial_predictions() != 0):
        return None  # versions differ in whether logits hold them
    logits = ydf.load_model(str(saved))
    logits.set_output_logits(True)
    return logits.predict(asked)


def main(path, *, few):
    ydf.verbose(0)
    folder = Folder(path, f"ydf {ydf.__version__}")
    X = answered()
    for options, make in islice(models(), 0, None, 6 if few else 1):
        model = make()
        file = folder.name()
        model.save(str(file))
        asked = columns(model, X)
        predict = model.predict(asked)
        raw = raw_of(model, file, asked, predict, options[-1])
        folder.add(file, X, raw, predict, options)
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])

"""Train small CatBoost models of every option, and save them with the library's own answers.

    python tests/versions/catboost.py FOLDER [--few]

Runs in an environment that has numpy and catboost, of any version from 1.2 on. FOLDER then holds
JSON files, the rows that they were asked, raw scores, labels or transformed scores, and
manifest.json. The answers are those of the trained model, which has the leaves that the file says;
CatBoost's own reader of JSON is off by up to 2 units in the last place. Categories are whole
numbers, which stand for themselves in rows. With `--few` one model in six is made.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from pathlib import Path

from saving import Folder

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]

import catboost  # noqa: E402
import numpy as np  # noqa: E402

N_ROWS, N_ANSWERED = 300, 400
CATEGORIES = [3, 4]
POLICIES = ("SymmetricTree", "Depthwise", "Lossguide")
QUIET = {
    "iterations": 6,
    "depth": 4,
    "learning_rate": 0.3,
    "one_hot_max_size": 100,
    "verbose": 0,
    "allow_writing_files": False,
    "thread_count": 1,
    "random_seed": 1,
}
ULPS = 4
"""It approximates the exponential of x to within about 1 + |x| units in the last place; the scores
here are below 3."""


def training_rows():
    """Return rows of numbers, some missing, and of codes; and the number that they explain."""
    rng = np.random.default_rng(0)
    X = np.empty((N_ROWS, 5), object)
    numbers = (rng.integers(-8, 9, (N_ROWS, 3)) / 4).astype(np.float32)
    codes, few = rng.integers(0, 20, N_ROWS), rng.integers(0, 3, N_ROWS)
    y = numbers[:, 0] * numbers[:, 2] + (codes % 3 == 1) - (few == 2)
    y = y + 0.3 * rng.normal(size=N_ROWS)
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    X[:, :3], X[:, 3], X[:, 4] = numbers, codes, few
    return X, y


X, Y = training_rows()
GROUPS = np.repeat(np.arange(N_ROWS // 10), 10)
POSITIVE = np.exp(Y / 2)
BINARY, MANY = (Y > 0).astype(int), np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
SEVERAL = np.stack([Y > 0, Y > 1, Y > 0.5], axis=1).astype(int)
REGRESSIONS = {
    **dict.fromkeys(("RMSE", "MAE", "Quantile", "LogCosh", "Expectile:alpha=0.3", "Lq:q=2.5"), Y),
    **dict.fromkeys(("Huber:delta=1", "LogLinQuantile", "RMSEWithUncertainty"), Y),
    "MAPE": Y + 9,
    **dict.fromkeys(("Poisson", "Tweedie:variance_power=1.5", "Cox"), POSITIVE),
    "SurvivalAft": np.stack([POSITIVE, POSITIVE + 0.1], axis=1),
    "MultiRMSE": np.stack([Y, -Y], axis=1),
    "MultiQuantile:alpha=0.1,0.5,0.9": Y,
}
CLASSIFICATIONS = {
    "Logloss": BINARY,
    "Focal:focal_alpha=0.5;focal_gamma=2": BINARY,
    "CrossEntropy": 1 / (1 + np.exp(-Y)),
    "MultiClass": MANY,
    "MultiClassOneVsAll": MANY,
    "MultiLogloss": SEVERAL,
    "MultiCrossEntropy": 1 / (1 + np.exp(-np.stack([Y, Y + 1], axis=1))),
}
RANKINGS = {
    **dict.fromkeys(("QueryRMSE", "PairLogit", "YetiRank"), Y),
    "StochasticRank:metric=NDCG": Y - Y.min(),
    "QuerySoftMax": BINARY,
}
LOSSES = {**REGRESSIONS, **CLASSIFICATIONS, **RANKINGS}
LABELS = {
    "text": np.array(["a", "é", "zz"])[MANY],
    "integer": np.array([-3, 7, 12])[MANY],
}
TEXTS = np.where(MANY == 0, "a", "é")


def trained(loss, *, label=None, **options):
    """Train a plain CatBoost, which answers by its loss."""
    grouped = GROUPS if loss in RANKINGS else None
    rows = catboost.Pool(
        X, LOSSES[loss] if label is None else label, cat_features=CATEGORIES, group_id=grouped
    )
    return catboost.CatBoost({**QUIET, "loss_function": loss, **options}).fit(rows)


def scaled(loss):
    model = trained(loss)
    model.set_scale_and_bias(0.5, 3.25)
    return model


def models():
    """Yield the loss of each model, its other options, and how it is made."""
    for loss in LOSSES:
        yield loss, [], partial(trained, loss)
    for loss in ("RMSE", "Logloss", "MultiClass", "MultiRMSE"):
        for policy in POLICIES[1:]:
            yield loss, [policy], partial(trained, loss, grow_policy=policy)
    for mode in ("Min", "Max"):
        for policy in POLICIES:
            make = partial(trained, "RMSE", grow_policy=policy, nan_mode=mode)
            yield "RMSE", [policy, f"nan_mode={mode}"], make
    for options in (
        {"depth": 1},
        {"depth": 8},
        {"border_count": 4},
        {"boost_from_average": True},
        {"boosting_type": "Ordered"},
        {"bootstrap_type": "Bernoulli", "subsample": 0.5},
        {"rsm": 0.5},
        {"grow_policy": "Lossguide", "max_leaves": 5},
        {"monotone_constraints": [1, 0, 0, 0, 0]},
        {"iterations": 1},
    ):
        names = [f"{name}={value}" for name, value in options.items()]
        yield "RMSE", names, partial(trained, "RMSE", **options)
    for kind, label in LABELS.items():
        for loss in ("MultiClass", "MultiClassOneVsAll"):
            yield loss, [f"{kind} labels"], partial(trained, loss, label=label)
    yield "Logloss", ["text labels"], partial(trained, "Logloss", label=TEXTS)
    yield "RMSE", ["scale and bias"], partial(scaled, "RMSE")


def answered_rows(model):
    """Return rows on borders and codes, one ulp to each side, missing, infinite and unheard-of."""
    rng = np.random.default_rng(1)
    rows = np.array(X[rng.integers(N_ROWS, size=N_ANSWERED)], np.float32)
    others = np.array([0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, np.nan, np.inf, -np.inf], np.float32)
    for column, found in model.get_borders().items():
        border = np.array(found, np.float32)
        with np.errstate(over="ignore"):  # below the least float32 comes -inf
            near = [np.nextafter(border, np.float32(side)) for side in (-np.inf, np.inf)]
        values = np.concatenate([border, *near, others])
        put = rng.random(N_ANSWERED) < 0.6
        rows[put, column] = rng.choice(values, int(put.sum()))
    for column in CATEGORIES:
        put = rng.random(N_ANSWERED) < 0.3
        rows[put, column] = rng.choice([-1, 20, 99, 1e6], int(put.sum()))
    return rows


def main(path, *, few):
    folder = Folder(path, f"catboost {catboost.__version__}")
    for loss, options, make in islice(models(), 0, None, 6 if few else 1):
        model = make()
        rows = answered_rows(model)
        table = rows.astype(object)
        table[:, CATEGORIES] = rows[:, CATEGORIES].astype(int)

        def answer(kind, model=model, table=table):
            return np.asarray(model.predict(table, prediction_type=kind, thread_count=1))

        raw, ulps = answer("RawFormulaVal"), None
        if loss in CLASSIFICATIONS:
            predict = answer("Class")
            predict = predict.astype(str if "text labels" in options else np.int64)
        elif loss.partition(":")[0] in ("Poisson", "Tweedie"):
            predict, ulps = answer("Exponent"), ULPS
        else:
            predict = raw
        file = folder.name(".json")
        model.save_model(str(file), format="json")
        folder.add(file, rows, raw, predict, [loss, *options], ulps=ulps)
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])

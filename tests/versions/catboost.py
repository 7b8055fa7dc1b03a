"""Train small CatBoost models of every option, and save them with the library's own answers.

    python tests/versions/catboost.py FOLDER [--few]

Runs in an environment that has numpy and catboost, of any version from 1.2 on. FOLDER then holds
JSON files, the rows that they were asked, raw scores, labels or transformed scores, and
manifest.json. The answers are those of the trained model, which has the leaves that the file says;
CatBoost's own reader of JSON is off by up to 2 units in the last place. Categories are whole
numbers, which stand for themselves in rows; rows of models with statistics of categories are cells
of text. With `--few` one model in six is made.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

from saving import Folder

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]
sys.path.insert(0, str(Path(__file__).parents[2]))

import catboost  # noqa: E402
import numpy as np  # noqa: E402

from tests.models.catboost import (  # noqa: E402
    CLASSIFICATIONS,
    CTR_MODELS,
    MODELS,
    train,
    trained,
    with_categories,
)
from tests.models.samples import small  # noqa: E402

N_ANSWERED = 400
CATEGORIES = [*small().categorical]
ULPS = 4
"""It approximates the exponential of x to within about 1 + |x| units in the last place; the scores
here are below 3."""


def answered_rows(model):
    """Return rows on borders and codes, one ulp to each side, missing, infinite and unheard-of."""
    rng = np.random.default_rng(1)
    X = small().X
    rows = X[rng.integers(len(X), size=N_ANSWERED)].astype(np.float32)
    rows[:, CATEGORIES] = np.nan_to_num(rows[:, CATEGORIES], nan=-1)
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
        rows[put, column] = rng.choice([-1, 40, 99, 1e6], int(put.sum()))
    return rows


def cells_with_categories():
    """Return training rows, some with categories that were not trained on, and their texts."""
    rng = np.random.default_rng(1)
    data = with_categories()
    table = data.X.copy()
    for column in data.categorical:
        table[rng.random(len(table)) < 0.1, column] = "no such category"
    return table, table.astype(str)


def main(path, *, few):
    folder = Folder(path, f"catboost {catboost.__version__}")
    for name, about in islice({**MODELS, **CTR_MODELS}.items(), 0, None, 6 if few else 1):
        if name in CTR_MODELS:
            model = train(about, with_categories())
            table, rows = cells_with_categories()
        else:
            model = trained(name)
            rows = answered_rows(model)
            table = rows.astype(object)
            table[:, CATEGORIES] = rows[:, CATEGORIES].astype(int)

        def answer(kind, model=model, table=table):
            return np.asarray(model.predict(table, prediction_type=kind, thread_count=1))

        raw, ulps = answer("RawFormulaVal"), None
        if about.loss in CLASSIFICATIONS:
            predict = answer("Class")
            predict = predict.astype(str if about.names == "text" else np.int64)
        elif about.loss.partition(":")[0] in ("Poisson", "Tweedie"):
            predict, ulps = answer("Exponent"), ULPS
        else:
            predict = raw
        file = folder.name(".json")
        model.save_model(str(file), format="json")
        folder.add(file, rows, raw, predict, [name, *about.options], ulps=ulps)
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])

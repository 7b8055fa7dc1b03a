"""Train the models of the catalogue of YDF, and save them with the library's own answers.

    python tests/versions/ydf.py FOLDER [--few]

Runs in an environment that has numpy and ydf, of any version from 0.10 on. FOLDER then holds model
directories, rows, raw scores, predictions, and manifest.json. Words stand in rows as their codes in
the dictionary: 0 is a word that is not there, and NaN a missing one. With `--few` one model in six
is made.
"""

from __future__ import annotations

import shutil
import sys
from itertools import islice
from pathlib import Path

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np  # noqa: E402
import ydf  # noqa: E402

from tests.models.ydf import MODELS, WORDS, trained  # noqa: E402
from tests.versions.saving import Folder  # noqa: E402

N_ANSWERED = 400
LOSS_FIELD, SQUARED_ERROR = 3, 2
"""The number of a field in the header of boosted trees, and one of its values."""


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
    (word,) = (c for c in model.data_spec().columns if c.name == "c")
    items = word.categorical.items
    texts = ["no word of the training", *sorted(items, key=lambda text: items[text].index)[1:]]
    codes = np.where(np.isnan(X[:, 2]), len(texts), X[:, 2]).astype(int)
    named = {"a": X[:, 0], "b": X[:, 1], "c": np.array([*texts, ""], object)[codes]}
    return {**named, "d": X[:, 3] == 1}


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


CRASHES = {"0.10.0": ("GradientBoostedTrees, oblique, conditions on missing values, class",)}
"""Models whose own library ends the process when they predict, by its version."""


def main(path, *, few):
    folder = Folder(path, f"ydf {ydf.__version__}")
    X = answered()
    for name, about in islice(MODELS.items(), 0, None, 6 if few else 1):
        if name in CRASHES.get(ydf.__version__, ()):
            print(f"ydf {ydf.__version__} crashes, left out: {name}", file=sys.stderr)
            continue
        model, file = trained(name), folder.name()
        model.save(str(file))
        asked = columns(model, X)
        predict = model.predict(asked)
        raw = raw_of(model, file, asked, predict, about.options.get("loss"))
        folder.add(file, X, raw, predict, [name, *about.supported])
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])

"""Train the models of the catalogue of scikit-learn, and save them with the library's own answers.

    python tests/versions/sklearn.py FOLDER

Runs by itself, with the numpy, scikit-learn (1.5 or later) and skops of whatever version is
installed. FOLDER then holds for each model a .skops file, the rows that it was asked, its raw
scores and what it predicts, and manifest.json, a list of {"model", "rows", "raw", "predict",
"options"}. Rows hold values at thresholds, one float32 to each side, and, where the version takes
them, missing values and infinities; categories that are strings stand in them as their codes.
"""

import sys
from pathlib import Path

# This file has the name of the library, which must not be looked for beside it.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np  # noqa: E402
import skops.io  # noqa: E402
from sklearn import __version__, ensemble  # noqa: E402

from tests.models.sklearn import MODELS, sample, trained, with_texts  # noqa: E402
from tests.versions.saving import Folder  # noqa: E402

N_ANSWERED = 400


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


def rows_for(model, learned, answer, categorical):
    """Return rows around the training ones, with every kind of value that the model takes."""
    rng = np.random.default_rng(1)
    rows = learned[rng.integers(len(learned), size=N_ANSWERED)].copy()
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
    kept = Folder(folder, f"scikit-learn {__version__}")
    for name, about in MODELS.items():
        model, (learned, _, categorical) = trained(name), sample(about)

        def asked(rows, answer, about=about, columns=categorical):
            return answer(with_texts(about, rows, columns))

        raw = raw_of(model)
        rows = rows_for(model, learned, lambda rows, raw=raw: asked(rows, raw), categorical)
        scores, predict = asked(rows, raw), np.asarray(asked(rows, model.predict))
        if isinstance(scores, list):
            scores = np.concatenate(scores, axis=1)
        path = kept.name(".skops")
        skops.io.dump(model, path)
        predict = predict.astype(str) if predict.dtype == object else predict
        if about.names == "float":  # a reader would take them for values
            predict = None
        kept.add(path, rows, scores, predict, [name, *about.supported])
    kept.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

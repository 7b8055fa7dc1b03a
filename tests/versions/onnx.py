"""Build the models of ONNX's catalogue, and save them with the answers of onnxruntime.

    python tests/versions/onnx.py FOLDER [--few]

Runs in an environment that has numpy, onnx and onnxruntime, of any version from 1.17 and 1.20 on;
files of skl2onnx are made where it is installed. FOLDER then holds files, rows, raw scores, labels
or transformed scores, and manifest.json. With `--few` one model in six is made.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

from tests.models.onnx import CLASSIFIER, GRID, MODELS, N_FEATURES, bare, drawn, train  # noqa: E402
from tests.versions.saving import Folder  # noqa: E402

RELEASE = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
N_ROWS = 400


def run(model, X):
    """Return what onnxruntime answers on one thread, by output."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {session.get_inputs()[0].name: X}), strict=True))


def rows(dtype):
    """Return rows of which a third of the values are special ones, or beside a threshold."""
    rng = np.random.default_rng(1)
    grid = GRID.astype(dtype)
    special = [0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan, np.nan]
    beside = [np.nextafter(grid, grid.dtype.type(side)) for side in (-np.inf, np.inf)]
    values = np.concatenate([*beside, np.array([*special, *range(41), 2.5, 1e9], dtype)])
    X = rng.choice(grid, (N_ROWS, N_FEATURES))
    put = rng.random(X.shape) < 0.4
    X[put] = rng.choice(values, int(put.sum()))
    return X


def built(folder, step):
    """Save the models of the catalogue."""
    for seed, (name, about) in enumerate(islice(MODELS.items(), 0, None, step)):
        if about.version == 5 and RELEASE < (1, 24):
            continue  # 1.20 does not run it, 1.23 sends rows to other leaves
        nodes, X = drawn(about, seed), rows(about.dtype)
        model = train(about, nodes)
        answer, raw = run(model, X), run(train(bare(about), nodes), X)["scores"]
        predict = scores = answer["scores"]
        if about.kind == CLASSIFIER:
            predict = answer["label"]
            predict = predict.astype(str) if predict.dtype == object else predict
            if raw.shape[1] == 2:  # one score, and what is left to 1, or its negative
                raw = np.hstack([-raw[:, 1:], raw[:, 1:]]) if about.signed else raw[:, 1:]
        narrowed = about.double and about.transform in ("SOFTMAX", "SOFTMAX_ZERO", "LOGISTIC")
        if about.transform == "PROBIT" or narrowed:
            # It cancels near one half, or takes exponentials in float32 of float64 scores.
            predict = predict if predict.dtype.kind in "iU" else None
        file = folder.name(".onnx")
        onnx.save(model, str(file))
        options = [name, *about.supported, f"onnxruntime {onnxruntime.__version__}"]
        narrow = about.double and scores.dtype == np.float32
        folder.add(file, X, raw, predict, options, rounds=narrow)


def exported(folder):
    """Save models that skl2onnx exported."""
    try:
        import skl2onnx
        from sklearn import ensemble as sklearn_ensemble
        from sklearn import tree
    except ImportError:
        print("skl2onnx is not installed: no models of its are made", file=sys.stderr)
        return
    rng = np.random.default_rng(0)
    X = rng.choice(GRID, (300, N_FEATURES)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=300)
    words = np.array(["a", "b", "c"])
    kinds = {
        "DecisionTree": (tree, {"max_depth": 5}),
        "RandomForest": (sklearn_ensemble, {"n_estimators": 7}),
        "ExtraTrees": (sklearn_ensemble, {"n_estimators": 7}),
        "GradientBoosting": (sklearn_ensemble, {"n_estimators": 7}),
    }
    for name, (module, options) in kinds.items():
        for cuts in ((), (0,), (-1, 1)):
            kind = "Classifier" if cuts else "Regressor"
            model = getattr(module, name + kind)(random_state=0, **options)
            model.fit(X, words[np.digitize(y, cuts)] if cuts else y)
            settings = {"zipmap": False} if cuts else {}
            if cuts and name == "GradientBoosting":
                settings["raw_scores"] = True
            file = skl2onnx.to_onnx(
                model,
                X[:1],
                options={id(model): settings} if cuts else None,
                target_opset={"": 17, "ai.onnx.ml": 3},
            )
            asked = rows(np.float32)
            answers = list(run(file, asked).values())
            raw, predict = answers[-1], answers[0]
            if len(cuts) == 1 and name != "GradientBoosting":
                raw = raw[:, 1:]
            predict = predict.astype(str) if cuts else None
            path = folder.name(".onnx")
            onnx.save(file, str(path))
            folder.add(path, asked, raw, predict, [name, f"skl2onnx {skl2onnx.__version__}"])


def main(path, *, few):
    folder = Folder(path, f"onnx {onnx.__version__}")
    built(folder, 6 if few else 1)
    if not few:
        exported(folder)
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])

"""Train the models of the catalogue, and save them with xgboost's own answers.

Runs on its own in an environment that has numpy and xgboost, of any version from 1.7 on; models of
the scikit-learn wrappers are made where scikit-learn is installed too:

    python tests/versions/xgboost.py FOLDER

`FOLDER/manifest.json` then lists the models for `check.py`.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np  # noqa: E402
import xgboost as xgb  # noqa: E402

from tests.models.samples import around, of_codes, small  # noqa: E402
from tests.models.xgboost import MODELS, VERSION, trained  # noqa: E402


def answers(about, model, X):
    """Return raw scores and predictions; labels as whole numbers."""
    if about.wrapper:
        raw, predict = model.predict(X, output_margin=True), model.predict(X)
        return raw, predict.astype(np.int64) if "Classifier" in about.wrapper else predict
    types = {}
    if about.categories:
        kinds = ["c" if i in small().categorical else "float" for i in range(X.shape[1])]
        types = {"feature_types": kinds, "enable_categorical": True}
    rows = xgb.DMatrix(X, nthread=1, **types)
    raw = model.predict(rows, output_margin=True, validate_features=False)
    predict = model.predict(rows, validate_features=False)
    return raw, predict.astype(np.int64) if about.objective == "multi:softmax" else predict


def save(model, path):
    """Save a model, by the suffix by which 2.1 and 3.0 still write the old format."""
    old = path.with_suffix(".deprecated")
    model.save_model(old if path.suffix == ".bin" else path)
    if path.suffix == ".bin":
        old.replace(path)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    if not find_spec("sklearn"):
        print("scikit-learn is not installed: no models of its wrappers are made", file=sys.stderr)
    for number, (name, about) in enumerate(MODELS.items()):
        if about.wrapper and (not find_spec("sklearn") or "missing" in about.parameters):
            continue  # no file holds what a wrapper takes for missing
        model = trained(name)
        X = around(small().X.astype(np.float32))
        X = np.concatenate([X, of_codes(small()).astype(np.float32)])
        common = {}
        for kind, values in zip(
            ("rows", "raw", "predict"), (X, *answers(about, model, X)), strict=True
        ):
            common[kind] = f"{number}.{kind}.npy"
            np.save(folder / common[kind], values)
        # The old format is not written any more, or does not hold these.
        old = VERSION < (3, 1) and not about.categories and "multi_strategy" not in about.parameters
        for suffix in ("json", "ubj", *(("bin",) if old else ())):
            file = f"{number}.{suffix}"
            save(model, folder / file)
            entries.append({"model": file, **common, "options": [name, *about.supported, suffix]})
    (folder / "manifest.json").write_text(json.dumps(entries, indent=1) + "\n")
    print(f"xgboost {xgb.__version__}: {len(entries)} models")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Train the models of the catalogue, and keep their texts with what LightGBM answers.

    python tests/versions/lightgbm.py FOLDER

Runs by itself, with the numpy and lightgbm of whatever version is installed; models of the
scikit-learn wrappers are left out. FOLDER then holds the model texts, rows.npy with missing,
special and unseen values, for each model its raw scores (those of a random forest divided by its
iterations), its predictions and its leaf ids, and manifest.json, a list of
{"model", "rows", "raw", "predict", "leaves", "options"}; "predict" holds scores after the
objective's transform, not labels.
"""

import json
import sys
from pathlib import Path

# This file has the name of the library, which must not be looked for beside it.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]
sys.path.insert(0, str(Path(__file__).parents[2]))

import lightgbm as lgb  # noqa: E402
import numpy as np  # noqa: E402

from tests.models.lightgbm import MODELS, probes, trained  # noqa: E402


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    X = probes(3000)
    np.save(folder / "rows.npy", X)
    manifest = []
    for number, (name, about) in enumerate(MODELS.items()):
        if about.wrapper:
            continue
        path = folder / f"{number}.txt"
        trained(name).save_model(str(path), **about.saved)
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
        options = [name, *about.supported, f"lightgbm {lgb.__version__}"]
        manifest.append({**entry, "options": list(dict.fromkeys(options))})
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

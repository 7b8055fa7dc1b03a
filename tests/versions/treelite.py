"""Build the models of treelite's catalogue, and save them with the answers of its inference.

    python tests/versions/treelite.py FOLDER [--few]

Runs in an environment that has numpy and treelite, of any version from 4.0 on; models imported from
scikit-learn are made where it is installed. FOLDER then holds checkpoints, rows, raw scores and
transformed ones, and manifest.json. With `--few` one model in ten of those built here is made.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np  # noqa: E402
import treelite  # noqa: E402

from tests.models.treelite import GRID, IMPORTED, MODELS, N_FEATURES, imported, trained  # noqa: E402
from tests.versions.saving import Folder  # noqa: E402

N_ROWS = 400


def models(*, few):
    """Yield the options of each model, and the model."""
    for name, about in islice(MODELS.items(), 0, None, 10 if few else 1):
        yield [name, *about.supported], trained(name)
    if few:
        return
    if not find_spec("sklearn"):
        print("scikit-learn is not installed: none of its models is imported", file=sys.stderr)
        return
    for name in IMPORTED["sklearn"]:
        yield [name, "scikit-learn"], imported("sklearn", name)


def rows(dtype):
    """Return rows of which a third of the values are special ones, or beside a threshold."""
    rng = np.random.default_rng(1)
    grid = GRID.astype(dtype)
    special = [0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan, np.nan]
    beside = [np.nextafter(grid, grid.dtype.type(side)) for side in (-np.inf, np.inf)]
    codes = [*range(0, 72, 7), 63, 64, 69, 70, 0.5, -0.5, 2.7, 2.0**24, 2.0**33]
    values = np.concatenate([*beside, np.array([*special, *codes], dtype)])
    X = rng.choice(grid, (N_ROWS, N_FEATURES))
    put = rng.random(X.shape) < 0.4
    X[put] = rng.choice(values, int(put.sum()))
    return X


def main(path, *, few):
    folder = Folder(path, f"treelite {treelite.__version__}")
    for options, model in models(few=few):
        header = model.get_header_accessor()
        dtype = {2: "float32", 3: "float64"}[int(header.get_field("threshold_type")[0])]
        num_class = header.get_field("num_class")
        is_output = np.arange(max(num_class)) < np.array(num_class)[:, None]
        X = rows(dtype)

        def answer(X=X, model=model, is_output=is_output, **kind):
            found = treelite.gtil.predict(model, X, nthread=1, **kind)
            if len(found) != len(X):  # 4.0 puts targets first
                found = found.swapaxes(0, 1)
            return found.reshape(len(X), *is_output.shape)[:, is_output]

        # It computes the softmax of a float64 model in float32; the greatest class has no score.
        postprocessor = header.get_field("postprocessor")
        narrow = dtype == "float64" and postprocessor == "softmax"
        untold = narrow or postprocessor == "max_index"
        file = folder.name(".tl")
        model.serialize(str(file))
        folder.add(file, X, answer(pred_margin=True), None if untold else answer(), options)
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])

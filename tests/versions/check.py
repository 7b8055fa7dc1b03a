"""Lift the models of manifests, and compare their answers with those saved beside them.

    python tests/versions/check.py FOLDER...

Each FOLDER holds a `manifest.json`: a list of objects with the file names `model`, `rows`, `raw`
and `predict` (or null), and a list of texts `options`. Raw scores must have the same bits. What the
library predicts must be equal if it is labels (integers, booleans, texts), and within two units in
the last place if it is numbers: one float32 exponential in a thousand of the C library has another
last bit than the rounded one, which a softmax's division can make two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import bitvec
from bitvec import reference, transforms

MOST_ULPS = 2


def ulps(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest distance in units in the last place; NaN equals NaN."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if got.size == 0 or np.array_equal(got, want, equal_nan=True):
        return 0.0
    if np.any(np.isnan(got) != np.isnan(want)):
        return np.inf
    kind = {4: np.int32, 8: np.int64}[got.dtype.itemsize]
    ordered = []
    for values in (got, want):
        bits = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf).view(kind)
        least = np.iinfo(kind).min
        ordered.append(np.where(bits < 0, least - bits, bits).astype(np.float64))
    return float(np.max(np.abs(ordered[0] - ordered[1])))


def difference(folder: Path, entry: dict[str, Any]) -> tuple[str, str, bool]:
    """Return how raw scores and predictions of one model differ, and whether that is allowed."""
    forest = bitvec.convert(folder / entry["model"])
    X, raw = np.load(folder / entry["rows"]), np.load(folder / entry["raw"])
    got = reference.raw(forest, X)
    of_raw = ulps(got, raw.reshape(got.shape) if raw.size == got.size else raw)
    if entry["predict"] is None:
        return f"{of_raw:g}", "-", of_raw == 0
    predict = np.load(folder / entry["predict"])
    if predict.dtype.kind in "biuU":
        labels = transforms.predictions(forest.output, got)
        wrong = int(np.sum(labels.reshape(predict.shape) != predict))
        return f"{of_raw:g}", f"{wrong} labels", of_raw == 0 and wrong == 0
    values = transforms.transform(forest.output, got)
    of_predict = ulps(
        values, predict.reshape(values.shape) if predict.size == values.size else predict
    )
    return f"{of_raw:g}", f"{of_predict:g}", of_raw == 0 and of_predict <= MOST_ULPS


def main(folders: list[str]) -> int:
    failures = count = 0
    print(f"{'model':40} {'raw ulps':>9} {'predict':>9}  options")
    for name in folders:
        folder = Path(name)
        for entry in json.loads((folder / "manifest.json").read_text()):
            count += 1
            try:
                raw, predict, equal = difference(folder, entry)
            except bitvec.BitvecError as error:
                raw, predict, equal = "refused", str(error), False
            failures += not equal
            mark = "" if equal else "  <- differs"
            options = ", ".join(entry["options"])
            print(f"{entry['model']:40} {raw:>9} {predict:>9}  {options}{mark}")
    print(f"{count} models, {failures} differ")
    return int(failures > 0 or count == 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

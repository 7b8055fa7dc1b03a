"""Convert the models of manifests, and compare their answers with those saved beside them.

    python tests/versions/check.py [--json] FOLDER...

Each FOLDER holds a `manifest.json`: a list of objects with the file names `model`, `rows`, `raw`
and `predict` (either or null), and a list of texts `options`. Raw scores must have the same bits;
where the library rounds its sum to a narrower dtype (`rounds`), so is the forest's. What the
library predicts must be equal if it is labels (integers, booleans, texts), and within two units in
the last place, or as many as an entry allows (`ulps`), if it is numbers: one float32 exponential in
a thousand of the C library has another last bit than the rounded one, which a softmax's division
can make two.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

# The generators beside this file have the names of libraries.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]

import numpy as np  # noqa: E402

import bitvec  # noqa: E402
from bitvec.core import reference, transforms  # noqa: E402

MOST_ULPS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """How the answers to one model differ.

    Parameters
    ----------
    raw, predict : float or None
        Units in the last place; None where nothing was compared, or where labels were.
    n_labels : int
        Labels that differ.
    equal : bool
        Whether the differences are allowed.
    refusal : str
        Why the model was not converted.
    """

    model: str
    options: tuple[str, ...]
    raw: float | None = None
    predict: float | None = None
    n_labels: int = 0
    equal: bool = False
    refusal: str = ""


def ulps(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest distance in units in the last place; NaN equals NaN."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if got.size == 0 or np.array_equal(got, want, equal_nan=True):
        return 0.0
    if np.any(np.isnan(got) != np.isnan(want)):
        return np.inf
    kind = {4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    sign = kind(1) << kind(8 * got.dtype.itemsize - 1)
    ordered = []
    for values in (got, want):
        bits = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf).view(kind)
        ordered.append(np.where(bits & sign, sign - (bits & ~sign), sign + bits))
    # Whole numbers to the end: float64 would lose the last bits of their difference.
    return float(np.max(np.maximum(*ordered) - np.minimum(*ordered)))


def compared(folder: Path, entry: dict[str, Any]) -> Row:
    """Return how raw scores and predictions of one model differ."""
    name, options = entry["model"], tuple(entry["options"])
    try:
        forest = bitvec.convert(folder / name)
    except bitvec.BitvecError as error:
        return Row(name, options, refusal=str(error))
    scores = reference.raw(forest, _rows(forest, np.load(folder / entry["rows"])))
    raw, predict = (
        None if entry[kind] is None else np.load(folder / entry[kind])
        for kind in ("raw", "predict")
    )
    rounded = scores.dtype if raw is None or not entry.get("rounds") else raw.dtype
    of_raw = None if raw is None else _apart(scores.astype(rounded), raw)
    row = Row(name, options, of_raw, equal=of_raw in (None, 0))
    if predict is None:
        return replace(row, equal=of_raw == 0)
    if predict.dtype.kind in "biuU":
        labels = transforms.predictions(forest.output, scores)
        wrong = int(np.sum(labels.reshape(predict.shape) != predict))
        return replace(row, n_labels=wrong, equal=row.equal and wrong == 0)
    values = transforms.transform(forest.output, scores)
    of_predict = _apart(values.astype(rounded), predict)
    allowed = of_predict <= entry.get("ulps", MOST_ULPS)
    return replace(row, predict=of_predict, equal=row.equal and allowed)


def _rows(forest: bitvec.Forest, rows: np.ndarray) -> np.ndarray:
    """Return rows as the forest reads them; cells of text are of one that hashes categories."""
    if rows.dtype.kind != "U":
        return rows
    table = rows.astype(object)
    numeric = [k for k in range(rows.shape[1]) if k not in forest.inputs.category_hashes]
    table[:, numeric] = rows[:, numeric].astype(np.float64)
    return bitvec.compile(forest).rows(table)


def _apart(got: np.ndarray, want: np.ndarray) -> float:
    return ulps(got, want.reshape(got.shape) if want.size == got.size else want)


def show(rows: list[Row]) -> None:
    print(f"{'model':40} {'raw ulps':>9} {'predict':>9}  options")
    for row in rows:
        raw = "-" if row.raw is None else f"{row.raw:g}"
        predict = "-" if row.predict is None else f"{row.predict:g}"
        predict = f"{row.n_labels} labels" if row.n_labels else predict
        mark = "" if row.equal else f"  <- {row.refusal or 'differs'}"
        print(f"{row.model:40} {raw:>9} {predict:>9}  {', '.join(row.options)}{mark}")
    print(f"{len(rows)} models, {sum(not row.equal for row in rows)} differ")


def main(arguments: list[str]) -> int:
    folders = [Path(name) for name in arguments if name != "--json"]
    rows = [
        compared(folder, entry)
        for folder in folders
        for entry in json.loads((folder / "manifest.json").read_text())
    ]
    if "--json" in arguments:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    show(rows)
    return int(not rows or not all(row.equal for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

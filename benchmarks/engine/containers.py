"""Figures of bitvec alone on data frames and sparse matrices, each in a process of its own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine.cells import digits

BATCH: Final = 10_000
TURNS: Final = 41


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _in_turns(*works: Callable[[], Any], turns: int = TURNS) -> list[float]:
    """Return the median seconds of each, called one after the other."""
    for work in works:
        work()
    found = [[_seconds(work) for work in works] for _ in range(turns)]
    return [statistics.median(column) for column in zip(*found, strict=True)]


def frames(place: str) -> dict[str, Any]:
    """Time probabilities of rows in data frames against the same rows as an array, and one row."""
    folder = Path(place)
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    import bitvec

    forest = bitvec.convert(folder / "model.txt")
    X = np.load(folder / "X.npy")[:BATCH]
    columns = {
        name: column if book is None else pd.Categorical.from_codes(column.astype(int), list(book))
        for name, column, book in zip(
            forest.inputs.feature_names,
            np.nan_to_num(X, nan=-1).T,  # the code of a missing category
            forest.inputs.categories,
            strict=True,
        )
    }
    frame = pd.DataFrame(columns)
    numbers = [at for at, book in enumerate(forest.inputs.categories) if book is None]
    frame.isetitem(numbers, X[:, numbers])
    held = {
        "pandas": (frame, frame.iloc[:1]),
        "polars": (pl.from_pandas(frame), pl.from_pandas(frame)[:1]),
        "pyarrow": (pa.Table.from_pandas(frame), pa.Table.from_pandas(frame).slice(0, 1)),
    }
    predict = bitvec.compile(forest, n_jobs=1).predict_proba
    expected = predict(X)
    found: dict[str, Any] = {}
    for name, (many, one) in held.items():
        if not np.array_equal(predict(many), expected):
            raise AssertionError(f"answers to rows of {name} differ from those to an array")
        of_frame, of_array = _in_turns(lambda many=many: predict(many), lambda: predict(X))
        (alone,) = _in_turns(lambda one=one: predict(one), turns=TURNS**2)
        found[name] = {"ratio": digits(of_frame / of_array), "one_row_seconds": digits(alone)}
    return {
        "frames": found,
        "most": max(each["ratio"] for each in found.values()),
        "most_seconds": max(each["one_row_seconds"] for each in found.values()),
    }


def sparse(place: str) -> dict[str, Any]:
    """Time LightGBM against bitvec on sparse rows, on one thread and on two."""
    folder = Path(place)
    import lightgbm
    import scipy.sparse

    import bitvec
    from bitvec.runtime.predict.narrow_forests import read_columns

    X = scipy.sparse.load_npz(folder / "rows.npz")
    model = lightgbm.Booster(model_file=folder / "model.txt")
    forest = bitvec.convert(folder / "model.txt")
    found = {}
    for threads in (1, 2):
        ours = bitvec.compile(forest, n_jobs=threads).predict
        if not np.array_equal(ours(X), model.predict(X, num_threads=threads)):
            raise AssertionError("answers to sparse rows differ from the library's")

        def library(threads: int = threads) -> Any:
            return model.predict(X, num_threads=threads)

        own, other = _in_turns(lambda ours=ours: ours(X), library)
        found["one" if threads == 1 else "two"] = {
            "seconds": digits(own),
            "ratio": digits(other / own),
        }
    return {
        "threads": found,
        "columns": X.shape[1],
        "read": int(read_columns(forest).size),
        "least": min(each["ratio"] for each in found.values()),
    }

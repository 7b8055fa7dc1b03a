"""Pipelines as one file: rows on which ONNX files answer otherwise than scikit-learn, and time.

    python -m benchmarks.pipelines --data FOLDER [--json] [--quick] [--save]

Each pipeline is fitted on real data and answers the same rows. Its usual ONNX file, by skl2onnx,
holds the steps and the trees, and reads float64 or float32; the folded forest is one file of trees
over the raw columns. A row differs where a probability does by more than 1e-5: rounding to float32
is not counted. One thread each.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
import pandas as pd
import skl2onnx
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, NotImplemented
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import bitvec
from benchmarks.frames import Data
from benchmarks.report import Column, Goal, Report, Row, Table, measured_by, six_digits
from benchmarks.runner import DATA, Benchmark, run

NEAR: Final = 1e-5
NUMBERS: Final = ["c0", "c4", "c10", "c11", "c12"]
TEXTS: Final = ["c1", "c3", "c5", "c9"]
"""Columns of adult: age, years of education, gains, losses, hours; work, education, status, sex."""
CASES: Final = ("california, scaled, forest", "higgs, scaled, boosting", "adult, frame, forest")


def _fitted(case: str, data: Data, quick: bool) -> tuple[Any, Any]:
    """Return a fitted pipeline and its rows."""
    n, trees = (3_000, 20) if quick else (20_000, 100)
    if case.startswith("adult"):
        table = data.adult().head(n)
        X = table.frame.rename(columns=lambda name: f"c{name}")[[*NUMBERS, *TEXTS]]
        X = X.astype(dict.fromkeys(TEXTS, object)).fillna(dict.fromkeys(TEXTS, "none"))
        steps = make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), TEXTS),
        )
        model = RandomForestClassifier(trees, max_depth=12, random_state=0)
        return make_pipeline(steps, model).fit(X, table.y), X
    if case.startswith("higgs"):
        table = data.higgs().head(n)
        model = GradientBoostingClassifier(n_estimators=trees, max_depth=5, random_state=0)
        return make_pipeline(MinMaxScaler(), model).fit(table.codes, table.y), table.codes
    table = data.california().complete().head(n)
    model = RandomForestClassifier(trees, random_state=0)
    return make_pipeline(StandardScaler(), model).fit(table.codes, table.y > 2), table.codes


def _usual(pipeline: Any, X: Any, number: type) -> Callable[[Any], np.ndarray]:
    """Return the answers of the file by skl2onnx."""
    kind = DoubleTensorType if number is np.float64 else FloatTensorType
    if isinstance(X, pd.DataFrame):
        types = [(k, StringTensorType([None, 1]) if k in TEXTS else kind([None, 1])) for k in X]
        feeds = lambda X: {  # noqa: E731
            k: X[[k]].to_numpy(object if k in TEXTS else number) for k in X
        }
    else:
        types = [("X", kind([None, X.shape[1]]))]
        feeds = lambda X: {"X": X.astype(number)}  # noqa: E731
    made = skl2onnx.to_onnx(pipeline, initial_types=types, options={"zipmap": False})
    session = _session(made.SerializeToString())
    return lambda X: session.run(None, feeds(X))[1]


def _folded(forest: Any, X: Any) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forest.onnx"
        bitvec.export(forest, path)
        session = _session(path.read_bytes())
    rows = bitvec.compile(forest).rows(X)
    return session.run(["probabilities"], {session.get_inputs()[0].name: rows})[0]


def _session(file: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _seconds(work: Callable[[], Any], times: int = 5) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def measured(case: str, options: Namespace) -> Iterator[Row]:
    """Compare the answers of both files with the pipeline's, then time it beside the forest."""
    pipeline, X = _fitted(case, Data(options.data), options.quick)
    expected = pipeline.predict_proba(X)
    forest = bitvec.convert(pipeline)
    row: Row = {"pipeline": case, "rows": len(X), "nodes": forest.n_nodes}
    for name, number in (("double", np.float64), ("single", np.float32)):
        try:
            apart = np.abs(_usual(pipeline, X, number)(X) - expected).max(axis=1)
        except (Fail, NotImplemented):  # onnxruntime does not take some files of float64
            row |= {f"usual_{name}": None, f"apart_{name}": None}
            continue
        row |= {f"usual_{name}": int((apart > NEAR).sum()), f"apart_{name}": float(apart.max())}
    row["folded"] = int((np.abs(_folded(forest, X) - expected).max(axis=1) > NEAR).sum())
    predictor = bitvec.compile(forest, n_jobs=1, warm=True)
    row["forest"] = int((predictor.predict_proba(X) != expected).any(axis=1).sum())  # by a bit
    for name, rows in (("batch", X), ("one", X[:1])):
        theirs = _seconds(lambda rows=rows: pipeline.predict_proba(rows))  # type: ignore[misc]
        ours = _seconds(lambda rows=rows: predictor.predict_proba(rows), 20)  # type: ignore[misc]
        row |= {
            f"{name}_theirs_us": theirs / len(rows) * 1e6,
            f"{name}_us": ours / len(rows) * 1e6,
            f"{name}_times_faster": theirs / ours,
        }
    yield row


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked for."""
    differ = sum(row["folded"] + row["forest"] for row in rows) if rows else None
    faster = [row[key] for row in rows for key in ("batch_times_faster", "one_times_faster")]
    return [
        Goal("rows on which the folded forest or its ONNX file differs", "0", differ),
        Goal("times faster than the pipeline, at least", "> 10", min(faster, default=None)),
    ]


def _after(report: Report) -> str:
    version = report["versions"].get("skl2onnx")
    return f"skl2onnx {version}, one thread. {measured_by(report)}"


_COLUMNS: Final = (
    Column("pipeline", "pipeline"),
    Column("rows", "rows", ",d"),
    Column("differ by skl2onnx, float64", "usual_double", ",d"),
    Column("float32", "usual_single", ",d"),
    Column("at most by", "apart_single", ".2g"),
    Column("differ, folded ONNX", "folded", "d"),
    Column("pipeline, µs a row", "batch_theirs_us", ".1f"),
    Column("folded", "batch_us", ".2f"),
    Column("pipeline, µs for one row", "one_theirs_us", ",.0f"),
    Column("folded", "one_us", ".1f"),
)
BENCHMARK: Final = Benchmark(
    "pipelines",
    lambda _: CASES,
    measured,
    goals,
    {"table": Table(_COLUMNS, list, after=_after)},
    figures=lambda rows: [six_digits(row) for row in rows],
    options=DATA,
    needs=("data",),
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)

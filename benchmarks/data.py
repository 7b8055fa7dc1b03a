"""Files of millions of rows: wall time, processor time and memory, beside what users would write.

    python -m benchmarks.data --data FOLDER [--json] [--quick] [--save]

HIGGS: the rows of the small set, drawn again with a little noise, as 1.6 million rows of 28 columns
of float32 in 16 Parquet files, and a booster of 100 trees of depth 6. Each way is a program of its
own, on two processes of one thread each, that writes a key, the label and both probabilities of
each row to Parquet; answers are compared before times. ADULT: two million rows with text
categories, one Parquet file. ENGINES: the programs of docs/clusters.md on the files of HIGGS, each
where its library is installed. TEXT: the same numbers as one CSV file. SERVICE: requests of
one row each to `bitvec serve`, on one thread, at random times that wait for no answer, from a
client on another core (Linux only). Processor time and wall time of files are those of a program
with all its processes, from start to end, medians of runs in turns; memory is the peak of its
largest process. Dask is measured where it is installed.
"""

from __future__ import annotations

import re
import shutil
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xgboost
from lightgbm import LGBMClassifier
from pyarrow import parquet

import bitvec
from benchmarks import service_load
from benchmarks.frames import Data
from benchmarks.program_costs import Cost, cost
from benchmarks.report import Column, Goal, Report, Row, Table, measured_by, one, six_digits
from benchmarks.runner import DATA, Benchmark, run

FILES, REPEATS = 16, 7
NAMES: Final = [f"x{at}" for at in range(28)]
CASES: Final = ("higgs", "engines", "adult", "text", "service")
PAGE: Final = Path(__file__).parents[1] / "docs" / "clusters.md"
ENGINES: Final = {
    "Polars": "polars",
    "DuckDB": "duckdb",
    "Dask": "dask",
    "Ray Data": "ray",
    "Spark": "pyspark",
}
"""Programs of the page by their headings, and what they need."""

_ASKED: Final = """
import sys
import numpy as np
import pyarrow as pa
import xgboost
from pyarrow import parquet
MODEL, ROWS, OUT = sys.argv[1:]
NAMES = [f"x{at}" for at in range(28)]
def answers(booster, X):
    score = booster.inplace_predict(X)
    return {"prediction": (score > 0.5).astype(np.int64), "probability_0": 1 - score,
            "probability_1": score}
"""
"""Beginning of the others' programs: xgboost's fastest way to answer."""

PYARROW: Final = (
    _ASKED
    + """
from multiprocessing import Pool
from pathlib import Path
def begin():
    global booster
    booster = xgboost.Booster(model_file=MODEL)
    booster.set_param({"nthread": 1})
def part(path):
    writer = None
    for batch in parquet.ParquetFile(path).iter_batches(65536):
        X = np.column_stack([batch[name].to_numpy() for name in NAMES])
        table = pa.table({"id": batch["id"], **answers(booster, X)})
        writer = writer or parquet.ParquetWriter(Path(OUT) / path.name, table.schema)
        writer.write_table(table)
    writer.close()
if __name__ == "__main__":
    Path(OUT).mkdir()
    with Pool(2, begin) as pool:
        pool.map(part, sorted(Path(ROWS).glob("*.parquet")), chunksize=1)
"""
)
DASK: Final = (
    _ASKED
    + """
import dask.dataframe
from dask.distributed import Client
held = []
def part(frame):
    if not held:
        held.append(xgboost.Booster(model_file=MODEL))
        held[0].set_param({"nthread": 1})
    if not len(frame):
        return frame[["id"]].assign(prediction=np.int64(0), probability_0=np.float32(0),
                                    probability_1=np.float32(0))
    return frame[["id"]].assign(**answers(held[0], frame[NAMES].to_numpy()))
if __name__ == "__main__":
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        rows = dask.dataframe.read_parquet(f"{ROWS}/*.parquet")
        rows.map_partitions(part, meta=part(rows._meta)).to_parquet(OUT, write_index=False)
"""
)
READING: Final = """
import sys
import numpy as np
from pathlib import Path
from pyarrow import parquet
for path in sorted(Path(sys.argv[2]).glob("*.parquet")):
    for batch in parquet.ParquetFile(path).iter_batches(65536):
        np.column_stack([batch[f"x{at}"].to_numpy() for at in range(28)])
"""


def higgs_rows(folder: Path, data: Path, n_rows: int) -> np.ndarray:
    """Write the model and the files; return the first file's rows."""
    lines = np.loadtxt(data / "higgs_small" / "binary.train", dtype=np.float32)
    X, y = lines[:, 1:], lines[:, 0]
    rows = xgboost.DMatrix(X, y, feature_names=NAMES)
    options = {"objective": "binary:logistic", "max_depth": 6, "nthread": 1}
    xgboost.train(options, rows, 100).save_model(folder / "model.ubj")
    (folder / "rows").mkdir()
    rng = np.random.default_rng(0)
    first = None
    for at in range(FILES):
        drawn = X[rng.integers(0, len(X), n_rows // FILES)]
        drawn = drawn + rng.normal(scale=0.01, size=drawn.shape).astype(np.float32)
        key = np.arange(at * len(drawn), (at + 1) * len(drawn))
        table = pa.table({"id": key, **dict(zip(NAMES, drawn.T, strict=True))})
        parquet.write_table(table, folder / "rows" / f"part-{at:02}.parquet")
        first = drawn if first is None else first
    assert first is not None
    return first


def _answers(out: Path) -> pa.Table:
    """Return what was written to a folder, or to a file that is called like it."""
    parts = [*out.glob("*.parquet"), *out.parent.glob(f"{out.name}.parquet")]
    return parquet.ParquetDataset(sorted(parts)).read().sort_by("id")


def _higgs(folder: Path, options: Namespace) -> Iterator[Row]:
    n_rows = 160_000 if options.quick else 1_600_000
    X = higgs_rows(folder, options.data, n_rows)
    model, rows, python = folder / "model.ubj", folder / "rows", sys.executable
    bitvec_command = [python, "-m", "bitvec", "predict", model, f"{rows}/"]
    asked = ["--outputs", "label,proba", "--keep", "id", "--processes", "2", "-o"]
    ways: dict[str, list[str | Path]] = {
        "bitvec predict": [*bitvec_command, *asked],
        "pyarrow and xgboost": [python, _program(folder, "others", PYARROW), model, rows],
    }
    if find_spec("dask") is not None:
        ways["Dask and xgboost"] = [python, _program(folder, "by_dask", DASK), model, rows]
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    expected = None
    differ = dict.fromkeys(ways, 0)
    predictor, reads = _warm(model), [python, _program(folder, "reading", READING), model, rows]
    floors = []
    for turn in range(1 if options.quick else REPEATS):
        for at, (way, command) in enumerate(ways.items()):
            out = folder / f"answers-{at}-{turn}"
            costs[way].append(cost([*command, out]))
            found = _answers(out)
            expected = found if expected is None else expected
            apart = np.abs(found["probability_1"].to_numpy() - expected["probability_1"].to_numpy())
            differ[way] += int((apart > 1e-6).sum()) + abs(len(found) - n_rows)
        reading, start = cost(reads).cpu, time.process_time()
        predictor.predict_proba(X)
        floors.append(reading + (time.process_time() - start) * n_rows / len(X))
    floor = statistics.median(floors)
    for way, found_costs in costs.items():
        yield _row("higgs", way, n_rows, found_costs, differ=differ[way], floor=floor)


def _engines(folder: Path, options: Namespace) -> Iterator[Row]:
    n_rows = 160_000 if options.quick else 1_600_000
    higgs_rows(folder, options.data, n_rows)
    predictor, out = _warm(folder / "model.ubj"), folder / "answers"
    table = parquet.ParquetDataset(sorted((folder / "rows").glob("*.parquet"))).read().sort_by("id")
    expected = predictor.predict_proba(table.select(NAMES))[:, 1]
    page = PAGE.read_text(encoding="utf-8")
    for engine, library in ENGINES.items():
        if find_spec(library) is None:
            continue
        text = page.split(f"## {engine}\n", 1)[1]
        [source] = re.findall(r"```python\n(.*?)```", text.split("\n## ", 1)[0], re.DOTALL)
        command, costs, differ = [sys.executable, _program(folder, library[:2], source)], [], 0
        for _ in range(1 if options.quick else 3):
            costs.append(cost(command, folder))
            found = _answers(out)["probability_1"].to_numpy()
            differ += n_rows if len(found) != n_rows else int((found != expected).sum())
            shutil.rmtree(out, ignore_errors=True)
            out.with_suffix(".parquet").unlink(missing_ok=True)
        yield _row("engines", engine, n_rows, costs, differ=differ)


def _warm(model: Path) -> Any:
    """Return a predictor whose kernels are compiled, and kept on disk as after a first run."""
    return bitvec.compile(bitvec.convert(model), n_jobs=1, warm=True)


def _program(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def _row(case: str, way: str, n_rows: int, costs: list[Cost], **more: Any) -> Row:
    middle = Cost(*(statistics.median(part) for part in zip(*costs, strict=True)))
    return {"case": case, "way": way, "rows": n_rows, **middle._asdict(), **more}


def _adult(folder: Path, options: Namespace) -> Iterator[Row]:
    table, n_rows = Data(options.data).adult(), 200_000 if options.quick else 2_000_000
    frame = table.frame.rename(columns=lambda at: f"c{at}")
    model = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1).fit(frame, table.y)
    model.booster_.save_model(folder / "model.txt")
    drawn = frame.iloc[np.random.default_rng(0).integers(0, len(frame), n_rows)]
    texts = dict.fromkeys(frame.columns[frame.dtypes == "category"], "object")
    rows = pa.Table.from_pandas(drawn.astype(texts), preserve_index=False)
    parquet.write_table(rows, folder / "rows.parquet")
    _warm(folder / "model.txt")
    command = [sys.executable, "-m", "bitvec", "predict", folder / "model.txt"]
    asked = [folder / "rows.parquet", "-o", folder / "answers.parquet"]
    costs = [cost([*command, *asked]) for _ in range(1 if options.quick else REPEATS)]
    yield _row("adult", "bitvec predict", n_rows, costs)


def _text(folder: Path, options: Namespace) -> Iterator[Row]:
    from pyarrow import csv

    n_rows = 160_000 if options.quick else 2_000_000
    higgs_rows(folder, options.data, n_rows)
    with csv.CSVWriter(folder / "rows.csv", parquet.read_schema(_first(folder))) as writer:
        for path in sorted((folder / "rows").glob("*.parquet")):
            writer.write_table(parquet.read_table(path))
    _warm(folder / "model.ubj")
    command = [sys.executable, "-m", "bitvec", "predict", folder / "model.ubj"]
    asked = [folder / "rows.csv", "--keep", "id", "-o", folder / "answers.parquet"]
    yield _row("text", "bitvec predict", n_rows, [cost([*command, *asked])])


def _first(folder: Path) -> Path:
    return folder / "rows" / "part-00.parquet"


def _service(folder: Path, options: Namespace) -> Iterator[Row]:
    X = higgs_rows(folder, options.data, FILES * 1000)
    expected = _warm(folder / "model.ubj").predict_proba(X)[:, 1]
    yield from service_load.rows(folder / "model.ubj", X, expected, quick=options.quick)


MEASURED: Final = {
    "higgs": _higgs,
    "engines": _engines,
    "adult": _adult,
    "text": _text,
    "service": _service,
}


def measured(case: str, options: Namespace) -> Iterator[Row]:
    """Write the files of a case, then run each way."""
    with tempfile.TemporaryDirectory() as folder:
        yield from MEASURED[case](Path(folder), options)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked for."""
    ways = {row["way"]: row for row in rows if row["case"] == "higgs"}
    engines = [row["differ"] for row in rows if row["case"] == "engines"]
    ours = ways.get("bitvec predict")

    def times(way: str) -> float | None:
        return ways[way]["seconds"] / ours["seconds"] if ours and way in ways else None

    def of(case: str, key: str) -> float | None:
        found = [row for row in rows if row["case"] == case]
        return one(found, way="bitvec predict")[key] if found else None

    return [
        Goal(
            "rows that differ", "0", sum(row["differ"] for row in ways.values()) if ways else None
        ),
        Goal("rows that differ, programs of engines", "0", sum(engines) if engines else None),
        Goal("times faster than pyarrow and xgboost", ">= 3", times("pyarrow and xgboost")),
        Goal("times faster than Dask and xgboost", ">= 3", times("Dask and xgboost")),
        Goal("MB of a process, at most", "< 500", of("higgs", "peak")),
        Goal(
            "processor time over reading and compiled predict",
            "<= 1.2",
            ours["cpu"] / ours["floor"] if ours else None,
        ),
        Goal("CPU seconds, 2 million rows of adult with text", "< 6", of("adult", "cpu")),
        Goal("MB, 2 million rows of CSV", "< 400", of("text", "peak")),
        *service_load.goals(rows),
    ]


def _of_files(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["case"] in KINDS]


def _of_engines(rows: Sequence[Row]) -> list[Row]:
    ours = [row for row in rows if (row["case"], row["way"]) == ("higgs", "bitvec predict")]
    return [*ours, *(row for row in rows if row["case"] == "engines")]


def _after_engines(report: Report) -> str:
    return f"Medians of three runs or more. {measured_by(report)}"


def _after(report: Report) -> str:
    return f"Two processes of one thread each for HIGGS, else one. {measured_by(report)}"


def draw(report: Report, path: Path) -> None:
    """Draw the seconds of each way to answer the Parquet files of HIGGS."""
    from matplotlib.figure import Figure

    from benchmarks import svg

    rows = [row for row in report["rows"] if row["case"] == "higgs"][::-1]
    figure = Figure(figsize=(7.5, 1.9), layout="constrained")
    axis = figure.subplots()
    bars = axis.barh(
        [row["way"] for row in rows],
        [row["seconds"] for row in rows],
        color=["#0b5cad" if "bitvec" in row["way"] else "#8a94a0" for row in rows],
    )
    axis.bar_label(bars, [f"{row['seconds']:.1f}" for row in rows], padding=4)
    axis.set_xlabel(f"seconds for {rows[0]['rows']:,} rows in {FILES} Parquet files")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    svg.write(figure, path)


KINDS: Final = {
    "higgs": f"HIGGS, {FILES} Parquet files",
    "adult": "adult, with texts, one Parquet file",
    "text": "HIGGS, one CSV file",
}
_COLUMNS: Final = (
    Column("files", lambda row: KINDS[row["case"]]),
    Column("way", "way"),
    Column("rows", "rows", ",d"),
    Column("seconds", "seconds", ".1f"),
    Column("CPU seconds", "cpu", ".1f"),
    Column("MB, largest process", "peak", ",.0f"),
)
BENCHMARK: Final = Benchmark(
    "data",
    lambda _: CASES,
    measured,
    goals,
    {
        "table": Table(_COLUMNS, _of_files, after=_after),
        "engines": Table(
            (Column("engine", "way"), *_COLUMNS[2:]), _of_engines, after=_after_engines
        ),
        "service": service_load.table_of,
    },
    figures=lambda rows: [six_digits(row) for row in rows],
    options=DATA,
    needs=("data",),
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)

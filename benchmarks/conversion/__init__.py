"""Time and memory of conversions: a row a format, 100 trees, 556,000 leaves.

    python -m benchmarks.conversion [--json] [--quick] [--save]

Of each format a chain of 100,000 nodes is converted too, which is as deep as it has nodes.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.conversion import models
from benchmarks.conversion.chains import CHAINS, measure_chain
from benchmarks.conversion.measure import Case, measure_model
from benchmarks.report import Column, Goal, Report, Row, Table, measured_by, six_digits, where
from benchmarks.runner import Benchmark

TREES: Final = 100
DEPTH: Final = 100_000
CHAIN: Final = "chain"
TEXT_MB: Final = 50
_XGBOOST: Final = "bitvec.converters.xgboost.open:parse"
_CATBOOST: Final = "bitvec.converters.catboost.open:parse"
_TREELITE: Final = "bitvec.converters.treelite.read:read_checkpoint"
_ONNX: Final = "bitvec.converters.onnx.read:read_model"


def _by_ydf(path: Path) -> Any:
    import ydf

    return ydf.load_model(str(path))


def _by_lightgbm(path: Path) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=path)


CASES: Final = (
    Case("scikit-learn", "10 classes", models.sklearn_classes),
    Case("scikit-learn", "numbers", models.sklearn_numbers),
    Case("xgboost JSON", "numbers", models.xgboost_json, _XGBOOST),
    Case("xgboost UBJ", "numbers", models.xgboost_ubj, _XGBOOST),
    Case("xgboost legacy binary", "numbers", models.xgboost_binary, _XGBOOST),
    Case("LightGBM text", "numbers", models.lightgbm_text, own=_by_lightgbm),
    Case("CatBoost JSON", "oblivious", models.catboost_oblivious, _CATBOOST),
    Case("CatBoost JSON", "nested", models.catboost_nested, _CATBOOST),
    Case("treelite Model", "10 classes", models.treelite_model),
    Case("treelite checkpoint", "10 classes", models.treelite_checkpoint, _TREELITE),
    Case("treelite checkpoint", "numbers", models.treelite_numbers, _TREELITE),
    Case("ONNX v3", "numbers", models.onnx_v3_numbers, _ONNX),
    Case("ONNX v3", "10 classes", models.onnx_v3_classes, _ONNX),
    Case("ONNX v5", "numbers", models.onnx_v5_numbers, _ONNX),
    Case("ONNX v5 by bitvec", "numbers", models.onnx_exported_numbers, _ONNX),
    Case("ONNX v5 by bitvec", "10 classes", models.onnx_exported_classes, _ONNX),
    Case("YDF directory", "numbers", models.ydf_numbers, own=_by_ydf),
    Case("YDF directory", "10 classes", models.ydf_classes, own=_by_ydf),
    *(Case(name, CHAIN, make) for name, make in CHAINS.items()),
)


def measure(case: Case, options: Namespace) -> list[Row]:
    """Return the row of one format, of a smaller model in a quick run."""
    with tempfile.TemporaryDirectory() as folder:
        if case.what == CHAIN:
            depth = DEPTH // (50 if options.quick else 1)
            return [measure_chain(case.format, partial(case.make, depth=depth), Path(folder))]
        times, leaves = TREES // models.GROWN, models.LEAVES
        if options.quick:
            times, leaves = 2, leaves // 8
        return [measure_model(case, Path(folder), times=times, leaves=leaves)]


def _models(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["what"] != CHAIN]


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what a conversion may cost, and the depth that all formats have to bear."""

    def most(name: str, goal: str, key: str) -> Goal:
        row = max(_models(rows), key=lambda row: row[key], default=None)
        if row is None:
            return Goal(name, goal, None)
        return Goal(f"{name} ({row['format']}, {row['what']})", goal, row[key])

    texts = where(rows, format="LightGBM text", what="numbers")
    large = (row["seconds"] for row in texts if row["file_mb"] >= TEXT_MB)
    depths = [row["depth"] for row in where(rows, what=CHAIN)]
    text = f"CPU seconds to convert a LightGBM text of {TEXT_MB} MB or more"
    return [
        most("CPU seconds of the slowest conversion without parsing", "< 1", "building_seconds"),
        most("largest peak over the bytes of the arrays", "< 3", "peak_over_arrays"),
        Goal(text, "< 5", next(large, None)),
        Goal(
            "depth of a chain that every format converts", f"{DEPTH:,}", min(depths, default=None)
        ),
    ]


_NOTES: Final = """\
CPU seconds, median of three. The models are synthetic: 5 trees that the library grew on 21,500 \
rows, repeated. Parsing is json (xgboost, CatBoost), protobuf (ONNX) or the converter's reading of \
the bytes; for LightGBM and YDF, whose conversion begins at the bytes, it is what the library \
itself takes to load the file. The peak counts what is allocated beyond the document that parsing \
gave, or, for these two, beyond the file."""


def _after(report: Report) -> str:
    parts, chains = [_NOTES], where(report["rows"], what=CHAIN)
    if chains:
        seconds = [row["seconds"] for row in chains]
        parts.append(
            f"A chain of depth {min(row['depth'] for row in chains):,} converts from "
            f"{', '.join(row['format'] for row in chains)}, in {min(seconds):.1f} to "
            f"{max(seconds):.1f} s. CatBoost grows no tree deeper than 16, and its nested JSON is "
            "refused where it is nested deeper than Python's reader goes."
        )
    return "\n\n".join([*parts, measured_by(report)])


_COLUMNS: Final = (
    Column("format", "format"),
    Column("leaves are", "what"),
    Column("leaves", "leaves", ","),
    Column("file, MB", "file_mb", ".0f"),
    Column("convert, s", "seconds", ".2f"),
    Column("of it parsing, s", "parsing_seconds", ".2f"),
    Column("the rest, s", "building_seconds", ".2f"),
    Column("arrays, MB", "array_mb", ".0f"),
    Column("peak / arrays", "peak_over_arrays", ".2f"),
)
BENCHMARK: Final = Benchmark(
    "conversion",
    lambda _: CASES,
    measure,
    goals,
    {"table": Table(_COLUMNS, _models, after=_after)},
    figures=lambda rows: [six_digits(row) for row in rows],
)

"""The table of extras: what each installs, and how large that is, in a folder of its own.

python -m benchmarks.extras [--json] [--save]

uv installs the newest versions that suit this Python. UV_TORCH_BACKEND, or UV_FIND_LINKS and
UV_CONSTRAINT, say where torch without CUDA is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.report import ROOT, Column, Goal, Row, Table
from benchmarks.runner import Benchmark, run

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Final[dict[str, list[str]]] = PROJECT["optional-dependencies"]
BASE: Final = "none"
FOR_DEVELOPERS: Final = ("all", "test", "dev")
LIGHTER: Final = {"xgboost": "xgboost-cpu"}
"""Distributions of the same package without code for GPUs, by the extra that they stand in for."""
PURPOSE: Final = {
    BASE: "convert files, certify, predict, explain, save",
    "torch": "retraining, relaxations, modules and programs of torch",
    "onnx": "ONNX files, written and certified",
    "openvino": "certificates of files for OpenVINO",
    "soft": "soft forests to ONNX",
    "executorch": "`.pte` files",
    "litert": "`.tflite` files",
    "jax": "forests as functions of JAX",
    "sklearn": "models and estimators of scikit-learn",
    "xgboost": "models of xgboost in memory",
    "lightgbm": "models of LightGBM in memory",
    "catboost": "models of CatBoost in memory, and `.cbm` files",
    "treelite": "models of treelite in memory",
    "ydf": "models of YDF in memory",
    "duckdb": "certificates of exported SQL",
    "plot": "pictures",
    "triton": "kernels for GPUs",
    "cli": "rows of .csv, .tsv and .parquet files",
    "data": "files of rows in batches: .parquet, .arrow, .ndjson",
    "serve": "`bitvec serve`",
    "mlflow": "forests as models of MLflow",
    "docs": "these pages as a site",
}


def cases(options: Namespace) -> Iterable[str]:
    """Return no extra, then each that users install."""
    return [BASE, *(name for name in EXTRAS if name not in FOR_DEVELOPERS)]


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield what an extra names, and the size of it and all it needs beside the plain package."""
    row: Row = {"extra": name, "names": names_of(name), "mb": None, "without": ""}
    try:
        row["mb"] = megabytes([] if name == BASE else expanded(name))
        if name in LIGHTER:
            row["lighter"] = megabytes([LIGHTER[name]])
    except subprocess.CalledProcessError as failed:
        row["without"] = failed.stderr.strip().splitlines()[-1]
    yield row


def megabytes(lines: Sequence[str]) -> int:
    """Return the size of what requirements add to the plain package, or that of the latter."""
    plain = installed(*PROJECT["dependencies"])
    found = installed(*PROJECT["dependencies"], *lines)
    added = [found[package] for package in found if not lines or package not in plain]
    return round(sum(added) / 1e6)


def names_of(name: str) -> list[str]:
    """Return the distributions that an extra, or no extra, names."""
    lines = PROJECT["dependencies"] if name == BASE else expanded(name)
    return [Requirement(line).name for line in lines]


def expanded(name: str) -> list[str]:
    """Return the requirements of an extra, with those of the extras that it names."""
    lines = []
    for line in EXTRAS[name]:
        inner = Requirement(line).extras if line.startswith(PROJECT["name"]) else ()
        lines += [each for extra in sorted(inner) for each in expanded(extra)] if inner else [line]
    return list(dict.fromkeys(lines))


@cache
def installed(*lines: str) -> dict[str, int]:
    """Return the bytes of each distribution that requirements bring, with what these need in turn.

    Raises
    ------
    CalledProcessError
        If they cannot be installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = ("--python", sys.executable, "--target", folder)
        command = [sys.executable, "-m", "uv", "-q", "pip", "install", *target, *lines]
        subprocess.run(command, check=True, capture_output=True, text=True)
        found = distributions(path=[folder])
        return {canonicalize_name(package.name): size(package) for package in found}


def size(package: Distribution) -> int:
    """Return the bytes of the files of a distribution."""
    paths = (Path(str(package.locate_file(file))) for file in package.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def told(row: Row) -> str:
    """Return the size in a cell of the table, or why there is none."""
    if row["mb"] is None:
        return f"not measured: {row['without']}"
    lighter = f"; `{LIGHTER[row['extra']]}` instead: {row['lighter']:,}" if "lighter" in row else ""
    return f"{row['mb']:,}{lighter}"


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return that every extra is told what for."""
    unknown = sum(row["extra"] not in PURPOSE for row in rows)
    return [Goal("extras without a purpose", "0", unknown, True)]


BENCHMARK: Final = Benchmark(
    "extras",
    cases,
    measure,
    goals,
    {
        "table": Table(
            (
                Column("extra", lambda row: f"`{row['extra']}`" if row["extra"] != BASE else BASE),
                Column("MB", told),
                Column("for", lambda row: PURPOSE[row["extra"]]),
                Column("brings", lambda row: ", ".join(row["names"])),
            ),
            list,
        )
    },
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)

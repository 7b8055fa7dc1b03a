"""The table of extras: what each installs, and how large that is here.

python -m benchmarks.extras [--json] [--save]
"""

from __future__ import annotations

import tomllib
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
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
    asked = PROJECT["dependencies"] if name == BASE else expanded(name)
    row: Row = {"extra": name, "names": names_of(name)}
    try:
        plain = {} if name == BASE else needed(PROJECT["dependencies"])
        found = needed(asked)
    except PackageNotFoundError as missing:
        yield row | {"mb": None, "without": str(missing.name)}
        return
    added = [one for package, one in found.items() if package not in plain]
    yield row | {"mb": round(sum(map(size, added)) / 1e6), "without": ""}


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


def needed(lines: Iterable[str]) -> dict[str, Distribution]:
    """Return the distributions that requirements need, with what these need in turn.

    Raises
    ------
    PackageNotFoundError
        If one of them is not installed.
    """
    found: dict[str, Distribution] = {}
    todo = [(Requirement(line), "") for line in lines]
    while todo:
        requirement, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if name in found:
            continue
        found[name] = distribution(name)
        for line in found[name].requires or ():
            inner = Requirement(line)
            todo += [(inner, each) for each in ("", *requirement.extras)]
    return found


def size(package: Distribution) -> int:
    """Return the bytes of the files of a distribution."""
    paths = (Path(str(package.locate_file(file))) for file in package.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


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
                Column("for", lambda row: PURPOSE[row["extra"]]),
                Column("brings", lambda row: ", ".join(row["names"])),
                Column("MB", lambda row: "not measured" if row["mb"] is None else f"{row['mb']:,}"),
            ),
            list,
        )
    },
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)

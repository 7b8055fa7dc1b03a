"""What every benchmark prints: one JSON object of machine, versions, command, rows, targets."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LIBRARIES = (
    "bitvec-trees",
    "catboost",
    "lightgbm",
    "llvmlite",
    "numba",
    "numpy",
    "onnx",
    "onnxmltools",
    "openvino",
    "onnxruntime",
    "scikit-learn",
    "skl2onnx",
    "skops",
    "torch",
    "treelite",
    "xgboost",
    "xgboost-cpu",
    "ydf",
)


@dataclass(frozen=True, slots=True)
class Target:
    """One figure that is asked for; `met` is None where the machine could not measure it."""

    name: str
    goal: str
    value: float | int | str | None
    met: bool | None


def machine() -> dict[str, Any]:
    """Return what a reader needs to know of the machine that measured."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def parser(description: str) -> argparse.ArgumentParser:
    """Return the options that every benchmark has."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--json", action="store_true", help="print one JSON object")
    result.add_argument("--quick", action="store_true", help="a smaller run, under a minute")
    result.add_argument("--save", action="store_true", help="keep the run in benchmarks/results")
    return result


def _arguments() -> list[str]:
    """Return the arguments of this run, without the places of one machine's files."""
    return ["FOLDER" if Path(word).is_dir() else word for word in sys.argv[1:]]


def finish(
    name: str,
    options: argparse.Namespace,
    rows: Sequence[dict[str, Any]],
    targets: Sequence[Target],
    *,
    table: Callable[[dict[str, Any]], str],
    module: str | None = None,
) -> None:
    """Print the run as JSON or as a table, keep it if asked, and exit 1 if a target was missed.

    `module` is what was run, if not the module of this name.
    """
    report = {
        "machine": machine(),
        "versions": versions(),
        "command": " ".join([f"python -m benchmarks.{module or name}", *_arguments()]),
        "rows": list(rows),
        "targets": [asdict(target) for target in targets],
    }
    text = json.dumps(report, indent=1, allow_nan=False)
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        aside = RESULTS / f".{name}.json"
        aside.write_text(text + "\n", encoding="utf-8")
        aside.replace(RESULTS / f"{name}.json")
    print(text if options.json else table(report))
    if any(target.met is False for target in targets):
        sys.exit(1)

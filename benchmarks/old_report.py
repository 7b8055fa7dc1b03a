"""The report of a benchmark: machine, versions, command, rows and targets, as JSON or tables."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Report = dict[str, Any]

ROOT = Path(__file__).parent.parent
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


def machine() -> dict[str, Any]:
    """Return what a reader needs to know of the machine that measured."""
    return {
        "processor": _processor(),
        "vectors": _vectors(),
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


def _vectors() -> str:
    """Return the widest vectors that compiled code can use here."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return "AVX-512"
    return "AVX2 only" if features.get("avx2") else "neither AVX-512 nor AVX2"


def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def command(module: str) -> str:
    """Return the command of this run, without the places of one machine's files."""
    words = ["FOLDER" if Path(word).is_dir() else word for word in sys.argv[1:]]
    return " ".join([f"python -m benchmarks.{module}", *words])


@dataclass(frozen=True, slots=True)
class Target:
    """One figure that is asked for; `met` is None where the machine could not measure it."""

    name: str
    goal: str
    value: float | int | str | None
    met: bool | None


def judged(name: str, goal: str, value: Any, meets: Callable[[Any], bool]) -> Target:
    """Return a target that a value meets or not, if there is one."""
    return Target(name, goal, value, None if value is None else bool(meets(value)))


def at_least(name: str, least: float, value: float | None) -> Target:
    """Return a target of at least so much."""
    return judged(name, f">= {least:g}", value, lambda found: found >= least)


def at_most(name: str, most: float, value: float | None) -> Target:
    """Return a target of at most so much."""
    return judged(name, f"<= {most:g}", value, lambda found: found <= most)


def below(name: str, limit: float, value: float | None) -> Target:
    """Return a target of less than so much."""
    return judged(name, f"< {limit:g}", value, lambda found: found < limit)


def none(name: str, value: float | None) -> Target:
    """Return a target of 0."""
    return judged(name, "0", value, lambda found: found == 0)


def undecided(targets: Iterable[Target], *, whole: bool) -> list[Target]:
    """Return targets as they are after a whole run, and undecided after a part of it."""
    return [target if whole else replace(target, met=None) for target in targets]


def markdown(head: Sequence[str], body: Iterable[Sequence[Any]], *, left: int | None = None) -> str:
    """Return a table; columns after the first `left` are aligned to the right, if any are."""
    rule = ["---" if left is None or place < left else "---:" for place in range(len(head))]
    lines = (head, rule, *body)
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def measured_by(report: Report) -> str:
    """Return the sentence of the machine and the command of a run."""
    machine = report["machine"]
    vectors = f", {machine['vectors']}" if "vectors" in machine else ""
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores{vectors}, "
        f"by `{report['command']}`."
    )


def asked(report: Report) -> str:
    """Return the figures that are asked for, and whether each was met."""
    word = {True: "yes", False: "**no**", None: "not judged"}
    body = [
        [target["name"], target["goal"], _shown(target["value"]), word[target["met"]]]
        for target in report["targets"]
    ]
    return markdown(["figure", "goal", "measured", "met"], body)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"


def everything(report: Report, tables: Iterable[Callable[[Report], str]]) -> str:
    """Return all tables of a run, for a terminal."""
    return "\n\n".join([*(table(report) for table in tables), asked(report)])

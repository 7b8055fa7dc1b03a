"""The report of a benchmark: machine, versions, command, rows and targets, and tables of them."""

from __future__ import annotations

import operator
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

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
    "nvforest-cu13",
    "onnx",
    "onnxmltools",
    "openvino",
    "onnxruntime",
    "river",
    "scikit-learn",
    "skl2onnx",
    "skops",
    "torch",
    "treelite",
    "triton",
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
        **_gpu(),
    }


def _gpu() -> dict[str, str]:
    """Return the name of the GPU where torch was imported and sees one."""
    torch = sys.modules.get("torch")
    usable = torch is not None and torch.cuda.is_available()
    return {"gpu": torch.cuda.get_device_name()} if usable else {}


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


def command(name: str) -> str:
    """Return the command of this run, without the places of one machine's files."""
    words = ["FOLDER" if Path(word).is_dir() else word for word in sys.argv[1:]]
    return " ".join(["python -m", f"benchmarks.{name.replace('-', ' ')}", *words])


class Goal(NamedTuple):
    """A figure that is asked for.

    Parameters
    ----------
    goal : str
        A comparison and a number, ">= 13 of 15"; or what the value must be. "told" judges nothing.
    value : number or str, optional
        Of text its leading number counts; None where it was not measured.
    of_part : bool
        Whether a part of the cases is enough to judge it.
    """

    name: str
    goal: str
    value: float | str | None
    of_part: bool = False

    def judged(self, *, whole: bool) -> dict[str, Any]:
        """Return the target as reports have it; `met` is None where nobody can say."""
        met = is_met(self.goal, self.value) if whole or self.of_part else None
        return {"name": self.name, "goal": self.goal, "value": self.value, "met": met}


_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def is_met(goal: str, value: float | str | None) -> bool | None:
    """Return whether a value meets a goal, None if there is nothing to compare.

    Examples
    --------
    >>> is_met(">= 13 of 15", "12 of 15"), is_met("0", 0), is_met("none", "an option")
    (False, True, False)
    >>> is_met("<= 1", None), is_met("told", 3), is_met("0", "gcc is not installed")
    (None, None, None)
    """
    sign, _, rest = goal.partition(" ")
    wanted, found = _number(rest if sign in _COMPARISONS else goal), _number(value)
    if value is None or goal == "told":
        return None
    if wanted is None:
        return value == goal
    holds = _COMPARISONS.get(sign, operator.eq)
    return None if found is None else bool(holds(found, wanted))


def _number(value: Any) -> float | None:
    if not isinstance(value, str):
        return value
    found = re.match(r"-?[\d,]*\.?\d+(e-?\d+)?", value)
    return None if found is None else float(found[0].replace(",", ""))


def where(rows: Iterable[Row], **facts: Any) -> list[Row]:
    """Return the rows that hold these facts."""
    return [row for row in rows if all(row.get(key) == value for key, value in facts.items())]


def one(rows: Iterable[Row], **facts: Any) -> Row:
    """Return the first row that holds these facts, or an empty one."""
    return next(iter(where(rows, **facts)), {})


def groups(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values of keys, in order."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def means(rows: Sequence[Row], names: Iterable[str], digits: int = 4) -> Row:
    """Return the means of what all rows tell."""
    told = {name: [row.get(name) for row in rows] for name in names}
    return {
        name: round(float(np.mean(values)), digits)
        for name, values in told.items()
        if None not in values
    }


def six_digits(row: Row, *keys: str) -> Row:
    """Return the keys of a row that are named, all if none is, its numbers to six digits."""
    return {
        key: float(f"{value:.6g}") if isinstance(value, float) else value
        for key, value in row.items()
        if not keys or key in keys
    }


class Column(NamedTuple):
    """A column of a table.

    Parameters
    ----------
    value : str or callable
        A key of rows, or what makes a cell of a row; None is shown as nothing.
    form : str
        As `format` takes it, or a template with braces; text is shown as it is.
    """

    head: str
    value: str | Callable[[Row], Any]
    form: str = ""

    def cell(self, row: Row) -> str:
        """Return the cell of a row."""
        found = row.get(self.value) if isinstance(self.value, str) else self.value(row)
        if found is None:
            return ""
        if isinstance(found, str):
            return found.replace("\\|", "|").replace("|", "\\|")
        return self.form.format(found) if "{" in self.form else format(found, self.form)


def table(rows: Iterable[Row], columns: Sequence[Column]) -> str:
    """Return a table in Markdown; what is formatted as a number is aligned to the right."""
    rule = ["---:" if column.form else "---" for column in columns]
    body = [[column.cell(row) for column in columns] for row in rows]
    lines = ([column.head for column in columns], rule, *body)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report: the rows that hold some facts, why others are missing, and a sentence.

    Parameters
    ----------
    rows : callable or dict
        From all rows those that are shown, or the facts that these hold.
    missing : str
        Key of what could not be measured, told with its reason where the facts hold; "" for none.
    after : callable, optional
        From the report, what follows the table.
    """

    columns: Sequence[Column]
    rows: Callable[[Sequence[Row]], Iterable[Row]] | Row
    missing: str = ""
    after: Callable[[Report], str] | None = None

    def __call__(self, report: Report) -> str:
        """Return it in Markdown."""
        every = report["rows"]
        given = where(every, **self.rows) if isinstance(self.rows, dict) else self.rows(every)
        found = [*given]
        shown = table([row for row in found if "reason" not in row], self.columns)
        parts = [shown, why_not(found, self.missing) if self.missing else ""]
        parts += [self.after(report)] if self.after else []
        return "\n\n".join(filter(None, parts))


def why_not(rows: Iterable[Row], key: str) -> str:
    """Return what could not be measured, and why; nothing if all was."""
    reasons = {(row[key], row["reason"]): row for row in rows if "reason" in row}
    columns = (Column("not measured", key), Column("because", "reason"))
    return table(reasons.values(), columns) if reasons else ""


def measured_by(report: Report) -> str:
    """Return the sentence of the machine and the command of a run."""
    machine = report["machine"]
    vectors = f", {machine['vectors']}" if "vectors" in machine else ""
    gpu = f", {machine['gpu']}" if "gpu" in machine else ""
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores{vectors}{gpu}, "
        f"by `{report['command']}`."
    )


def asked(report: Report) -> str:
    """Return the figures that are asked for, and whether each was met."""
    word = {True: "yes", False: "**no**", None: "not judged"}
    columns = (
        Column("figure", "name"),
        Column("goal", "goal"),
        Column("measured", _shown),
        Column("met", lambda target: word[target["met"]]),
    )
    return table(report["targets"], columns)


def _shown(target: Row) -> str | None:
    value = target["value"]
    if value is None or isinstance(value, str):
        return value
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"

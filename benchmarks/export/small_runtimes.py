"""Small runtimes of ONNX files: `tests/runtimes/compare.py`, its rows kept."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.report import ROOT, Column, Goal, Row, Table, where
from bitvec.runtime.export.edge_targets import EDGE_TARGETS
from bitvec.runtime.export.onnx_targets import TARGETS

SCRIPT: Final = ROOT / "tests" / "runtimes" / "compare.py"
DRAWN: Final = 20
SHOWN: Final = "random forest"
NAMES: Final = tuple(target.name for target in EDGE_TARGETS[1:])
OWN: Final = tuple((name, form) for name in NAMES for form in TARGETS[name].forms)


def measured() -> list[Row]:
    """Return a row for each runtime, form and model; or why a runtime was not run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        command = [sys.executable, str(SCRIPT), "--drawn", str(DRAWN), "--json", str(file)]
        subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
        rows: list[Row] = json.loads(file.read_text())
    return [{"what": "runtime", **row} for row in rows]


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield the number of runtimes that answer every file of theirs with equal bits, if any ran."""
    if not where(rows, what="runtime"):
        return
    equal = [name for name in NAMES if _all_equal(rows, name)]
    yield Goal("small runtimes with equal bits in all their files", f">= {len(NAMES)}", len(equal))


def _own(rows: Sequence[Row], name: str, form: str) -> list[Row]:
    """Return the rows of a runtime's own files of a form."""
    label = name if form == TARGETS[name].forms[0] else f"{name}, {form}"
    return where(rows, what="runtime", runtime=name, form=label)


def _all_equal(rows: Sequence[Row], name: str) -> bool:
    """Return whether all files of a runtime are answered with equal bits, or refused by bitvec."""
    own = [row for form in TARGETS[name].forms for row in _own(rows, name, form)]
    return bool(own) and all(
        row["became"] == "equal" or row.get("refused", "").startswith("bitvec: ") for row in own
    )


def _of_runtimes(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield for each runtime and form its own files in one row."""
    for name, form in OWN:
        own = _own(rows, name, form)
        if not own:
            continue
        shown = next(row for row in own if row["model"] == SHOWN)
        yield {
            **shown,
            "form": form,
            "opset": TARGETS[name].opset,
            "batch": "fixed" if TARGETS[name].fixed_batch else "any",
            "files": len(own),
            "equal": sum(row["became"] == "equal" for row in own),
            "refused_files": sum("refused" in row for row in own),
        }


def _forms(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield for each runtime what became of the five models in each form."""
    for name in NAMES:
        found: dict[str, Any] = {}
        for row in where(rows, what="runtime", runtime=name):
            if not row.get("model", "drawn").startswith("drawn"):
                form = "own" if row["form"] == name else row["form"]
                became = row["became"].partition(" ")[0]
                words = {"equal": "equal", "refused": "refused"}.get(became, "wrong")
                found.setdefault(form, []).append(words)
        if found:
            yield {"runtime": name, **{form: _counted(words) for form, words in found.items()}}


def _counted(words: Sequence[str]) -> str:
    kinds = [kind for kind in ("equal", "wrong", "refused") if kind in words]
    return ", ".join(f"{words.count(kind)} {kind}" for kind in kinds)


TABLE: Final = Table(
    (
        Column("target", lambda row: f"`{row['runtime']}`"),
        Column("version", "version"),
        Column("form", "form"),
        Column("opset", "opset"),
        Column("batch", "batch"),
        Column("models", "files"),
        Column("equal bits", "equal"),
        Column("refused", "refused_files"),
        Column("bytes", "bytes", ","),
        Column("us, 1 row", lambda row: row.get("us_1"), ",.0f"),
        Column("us, 100 rows", lambda row: row.get("us_100"), ",.0f"),
    ),
    _of_runtimes,
)
FORMS: Final = Table(
    (
        Column("runtime", "runtime"),
        *(
            Column(form, lambda row, form=form: row.get(form))
            for form in ("own", "edge, finite", "traversal", "tensor", "tree_ensemble")
        ),
    ),
    _forms,
)

"""Tables of the versions that the tests ran with, from the results that `tests/versions` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "tests" / "versions" / "tested.json"
NONE_YET = "No run is kept yet: `make test-versions` makes one."


def suites() -> str:
    """Return what became of the test suite by Python and versions, in Markdown."""
    lines = ["| Python | versions | passed | skipped | failed |", "|---|---|---:|---:|---:|"]
    for row in sorted(_rows("suites"), key=lambda row: (_number(row["python"]), row["versions"])):
        skipped = sum(row["skipped"].values())
        counts = f"{row['passed']:,} | {skipped:,} | {len(row['failed']):,}"
        lines.append(f"| {row['python']} | {row['versions']} | {counts} |")
    return "\n".join(lines) if len(lines) > 2 else NONE_YET


def models() -> str:
    """Return how the models of other versions of the libraries were converted, in Markdown."""
    lines = [
        "| library | version | models | that differ | predictions, ulp |",
        "|---|---|---:|---:|---:|",
    ]
    for row in sorted(_rows("models"), key=lambda row: (row["library"], _number(row["version"]))):
        counts = f"{row['n_models']:,} | {len(row['differing']):,} | {row['largest']:g}"
        lines.append(f"| {row['library']} | {row['version']} | {counts} |")
    return "\n".join(lines) if len(lines) > 2 else NONE_YET


def _rows(part: str) -> list[dict[str, Any]]:
    if not KEPT.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8")).get(part, [])
    return rows


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

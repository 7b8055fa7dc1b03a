"""Tables of the versions that the tests ran with, from the results that `tests/versions` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bitvec.converters.dispatch import FORMATS

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "tests" / "versions" / "tested.json"
NONE_YET = "No run is kept yet: `make test-versions` makes one."
ORDER = ("lowest", "pinned", "newest")


def suites() -> str:
    """Return what became of the test suite by Python and versions, in Markdown."""
    lines = [
        "| Python | versions | passed | of them when run again | skipped | failed |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in _suites():
        passed, again = row["passed"], len(row["again"])
        skipped, failed = sum(row["skipped"].values()), len(row["failed"])
        told = f"{passed:,} | {again:,} | {skipped:,} | {failed:,}"
        lines.append(f"| {row['python']} | {row['versions']} | {told} |")
    return "\n".join(lines) if len(lines) > 2 else NONE_YET


def skips() -> str:
    """Return how many tests were skipped for which reason, by Python and versions, in Markdown."""
    rows = _suites()
    reasons = sorted({reason for row in rows for reason in row["skipped"]})
    heads = [f"{row['python']} {row['versions']}" for row in rows]
    lines = [f"| skipped | {' | '.join(heads)} |", "|---|" + "---:|" * len(rows)]
    for reason in reasons:
        counts = (row["skipped"].get(reason, "") for row in rows)
        lines.append(f"| {reason} | {' | '.join(map(str, counts))} |")
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


def libraries() -> str:
    """Return what converts by library, and of which versions models were tried, in Markdown."""
    lines = [
        "| library | versions tried | models of them | that differ | options that convert "
        "| refused | read without the library | written back |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for library in dict.fromkeys(source.folder for source in FORMATS):
        sources = [source for source in FORMATS if source.folder == library]
        rows = sorted(
            (row for row in _rows("models") if row["library"] == library),
            key=lambda row: _number(row["version"]),
        )
        cells = (
            sources[0].name,
            ", ".join(row["version"] for row in rows),
            f"{sum(row['n_models'] for row in rows):,}" if rows else "",
            f"{sum(len(row['differing']) for row in rows):,}" if rows else "",
            f"{sum(len(source.supported) for source in sources):,}",
            f"{sum(len(source.unsupported) for source in sources):,}",
            "yes" if any(source.recognises for source in sources) else "",
            "yes" if any(source.writes for source in sources) else "",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _suites() -> list[dict[str, Any]]:
    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        kind, _, system = row["versions"].partition(", ")
        return _number(row["python"]), ORDER.index(kind), system

    return sorted(_rows("suites"), key=place)


def _rows(part: str) -> list[dict[str, Any]]:
    if not KEPT.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8")).get(part, [])
    return rows


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

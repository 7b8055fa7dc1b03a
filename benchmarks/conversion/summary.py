"""Targets and table of the measured rows."""

from __future__ import annotations

from typing import Final

from benchmarks.old_report import (
    Report,
    Row,
    Target,
    below,
    judged,
    markdown,
    measured_by,
    undecided,
)

BUILDING_SECONDS: Final = 1.0
PEAK: Final = 3.0
"""Times the bytes of the forest's arrays."""
TEXT_SECONDS: Final = 5.0
TEXT_MB: Final = 50.0
DEPTH: Final = 100_000


def targets(rows: list[Row], *, whole: bool) -> list[Target]:
    """Return one entry for each figure that is asked for; `whole` says whether all was measured."""
    models = [row for row in rows if row["what"] != "chain"]
    slowest = max(models, key=lambda row: row["building_seconds"], default=None)
    largest = max(models, key=lambda row: row["peak_over_arrays"], default=None)
    texts = [row for row in models if row["format"] == "LightGBM text"]
    read = next((row["seconds"] for row in texts if row["file_mb"] >= TEXT_MB), None)
    least = min((row["depth"] for row in rows if row["what"] == "chain"), default=0)
    asked = [
        below(
            f"CPU seconds of the slowest conversion without parsing{_name(slowest)}",
            BUILDING_SECONDS,
            slowest and slowest["building_seconds"],
        ),
        below(
            f"largest peak over the bytes of the arrays{_name(largest)}",
            PEAK,
            largest and largest["peak_over_arrays"],
        ),
        below(
            f"CPU seconds to convert a LightGBM text of {TEXT_MB:g} MB or more", TEXT_SECONDS, read
        ),
        judged(
            "depth of a chain that every format converts",
            f"{DEPTH:,}",
            least,
            lambda found: found >= DEPTH,
        ),
    ]
    return undecided(asked, whole=whole)


def _name(row: Row | None) -> str:
    return "" if row is None else f" ({row['format']}, {row['what']})"


def table(report: Report) -> str:
    """Return the run as Markdown."""
    head = ["format", "leaves are", "leaves", "file, MB", "convert, s", "of it parsing, s"]
    body = [
        [
            row["format"],
            row["what"],
            f"{row['leaves']:,}",
            "" if row["file_mb"] is None else f"{row['file_mb']:.0f}",
            f"{row['seconds']:.2f}",
            f"{row['parsing_seconds']:.2f}",
            f"{row['building_seconds']:.2f}",
            f"{row['array_mb']:.0f}",
            f"{row['peak_over_arrays']:.2f}",
        ]
        for row in report["rows"]
        if row["what"] != "chain"
    ]
    parts = [markdown([*head, "the rest, s", "arrays, MB", "peak / arrays"], body), _NOTES]
    chains = [row for row in report["rows"] if row["what"] == "chain"]
    if chains:
        seconds = [row["seconds"] for row in chains]
        parts.append(
            f"A chain of depth {min(row['depth'] for row in chains):,} converts from "
            f"{', '.join(row['format'] for row in chains)}, in {min(seconds):.1f} to "
            f"{max(seconds):.1f} s. CatBoost grows no tree deeper than 16, and its nested JSON is "
            "refused where it is nested deeper than Python's reader goes."
        )
    return "\n\n".join([*parts, measured_by(report)])


_NOTES: Final = """\
CPU seconds, median of three. The models are synthetic: 5 trees that the library grew on 21,500 \
rows, repeated. Parsing is json (xgboost, CatBoost), protobuf (ONNX) or the converter's reading of \
the bytes; for LightGBM and YDF, whose conversion begins at the bytes, it is what the library \
itself takes to load the file. The peak counts what is allocated beyond the document that parsing \
gave, or, for these two, beyond the file."""

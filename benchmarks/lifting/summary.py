"""What the measured rows amount to: the targets, and a table."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.report import Target

Row = dict[str, Any]

LIFT_SECONDS: Final = 1.0
PEAK: Final = 3.0
"""Times the bytes of the forest's arrays."""
TEXT_SECONDS: Final = 5.0
TEXT_MB: Final = 50.0
DEPTH: Final = 100_000


def targets(rows: list[Row], *, whole: bool) -> list[Target]:
    """Return one entry for each figure that is asked for; `whole` says whether all was measured."""
    lifts = [row for row in rows if row["what"] != "chain"]
    slowest = max(lifts, key=lambda row: row["lift_seconds"])
    largest = max(lifts, key=lambda row: row["peak_over_arrays"])
    texts = [row for row in lifts if row["format"] == "LightGBM text"]
    read = next((row["seconds"] for row in texts if row["file_mb"] >= TEXT_MB), None)
    depths = [row["depth"] for row in rows if row["what"] == "chain"]
    least = min(depths, default=0)
    return [
        Target(
            f"CPU seconds of the slowest lift ({_name(slowest)})",
            f"< {LIFT_SECONDS:g}",
            slowest["lift_seconds"],
            slowest["lift_seconds"] < LIFT_SECONDS if whole else None,
        ),
        Target(
            f"largest peak over the bytes of the arrays ({_name(largest)})",
            f"< {PEAK:g}",
            largest["peak_over_arrays"],
            largest["peak_over_arrays"] < PEAK if whole else None,
        ),
        Target(
            f"CPU seconds to convert a LightGBM text of {TEXT_MB:g} MB or more",
            f"< {TEXT_SECONDS:g}",
            read,
            None if read is None else read < TEXT_SECONDS,
        ),
        Target(
            "depth of a chain that every format lifts",
            f"{DEPTH:,}",
            least,
            least >= DEPTH if whole else None,
        ),
    ]


def _name(row: Row) -> str:
    return f"{row['format']}, {row['what']}"


def table(report: dict[str, Any]) -> str:
    """Return the run as Markdown."""
    lines = [
        "| format | leaves are | leaves | file, MB | convert, s | of it parsing, s | lift, s | "
        "arrays, MB | peak / arrays |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        if row["what"] == "chain":
            continue
        size = "" if row["file_mb"] is None else f"{row['file_mb']:.0f}"
        lines.append(
            f"| {row['format']} | {row['what']} | {row['leaves']:,} | {size} | "
            f"{row['seconds']:.2f} | {row['parsing_seconds']:.2f} | {row['lift_seconds']:.2f} | "
            f"{row['array_mb']:.0f} | {row['peak_over_arrays']:.2f} |"
        )
    chains = [row for row in report["rows"] if row["what"] == "chain"]
    machine = report["machine"]
    lines += ["", _NOTES]
    if chains:
        seconds = [row["seconds"] for row in chains]
        lines += [
            "",
            f"A chain of depth {min(row['depth'] for row in chains):,} lifts from "
            f"{', '.join(row['format'] for row in chains)}, in {min(seconds):.1f} to "
            f"{max(seconds):.1f} s. CatBoost grows no tree deeper than 16, and its nested JSON is "
            "refused where it is nested deeper than Python's reader goes.",
        ]
    lines += [
        "",
        f"Measured on {machine['processor']}, {machine['cores']} cores, by `{report['command']}`.",
    ]
    return "\n".join(lines)


_NOTES: Final = """\
CPU seconds, median of three. The models are synthetic: 5 trees that the library grew on 21,500 \
rows, repeated. Parsing is json (xgboost, CatBoost), protobuf (ONNX) or the converter's reading of \
the bytes; for LightGBM and YDF, whose lifts begin at the bytes, it is what the library itself \
takes to load the file. The peak counts what is allocated beyond the document that parsing gave, \
or, for these two, beyond the file."""

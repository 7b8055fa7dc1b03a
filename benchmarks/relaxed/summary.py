"""The figures that are asked for, and the tables of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.report import Target

Row = dict[str, Any]
MOST_OF_SOFTMAX = 6
MOST_GB = 8


def _step(rows: Sequence[Row], form: str, depth: int) -> Row:
    found = [row for row in rows if row["what"] == "step" and row["form"] == form]
    return next((row for row in found if row["depth"] == depth), {})


def targets(rows: Sequence[Row], *, whole: bool) -> list[Target]:
    """Return the goals; `met` is None for those that a shorter run does not measure."""

    def target(name: str, goal: str, value: float | None, met: bool) -> Target:
        known = whole and value is not None
        return Target(
            name, goal, round(value, 3) if known and value else None, met if known else None
        )

    six, ten, deep = (_step(rows, "sigmoid", depth) for depth in (6, 10, 14))
    faster = six.get("times_faster")
    result = [
        target("depth 6, dense seconds / ours", "at least 1", faster, (faster or 0) >= 1),
    ]
    faster = ten.get("times_faster")
    result.append(
        target("depth 10, dense seconds / ours", "at least 2", faster, (faster or 0) >= 2)
    )
    share = ten["mb"] / ten["dense_mb"] if ten.get("mb") and ten.get("dense_mb") else None
    result.append(target("depth 10, our memory / dense", "at most 1", share, (share or 9) <= 1))
    gb = deep["mb"] / 1024 if deep.get("mb") else None
    result.append(
        target("depth 14, memory in GiB", f"at most {MOST_GB}", gb, (gb or 99) <= MOST_GB)
    )
    for form in ("sparsemax", "entmax15"):
        times = next(
            (
                row["of_softmax"]
                for row in rows
                if row["what"] == "map" and row["form"] == form and row["leaves"] == 1024
            ),
            None,
        )
        met = (times or 99) <= MOST_OF_SOFTMAX
        name = f"{form} / softmax at 1024 leaves, forward and backward"
        result.append(target(name, f"at most {MOST_OF_SOFTMAX}", times, met))
    return result


def table(report: dict[str, Any]) -> str:
    """Return the run as Markdown."""
    steps = [row for row in report["rows"] if row["what"] == "step"]
    depths = sorted({row["depth"] for row in steps})
    lines = [
        "| relaxation | " + " | ".join(f"depth {depth}" for depth in depths) + " |",
        "|---" * (len(depths) + 1) + "|",
    ]
    dense = [_step(steps, "sigmoid", depth) for depth in depths]
    cells = [_cell(row.get("dense_seconds"), row.get("dense_mb")) for row in dense]
    lines.append("| dense product | " + " | ".join(cells) + " |")
    for form in dict.fromkeys(row["form"] for row in steps):
        found = [_step(steps, form, depth) for depth in depths]
        cells = [_cell(row.get("seconds"), row.get("mb")) for row in found]
        lines.append(f"| {form} | " + " | ".join(cells) + " |")
    maps = [row for row in report["rows"] if row["what"] == "map"]
    told = [
        f"{row['form']} {row['of_softmax']:.1f} times softmax at {row['leaves']:,} leaves"
        for row in maps
        if row["form"] != "softmax"
    ]
    machine = report["machine"]
    lines += [
        "",
        "Seconds of one step forward and backward, and MB that it needs, of "
        f"{steps[0]['trees'] if steps else 0} trees on 1,024 rows of 32 columns with S, b and v "
        "free. " + (f"The maps alone: {'; '.join(told)}." if told else ""),
        "",
        f"Measured on {machine['processor']}, {machine['cores']} cores, by `{report['command']}`.",
    ]
    return "\n".join(lines)


def _cell(seconds: float | None, mb: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.3g} s" + ("" if mb is None else f", {mb:,.0f} MB")

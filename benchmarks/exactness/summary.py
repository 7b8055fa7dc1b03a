"""What the rows show: the figures that are asked for, and a table by source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.exactness.cases import OPTIONS
from benchmarks.exactness.verdicts import VERDICTS, WRONG
from benchmarks.report import Target

Row = dict[str, Any]

ORDINARY_ULPS = 8
"""What certificates allow where a source computes exponentials by the usual means."""
MODELS, USES, MUTANTS = 120, 2, 5000
"""How many models, how many of them must have each option, and how many mutants of small ones."""


def targets(every: Sequence[Row], *, whole: bool) -> list[Target]:
    """Return what is asked for; a part of the cases cannot show how many there are."""
    rows = [row for row in every if "mutants" not in row]
    changed = [row for row in every if "mutants" in row]
    n_changed = sum(row["mutants"] for row in changed)
    passed_wrongly = sum(row["verdicts"][WRONG] for row in changed)
    used = Counter((row["format"], option) for row in rows for option in row["options"])
    rare = [
        f"{name}: {option}"
        for name, options in OPTIONS.items()
        for option in options
        if used[name, option] < USES
    ]
    exact = [row["raw_ulp"] for row in rows if row["exact"]]
    stored = [row["stored_difference"] for row in rows if row["stored_difference"] is not None]
    back = [row for row in rows if row["write_back_ulp"] is not None]
    coverage = min(row["coverage"] for row in rows)
    differ = sum(row["leaves_differ"] for row in rows)
    labels = sum(row["labels_differ"] for row in rows)
    # A library that approximates exponentials says so in its certificates, which allow more.
    ordinary = [row["score_ulp"] for row in rows if row["score_ulp_allowed"] <= ORDINARY_ULPS]
    scores = max(ordinary, default=0)
    failed = sum(not row["passed"] for row in rows)
    frames = sum(row["frames_differ"] for row in rows)
    broken = sum(row["write_back"] == "FAILED" for row in back)
    result = [
        Target("least coverage", "1", coverage, coverage == 1),
        Target("leaves that differ", "0", differ, differ == 0),
        Target("labels that differ", "0", labels, labels == 0),
        Target("certificates that failed", "0", failed, failed == 0),
        Target(
            "largest raw difference, ulp, where sums are deterministic",
            "0",
            max(exact),
            not any(exact),
        ),
        Target(
            "largest difference of probabilities and predictions, ulp", "<= 1", scores, scores <= 1
        ),
        Target("rows of data frames that differ", "0", frames, frames == 0),
        Target("mutants that passed wrongly", "0", passed_wrongly, passed_wrongly == 0),
        Target("models written back that predict otherwise", "0", broken, broken == 0),
    ]
    if stored:
        worst = max(stored)
        result.append(
            Target("largest difference from stored outputs", "< 1e-9", worst, worst < 1e-9)
        )
    if whole:
        result += [
            Target("mutants", f">= {MUTANTS:,}", n_changed, n_changed >= MUTANTS),
            Target("models", f">= {MODELS}", len(rows), len(rows) >= MODELS),
            Target(
                f"options in fewer than {USES} models", "none", ", ".join(rare) or "none", not rare
            ),
        ]
    return result


def table(report: dict[str, Any]) -> str:
    """Return the run as a table by format, in Markdown."""
    lines = [
        "| source | models | rows probed | least coverage | leaves that differ | raw scores, ulp | "
        "probabilities, ulp | written back and equal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    models = [row for row in report["rows"] if "mutants" not in row]
    for name in OPTIONS:
        rows = [row for row in models if row["format"] == name]
        if not rows:
            continue
        back = [row for row in rows if row["write_back_ulp"] is not None]
        equal = sum(row["write_back"] == "passed" for row in back)
        lines.append(
            f"| {name} | {len(rows)} | {sum(row['rows_probed'] for row in rows):,} | "
            f"{min(row['coverage'] for row in rows):g} | "
            f"{sum(row['leaves_differ'] for row in rows)} | "
            f"{max(row['raw_ulp'] for row in rows)} | {max(row['score_ulp'] for row in rows)} | "
            f"{f'{equal} of {len(back)}' if back else '-'} |"
        )
    machine = report["machine"]
    lines += [
        "",
        f"{len(models)} models, on {machine['processor']}, by `{report['command']}`.",
    ]
    return "\n".join(lines)


def frames(report: dict[str, Any]) -> str:
    """Return what data frames have shown, by format, in Markdown."""
    lines = ["| source | kinds of frames compared | rows that differ |", "|---|---|---|"]
    for name in OPTIONS:
        rows = [
            row for row in report["rows"] if row["format"] == name and row.get("frames_compared")
        ]
        if rows:
            kinds = {kind for row in rows for kind in row["frames_compared"]}
            differ = sum(row["frames_differ"] for row in rows)
            lines.append(f"| {name} | {len(kinds)} | {differ:,} |")
    return "\n".join(lines)


def mutants(report: dict[str, Any]) -> str:
    """Return what became of mutants, by library, in Markdown."""
    lines = [
        f"| source | mutants | {' | '.join(VERDICTS)} |",
        "|---" * (2 + len(VERDICTS)) + "|",
    ]
    for row in report["rows"]:
        if "mutants" in row:
            counts = " | ".join(f"{row['verdicts'][verdict]:,}" for verdict in VERDICTS)
            lines.append(f"| {row['format']} | {row['mutants']:,} | {counts} |")
    return "\n".join(lines)

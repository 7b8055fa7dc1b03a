"""Targets, and a table by source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.exactness.cases import OPTIONS
from benchmarks.exactness.verdicts import VERDICTS, WRONG
from benchmarks.old_report import (
    Report,
    Row,
    Target,
    at_least,
    at_most,
    below,
    judged,
    markdown,
    measured_by,
    none,
)

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
    in_frames = sum(row["frames_differ"] for row in rows)
    broken = sum(row["write_back"] == "FAILED" for row in back)
    result = [
        judged("least coverage", "1", coverage, lambda found: found == 1),
        none("leaves that differ", differ),
        none("labels that differ", labels),
        none("certificates that failed", failed),
        none("largest raw difference, ulp, where sums are deterministic", max(exact)),
        at_most("largest difference of probabilities and predictions, ulp", 1, scores),
        none("rows of data frames that differ", in_frames),
        none("mutants that passed wrongly", passed_wrongly),
        none("models written back that predict otherwise", broken),
    ]
    if stored:
        result.append(below("largest difference from stored outputs", 1e-9, max(stored)))
    if whole:
        result += [
            at_least("mutants", MUTANTS, n_changed),
            at_least("models", MODELS, len(rows)),
            judged(
                f"options in fewer than {USES} models",
                "none",
                ", ".join(rare) or "none",
                lambda found: found == "none",
            ),
        ]
    return result


def figures(every: Sequence[Row]) -> list[Row]:
    """Return a row for each format, of all its models, and those of mutants."""
    found = []
    for name in OPTIONS:
        rows = [row for row in every if row["format"] == name and "mutants" not in row]
        if not rows:
            continue
        stored = [row["stored_difference"] for row in rows if row["stored_difference"] is not None]
        options = Counter(option for row in rows for option in row["options"])
        found.append(
            {
                "format": name,
                "models": len(rows),
                "options": {option: options[option] for option in OPTIONS[name]},
                "coverage": min(row["coverage"] for row in rows),
                **{
                    key: max(row[key] for row in rows)
                    for key in ("raw_ulp", "score_ulp", "score_ulp_allowed", "convert_seconds")
                },
                **{
                    key: sum(row[key] for row in rows)
                    for key in ("trees", "nodes", "rows_probed", "leaves_differ", "labels_differ")
                },
                "exact": sum(row["exact"] for row in rows),
                "passed": sum(row["passed"] for row in rows),
                "stored_difference": max(stored, default=None),
                "written_back": sum(row["write_back_ulp"] is not None for row in rows),
                "written_back_equal": sum(row["write_back"] == "passed" for row in rows),
                **(_of_frames(rows) if "frames_differ" in rows[0] else {}),
                "seconds": round(sum(row["seconds"] for row in rows), 2),
            }
        )
    return found + [row for row in every if "mutants" in row]


def _of_frames(rows: Sequence[Row]) -> Row:
    kinds = {kind for row in rows for kind in row["frames_compared"]}
    differ = sum(row["frames_differ"] for row in rows)
    return {"frames_compared": sorted(kinds), "frames_differ": differ}


def table(report: Report) -> str:
    """Return the run as a table by format, in Markdown."""
    rows = [row for row in report["rows"] if "mutants" not in row]
    body = [
        [
            row["format"],
            row["models"],
            f"{row['rows_probed']:,}",
            f"{row['coverage']:g}",
            row["leaves_differ"],
            row["raw_ulp"],
            row["score_ulp"],
            f"{row['written_back_equal']} of {row['written_back']}" if row["written_back"] else "-",
        ]
        for row in rows
    ]
    head = ["source", "models", "rows probed", "least coverage", "leaves that differ"]
    head += ["raw scores, ulp", "probabilities, ulp", "written back and equal"]
    n_models = sum(row["models"] for row in rows)
    return markdown(head, body) + f"\n\n{n_models} models. {measured_by(report)}"


def frames(report: Report) -> str:
    """Return what data frames have shown, by format, in Markdown."""
    body = [
        [row["format"], len(row["frames_compared"]), f"{row['frames_differ']:,}"]
        for row in report["rows"]
        if row.get("frames_compared")
    ]
    return markdown(["source", "kinds of frames compared", "rows that differ"], body)


def mutants(report: Report) -> str:
    """Return what became of mutants, by library, in Markdown."""
    body = [
        [row["format"], f"{row['mutants']:,}", *(f"{row['verdicts'][v]:,}" for v in VERDICTS)]
        for row in report["rows"]
        if "mutants" in row
    ]
    return markdown(["source", "mutants", *VERDICTS], body)

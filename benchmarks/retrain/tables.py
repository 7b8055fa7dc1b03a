"""The kept run as tables, in Markdown."""

from __future__ import annotations

from benchmarks.old_report import Report, Row, markdown, measured_by


def _number(row: Row, key: str) -> str:
    """Return a mean and its deviation, or nothing where it was not measured."""
    if row.get(key) is None:
        return ""
    return f"{row[key]:.4f} ± {row.get(f'{key}_deviation', 0.0):.4f}"


def _count(row: Row, key: str) -> str:
    return "" if row.get(key) is None else f"{row[key]:,.0f}"


def _seconds(row: Row, key: str = "seconds") -> str:
    return "" if row.get(key) is None else f"{row[key]:.1f}"


def _means(report: Report, part: str) -> list[Row]:
    return [row for row in report["rows"] if row["part"] == part and row.get("seeds")]


def table(report: Report) -> str:
    """Return single trees before and after."""
    body = [
        [
            row["case"],
            _number(row, "start"),
            _number(row, "score"),
            "" if row.get("published") is None else f"{row['published']:.4f}",
            f"{_count(row, 'leaves_unpruned')} -> {_count(row, 'leaves')}",
            _count(row, "parameters"),
            _seconds(row),
        ]
        for row in _means(report, "trees")
    ]
    head = ["data, tree", "before", "after", "DTSemNet's", "leaves", "parameters", "CPU s"]
    return markdown(head, body) + _why_not(report, "trees") + "\n\n" + measured_by(report)


def forest_table(report: Report) -> str:
    """Return forests before and after, with what could have been grown instead."""
    body = []
    for row in _means(report, "forests"):
        differences = row.get("file_differences")
        body.append(
            [
                row["case"],
                row["measure"],
                row["moved"],
                _number(row, "start"),
                _number(row, "score"),
                _number(row, "gain"),
                "" if differences is None else str(differences),
                _count(row, "leaves"),
                _seconds(row),
            ]
        )
    head = ["data, library", "measure", "what moved", "before", "after", "better by"]
    head += ["rows otherwise from the file", "leaves", "CPU s"]
    return markdown(head, body) + _why_not(report, "forests")


def baseline_table(report: Report) -> str:
    """Return other libraries' fine-tuning beside ours."""
    body = [
        [
            row["case"],
            row["source"],
            row["measure"],
            _number(row, "start"),
            _number(row, "score"),
            _number(row, "theirs"),
            _number(row, "theirs_soft"),
            _number(row, "theirs_transferred"),
            f"{_seconds(row)} / {_seconds(row, 'theirs_seconds')}",
        ]
        for row in _means(report, "baselines")
    ]
    head = ["data, library", "model", "measure", "before", "ours", "theirs, hard", "theirs, soft"]
    head += ["theirs, soft, untrained", "CPU s, ours / theirs"]
    return markdown(head, body) + _why_not(report, "baselines")


def selection_table(report: Report) -> str:
    """Return how many retrainings were accepted, and which of them were worse on test."""
    row = next((row for row in report["rows"] if row["part"] == "selection"), None)
    if row is None:
        return ""
    text = (
        f"Of {row['retrainings']} retrainings {row['accepted']} were accepted, and "
        f"{row['worse_on_test']} of these were worse on the rows to test on than what they began "
        "with"
    )
    if not row["worse"]:
        return f"{text}."
    body = [
        [worse["case"], worse["moved"], str(worse["seed"]), f"{-worse['gain']:.4f}"]
        for worse in row["worse"]
    ]
    return f"{text}:\n\n" + markdown(["case", "what moved", "seed", "worse by"], body)


def _why_not(report: Report, part: str) -> str:
    """Return what could not be measured, and why."""
    reasons = {
        (row["case"], row["reason"]): None
        for row in report["rows"]
        if row["part"] == part and "reason" in row
    }
    if not reasons:
        return ""
    body = [[case, reason.replace("|", "\\|")] for case, reason in reasons]
    return "\n\n" + markdown(["not measured", "because"], body)


TABLES = (table, forest_table, baseline_table, selection_table)

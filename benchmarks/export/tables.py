"""The kept run as tables, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.old_report import Report, Row, markdown, measured_by


def _number(row: Row, key: str, form: str = ".3g") -> str:
    value = row.get(key)
    return "" if value is None else value if isinstance(value, str) else format(value, form)


def _count(row: Row, key: str) -> str:
    return _number(row, key, ",")


def _latency(row: Row, batch: int) -> str:
    """Return the median and the span of its turns."""
    name = f"ms_{batch}"
    if name not in row:
        return ""
    return f"{row[name]:.3g} ({row[f'{name}_least']:.3g} to {row[f'{name}_most']:.3g})"


def _files(report: Report) -> list[Row]:
    return [row for row in report["rows"] if row["what"] == "file"]


def table(report: Report) -> str:
    """Return every file of every model."""
    parts = []
    for fact in (row for row in report["rows"] if row["what"] == "model"):
        rows = [row for row in _files(report) if row["model"] == fact["model"]]
        title = (
            f"**{fact['model']}**: {fact['trees']:,} trees, {fact['nodes']:,} nodes, "
            f"{fact['leaves']:,} leaves"
        )
        parts.append(title + "\n\n" + _of_model(rows))
    return "\n\n".join([*parts, measured_by(report)])


def _of_model(rows: Sequence[Row]) -> str:
    body = [
        [
            row["form"] if row["ours"] else f"*{row['form']}*",
            row["runtime"],
            _count(row, "bytes"),
            _number(row, "export_seconds"),
            _number(row, "load_seconds"),
            _latency(row, 1),
            _latency(row, 1000),
            _count(row, "rows_compared"),
            _count(row, "rows_differ"),
            _count(row, "labels_differ"),
            _number(row, "largest_difference"),
        ]
        for row in rows
        if "reason" not in row
    ]
    head = ["form", "runtime", "bytes", "export s", "load s", "ms, 1 row", "ms, 1,000 rows"]
    head += ["rows", "differ", "labels differ", "largest difference"]
    reasons = [[row["file"], row["reason"].replace("|", "\\|")] for row in rows if "reason" in row]
    text = markdown(head, body)
    return text + ("\n\n" + markdown(["not measured", "because"], reasons) if reasons else "")


def baseline_table(report: Report) -> str:
    """Return our file beside the baseline's, for every model: time, size, rows that differ."""
    body = []
    for row in _files(report):
        if "bytes_ratio" not in row:
            continue
        same = [r for r in _files(report) if r["model"] == row["model"] and not r["ours"]]
        baseline = next(r for r in same if "ms_1" in r)
        body.append(
            [
                row["model"],
                f"**{row['form']}**" if row["is_compared"] else row["form"],
                baseline["form"],
                _ratio(row, 1),
                _ratio(row, 1000),
                f"{row['bytes_ratio']:.2f}",
                _count(row, "rows_differ"),
                _count(baseline, "rows_differ"),
                _count(baseline, "present_rows_differ"),
                _count(baseline, "labels_differ"),
            ]
        )
    head = ["model", "ours", "theirs", "time, 1 row", "time, 1,000 rows", "bytes"]
    return markdown(
        [*head, "our rows differ", "theirs", "of them without NaN", "their labels"], body
    )


def _ratio(row: Row, batch: int) -> str:
    if f"ratio_{batch}" not in row:
        return ""
    low, high = row[f"ratio_low_{batch}"], row[f"ratio_high_{batch}"]
    return f"{row[f'ratio_{batch}']:.2f} ({low:.2f} to {high:.2f})"


def c_table(report: Report) -> str:
    """Return C of ours and of others."""
    body = [
        [
            row["model"],
            row["form"] if row["ours"] else f"*{row['form']}*",
            _count(row, "bytes"),
            _number(row, "bytes_per_inner_node", ".1f"),
            _number(row, "bytes_per_node", ".1f"),
            _count(row, "object_bytes"),
            _count(row, "rows_differ"),
            _number(row, "largest_difference"),
        ]
        for row in _files(report)
        if row["runtime"] == "C99" and "reason" not in row
    ]
    head = ["model", "form", "bytes of constants", "a node that tests", "a node or leaf"]
    return markdown([*head, "bytes of the object file", "rows differ", "largest difference"], body)


def big_table(report: Report) -> str:
    """Return what the forest of 1,000 trees takes."""
    body = [
        [
            row["form"],
            f"{row['trees']:,} trees, {row['nodes']:,} nodes",
            _count(row, "bytes"),
            _number(row, "export_seconds"),
            f"{row['export_peak_bytes'] / 2**20:,.0f}",
            _number(row, "load_seconds"),
            f"{row['load_bytes'] / 2**20:,.0f}",
            f"{row['times_file']:.2f}",
        ]
        for row in report["rows"]
        if row["what"] == "big"
    ]
    head = ["form", "forest", "bytes", "export s", "export peak, MiB", "load s", "load peak, MiB"]
    return markdown([*head, "of the file"], body)


TABLES = (table, baseline_table, c_table, big_table)

"""The figures that are asked for, and the tables of a run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report import Report, Row, Target, judged, markdown, measured_by

MOST_OF_SOFTMAX = 6
MOST_GB = 8


def _step(rows: Sequence[Row], form: str, depth: int) -> Row:
    found = [row for row in rows if row["what"] == "step" and row["form"] == form]
    return next((row for row in found if row["depth"] == depth), {})


def targets(rows: Sequence[Row], *, whole: bool) -> list[Target]:
    """Return the goals; a shorter run measures none of them."""

    def target(name: str, word: str, goal: float, value: float | None) -> Target:
        shown = round(value, 3) if whole and value else None
        return judged(
            name,
            f"{word} {goal}",
            shown,
            lambda found: found >= goal if word == "at least" else found <= goal,
        )

    six, ten, deep = (_step(rows, "sigmoid", depth) for depth in (6, 10, 14))
    share = ten["mb"] / ten["dense_mb"] if ten.get("mb") and ten.get("dense_mb") else None
    gb = deep["mb"] / 1024 if deep.get("mb") else None
    of_softmax = {
        row["form"]: row["of_softmax"]
        for row in rows
        if row["what"] == "map" and row["leaves"] == 1024
    }
    return [
        target("depth 6, dense seconds / ours", "at least", 1, six.get("times_faster")),
        target("depth 10, dense seconds / ours", "at least", 2, ten.get("times_faster")),
        target("depth 10, our memory / dense", "at most", 1, share),
        target("depth 14, memory in GiB", "at most", MOST_GB, gb),
        *(
            target(
                f"{form} / softmax at 1024 leaves, forward and backward",
                "at most",
                MOST_OF_SOFTMAX,
                of_softmax.get(form),
            )
            for form in ("sparsemax", "entmax15")
        ),
    ]


def table(report: Report) -> str:
    """Return the run as Markdown."""
    steps = [row for row in report["rows"] if row["what"] == "step"]
    depths = sorted({row["depth"] for row in steps})
    dense = [_step(steps, "sigmoid", depth) for depth in depths]
    cells = [_cell(row.get("dense_seconds"), row.get("dense_mb")) for row in dense]
    body = [["dense product", *cells]]
    for form in dict.fromkeys(row["form"] for row in steps):
        found = [_step(steps, form, depth) for depth in depths]
        body.append([form, *(_cell(row.get("seconds"), row.get("mb")) for row in found)])
    told = [
        f"{row['form']} {row['of_softmax']:.1f} times softmax at {row['leaves']:,} leaves"
        for row in report["rows"]
        if row["what"] == "map" and row["form"] != "softmax"
    ]
    text = (
        "Seconds of one step forward and backward, and MB that it needs, of "
        f"{steps[0]['trees'] if steps else 0} trees on 1,024 rows of 32 columns with S, b and v "
        "free. " + (f"The maps alone: {'; '.join(told)}." if told else "")
    )
    head = ["relaxation", *(f"depth {depth}" for depth in depths)]
    return "\n\n".join([markdown(head, body), text, measured_by(report)])


def _cell(seconds: float | None, mb: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.3g} s" + ("" if mb is None else f", {mb:,.0f} MB")

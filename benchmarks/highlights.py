"""The README's table: a few figures of several kept runs, losses among them."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.engine.cells import AVX2, OURS, Cell, by_cell
from benchmarks.report import RESULTS, Column, Report, Row, one
from benchmarks.report import table as in_markdown

WORKLOADS = {
    "W1": "xgboost, 100 trees of depth 6",
    "W2": "LightGBM, 500 trees of 31 leaves",
    "W3": "random forest, 100 unlimited trees",
    "W4": "xgboost, 1,000 trees of depth 8",
    "adult": "LightGBM with categories, adult",
}


def _kept(name: str) -> Report:
    report: Report = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return report


def table() -> str:
    """Return speed by workload, then exactness, retraining and exports, in Markdown."""
    engine_run = _kept("engine")
    cells = by_cell(engine_run["rows"])
    columns = [Column("times faster than the best other engine", lambda row: row[1])]
    for head, batch, engine in (
        ("1 row", 1, OURS),
        ("100 rows", 100, OURS),
        ("10,000 rows", 10_000, OURS),
        ("10,000 rows, AVX2", 10_000, AVX2),
    ):
        columns.append(
            Column(head, lambda row, b=batch, e=engine: _ratio(cells[Cell(row[0], b, 1)], e))
        )
    machine = engine_run["machine"]
    where = f"{machine['processor']} with AVX-512, one thread of {machine['cores']} cores"
    body = in_markdown(WORKLOADS.items(), columns)
    return "\n\n".join([body, f"Measured on {where}.", _others()])


def draw(report: Report, path: Path) -> None:
    """Draw how many times faster than the best other engine each workload is, on one thread."""
    from matplotlib.figure import Figure

    from benchmarks import svg

    cells = by_cell(report["rows"])
    names = [*WORKLOADS][::-1]
    figure = Figure(figsize=(7.5, 3.0), layout="constrained")
    axis = figure.subplots()
    for place in range(len(names)):
        axis.axhline(place, color="#e5e9ee", lw=1, zorder=0)
    for batch, colour, mark in (
        (1, "#7b3294", "o"),
        (100, "#c05a00", "s"),
        (10_000, "#0b6e4f", "D"),
    ):
        found = [cells[Cell(name, batch, 1)][OURS]["ratio"] for name in names]
        label = f"{batch:,} row{'s' * (batch > 1)}"
        axis.plot(found, range(len(names)), mark, color=colour, ms=8, label=label)
    axis.axvline(1, color="#1f2933", lw=0.8)
    axis.set(xscale="log", xlabel="times faster than the best other engine, one thread")
    axis.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axis.minorticks_off()
    axis.set_yticks(range(len(names)), [WORKLOADS[name] for name in names])
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    svg.write(figure, path)


def _ratio(engines: dict[str, Row], name: str) -> str:
    row = engines.get(name)
    return "" if row is None else f"{row['ratio']:.1f} ({row['best_baseline']})"


def _others() -> str:
    models = [row for row in _kept("exactness")["rows"] if "models" in row]
    total = {key: sum(row[key] for row in models) for key in ("models", "rows_probed")}
    differ = sum(row["leaves_differ"] for row in models)
    tree = one(_kept("retrain")["rows"], part="trees", case="letter, depth 8")
    files = [row for row in _kept("export")["rows"] if row.get("is_compared")]
    sizes = [row["bytes_ratio"] for row in files]
    slow = [row["ratio_1"] for row in files]
    return "\n".join(
        [
            f"- {total['models']} models of all sources, {total['rows_probed']:,} rows made for "
            f"their nodes: {differ} exit leaves differ.",
            f"- A CART of depth 8 on letter goes from {tree['start']:.3f} to {tree['score']:.3f} "
            f"test accuracy by retraining, in {tree['seconds']:.0f} s.",
            f"- ONNX files have {min(sizes):.2f} to {max(sizes):.2f} times the bytes of those of "
            f"skl2onnx and onnxmltools, and take {min(slow):.2f} to {max(slow):.2f} times as long "
            "for one row.",
        ]
    )

"""The README's table: a few figures of several kept runs, losses among them."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.engine.summary import OURS, by_cell
from benchmarks.old_report import RESULTS, Report, Row, markdown

WORKLOADS = {
    "W1": "xgboost, 100 trees of depth 6",
    "W2": "LightGBM, 500 trees of 31 leaves",
    "W3": "random forest, 100 unlimited trees",
    "W4": "xgboost, 1,000 trees of depth 8",
    "adult": "LightGBM with categories, adult",
}
AVX2 = "bitvec AVX2"
"""Measured on a processor with AVX-512 only, whose baselines keep it."""


def _kept(name: str) -> Report:
    report: Report = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return report


def table() -> str:
    """Return speed by workload, then exactness, retraining and exports, in Markdown."""
    engine = _kept("engine")
    cells = by_cell(engine["rows"])
    body = [
        [
            title,
            *(_ratio(cells[workload, batch, 1], OURS) for batch in (1, 100, 10_000)),
            _ratio(cells[workload, 10_000, 1], AVX2),
        ]
        for workload, title in WORKLOADS.items()
    ]
    head = ["times faster than the best other engine", "1 row", "100 rows", "10,000 rows"]
    machine = engine["machine"]
    where = f"{machine['processor']} with AVX-512, one thread of {machine['cores']} cores"
    return "\n\n".join(
        [markdown([*head, "10,000 rows, AVX2"], body), f"Measured on {where}.", _others()]
    )


def _ratio(engines: dict[str, Row], name: str) -> str:
    row = engines.get(name)
    return "" if row is None else f"{row['ratio']:.1f} ({row['best_baseline']})"


def _others() -> str:
    models = [row for row in _kept("exactness")["rows"] if "models" in row]
    total = {key: sum(row[key] for row in models) for key in ("models", "rows_probed")}
    differ = sum(row["leaves_differ"] for row in models)
    tree = _one(_kept("retrain"), part="trees", case="letter, depth 8")
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


def _one(report: Report, **values: Any) -> Row:
    return next(
        row for row in report["rows"] if all(row.get(key) == v for key, v in values.items())
    )

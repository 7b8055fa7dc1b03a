"""The kept run as a plot: times faster than the best baseline, against the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.engine.cells import OURS, by_cell, is_drawn


def draw(report: dict[str, Any], path: Path) -> None:
    """Write the plot as SVG; one panel a number of threads, one line a workload."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    cells = by_cell(report["rows"])
    threads = sorted({cell[2] for cell in cells})
    lines: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for (workload, batch, n_threads, raw), engines in sorted(cells.items()):
        row = engines.get(OURS)
        if row is not None and row["ratio"] is not None and not (raw or is_drawn(workload)):
            lines.setdefault((workload, n_threads), []).append((batch, row["ratio"]))
    workloads = sorted({workload for workload, _ in lines})
    # Texts stay texts, and two drawings of one run are the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bitvec"}):
        figure = Figure(figsize=(4.6 * max(1, len(threads)), 4.2), layout="constrained")
        panels = figure.subplots(1, max(1, len(threads)), sharey=True, squeeze=False)[0]
        for panel, n_threads in zip(panels, threads, strict=False):
            for number, workload in enumerate(workloads):
                points = sorted(lines.get((workload, n_threads), []))
                if points:
                    panel.plot(
                        *zip(*points, strict=True),
                        marker="osv^D<>p*hXd"[number % 12],
                        color=f"C{number % 10}",
                        label=workload,
                    )
            panel.axhline(1, color="0.6", linewidth=1)
            panel.set(xscale="log", yscale="log", xlabel="rows")
            panel.yaxis.set_major_formatter("{x:g}")
            panel.set_title(f"{n_threads} thread{'s' * (n_threads > 1)}")
        panels[0].set_ylabel("the best baseline's time / bitvec's")
        if lines:
            panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})

"""Retrained forests beside larger ones of their library: a table and a plot of the kept run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Column, Report, Row, one, where
from benchmarks.report import table as in_markdown
from benchmarks.retrain import forests

GROWN: Final = "grown instead: "
LOWEST: Final = -10.0
"""Percent up to which a loss that grew is drawn in its place; what grew more has its number."""
COLOURS: Final = ("#d1495b", "#30638e")
"""Colours of what was retrained, and of what was grown."""


def pairs(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return each retrained forest with the better of what could have been grown instead."""
    found = []
    for case in dict.fromkeys(row["case"] for row in where(rows, part="forests")):
        retrained = one(rows, part="forests", case=case, moved=forests.ALL)
        grown = [
            row for row in where(rows, part="forests", case=case) if row["moved"].startswith(GROWN)
        ]
        if retrained and grown:
            best = max(map(_judged, grown), key=lambda row: row["gain"])
            found.append({"ours": _judged(retrained), "grown": best})
    return found


def _judged(row: Row) -> Row:
    """Return a row by what the retraining was chosen by: of forests that classify, the log loss."""
    if "loss" not in row:
        return row
    by_loss = {"measure": "log loss", "start": row["start_loss"], "score": row["loss"]}
    gain = {name: row[f"loss_{name}"] for name in ("gain", "gain_deviation")}
    return row | by_loss | gain


def table(report: Report) -> str:
    """Return one line for each forest, in Markdown."""
    columns = (
        Column("data, library", lambda pair: pair["ours"]["case"]),
        Column("measure", lambda pair: pair["ours"]["measure"]),
        Column("before", lambda pair: pair["ours"]["start"], ".4f"),
        Column("retrained", lambda pair: pair["ours"]["score"], ".4f"),
        Column("leaves", lambda pair: pair["ours"]["leaves"], ",.0f"),
        Column("best grown instead", lambda pair: pair["grown"]["score"], ".4f"),
        Column("that is", lambda pair: pair["grown"]["moved"].removeprefix(GROWN)),
        Column("its leaves", lambda pair: pair["grown"]["leaves"], ",.0f"),
        Column("better", _better),
    )
    return in_markdown(pairs(report["rows"]), columns)


def _better(pair: dict[str, Any]) -> str:
    difference = pair["ours"]["gain"] - pair["grown"]["gain"]
    spread = pair["ours"]["gain_deviation"] + pair["grown"]["gain_deviation"]
    if abs(difference) <= spread:
        return "alike"
    return "retrained" if difference > 0 else "grown"


def draw(report: Report, path: Path) -> None:
    """Draw the share of the loss that retraining, and growing, took away, forest by forest."""
    from matplotlib.figure import Figure

    from benchmarks import svg

    found = pairs(report["rows"])[::-1]
    figure = Figure(figsize=(7.5, 0.6 + 0.42 * len(found)), layout="constrained")
    axis = figure.subplots()
    for place, pair in enumerate(found):
        lost = {name: 100 * row["gain"] / row["start"] for name, row in pair.items()}
        gains = {name: max(gain, LOWEST) for name, gain in lost.items()}
        axis.plot([*gains.values()], [place, place], color="#c9d1d9", lw=3, zorder=0)
        for (name, gain), colour, mark in zip(gains.items(), COLOURS, "os", strict=True):
            label = {"ours": "retrained", "grown": "grown instead (best of 2 or 3)"}[name]
            axis.plot(gain, place, mark, color=colour, ms=8, label=None if place else label)
        times = pair["grown"]["leaves"] / pair["ours"]["leaves"]
        axis.annotate(
            f"{times:.0f} times the leaves", (max(gains.values()), place), (8, 0),
            textcoords="offset points", fontsize=8, va="center",
        )  # fmt: skip
        if min(lost.values()) < LOWEST:
            text = f"{min(lost.values()):.0f}"
            axis.annotate(
                text, (LOWEST, place), (0, 6), textcoords="offset points", fontsize=8, ha="center"
            )
    axis.axvline(0, color="#1f2933", lw=0.8)
    axis.set_yticks(range(len(found)), [pair["ours"]["case"] for pair in found])
    axis.set(xlabel="loss taken away, % (log loss, RMSE)", xlim=(None, 21))
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.legend(fontsize=8, frameon=False, loc="lower left")
    svg.write(figure, path)

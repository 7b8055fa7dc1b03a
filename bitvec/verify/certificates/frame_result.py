"""Result of comparing a forest and its source on one data frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EQUAL, DIFFER = "equal", "differ"
REFUSED, SOURCE, FOREST = "both refuse", "the source refuses", "the forest refuses"
OUTCOMES: Final = (EQUAL, REFUSED, SOURCE, FOREST, DIFFER)


@dataclass(frozen=True, slots=True)
class FrameResult:
    """The outcome of one frame.

    Parameters
    ----------
    kind : str
        What the frame is, such as "categories in another order".
    outcome : str
        "equal"; "both refuse"; "the source refuses" or "the forest refuses", where the other one
        answers; or "differ", which no certificate passes with.
    n_rows, n_mismatches : int
        Rows of the frame, and those of them whose raw scores, leaf ids or labels differ.
    said : str
        The beginning of the library's error, if there was one.
    """

    kind: str
    outcome: str
    n_rows: int
    n_mismatches: int
    said: str


def summary(results: tuple[FrameResult, ...]) -> list[str]:
    """Return lines that name the frames by outcome, those that differ with their rows.

    >>> summary((FrameResult("text", EQUAL, 9, 0, ""), FrameResult("floats", DIFFER, 9, 2, "")))
    ['frames, equal: text', 'frames, differ: floats (2 of 9 rows)']
    """
    lines = []
    for outcome in OUTCOMES:
        kinds = [
            f"{one.kind} ({one.n_mismatches} of {one.n_rows} rows)" * (outcome == DIFFER)
            or one.kind
            for one in results
            if one.outcome == outcome
        ]
        if kinds:
            lines.append(f"frames, {outcome}: {', '.join(kinds)}")
    return lines

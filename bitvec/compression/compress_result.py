"""Result of a compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bitvec.compression.budget import Budget
from bitvec.compression.front import Front, Point
from bitvec.core.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class CompressResult:
    """Result of `compress`.

    Parameters
    ----------
    chosen : Point
        The point of least loss on the rows held out, within the budget.
    front : Front
        The points of which none is both larger and worse than another; `print(result.front)` is a
        table, `front.plot()` a picture.
    tried : tuple of Point
        All of them.
    given : Point
        The model that was given.
    budget : Budget
    metric : str
        Name of the scores.
    notes : tuple of str
        What was left out, and why.
    seconds : float
        Wall time.
    """

    chosen: Point
    front: Front
    tried: tuple[Point, ...]
    given: Point
    budget: Budget
    metric: str
    notes: tuple[str, ...]
    seconds: float

    @property
    def forest(self) -> Forest:
        """The forest of the chosen point."""
        return self.chosen.forest

    def record(self) -> dict[str, Any]:
        """Return the result by name, without forests."""
        return {
            "budget": {self.budget.kind: self.budget.limit},
            "metric": self.metric,
            "given": self.given.record(),
            "chosen": self.chosen.record(),
            "front": self.front.records(),
            "tried": [point.record() for point in self.tried],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        """Return the sizes and scores of the given and the chosen model, and the notes."""
        given, chosen = self.given, self.chosen
        notes = f", notes: {' '.join(self.notes)}" if self.notes else ""
        return (
            f"CompressResult({given.bytes:,} -> {chosen.bytes:,} bytes, {self.metric} "
            f"{given.score:.4g} -> {chosen.score:.4g} by {chosen.recipe}{notes})"
        )

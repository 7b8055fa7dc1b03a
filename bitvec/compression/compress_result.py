"""Result of a compression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bitvec.compression.budget import Budget
from bitvec.compression.front import Front, Point
from bitvec.core.forest import Forest
from bitvec.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class CompressResult:
    """Result of `compress`.

    Parameters
    ----------
    chosen : Point
        The point of least loss on the rows held out, within the budget; refitted if it was asked
        for and the recipe allows it.
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
    refits : callable
        Behind `refitted`.
    """

    chosen: Point
    front: Front
    tried: tuple[Point, ...]
    given: Point
    budget: Budget
    metric: str
    notes: tuple[str, ...]
    seconds: float
    refits: Callable[[Point, float], Point]

    def refitted(self, point: Point, budget: Budget | int | str | None = None) -> Point:
        """Return a point with its recipe fitted anew to all rows, those held out among them.

        Parameters
        ----------
        point : Point
            One of `tried`.
        budget : Budget, int or str, optional
            Within which the forest must stay, of the kind of the result's, by default that one.

        Returns
        -------
        Point
            `refitted` says whether it was. It is the same point where its recipe is none of rows
            (the given model made smaller), where the new forest does not fit the budget or breaks
            a monotone constraint, or where it is worse on the rows held out than the forest that
            had not seen them: then its training went wrong. Loss and score stay as they were.

        Raises
        ------
        InputError
            If the budget is of another kind.
        """
        allowed = self.budget if budget is None else Budget.of(budget)
        if allowed.kind != self.budget.kind:
            raise InputError(
                f"`budget` must be of {self.budget.kind}, as the result's is, got {allowed}."
            )
        return self.refits(point, allowed.limit)

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

"""Candidates of a compression, the room for them, and the recipes by which they are made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from bitvec.compression.lessons import Lessons
from bitvec.compression.problem import Problem
from bitvec.core.forest import Forest


class Recipe(Protocol):
    """A way to make a forest, with all choices made: a frozen dataclass of plain values."""

    def again(self, lessons: Lessons, room: Room) -> Forest | None:
        """Return the forest fitted to the rows of some lessons, None where it does not fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A forest that fits the budget.

    Parameters
    ----------
    recipe : str
    forest : Forest
    loss : float
        On the rows held out.
    again : Recipe, optional
        By which it can be fitted to other rows.
    """

    recipe: str
    forest: Forest
    loss: float
    again: Recipe | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Room for a candidate: its cost and the limit.

    Parameters
    ----------
    cost : callable
    limit : float
    kind : str
        Of the budget.
    over : callable
        Whether the time is over.
    """

    cost: Callable[[Forest], float]
    limit: float
    kind: str
    over: Callable[[], bool]

    def holds(self, forest: Forest) -> bool:
        """Return whether a forest costs no more."""
        return self.cost(forest) <= self.limit

    def trees(self, leaves: int, width: int = 1) -> int:
        """Return about how many trees of so many leaves, of `width` bytes, there is room for."""
        each = {"bytes": leaves * (3 + width), "leaves": leaves, "microseconds": 0.01}[self.kind]
        return int(self.limit / each)


Family = Callable[[Problem, Room], Iterator[Candidate]]


def candidate(
    problem: Problem, recipe: str, forest: Forest, again: Recipe | None = None
) -> Candidate:
    """Return a forest as a candidate, judged on the rows held out."""
    return Candidate(recipe, forest, problem.judged(forest)[0], again)


def least(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the candidate of least loss, if there is one."""
    best = min(found, key=lambda one: one.loss, default=None)
    if best is not None:
        yield best

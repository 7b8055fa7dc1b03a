"""One difference between a forest and an oracle, with the row that shows it."""

from __future__ import annotations

from dataclasses import dataclass

_PLACE = {
    "leaf": "tree {}, leaf id",
    "value": "leaf {} of the forest, value",
    "structure": "tree {}",
    "raw": "output {}",
    "score": "output {}, transformed",
    "label": "label of group {}",
}
KINDS = tuple(_PLACE)


@dataclass(frozen=True, slots=True)
class Difference:
    """One row on which the oracle and the forest differ, or one place where their trees differ.

    `place` is a tree where `kind` is "leaf" or "structure", an output where it is "raw" or "score",
    an output group where it is "label"; where it is "value" it is a leaf of the forest, and `row`
    is empty. Of a structure, `expected` and `got` are words, and `row` is empty where none is
    known to show it.
    """

    kind: str
    place: int
    expected: float | int | str
    got: float | int | str
    row: tuple[float, ...]

    def __str__(self) -> str:
        values = ", ".join(f"{x:.9g}" for x in self.row[:8])
        values += ", ..." if len(self.row) > 8 else ""
        at = f", at ({values})" if self.row else ""
        where = _PLACE[self.kind].format(self.place)
        return f"{where}: expected {self.expected!r}, got {self.got!r}{at}"

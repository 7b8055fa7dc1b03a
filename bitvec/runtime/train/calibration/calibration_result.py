"""Result of a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bitvec.core.composition import Composition
from bitvec.core.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationResult:
    """Result of `calibrate`.

    Parameters
    ----------
    model : Forest or Composition
        With calibrated probabilities; the forest that went in, itself, where that was no better.
    calibrated : bool
        Whether `model` is another one.
    method : str
    before, after : float
        Log loss of the forest, and of calibrations of it, each on rows that it was not made of.
    temperature : float, optional
        What raw scores are divided by, by that method; as it was found, be it taken or not.
    note : str
    """

    model: Forest | Composition
    calibrated: bool
    method: str
    before: float
    after: float
    temperature: float | None = None
    note: str = ""

    def record(self) -> dict[str, Any]:
        """Return all but the model, by name."""
        names = ("calibrated", "method", "before", "after", "temperature", "note")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        """Return what `said` says, and the note."""
        return f"CalibrationResult({self.said}{', note: ' + self.note if self.note else ''})"

    @property
    def said(self) -> str:
        """The log loss before and after, for people."""
        what = f"log loss {self.before:.6g} -> {self.after:.6g} by {self.method}"
        if self.temperature is not None:
            what += f" {self.temperature:.4g}"
        return what if self.calibrated else f"{what}, not taken"

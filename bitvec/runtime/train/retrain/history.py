"""History of the evaluations of a retraining."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from bitvec.errors import needs
from bitvec.runtime.train.retrain.selection import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 16
"""Evaluations whose names stand below a plot, at most."""


class History(tuple[Evaluation, ...]):
    """The evaluations of the hard forest, in order, as a tuple that plots.

    Parameters
    ----------
    evaluations : iterable of Evaluation
    metric : str
        What their scores are.
    """

    metric: str

    def __new__(cls, evaluations: Iterable[Evaluation], metric: str = "score") -> History:
        """Make a history of some evaluations."""
        self = super().__new__(cls, evaluations)
        self.metric = metric
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self), self.metric

    def records(self, stage: str | None = None) -> list[dict[str, Any]]:
        """Return the evaluations, of one stage if it is named, as dictionaries."""
        return [asdict(each) for each in self if stage is None or each.stage == stage]

    def plot(self) -> Figure:
        """Draw the hard score, the training loss and the steepness over the evaluations.

        Returns
        -------
        matplotlib.figure.Figure
            `figure.savefig(path)` keeps it. Forests that were kept are marked.

        Raises
        ------
        MissingLibraryError
            If matplotlib is not installed.
        """
        with needs("matplotlib", "plot", "History.plot"):
            from matplotlib.figure import Figure
        figure = Figure(figsize=(7.0, 6.0), layout="constrained")
        score, loss, steepness = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 1))
        number = np.arange(len(self))
        kept = np.array([evaluation.accepted for evaluation in self], bool)
        values = np.array([evaluation.score for evaluation in self])
        score.plot(number, values, color="C0", marker=".", label="hard forest")
        score.plot(number[kept], values[kept], "o", color="C2", label="kept")
        if len(self):
            score.axhline(values[0], color="0.6", linestyle="--", label="start")
            score.legend(loc="best", frameon=False)
        score.set_ylabel(f"validation {self.metric}")
        loss.plot(number, [evaluation.loss for evaluation in self], color="C3", marker=".")
        loss.set_ylabel("training loss")
        steepness.plot(number, [evaluation.gamma for evaluation in self], color="C1", marker=".")
        steepness.set_ylabel("steepness")
        named = number[:: max(1, -(-len(self) // NAMED))]
        steepness.set_xticks(named, [_name(self[place]) for place in named], rotation=60)
        return figure


def _name(evaluation: Evaluation) -> str:
    return evaluation.stage if evaluation.steps == 0 else f"{evaluation.stage} {evaluation.step}"

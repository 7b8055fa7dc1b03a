"""The rows of one data set, as the program of another library is given them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import old_jobs as jobs
from benchmarks.old_jobs import Array


@dataclass(frozen=True, slots=True)
class Job:
    """The rows of one data set, and where the answers go.

    Parameters
    ----------
    fit, held_out : (X, y)
        X without NaN; y is of class numbers, or of numbers for a regressor.
    test : X
        Its labels stay with the parent.
    trees, leaves : int
        Of the source model: trees of each class, and the most leaves of a tree.
    """

    folder: Path
    fit: tuple[Array, Array]
    held_out: tuple[Array, Array]
    test: Array
    is_classifier: bool
    seed: int
    trees: int
    leaves: int

    @property
    def model(self) -> Path:
        """Place of the source model."""
        return self.folder / "model"

    def score(self, predicted: Array) -> float:
        """Return the accuracy, or minus the mean squared error, on the rows held out."""
        y = self.held_out[1]
        if self.is_classifier:
            return float(np.mean(predicted == y))
        return -float(np.mean(np.square(predicted - y)))

    def write(self) -> None:
        """Leave the job in its folder."""
        names = ("is_classifier", "seed", "trees", "leaves")
        jobs.write(
            self.folder,
            {name: getattr(self, name) for name in names},
            X=self.fit[0],
            y=self.fit[1],
            held_out_X=self.held_out[0],
            held_out_y=self.held_out[1],
            test_X=self.test,
        )


def read(folder: Path) -> Job:
    """Read the job of a folder."""
    facts, rows = jobs.read(folder)
    fit, held_out = (rows["X"], rows["y"]), (rows["held_out_X"], rows["held_out_y"])
    return Job(folder, fit, held_out, rows["test_X"], **facts)

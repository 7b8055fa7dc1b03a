"""What a parent and the program of another library hand to each other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


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
        """Where the source model goes."""
        return self.folder / "model"

    def score(self, predicted: Array) -> float:
        """Return the accuracy, or minus the mean squared error, on the rows held out."""
        y = self.held_out[1]
        if self.is_classifier:
            return float(np.mean(predicted == y))
        return -float(np.mean(np.square(predicted - y)))


def write_job(job: Job) -> None:
    """Leave a job in its folder."""
    np.savez(
        job.folder / "rows.npz",
        X=job.fit[0],
        y=job.fit[1],
        held_out_X=job.held_out[0],
        held_out_y=job.held_out[1],
        test_X=job.test,
    )
    told = {"is_classifier": job.is_classifier, "seed": job.seed, "trees": job.trees}
    told |= {"leaves": job.leaves}
    (job.folder / "job.json").write_text(json.dumps(told), encoding="utf-8")


def read_job(folder: Path) -> Job:
    """Read the job of a folder."""
    rows = np.load(folder / "rows.npz")
    told = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    fit, held_out = (rows["X"], rows["y"]), (rows["held_out_X"], rows["held_out_y"])
    return Job(folder, fit, held_out, rows["test_X"], **told)


def write_answers(job: Job, predicted: dict[str, Any], told: dict[str, Any]) -> None:
    """Leave what models predict for the rows to test on, and what else is to be told."""
    np.savez(job.folder / "answers.npz", **predicted)
    (job.folder / "told.json").write_text(json.dumps(told), encoding="utf-8")


def read_answers(folder: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read what a program left."""
    with np.load(folder / "answers.npz") as answers:
        predicted = {name: answers[name] for name in answers.files}
    return predicted, json.loads((folder / "told.json").read_text(encoding="utf-8"))

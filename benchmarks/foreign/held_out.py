"""Scores on the rows held out, for programs in environments of other libraries."""

from __future__ import annotations

import numpy as np

from benchmarks.jobs import Array, Job


def held_out_score(job: Job, predicted: Array) -> float:
    """Return the accuracy, or minus the mean squared error, on the rows held out."""
    y = job.rows["held_out_y"]
    if job.facts["is_classifier"]:
        return float(np.mean(predicted == y))
    return -float(np.mean(np.square(predicted - y)))

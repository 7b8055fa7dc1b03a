"""Recipe of a training: its length, rates and steepness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from bitvec.runtime.train.relax.relaxations import Relaxation
from bitvec.runtime.train.retrain.schedules import Course
from bitvec.runtime.train.retrain.selection import Evaluation

Progress = Callable[[Evaluation], None]
PARALLEL_SIZE = 1 << 21
"""Elements of a batch's margins from which more than one thread pays."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The choices of one retraining; see `retrain`."""

    relaxation: str | Relaxation
    steps: int
    batch_size: int
    optimizer: str | Callable[[list[dict[str, Any]]], torch.optim.Optimizer]
    learning_rate: float
    weight_decay: float
    gamma: Course
    rate: Course
    evaluations: int
    patience: int | None
    seed: int
    device: torch.device
    progress: Progress | None


@contextmanager
def few_threads(size: int, device: torch.device) -> Iterator[None]:
    """Hold torch to one thread while its operations are small, where threads only wait."""
    threads = torch.get_num_threads()
    if size >= PARALLEL_SIZE or device.type != "cpu":
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def tell(recipe: Recipe, evaluation: Evaluation) -> None:
    """Hand an evaluation to the progress callback, if there is one."""
    if recipe.progress is not None:
        recipe.progress(evaluation)


def diverged(what: str, step: int, steps: int) -> str:
    """Say that training ended early because the loss or the forest is no longer finite."""
    return (
        f"Training stopped at step {step} of {steps}, where the {what} was not finite: lower "
        "`learning_rate` or `gamma`, or bring y and the leaves into the range of float32."
    )

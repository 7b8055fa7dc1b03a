"""Learning from a teacher: another model's answers beside the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.errors import InputError
from bitvec.runtime.train.retrain import class_losses, metrics, smooth_links
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.training_targets import probabilities


@dataclass(frozen=True, slots=True, eq=False)
class Distillation:
    """Distance of a forest from its teacher.

    Parameters
    ----------
    goal : Objective
    teacher : float64, (n_rows, width)
        The teacher's class probabilities, of all groups side by side, or its predictions.
    weight : float
        Of the teacher, from 0 to 1; the labels have the rest.
    temperature : float
        Teacher and forest are compared at p^(1 / temperature), normalised.
    """

    goal: Objective
    teacher: Array
    weight: float
    temperature: float = 1.0

    def losses(self, raw: Tensor, teacher: Tensor) -> Tensor:
        """Return the distance of each row, (batch,), from rows of `teacher`.

        For a classifier temperature² · KL(teacher || forest), summed over groups, of what
        `predict_proba` returns. For a regressor the squared error of what `predict` returns, in
        units of the targets' deviation.

        Notes
        -----
        Section 2 of Hinton, Vinyals and Dean, 2015: the factor keeps gradients of one size at all
        temperatures.
        """
        output, teacher = self.goal.output, teacher.to(raw.dtype)
        if output.classes is None:
            error = (smooth_links.value(output, raw) - teacher) / self.goal.deviation
            return error.square().sum(dim=1)
        total, start = raw.new_zeros(len(raw)), 0
        parts = torch.split(raw, list(output.groups), 1)
        for part, labels in zip(parts, output.classes, strict=True):
            total = total + self._divergence(part, teacher[:, start : start + len(labels)])
            start += len(labels)
        return self.temperature**2 * total

    def _divergence(self, raw: Tensor, teacher: Tensor) -> Tensor:
        goal = self.goal
        if metrics.are_independent(goal.output, raw.shape[1]):
            log_p = torch.stack(class_losses.of_each_class(goal.output, raw), dim=2)
            wanted = torch.stack([1 - teacher, teacher], dim=2)
        else:
            log_p = class_losses.log_probabilities(
                goal.output, raw, teacher.shape[1], are_scores=goal.are_scores
            )[:, None]
            wanted = teacher[:, None]
        if self.temperature != 1:
            log_p = torch.log_softmax(log_p / self.temperature, dim=2)
            wanted = wanted ** (1 / self.temperature)
            wanted = wanted / wanted.sum(dim=2, keepdim=True)
        return (torch.xlogy(wanted, wanted) - wanted * log_p).sum(dim=(1, 2))

    def mixed(self, label_losses: Tensor, raw: Tensor, teacher: Tensor) -> Tensor:
        """Return (1 − weight) · the labels' losses + weight · `losses`."""
        return (1 - self.weight) * label_losses + self.weight * self.losses(raw, teacher)


def build(
    goal: Objective,
    teacher: Any,
    X: Any,
    n_rows: int,
    *,
    weight: float = 0.5,
    temperature: float = 1.0,
) -> Distillation:
    """Return the distillation of a teacher.

    Parameters
    ----------
    teacher : array, or a function of X
        Class probabilities, (n_rows, n_classes), in the order of the forest's classes (a list of
        them for several output groups), or a regressor's predictions, (n_rows,) or
        (n_rows, n_outputs). The `predict_proba` of a model that has `classes_` is put in the
        forest's order.
    X : array or data frame
        The training rows as the caller gave them, for a function.
    weight : float
        From 0, labels alone, to 1, the teacher alone.
    temperature : float
        Of a classifier, above 0.

    Raises
    ------
    InputError
        If the teacher does not fit the forest or the rows, or a number is out of place.
    """
    weight = options.positive("teacher_weight", weight, or_zero=True)
    if weight > 1:
        raise InputError(f"`teacher_weight` must be from 0 to 1, got {weight!r}.")
    temperature = options.positive("temperature", temperature)
    answers = teacher(X) if callable(teacher) else teacher
    if goal.output.classes is None:
        values = _values(answers, n_rows, goal.output.n_outputs)
    else:
        values = probabilities(goal.output, _ordered(goal, teacher, answers), n_rows, "teacher")
    return Distillation(goal, values, weight, temperature)


def _values(answers: Any, n_rows: int, n_outputs: int) -> Array:
    values = np.asarray(answers)
    shapes = [(n_rows, n_outputs)] + ([(n_rows,)] if n_outputs == 1 else [])
    numbers = values.dtype.kind in "biuf" and bool(np.all(np.isfinite(values)))
    if values.shape not in shapes or not numbers:
        raise InputError(
            f"`teacher` must give {n_outputs} finite number{'s' if n_outputs > 1 else ''} for each "
            f"of the {n_rows} rows, got dtype {values.dtype} and shape {values.shape}."
        )
    return values.astype(np.float64).reshape(n_rows, n_outputs)


def _ordered(goal: Objective, teacher: Any, answers: Any) -> Any:
    """Return the answers of a model's method with the columns in the order of the forest."""
    known = getattr(getattr(teacher, "__self__", None), "classes_", None)
    classes = goal.output.classes or ()
    if known is None or len(classes) != 1:
        return answers
    place = {label: column for column, label in enumerate(np.asarray(known).tolist())}
    wanted = classes[0].tolist()
    if set(place) != set(wanted):
        raise InputError(
            f"`teacher` must know the forest's classes, {', '.join(map(repr, wanted[:10]))}, got "
            f"one that knows {', '.join(map(repr, list(place)[:10]))}."
        )
    answers = np.asarray(answers)
    if answers.ndim != 2 or answers.shape[1] != len(wanted):
        raise InputError(
            f"`teacher` must give the probabilities of {len(wanted)} classes, got shape "
            f"{answers.shape}: pass the model's predict_proba."
        )
    return answers[:, [place[label] for label in wanted]]

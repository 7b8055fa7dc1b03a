"""Objective of training: a differentiable loss, and the score by which forests are chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Output, PostTransform
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.relax import probability_leaves
from bitvec.runtime.train.retrain import (
    class_losses,
    metrics,
    smooth_links,
    value_losses,
)
from bitvec.runtime.train.retrain.training_targets import targets
from bitvec.runtime.train.retrain.value_losses import Shape

__all__ = ["Loss", "Metric", "Objective", "build", "of_forest", "targets"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""From raw scores, (batch, n_outputs), and targets to the loss of each row."""
Metric = Callable[[Array, Array], Array]
"""From y and what the forest predicts to a number for each row, of which more is better."""

SHARPNESS = 16.0
"""Sharpness of averaged class probabilities; 8 to 16 measured best."""
SMOOTHING = 0.02
"""Width of a smoothed kink, in standard deviations of the targets."""


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """A loss for training, and a score for choosing among hard forests; made by `of_forest`.

    Parameters
    ----------
    output : Output
    loss : str or callable
        "cross_entropy", a name in `value_losses.LOSSES`, or a caller's function.
    measure : str or callable
        What is scored: a name in `metrics.NAMES`, "loss" for a caller's loss itself, or a caller's
        function.
    shape : Shape
        The numbers of a regressor's losses.
    sharpness : float, optional
        Of averaged class probabilities: the loss is the cross-entropy of softmax(sharpness · raw),
        which cares for the label. Their own likelihood rewards trees for sharing the work, and
        gains few labels.
    are_scores : bool
        Whether a classifier's outputs are scores without a link, of which the largest is the label.
    soft : bool
        Whether targets are class probabilities instead of class numbers.
    """

    output: Output
    loss: str | Loss
    measure: str | Metric
    shape: Shape
    sharpness: float | None = None
    are_scores: bool = False
    soft: bool = False

    @property
    def metric(self) -> str:
        """Name of the score, of which more is better."""
        if self.measure == "loss":
            return f"negative mean of {_name(self.loss)}"
        if isinstance(self.measure, str):
            return metrics.NAMES[self.measure]
        return _name(self.measure)

    @property
    def deviation(self) -> float:
        """Standard deviation of a regressor's targets; 1 for a classifier."""
        return self.shape.deviation

    @property
    def is_likelihood(self) -> bool:
        """Return whether the loss is minus the log-likelihood of class numbers."""
        return self.loss == "cross_entropy" and not self.soft

    @property
    def is_accuracy(self) -> bool:
        """Return whether a row scores 0 or 1."""
        return self.measure == "accuracy"

    @property
    def is_quadratic(self) -> bool:
        """Return whether the loss is a squared error of the raw score itself."""
        return self.loss == "squared" and self.output.post_transform is PostTransform.IDENTITY

    def losses(self, raw: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, (batch,).

        Parameters
        ----------
        raw : (batch, n_outputs)
            Raw scores, before the post-transform.
        target : (batch, width)
            As `targets` gives it.
        """
        if not isinstance(self.loss, str):
            return self._callers_loss(self.loss, raw, target)
        if self.loss == "cross_entropy":
            return self._cross_entropy(raw, target)
        parts = value_losses.LOSSES[self.loss](self.output, raw, target.to(raw.dtype), self.shape)
        return parts.sum(dim=1)

    def _cross_entropy(self, raw: Tensor, target: Tensor) -> Tensor:
        total, start = raw.new_zeros(len(raw)), 0
        parts = torch.split(raw, list(self.output.groups), 1)
        for group, (part, labels) in enumerate(zip(parts, self.output.classes or (), strict=True)):
            stop = start + len(labels)
            total = total + class_losses.cross_entropy(
                self.output,
                part,
                target[:, start:stop] if self.soft else target[:, group],
                len(labels),
                sharpness=self.sharpness,
                are_scores=self.are_scores,
            )
            start = stop
        return total

    def _callers_loss(self, loss: Loss, raw: Tensor, target: Tensor) -> Tensor:
        if self.output.is_classifier and not self.soft:
            wanted = target[:, 0] if target.shape[1] == 1 else target
        else:
            wanted = target.to(raw.dtype)
        losses: Any = loss(raw, wanted)  # what it returns is not known
        is_tensor = isinstance(losses, Tensor) and losses.is_floating_point()
        by_output = is_tensor and losses.ndim == 2 and losses.shape[1] in (1, raw.shape[1])
        fits = is_tensor and (losses.ndim == 1 or by_output) and len(losses) == len(raw)
        if not fits:
            got = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else repr(losses)
            raise InputError(
                f"`loss` must return a loss for each of the {len(raw)} rows, or for each row and "
                f"output, got {got} from raw scores of shape {tuple(raw.shape)} and targets of "
                f'shape {tuple(wanted.shape)}: do not average (reduction="none"), and beware of '
                "shapes that broadcast."
            )
        by_row: Tensor = losses if losses.ndim == 1 else losses.sum(dim=1)
        return by_row

    def scores(self, raw: Array, target: Array) -> Array:
        """Return the score of each row, (batch,) float64, from hard raw scores; more is better."""
        measure, output = self.measure, self.output
        if not isinstance(measure, str):
            return metrics.of_function(measure, output, raw, target)
        if measure == "accuracy":
            return metrics.accuracy(output, raw, target)
        if measure == "log_loss":
            score = metrics.log_likelihood(output, raw, target)
        elif measure == "loss":
            with torch.no_grad():
                wide = torch.tensor(raw, dtype=torch.float64)
                score = -self.losses(wide, torch.tensor(target)).numpy().astype(np.float64)
        else:
            return metrics.of_values(measure, output, raw, target, self.shape)
        return np.where(np.isnan(score), -np.inf, score)

    def smoothed(self) -> Objective:
        """Return this objective with kinks of the loss made parabolas, `SMOOTHING` wide."""
        width = SMOOTHING * self.shape.deviation
        return replace(self, shape=replace(self.shape, smoothing=width))

    def guard(self) -> Objective | None:
        """Return the objective whose score may not fall while forests are chosen by another one.

        The log loss of a classifier that is chosen by anything else, where it has one, and the
        named loss of a regressor; None where the score is that already.
        """
        if self.output.is_classifier:
            has_none = self.are_scores or self.output.post_transform is PostTransform.HINGE
            done = has_none or self.measure == "log_loss"
            return None if done else replace(self, measure="log_loss")
        if not isinstance(self.loss, str) or self.measure == self.loss:
            return None
        return replace(self, measure=self.loss)

    def require_targets(self, target: Array, name: str = "y") -> None:
        """Raise InputError if the loss or the score cannot take these targets."""
        used = {name for name in value_losses.DEVIANCES if name in (self.loss, self.measure)}
        if used and (np.any(target < 0) or not target.sum() > 0):
            raise InputError(
                f"`{name}` must not be negative, nor all 0, for {', '.join(sorted(used))}, got "
                f"{target.min():.3g} as its smallest: choose another loss."
            )
        if "gamma" in used and not np.all(target > 0):
            raise InputError(f"`{name}` must be above 0 for gamma, got 0: choose another loss.")


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def of_forest(forest: Forest, target: Array, **choices: Any) -> Objective:
    """Return the objective of a forest: `build`, and what its leaves say of its outputs.

    Several trees of a classifier are chosen by the log loss if the metric is "auto" and they have
    one. Averaged class probabilities are sharpened if labels are what counts, the loss being "auto"
    and the metric accuracy. A classifier's outputs without a link and without probability leaves
    are taken as scores.
    """
    goal = build(forest.output, target, **choices)
    plain = forest.output.post_transform in (PostTransform.IDENTITY, PostTransform.AT_MOST_ONE)
    plain = plain and forest.output.is_classifier
    if plain and probability_leaves.groups(forest) is None:
        if goal.measure == "log_loss":
            raise InputError(
                "`metric` must not be log_loss for a forest whose outputs are no probabilities: "
                "choose accuracy."
            )
        goal = replace(goal, are_scores=True)
    several = goal.is_accuracy and forest.n_trees > 1
    if several and choices.get("metric", "auto") == "auto":
        goal = goal.guard() or goal
    by_label = several and goal.is_accuracy and choices.get("loss", "auto") == "auto"
    averages = plain and not goal.are_scores
    return replace(goal, sharpness=SHARPNESS) if by_label and averages else goal


def build(
    output: Output,
    target: Array,
    *,
    loss: str | Loss = "auto",
    metric: str | Metric = "auto",
    quantile: float | Sequence[float] = 0.5,
    delta: float = 1.0,
    power: float = 1.5,
    soft: bool = False,
) -> Objective:
    """Return the objective of an output; `of_forest` is to be preferred where there is a forest.

    Parameters
    ----------
    target : (batch, width)
        The training targets, as `targets` gives them.
    loss : str or callable
        On the forest's own link and base score. "auto" is "cross_entropy" for a classifier and
        "squared" for a regressor, which may also have "absolute", "huber", "quantile", "poisson",
        "gamma" and "tweedie" (unit deviances; of an output without a link, means must be above 0).
        A function is given raw scores, (batch, n_outputs), and targets: class numbers, (batch,) or
        (batch, n_groups), or values or class probabilities, (batch, width), in the dtype of the
        raw scores. It returns the loss of each row, (batch,) or (batch, k), which is summed.
    metric : str or callable
        "auto" is accuracy for cross-entropy and the loss itself for any other. A classifier may
        also have "log_loss", a regressor any of the losses above. A function is given y, (batch,)
        or (batch, width), and what `predict` returns; it returns a number for each row, of which
        more is better.
    quantile : float or sequence of float
        Levels of the loss and the metric "quantile", above 0 and below 1: one for all outputs, or
        one for each.
    delta : float
        From where on Huber's loss is linear, in units of the target.
    power : float
        Of Tweedie's variance, above 1 and below 2.
    soft : bool
        Whether targets are class probabilities.

    Raises
    ------
    InputError
        If a name is unknown or does not suit the forest, or a number or target is out of place.
    UnsupportedModelError
        If the output has no gradient: the hinge transform of a regressor.
    """
    kind = "classifier" if output.is_classifier else "regressor"
    if callable(loss):
        _require_custom(output)
        chosen: str | Loss = loss
    else:
        chosen = _AUTO[kind] if loss == "auto" else loss
        _require_name("loss", chosen, kind, _LOSSES[kind])
        _require_link(output)
    if metric == "auto":
        by_name = "accuracy" if chosen == "cross_entropy" else chosen
        measure: str | Metric = by_name if isinstance(by_name, str) else "loss"
    else:
        measure = metric
        if not callable(metric):
            _require_name("metric", metric, kind, _METRICS[kind])
    if measure == "log_loss" and output.post_transform is PostTransform.HINGE:
        raise InputError(
            "`metric` must not be log_loss for a forest with the hinge transform, which has no "
            "probabilities: choose accuracy."
        )
    goal = Objective(
        output,
        chosen,
        measure,
        _shape(output, target, quantile, delta, power),
        soft=soft,
    )
    goal.require_targets(target)
    if callable(loss):
        _try(goal, target)
    return goal


_AUTO = {"classifier": "cross_entropy", "regressor": "squared"}
_LOSSES = {"classifier": ("cross_entropy",), "regressor": tuple(value_losses.LOSSES)}
_METRICS = {"classifier": ("accuracy", "log_loss"), "regressor": tuple(metrics.LOSSES)}


def _require_name(argument: str, name: object, kind: str, known: tuple[str, ...]) -> None:
    if not isinstance(name, str) or name not in known:
        raise InputError(
            f"`{argument}` of a {kind} must be auto, {', '.join(known)} or a function, got "
            f"{name!r}: choose one of them."
        )


def _require_custom(output: Output) -> None:
    if output.post_transform in (PostTransform.SOFTMAX_ZERO, PostTransform.PROBIT):
        _require_link(output)


def _require_link(output: Output) -> None:
    kind = output.post_transform
    if not output.is_classifier:
        if kind not in smooth_links.LINKS:
            raise UnsupportedModelError(
                f"the post-transform must have a gradient, got {kind}: this forest cannot be "
                "retrained."
            )
        return
    if kind in (PostTransform.SOFTMAX_ZERO, PostTransform.PROBIT):
        raise UnsupportedModelError(
            f"a classifier's post-transform must give probabilities, got {kind}: this forest "
            "cannot be retrained."
        )
    binary = all(len(labels) == 2 for labels in output.classes or ())
    if kind is PostTransform.HINGE and not (binary and all(size == 1 for size in output.groups)):
        raise UnsupportedModelError(
            "a classifier with the hinge transform must have one output for two classes."
        )


def _shape(
    output: Output, target: Array, quantile: float | Sequence[float], delta: float, power: float
) -> Shape:
    levels = _levels(quantile, output.n_outputs)
    power = options.positive("power", power)
    if not 1 < power < 2:
        raise InputError(f"`power` must be above 1 and below 2, got {power!r}.")
    deviation = mean = 1.0
    if not output.is_classifier:
        with np.errstate(over="ignore", invalid="ignore"):
            deviation, mean = float(target.std()), float(np.abs(target).mean())
    return Shape(
        levels,
        options.positive("delta", delta),
        power,
        deviation if 0 < deviation < np.inf else 1.0,
        mean if 0 < mean < np.inf else 1.0,
    )


def _levels(quantile: Any, n_outputs: int) -> tuple[float, ...]:
    given = quantile if isinstance(quantile, (tuple, list, np.ndarray)) else [quantile]
    numbers = (int, float, np.integer, np.floating)
    if not all(isinstance(level, numbers) and 0 < level < 1 for level in given):
        raise InputError(f"`quantile` must be above 0 and below 1, got {quantile!r}.")
    levels = tuple(float(level) for level in given)
    if len(levels) not in (1, n_outputs):
        raise InputError(
            f"`quantile` must be one level or one for each of the {n_outputs} outputs, got "
            f"{len(levels)}: pass as many."
        )
    return levels * n_outputs if len(levels) == 1 else levels


def _try(goal: Objective, target: Array) -> None:
    """Call a caller's loss once, so that one of the wrong shape is refused before any work."""
    some = torch.tensor(target[:3])
    raw = torch.zeros((len(some), goal.output.n_outputs), requires_grad=True)
    if not goal.losses(raw, some).requires_grad:
        raise InputError(
            "`loss` must be differentiable with respect to its first argument, got one without a "
            "gradient: compute it with torch from the raw scores."
        )

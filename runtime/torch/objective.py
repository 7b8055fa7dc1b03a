"""What a forest is trained towards: targets, a differentiable loss, and the score that counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bitvec import transforms
from bitvec.arrays import Array
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.output import Output, PostTransform

SMALLEST = 1e-6
"""What a probability is raised to before its logarithm is taken."""


def _softmax(output: Output, raw: Tensor) -> Tensor:
    groups = torch.split(raw / output.parameter, list(output.groups), 1)
    return torch.cat([group.softmax(dim=1) for group in groups], dim=1)


def _ratio(output: Output, raw: Tensor) -> Tensor:
    return torch.exp2(-raw / output.parameter)


_TRANSFORMS: dict[PostTransform, Callable[[Output, Tensor], Tensor]] = {
    PostTransform.IDENTITY: lambda output, raw: raw,
    PostTransform.SIGMOID: lambda output, raw: torch.sigmoid(output.parameter * raw),
    PostTransform.LOGISTIC: lambda output, raw: torch.sigmoid(raw),
    PostTransform.SOFTMAX_OF_HALVES: lambda output, raw: torch.sigmoid(raw),
    PostTransform.SOFTMAX: _softmax,
    PostTransform.SOFTMAX_UNSHIFTED: _softmax,
    PostTransform.EXPONENTIAL: lambda output, raw: raw.exp(),
    PostTransform.EXPONENTIAL_STANDARD_RATIO: _ratio,
    PostTransform.LOGARITHM_ONE_PLUS_EXP: lambda output, raw: F.softplus(raw),
    PostTransform.AT_MOST_ONE: lambda output, raw: raw,  # what exceeds 1 does so by rounding
    PostTransform.SIGNED_SQUARE: lambda output, raw: raw * raw.abs(),
}

SIGMOIDS = (PostTransform.SIGMOID, PostTransform.LOGISTIC, PostTransform.SOFTMAX_OF_HALVES)
SOFTMAXES = (PostTransform.SOFTMAX, PostTransform.SOFTMAX_UNSHIFTED)


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """Cross-entropy on the post-transform for a classifier, squared error of the output otherwise.

    The score, of which more is better, is accuracy (averaged over output groups) or minus the
    squared error, of what `predict` returns.

    Parameters
    ----------
    output : Output
    deviation : float
        Standard deviation of a regressor's targets: the loss is in its units.
    sharpness : float, optional
        Of averaged class probabilities: the loss is the cross-entropy of softmax(sharpness · raw),
        which cares for the label. Their own likelihood rewards trees for sharing the work, and
        made forests worse.
    """

    output: Output
    deviation: float = 1.0
    sharpness: float | None = None

    @property
    def metric(self) -> str:
        """Name of the score."""
        return "accuracy" if self.output.is_classifier else "negative mean squared error"

    def losses(self, raw: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, (batch,)."""
        output = self.output
        if output.classes is None:
            value = _TRANSFORMS[output.post_transform](output, raw)
            error = (value - target.to(raw.dtype)) / self.deviation
            return error.square().sum(dim=1)
        total = raw.new_zeros(len(raw))
        parts = torch.split(raw, list(output.groups), 1)
        for part, label, names in zip(parts, target.unbind(1), output.classes, strict=True):
            total = total + self._cross_entropy(part, label, len(names))
        return total

    def _cross_entropy(self, raw: Tensor, label: Tensor, n_classes: int) -> Tensor:
        kind = self.output.post_transform
        if raw.shape[1] == 1 and n_classes == 2:
            wanted = label.to(raw.dtype)
            if kind in (*SIGMOIDS, PostTransform.HINGE):
                logit = raw[:, 0] * self.output.parameter
                return F.binary_cross_entropy_with_logits(logit, wanted, reduction="none")
            p = _TRANSFORMS[kind](self.output, raw)[:, 0]
            p = torch.where(label == 1, p, 1 - p)
        elif kind in SOFTMAXES or self.sharpness is not None:
            sharpness = (self.sharpness or 1.0) / self.output.parameter
            return F.cross_entropy(raw * sharpness, label, reduction="none")
        elif kind in SIGMOIDS:
            wanted = F.one_hot(label, raw.shape[1]).to(raw.dtype)
            logit = raw * self.output.parameter
            loss = F.binary_cross_entropy_with_logits(logit, wanted, reduction="none")
            return loss.sum(dim=1)
        else:
            p = _TRANSFORMS[kind](self.output, raw).gather(1, label[:, None])[:, 0]
        # Linear below the smallest probability, so that a row there still has a gradient.
        return torch.where(p > SMALLEST, -p.clamp_min(SMALLEST).log(), 1 - p / SMALLEST + 13.8155)

    def scores(self, raw: Array, target: Array) -> Array:
        """Return the score of each row, (batch,) float64, from hard raw scores."""
        output = self.output
        if output.classes is None:
            value = transforms.transform(output, raw).astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                error = -np.square(value - target).sum(axis=1)
                scores: Array = np.where(np.isnan(error), -np.inf, error)
            return scores
        predicted = transforms.predictions(output, raw).reshape(len(raw), -1)
        right = [
            predicted[:, group] == labels[target[:, group]]
            for group, labels in enumerate(output.classes)
        ]
        accuracy: Array = np.stack(right, axis=1).mean(axis=1, dtype=np.float64)
        return accuracy


def build(output: Output, target: Array) -> Objective:
    """Return the objective of an output.

    Raises
    ------
    UnsupportedModelError
        If the output has no gradient: the hinge transform of a regressor.
    """
    if output.is_classifier:
        if output.post_transform in (PostTransform.SOFTMAX_ZERO, PostTransform.PROBIT):
            raise UnsupportedModelError(
                f"a classifier's post-transform must give probabilities, got "
                f"{output.post_transform}: this forest cannot be retrained."
            )
        binary = [len(labels) == 2 for labels in output.classes or ()]
        sizes = [size == 1 for size in output.groups]
        if output.post_transform is PostTransform.HINGE and not (all(binary) and all(sizes)):
            raise UnsupportedModelError(
                "a classifier with the hinge transform must have one output for two classes."
            )
        return Objective(output)
    if output.post_transform not in _TRANSFORMS:
        raise UnsupportedModelError(
            f"the post-transform must have a gradient, got {output.post_transform}: "
            "this forest cannot be retrained."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(target.std())
    return Objective(output, deviation if 0 < deviation < np.inf else 1.0)


def targets(output: Output, y: Array, n_rows: int, name: str = "y") -> Array:
    """Return class numbers, (batch, n_groups) int64, or values, (batch, n_outputs) float64.

    Raises
    ------
    InputError
        If y has the wrong length or width, a label that the forest does not know, or a value that
        is no finite number.
    """
    try:
        y = np.asarray(y)
    except ValueError:  # rows of several lengths
        y = np.asarray(y, object)
    if y.ndim == 0 or y.ndim > 2 or len(y) != n_rows:
        raise InputError(
            f"`{name}` must have one entry for each of the {n_rows} rows of X, got shape {y.shape}."
        )
    table = y.reshape(n_rows, -1) if n_rows else y.reshape(0, y.shape[1] if y.ndim == 2 else 1)
    width = output.n_outputs if output.classes is None else len(output.classes)
    if table.shape[1] != width:
        raise InputError(
            f"`{name}` must have {width} column{'s' if width > 1 else ''}, got shape {y.shape}."
        )
    if output.classes is not None:
        columns = [_codes(table[:, g], labels, name) for g, labels in enumerate(output.classes)]
        return np.stack(columns, axis=1)
    try:
        values = table.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be numbers for a regressor, got dtype {y.dtype}: pass floats."
        ) from None
    if not np.all(np.isfinite(values)):
        raise InputError(f"`{name}` must be finite, got NaN or infinity: drop those rows.")
    return values


def _codes(column: Array, labels: Array, name: str) -> Array:
    position = {label: code for code, label in enumerate(labels.tolist())}
    try:
        codes = np.array([position.get(label, -1) for label in column.tolist()], np.int64)
    except TypeError:
        raise InputError(f"`{name}` must hold one label in each place, got lists.") from None
    if np.any(codes < 0):
        stranger = column[int(np.argmax(codes < 0))]
        stranger = stranger.item() if isinstance(stranger, np.generic) else stranger
        raise InputError(
            f"`{name}` must hold the forest's classes, {', '.join(map(repr, labels.tolist()[:10]))}"
            f", got {stranger!r}: map it to one of them, or drop those rows."
        )
    return codes

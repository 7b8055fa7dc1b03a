"""Class probabilities and labels of raw scores by functional tensor operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.errors import InputError, UnsupportedModelError


class Probabilities(nn.Module):
    """Class probabilities, (batch, n_classes) of one output group, in the dtype of raw scores.

    Parameters
    ----------
    output : Output
        A classifier's, of one output group.

    Raises
    ------
    UnsupportedModelError
        If its post-transform is not one of `LINKS`.
    """

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.values = _Values(output)
        self.doubles = _holds_second_alone(output)

    def forward(self, raw: Tensor) -> Tensor:
        """Return the probabilities of raw scores F (batch, n_outputs)."""
        value = self.values(raw)
        return torch.cat([1 - value, value], dim=1) if self.doubles else value


class Labels(nn.Module):
    """Labels, (batch,): numbers as the source names them, texts by their index in `classes`."""

    names: Tensor

    def __init__(self, output: Output) -> None:
        super().__init__()
        labels = one_group(output)
        self.values = None if output.labels_from_raw else _Values(output)
        self.has_threshold = _holds_second_alone(output)
        self.second_above, self.tie_to_second = output.second_above, output.tie_to_second
        if labels.dtype.kind == "U":
            labels = np.arange(labels.size)
        elif labels.dtype.kind == "u":
            labels = labels.astype(np.int64)
        self.register_buffer("names", torch.tensor(labels))

    def forward(self, raw: Tensor) -> Tensor:
        """Return the labels of raw scores F (batch, n_outputs)."""
        value = raw if self.values is None else self.values(raw)
        if self.has_threshold:
            z, at = value[:, 0], self.second_above
            index = (z >= at if self.tie_to_second else z > at).to(torch.int64)
        else:
            index = _first_argmax(value)
        return self.names[index]


def one_group(output: Output) -> np.ndarray:
    """Return the labels of a classifier's one output group.

    Raises
    ------
    InputError
        If this is no classifier.
    UnsupportedModelError
        If there are several groups.
    """
    if output.classes is None:
        raise InputError(
            '`output` must be "raw" or "leaves" for a forest that is no classifier: take one.'
        )
    if len(output.classes) > 1:
        raise UnsupportedModelError(
            f"probabilities and labels in torch must be of one target, got {len(output.classes)}: "
            'take `output="raw"`.'
        )
    return output.classes[0]


def _holds_second_alone(output: Output) -> bool:
    return output.n_outputs == 1 and one_group(output).size == 2


def _first_argmax(value: Tensor) -> Tensor:
    """Return the first index of the largest, or of a NaN: torch.argmax promises no first one."""
    largest = value.amax(dim=1, keepdim=True)
    is_largest = (value == largest) | torch.isnan(value)
    return (~is_largest).to(torch.int64).cumprod(dim=1).sum(dim=1)


class _Values(nn.Module):
    """A post-transform of raw scores."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        one_group(output)
        if output.post_transform not in LINKS:
            raise UnsupportedModelError(
                f"a link in torch must be one of {', '.join(LINKS)}, got "
                f'{output.post_transform}: take `output="raw"`.'
            )
        self.link, self.parameter = output.post_transform, output.parameter
        self.is_wide = output.softmax_sum is SoftmaxSum.WIDE

    def forward(self, raw: Tensor) -> Tensor:
        return LINKS[self.link](self, raw)


def _identity(link: _Values, raw: Tensor) -> Tensor:
    return raw


def _sigmoid(link: _Values, raw: Tensor) -> Tensor:
    scaled = raw * link.parameter if link.parameter != 1.0 else raw
    if raw.dtype == torch.float32:
        scaled = torch.clamp(scaled, min=float(np.float32(-88.7)))
    return 1 / (torch.exp(-scaled) + 1)


def _softmax(link: _Values, raw: Tensor) -> Tensor:
    scaled = raw / link.parameter if link.parameter != 1.0 else raw
    exp = torch.exp(scaled - scaled.amax(dim=1, keepdim=True))
    total = _sum(exp.to(torch.float64) if link.is_wide else exp).to(raw.dtype)
    return exp / total


def _softmax_of_halves(link: _Values, raw: Tensor) -> Tensor:
    exp = torch.exp(-raw.abs())
    return torch.where(raw < 0, exp, 1) / (exp + 1)


def _softmax_unshifted(link: _Values, raw: Tensor) -> Tensor:
    exp = torch.exp(raw)
    return exp * (1 / _sum(exp))


def _at_most_one(link: _Values, raw: Tensor) -> Tensor:
    return torch.clamp(raw, max=1)


def _sum(terms: Tensor) -> Tensor:
    """Return the sums of rows, (batch, 1), one after the other."""
    total, *others = terms.unbind(dim=1)
    for other in others:
        total = total + other
    return total[:, None]


LINKS: dict[str, Callable[[_Values, Tensor], Tensor]] = {
    PostTransform.IDENTITY: _identity,
    PostTransform.SIGMOID: _sigmoid,
    PostTransform.SOFTMAX: _softmax,
    PostTransform.SOFTMAX_OF_HALVES: _softmax_of_halves,
    PostTransform.SOFTMAX_UNSHIFTED: _softmax_unshifted,
    PostTransform.AT_MOST_ONE: _at_most_one,
}
"""Links that the module computes, within a few units in the last place of the source's."""

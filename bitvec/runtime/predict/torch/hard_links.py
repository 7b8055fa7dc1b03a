"""Class probabilities and labels of raw scores by functional tensor operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.links import FLOAT32, LINKS, Operations
from bitvec.core.output import Output
from bitvec.errors import InputError, UnsupportedModelError


class Probabilities(nn.Module):
    """Class probabilities, (batch, n_classes) of one output group, in the dtype of raw scores.

    Parameters
    ----------
    output : Output
        A classifier's, of one output group.
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
            is_second = z >= at if self.tie_to_second else z > at
            return torch.where(is_second, self.names[1], self.names[0])
        return self.names.index_select(0, _first_argmax(value))


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
            '`output` must be "raw", "leaves" or "memberships" for a forest that is no classifier: '
            "take one."
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
    place = torch.arange(value.shape[1], device=value.device)
    of_nan = torch.where(torch.isnan(value), place, value.shape[1])
    return torch.where(value == largest, place, of_nan).amin(dim=1)


class _Values(nn.Module):
    """A post-transform of raw scores, within a few units in the last place of the source's.

    Of exponentials from a table it is within 1 + |x|.
    """

    def __init__(self, output: Output) -> None:
        super().__init__()
        one_group(output)
        self.output = output

    def forward(self, raw: Tensor) -> Tensor:
        value: Tensor = LINKS[self.output.post_transform](_Operations(self.output, raw.dtype), raw)
        return value


class _Operations(Operations):
    """Operations of torch."""

    exp = c_exp = table_exp = staticmethod(torch.exp)
    log1p = staticmethod(torch.log1p)
    copysign, where = staticmethod(torch.copysign), staticmethod(torch.where)

    @property
    def parameter(self) -> float:
        return float(self.output.dtype.type(self.output.parameter))

    def finite(self, x: Tensor) -> Tensor:
        bound = float(np.float32(-88.7))
        return torch.clamp(x, min=bound) if x.dtype == torch.float32 else x

    def log(self, x: Tensor) -> Tensor:
        return torch.log(x.to(torch.float64)).to(x.dtype)

    def sqrt(self, x: Tensor) -> Tensor:
        return torch.sqrt(x.to(torch.float64)).to(x.dtype)  # of float32 it is not always rounded

    def power(self, base: float, x: Tensor) -> Tensor:
        return torch.pow(base, x)

    def minimum(self, x: Tensor, bound: float) -> Tensor:
        return torch.clamp(x, max=bound)

    def indicator(self, condition: Tensor) -> Tensor:
        return self.cast(condition, self.dtype)

    def cast(self, x: Tensor, dtype: Any) -> Tensor:
        return x.to(torch.float32 if dtype is FLOAT32 else dtype)

    def largest(self, x: Tensor) -> Tensor:
        return x.amax(dim=1, keepdim=True)

    def total(self, x: Tensor, *, wide: bool) -> Tensor:
        total, *others = (x.to(torch.float64) if wide else x).unbind(dim=1)
        for other in others:
            total = total + other
        return total[:, None].to(x.dtype)

"""Temperature: raw scores divided by one number, within the link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.links import SIGMOIDS, SOFTMAXES
from bitvec.core.output import Output, PostTransform
from bitvec.core.shape_annotations import Float64
from bitvec.core.source import retrained_source
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.train.retrain import metrics

RANGE: Final = (-5.0, 5.0)
"""Natural logarithms of the temperatures between which the best one is looked for."""
GOLDEN: Final = float(np.sqrt(5.0) - 1) / 2
WITHIN: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Temperature:
    """Forest at a temperature.

    Parameters
    ----------
    temperature : float
    model : Forest
        Whose link reads raw scores over the temperature.
    """

    temperature: float
    model: Forest

    @classmethod
    def fit(cls, forest: Forest, raw: Array, target: Array, weight: Array) -> Self:
        """Return the temperature of the least weighted log loss, between e⁻⁵ and e⁵.

        The loss is convex in 1 / T, so that it falls and then rises in log T: golden sections.
        """

        def loss(log_t: float) -> float:
            output = at_temperature(forest.output, float(np.exp(log_t)))
            scores = metrics.log_likelihood(output, raw, target)
            return -float(np.average(scores, weights=weight))

        best = float(np.exp(_lowest(loss, *RANGE)))
        return cls(best, replace(forest, output=at_temperature(forest.output, best)))

    def log_likelihood(self, raw: Array, target: Array) -> Float64[Array, " batch"]:
        """Return the log-probability of each row's label."""
        return metrics.log_likelihood(self.model.output, raw, target)


def folded(forest: Forest, temperature: float) -> Forest:
    """Return the forest whose leaves and base score are divided by a temperature, rounded once.

    The link stays, so that every format that holds the forest holds this one; raw scores are
    within rounding of those over the temperature.

    Raises
    ------
    UnsupportedModelError
        If leaves are linear in x.
    """
    at_temperature(forest.output, temperature)
    if forest.leaves.linear is not None:
        raise UnsupportedModelError(
            "a forest must have constant leaves for a temperature to be folded into them, got "
            "leaves that are linear in x: pass fold=False."
        )
    base = forest.output.base_score
    return replace(
        forest,
        leaves=replace(
            forest.leaves, v=(forest.leaves.v / temperature).astype(forest.leaves.v.dtype)
        ),
        output=replace(forest.output, base_score=(base / temperature).astype(base.dtype)),
        source=retrained_source(forest.source),
    )


def at_temperature(output: Output, temperature: float) -> Output:
    """Return the output whose link reads raw scores over a temperature.

    Raw scores stay bit for bit. The number becomes the parameter of the link, which rounds once
    more: x · (1 / T) of a sigmoid, x / T of a softmax.

    Raises
    ------
    UnsupportedModelError
        If the link is no sigmoid or softmax, so that what it reads are no logits, or labels come
        from a probability other than one half, which the temperature would move.
    """
    kind = output.post_transform
    moves = output.boundary is not None and not output.labels_from_raw
    if moves or kind not in (*SIGMOIDS, *SOFTMAXES):
        what = f"labels from above {output.boundary}" if moves else f"the link {kind}"
        raise UnsupportedModelError(
            "a forest with a temperature must have a sigmoid or softmax as its link, and labels at "
            f"one half, got {what}: calibrate it by method='isotonic'."
        )
    if kind in SIGMOIDS:
        parameter = output.parameter / temperature
        return replace(output, post_transform=PostTransform.SIGMOID, parameter=parameter)
    parameter = output.parameter * temperature
    return replace(output, post_transform=PostTransform.SOFTMAX, parameter=parameter)


def _lowest(f: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that falls and then rises is least."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = f(left), f(right)
    while high - low > WITHIN:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = f(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = f(right)
    return (low + high) / 2

"""Isotonic calibration: a rising curve for each class, behind the forest's probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bitvec.core import transforms
from bitvec.core.arrays import Array
from bitvec.core.composition import Asked, Combined, Composition, Interpolated, Member
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Float64
from bitvec.runtime.train.retrain import metrics
from bitvec.runtime.train.retrain.metrics import SMALLEST


@dataclass(frozen=True, slots=True, eq=False)
class Isotonic:
    """Forest behind curves: of two classes one for the second, else one for each.

    Parameters
    ----------
    model : Composition
    """

    model: Composition

    @classmethod
    def fit(cls, forest: Forest, raw: Array, target: Array, weight: Array) -> Self:
        """Return the rising curves of least weighted squared error, on some rows' raw scores."""
        assert forest.output.classes is not None
        (p,) = transforms.probabilities(forest.output, raw)
        classes = (1,) if p.shape[1] == 2 else range(p.shape[1])
        label = target[:, 0]
        curves = tuple(rising(p[:, at], label == at, weight) for at in classes)
        return cls(
            Composition(
                (Member(forest, Asked.PROBABILITIES, curves=curves),),
                Combined.MEAN_IN_ORDER,
                forest.inputs,
                classes=forest.output.classes[0],
                kind="isotonic calibration",
            )
        )

    def log_likelihood(self, raw: Array, target: Array) -> Float64[Array, " batch"]:
        """Return the log-probability of each row's label; see `metrics.log_likelihood`."""
        forest = self.model.forests[0]
        answer = self.model.answer(transforms.probabilities(forest.output, raw))
        if metrics.are_independent(forest.output, forest.n_outputs):
            yes, no = (np.log(np.maximum(p, SMALLEST)) for p in (answer, 1 - answer))
            return metrics.of_each_class(yes, no, target[:, 0])
        p = answer[np.arange(len(answer)), target[:, 0]]
        return np.log(np.maximum(p, SMALLEST))


def rising(x: Float[Array, " batch"], y: Array, weight: Float64[Array, " batch"]) -> Interpolated:
    """Return the rising curve of least weighted squared error through (x, y), y in [0, 1].

    Straight between the ends of its levels and constant beyond them. It stays away from 0 and 1 by
    1 / (batch + 2), so that no label is impossible.

    Examples
    --------
    >>> curve = rising(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1]), np.ones(4))
    >>> curve.x.tolist(), curve.y.round(3).tolist()
    ([0.1, 0.2, 0.3, 0.4], [0.167, 0.5, 0.5, 0.833])

    Notes
    -----
    Pool adjacent violators: Ayer, Brunk, Ewing, Reid and Silverman (1955).
    """
    at, place = np.unique(x.astype(np.float64), return_inverse=True)
    mass = np.bincount(place, weight)
    total = np.bincount(place, weight * y)
    # Of each level the mass, the sum of y, and where it begins.
    levels: list[tuple[float, float, int]] = []
    for start, (m, s) in enumerate(zip(mass.tolist(), total.tolist(), strict=True)):
        while levels and levels[-1][1] * m >= s * levels[-1][0]:
            before = levels.pop()
            m, s, start = m + before[0], s + before[1], before[2]
        levels.append((m, s, start))
    first = np.array([start for _, _, start in levels])
    last = np.append(first[1:], len(at)) - 1
    value = np.array([s / m for m, s, _ in levels])
    least = 1.0 / (len(x) + 2)
    knots = np.stack([at[first], at[last]], axis=1).ravel()
    heights = np.repeat(np.clip(value, least, 1 - least), 2)
    keep = np.append(np.diff(knots) > 0, True)
    return Interpolated(knots[keep], heights[keep])

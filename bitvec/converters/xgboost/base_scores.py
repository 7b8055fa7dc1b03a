"""The `base_score` whose margin is a given one, and how a model states it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from bitvec.converters.xgboost.objectives import RT_EPS, Objective
from bitvec.core.arrays import Array
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float32

NEIGHBOURS: Final = 4
"""Numbers that are tried to each side of the inverse link, which rounds as the link does."""


def scores_of(
    objective: Objective, margin: Float32[Array, " n_outputs"]
) -> Float32[Array, " n_outputs"] | None:
    """Return the `base_score` of margins, with the bits that xgboost makes of it.

    Returns
    -------
    float32, (n_outputs,), or None
        None if no float32 has one of these margins: a link maps many numbers to one.
    """
    found = []
    for value in margin:
        # Zeros of both signs begin a sum alike, so they are the same margin.
        fits = (s for s in _candidates(objective, value) if objective.margin(s) == value)
        score = next(fits, None)
        if score is None:
            return None
        found.append(score)
    return np.array(found, np.float32)


def text(score: Float32[Array, " n_outputs"]) -> str:
    """Return the text of `base_score`: one number, or since 3.1 a list where outputs differ.

    xgboost before 3.1 takes a number of more than nine digits for 0.5, without a word, so each is
    written as xgboost writes it, in the fewest digits that name it.

    >>> text(np.array([0.1, 0.1], np.float32)), text(np.array([0, -250], np.float32))
    ('1E-1', '[0E0,-2.5E2]')
    """
    numbers = [_number(value) for value in score]
    return numbers[0] if len(set(numbers)) == 1 else f"[{','.join(numbers)}]"


def _number(value: np.float32) -> str:
    digits = np.format_float_scientific(value, unique=True, trim="-", exp_digits=1)
    return digits.replace("e+", "E").replace("e", "E")


def _has_link(objective: Objective) -> bool:
    return objective.margin(np.float32(0.5)) != np.float32(0.5)


def _candidates(objective: Objective, margin: np.float32) -> Iterator[np.float32]:
    """Yield numbers around the inverse link of a margin, those that versions clip left out."""
    if not np.isfinite(margin):
        return
    if not _has_link(objective):
        yield margin
        return
    one = np.float32(1)
    is_logit = objective.post_transform is PostTransform.SIGMOID
    with np.errstate(over="ignore", under="ignore"):
        power = np.exp(-np.float64(margin) if is_logit else np.float64(margin))
        middle = np.float32(1 / (1 + power) if is_logit else power)
    for step in range(NEIGHBOURS + 1):
        for toward in (-np.inf, np.inf):
            score = middle
            for _ in range(step):
                score = np.nextafter(score, np.float32(toward))
            inside = RT_EPS <= score <= one - RT_EPS if is_logit else 0 < score < np.inf
            if inside:
                yield score

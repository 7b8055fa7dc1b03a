"""Node tests of sets of values: a threshold, one value, a set of codes; or several thresholds.

A column may hold the values of its domain only, so a set needs to be right there alone: where a
threshold parts the domain as the set does, it is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.float_keys import floats, key_of
from bitvec.core.key_intervals import Interval, Values, complement, intersection
from bitvec.core.node_tests import WORD_BITS, Kind, Relation

MOST_CODES = 1 << 12
"""Sets of whole numbers hold codes below this."""


class Form(NamedTuple):
    """One node: `codes` go right at a set node; with `swapped`, what is told so goes left.

    `missing_right` and `other_right` are those of the node as it stands, before its sides are
    swapped.
    """

    kind: Kind
    b: float = 0.0
    relation: Relation = Relation.GREATER
    codes: tuple[int, ...] = ()
    missing_right: bool = False
    other_right: bool = False
    swapped: bool = False


def of_texts(right: list[int], n_texts: int, *, missing_right: bool, other_right: bool) -> Form:
    """Return the node that sends these codes of texts right.

    Where other texts go right, so do the codes up to the end of a word: the set's range then holds
    every known text, and what is no text is alike within it and beyond.
    """
    end = (n_texts // WORD_BITS + 1) * WORD_BITS
    codes = (*right, *range(n_texts, end)) if other_right else tuple(right)
    return Form(Kind.SET, codes=codes, missing_right=missing_right, other_right=other_right)


def single_node(values: Values, domain: Values, relation: Relation, dtype: np.dtype) -> Form | None:
    """Return the node that sends these numbers right, None if no node does.

    Parameters
    ----------
    values, domain : Values
        What goes right, and what there is at all.
    relation : Relation
        Which comparison is preferred.
    """
    right = intersection(values, domain)
    left = intersection(complement(values, dtype), domain)
    for goes, stays, swapped in ((right, left, False), (left, right, True)):
        form = _threshold(goes.intervals, stays.intervals, relation, dtype)
        form = form or _point(goes.intervals, dtype) or _codes(goes.intervals, dtype)
        if form is not None:
            return form._replace(missing_right=goes.nan, swapped=swapped)
    return None


def _threshold(
    goes: tuple[Interval, ...], stays: tuple[Interval, ...], relation: Relation, dtype: np.dtype
) -> Form | None:
    """Return the node x > b or x >= b, if what goes right lies above all that does not."""
    if not goes:
        return Form(Kind.MARGIN, np.inf)
    first, last = goes[0][0], stays[-1][1] if stays else goes[0][0] - 1
    if last >= first:
        return None
    if stays and last + 1 < first:
        # Any threshold between serves: the middle is what a reader understands.
        middle = float((floats(np.array(last), dtype) + floats(np.array(first), dtype)) / 2)
        key = key_of(middle, dtype) if np.isfinite(middle) else first - 1
        return Form(Kind.MARGIN, float(floats(np.array(min(max(key, last), first - 1)), dtype)))
    top = key_of(np.inf, dtype)
    if relation == Relation.GREATER and first > -top:
        return Form(Kind.MARGIN, float(floats(np.array(first - 1), dtype)))
    return Form(Kind.MARGIN, float(floats(np.array(first), dtype)), Relation.GREATER_EQUAL)


def _point(goes: tuple[Interval, ...], dtype: np.dtype) -> Form | None:
    if len(goes) == 1 and goes[0][0] == goes[0][1]:
        return Form(Kind.EQUAL, float(floats(np.array(goes[0][0]), dtype)))
    return None


def _codes(goes: tuple[Interval, ...], dtype: np.dtype) -> Form | None:
    """Return the node of a set of whole numbers from 0."""
    if any(first != last for first, last in goes):
        return None
    numbers = floats(np.array([first for first, _ in goes]), dtype)
    if np.any(numbers < 0) or np.any(numbers >= MOST_CODES) or np.any(numbers % 1 != 0):
        return None
    return Form(Kind.SET, codes=tuple(int(number) for number in numbers))


def pieces(values: Values, domain: Values, dtype: np.dtype) -> list[tuple[float, bool]]:
    """Return thresholds b of `x >= b` and the side of the values from each on, rising.

    The first is the side of all values below the first threshold, -infinity.
    """
    right = intersection(values, domain).intervals
    left = intersection(complement(values, dtype), domain).intervals
    runs = sorted([*((a, b, True) for a, b in right), *((a, b, False) for a, b in left)])
    turns: list[tuple[float, bool]] = []
    for first, _, side in runs:
        if not turns or turns[-1][1] != side:
            b = -np.inf if not turns else float(floats(np.array(first), dtype))
            turns.append((b, side))
    return turns

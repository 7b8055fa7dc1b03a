"""Linear inequalities that one side of a test of several columns implies in a box.

A side is a sum of linear and softplus terms that must be large enough. Softplus is convex: where it
helps the sum it lies below its chord, where it hurts above its tangents. A chord is as tight as the
range of its facet is narrow, so that range may be cut; a tangent is tight where it was laid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Activation, NodeTests
from bitvec.core.shape_annotations import Bool, Float64, Int64

NARROW = 1e-9
"""A chord over a narrower range is laid level, at its upper end."""
FUNCTION_STEPS = 8
"""Roundings that are granted to a sum's b, its scaling and a library's softplus."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a test: sum over its facets k of c_k f_k(s_k) >= least, with s = A x − offset.

    f is softplus where `is_soft`, else the identity. A facet that reads category indicators has s
    from s + extra[0] to s + extra[1]. `size` and `tiny` bound what rounding takes from the sum, see
    `rounding`.
    """

    c: Float64[Array, " n_facets"]
    A: Float64[Array, "n_facets n"]
    offset: Float64[Array, " n_facets"]
    extra: Float64[Array, "2 n_facets"]
    is_soft: Bool[Array, " n_facets"]
    least: float
    dtype: np.dtype
    unit: float
    tiny: float

    @property
    def asks_for_zero(self) -> bool:
        """True if a sum of softplus must be 0, which it only is where each term underflows."""
        return self.least == 0 and bool(np.all(self.is_soft & (self.c < 0)))

    @property
    def bends(self) -> bool:
        """True if tangents stand for some of its terms."""
        return bool(np.any(self.is_soft & (self.c < 0))) and not self.asks_for_zero

    def values(self, x: Float64[Array, " n"]) -> Float64[Array, " n_facets"]:
        """Return s at x."""
        s: Array = self.A @ x - self.offset
        return s

    def ranges(
        self, low: Float64[Array, " n"], high: Float64[Array, " n"]
    ) -> tuple[Float64[Array, " n_facets"], Float64[Array, " n_facets"]]:
        """Return the least and the largest s in a box."""
        up, down = np.maximum(self.A, 0), np.minimum(self.A, 0)
        return (
            up @ low + down @ high - self.offset + self.extra[0],
            up @ high + down @ low - self.offset + self.extra[1],
        )

    def linear(
        self,
        bottom: Float64[Array, " n_facets"],
        top: Float64[Array, " n_facets"],
        at: Float64[Array, "n_lines n_facets"],
    ) -> tuple[Float64[Array, "n_lines n"], Float64[Array, " n_lines"]]:
        """Return rows and their least values, for s in [bottom, top] and tangents at s = `at`."""
        f_bottom, f_top, f = np.logaddexp(0, bottom), np.logaddexp(0, top), np.logaddexp(0, at)
        wide = top - bottom > NARROW
        chord = np.divide(f_top - f_bottom, top - bottom, out=np.zeros(top.size), where=wide)
        tangent, gains = np.exp(at - f), self.c > 0
        slope = np.where(self.is_soft, np.where(gains, chord, tangent), 1.0)
        level = np.where(gains, f_top - chord * top, f - tangent * at)
        return self._rows(self.c * slope, self.least - np.where(self.is_soft, level, 0) @ self.c)

    def at_least(
        self, k: Int64[Array, " n_lines"], value: Float64[Array, " n_lines"]
    ) -> tuple[Float64[Array, "n_lines n"], Float64[Array, " n_lines"]]:
        """Return the rows and least values that say s_k >= value."""
        return self._rows(np.eye(self.c.size)[k], value)

    def at_most(
        self, k: Int64[Array, " n_lines"], value: Float64[Array, " n_lines"]
    ) -> tuple[Float64[Array, "n_lines n"], Float64[Array, " n_lines"]]:
        """Return the rows and least values that say s_k <= value."""
        return self._rows(-np.eye(self.c.size)[k], -value)

    def _rows(self, g: Array, least: Array) -> tuple[Array, Array]:
        doubt = np.maximum(g * self.extra[0], g * self.extra[1]).sum(axis=1)
        return g @ self.A, least + g @ self.offset - doubt

    def excess(self, s: Float64[Array, " n_facets"]) -> float:
        """Return by how much the sum exceeds the least value."""
        return float(np.sum(self.c * np.where(self.is_soft, np.logaddexp(0, s), s))) - self.least

    def tops(
        self, low: Float64[Array, " n"], high: Float64[Array, " n"]
    ) -> tuple[Float64[Array, " n_facets"], Float64[Array, " n_facets"]]:
        """Return how large each s can be if no term may exceed the sum (else inf), and its doubt.

        Terms below 0 only, that is: no other can make up for one.
        """
        none = np.zeros(self.c.size)
        if not np.all(self.is_soft & (self.c < 0)):
            return none + np.inf, none
        if self.least > 0:
            return none - np.inf, none
        if self.asks_for_zero:
            # softplus underflows, or its product with a small weight does.
            top = softplus_inverse(none, self.dtype)
            doubt = 3 + np.maximum(0, -np.log(-self.c))
        else:
            # A product is rounded by a subnormal at least; softplus by far less than this part.
            most = float(np.finfo(self.dtype).smallest_subnormal) - self.least
            top = softplus_inverse(most / -self.c * (1 + 1e-4), self.dtype)
            doubt = none + 1e-4
        terms = np.abs(self.A) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(self.offset)
        return top, doubt + self.unit * terms

    def chord_gaps(
        self,
        bottom: Float64[Array, " n_facets"],
        top: Float64[Array, " n_facets"],
        s: Float64[Array, " n_facets"],
    ) -> Float64[Array, " n_facets"]:
        """Return what each facet's chord adds to the sum at s beyond the facet itself."""
        inside = np.clip(s, bottom, top)
        f_bottom, f_top = np.logaddexp(0, bottom), np.logaddexp(0, top)
        width = top - bottom
        share = np.divide(inside - bottom, width, out=np.zeros(s.size), where=width > NARROW)
        gap = f_bottom + share * (f_top - f_bottom) - np.logaddexp(0, inside)
        return np.where(self.is_soft & (self.c > 0), self.c * gap, 0.0)

    def rounding(
        self,
        low: Float64[Array, " n"],
        high: Float64[Array, " n"],
        top: Float64[Array, " n_facets"],
    ) -> float:
        """Return how far the literal sum may lie from the exact one anywhere in a box."""
        terms = np.abs(self.A) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(self.offset)
        terms = terms + np.abs(self.extra).max(axis=0)
        soft = sigmoid(top) * terms + np.logaddexp(0, top)
        size = float(np.abs(self.c) @ np.where(self.is_soft, soft, terms)) + abs(self.least)
        return self.unit * size + self.tiny


def side_of(tests: NodeTests, t: int, n_columns: int, *, right: bool) -> Side:
    """Return one side of test t, over so many columns."""
    part, entry = tests.part_of(t)
    n_facets = part.stop - part.start
    facet = np.repeat(np.arange(n_facets), np.diff(tests.row_ptr[part.start : part.stop + 1]))
    weight = tests.weight[entry].astype(np.float64)
    extra = np.zeros((2, n_facets))
    if tests.indicator is not None:
        reads_code = tests.indicator[entry] >= 0
        np.add.at(extra[0], facet[reads_code], np.minimum(weight[reads_code], 0))
        np.add.at(extra[1], facet[reads_code], np.maximum(weight[reads_code], 0))
        weight = np.where(reads_code, 0.0, weight)
    A = np.zeros((n_facets, n_columns))
    np.add.at(A, (facet, tests.column[entry]), weight)
    info = np.finfo(tests.dtype)
    steps = weight.size + n_facets + FUNCTION_STEPS
    sign = 1.0 if right else -1.0
    return Side(
        sign * tests.r[part].astype(np.float64),
        A,
        tests.offset[part].astype(np.float64),
        extra,
        tests.activation[part] == Activation.SOFTPLUS,
        sign * float(tests.b[t]),
        tests.dtype,
        0.5 * (steps * float(info.eps) + 32 * float(np.finfo(np.float64).eps)),
        # Products that underflow lose an absolute part.
        steps * float(info.tiny) * (1 + float(np.abs(tests.r[part]).max())),
    )


def sigmoid(s: Float64[Array, " n"]) -> Float64[Array, " n"]:
    """Return the slope of softplus."""
    slope: Array = np.exp(-np.logaddexp(0, -s))
    return slope


def softplus_inverse(y: Float64[Array, " n"], dtype: np.dtype) -> Float64[Array, " n"]:
    """Return s with log(1 + exp(s)) = y; where y is 0 or less, s at which it underflows to 0."""
    y = np.asarray(y, np.float64)
    info = np.finfo(dtype)
    positive = np.maximum(y, float(info.tiny))
    inverse = positive + np.log(-np.expm1(-positive))
    value: Array = np.where(y > 0, inverse, np.log(float(info.tiny)) + np.log(float(info.eps)) - 2)
    return value

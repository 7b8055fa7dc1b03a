"""Values that the source library refuses, and a forest converted from it therefore too.

A converter marks them in `source.metadata`: "refuses_missing" and "refuses_infinite" (scikit-learn;
its check runs on X as cast to the forest's dtype).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import FLOATS, Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict.engine import OneRow

BLOCK = 1 << 16
"""Values that are looked at at a time, while they are in the cache."""


@dataclass(frozen=True, slots=True)
class RefusedValues:
    """Values that X may not hold.

    Parameters
    ----------
    missing, infinite : bool
        Whether NaN and infinities are refused.
    dtype : numpy dtype
        To which X is cast: a value that overflows there is infinite.
    n_features : int
        Columns of X.
    model : str
        The source, for messages.
    """

    missing: bool
    infinite: bool
    dtype: np.dtype
    n_features: int
    model: str

    @property
    def words(self) -> list[str]:
        """Names of the values that are refused."""
        return ["missing"] * self.missing + ["infinite"] * self.infinite

    def before(self, work: Callable[[Array, Array], object]) -> Callable[[Array, Array], None]:
        """Return work on rows that is done once they are checked."""

        def checked(X: Array, out: Array) -> None:
            self.check(X)
            work(X, out)

        return checked

    def check(self, X: Array) -> None:
        """Raise InputError if X holds a value that is refused."""
        step = max(1, BLOCK // max(self.n_features, 1))
        for start in range(0, len(X) if self.n_features else 0, step):
            self._check_block(X[start : start + step])

    def _check_block(self, X: Array) -> None:
        if X.itemsize <= self.dtype.itemsize:
            # One pass, and no cast that could overflow: a finite sum has finite terms.
            with np.errstate(over="ignore", invalid="ignore"):
                if math.isfinite(X.sum()):
                    return
        least, most, bound = float(X.min()), float(X.max()), self._bound  # NaN if there is one
        if -bound < least and most < bound:
            return
        if self.missing and math.isnan(least):
            raise InputError(
                f"Input X contains NaN: {self.model}, which the forest was converted from, does "
                "not accept missing values, so fill them in first."
            )
        with np.errstate(over="ignore"):
            infinite = self.infinite and bool(np.isinf(X.astype(self.dtype, copy=False)).any())
        if infinite:
            raise InputError(
                f"Input X contains infinity or a value too large for {self.dtype}: {self.model}, "
                "which the forest was converted from, does not accept it, so clip or drop such "
                "rows."
            )

    @property
    def _bound(self) -> float:
        """The largest finite value."""
        return float(np.finfo(self.dtype).max)

    def guard(self, answer: OneRow) -> OneRow:
        """Return an answer for one row that refuses first what is refused.

        A product that BLAS sums shows that no value is NaN, infinite or too large, unless it is so
        itself: then every value is looked at.
        """
        # So small that finite values have a finite sum.
        weight = {np.dtype(kind): np.full(self.n_features, 2.0**-20, kind) for kind in FLOATS}
        narrows, squared = self.dtype == np.float32, float(np.finfo(np.float32).max) ** 2 / 4

        def guarded(X: Array) -> Array:
            row = X[0]
            if narrows and X.dtype == np.float64:
                sound = row.dot(row) < squared
            else:
                sound = math.isfinite(row.dot(weight[X.dtype]))
            if not sound:
                self.check(X)
            return answer(X)

        return guarded


def refused_values(forest: Forest) -> RefusedValues | None:
    """Return what the forest's source refuses, or None if that is nothing."""
    source = forest.source
    if source is None:
        return None
    missing, infinite = (
        source.metadata.get(f"refuses_{what}") is True for what in ("missing", "infinite")
    )
    if not missing and not infinite:
        return None
    model = f"{source.library}'s {source.model}"
    return RefusedValues(missing, infinite, forest.dtype, forest.n_features, model)

"""Values that the source library refuses, and a forest converted from it therefore too.

A converter marks them in `source.metadata`: "refuses_missing" and "refuses_infinite" (scikit-learn;
its check runs on X as cast to the forest's dtype). Steps before the trees refuse more, column by
column, which `inputs.domains` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Domain, Inputs
from bitvec.errors import InputError
from bitvec.runtime.predict.code_books import listed

BLOCK = 1 << 16
"""Values that are looked at at a time, while they are in the cache."""
CACHED = 1 << 19
"""Bytes of rows that are still in the second-level cache after the look, ..."""
LEAST_ROWS = 512
"""... or so many rows where that would be fewer."""


class Bounds(NamedTuple):
    """The least and the most of each column, whether it may be missing, and which have gaps."""

    least: Array
    most: Array
    may_miss: Array
    gaps: tuple[int, ...]


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
    inputs : Inputs
        The domains of columns, and their names for messages.
    bounds : Bounds, optional
        Of the columns, where they may not hold everything.
    """

    missing: bool
    infinite: bool
    dtype: np.dtype
    n_features: int
    model: str
    inputs: Inputs
    bounds: Bounds | None = None

    @property
    def words(self) -> list[str]:
        """Names of the values that are refused."""
        outside = self.bounds is not None
        domains = ["values outside the columns' domains"] * outside
        return ["missing"] * self.missing + ["infinite"] * self.infinite + domains

    def before(
        self, work: Callable[[Array, Array], object], *, by_block: bool = False
    ) -> Callable[[Array, Array], None]:
        """Return work on rows that is done once they are checked.

        By block, rows are read from memory once, which takes half the time where they are wide; it
        is for work that does not share them among threads.
        """

        def checked(X: Array, out: Array) -> None:
            rows = max(LEAST_ROWS, CACHED // max(X.shape[1] * X.itemsize, 1))
            step = rows if by_block else max(len(X), 1)
            for start in range(0, max(len(X), 1), step):
                self.check(X[start : start + step])
                work(X[start : start + step], out[start : start + step])

        return checked

    def check(self, X: Array) -> None:
        """Raise InputError if X holds a value that is refused."""
        step = max(1, BLOCK // max(self.n_features, 1))
        for start in range(0, len(X) if self.n_features else 0, step):
            self._check_block(X[start : start + step])

    def lets_pass(self, X: Array) -> bool:
        """Return whether no column holds a value outside its domain, as far as bounds tell."""
        if self.bounds is None:
            return True
        least, most, _, gaps = self.bounds
        fits = not gaps and X.ndim == 2 and X.shape[1] == self.n_features
        return fits and bool(((least <= X) & (most >= X)).all())

    def _check_block(self, X: Array) -> None:
        self._check_domains(X)
        if not self.missing and not self.infinite:
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

    def _check_domains(self, X: Array) -> None:
        if self.bounds is None:
            return
        least, most, may_miss, gaps = self.bounds
        inside = (least <= X) & (most >= X)
        if not inside.all() and not (inside | (np.isnan(X) & may_miss)).all():
            gaps = tuple(range(self.n_features))
        for column in gaps:
            domain, x = (self.inputs.domains or ())[column], X[:, column]
            taken = domain.holds(x)
            if not taken.all():
                value = float(x[~taken][0])
                raise InputError(_outside(self.inputs, column, domain, value, self.model))

    @property
    def _bound(self) -> float:
        """The largest finite value."""
        return float(np.finfo(self.dtype).max)


def refused_values(forest: Forest) -> RefusedValues | None:
    """Return what the forest's source refuses, or None if that is nothing."""
    source, inputs = forest.source, forest.inputs
    metadata = {} if source is None else source.metadata
    missing, infinite = (
        metadata.get(f"refuses_{what}") is True for what in ("missing", "infinite")
    )
    bounds = _bounds(inputs)
    if not missing and not infinite and bounds is None:
        return None
    model = "the source" if source is None else f"{source.library}'s {source.model}"
    return RefusedValues(missing, infinite, forest.dtype, forest.n_features, model, inputs, bounds)


def _bounds(inputs: Inputs) -> Bounds | None:
    """Return the bounds of the columns, None if they may hold everything."""
    domains = inputs.domains or ()
    if all(domain.is_everything for domain in domains):
        return None
    least = np.array([d.intervals[0][0] if d.intervals else np.inf for d in domains])
    most = np.array([d.intervals[-1][1] if d.intervals else -np.inf for d in domains])
    several = tuple(at for at, domain in enumerate(domains) if len(domain.intervals) > 1)
    return Bounds(least, most, np.array([domain.missing for domain in domains]), several)


def _outside(inputs: Inputs, column: int, domain: Domain, value: float, model: str) -> str:
    """Return the sentence for a value that a column may not hold."""
    names, book = inputs.feature_names, inputs.book(column)
    name = f"column {column}" if names is None else f"column {names[column]!r}"
    if math.isnan(value):
        wanted, got = "no missing values", "one"
    elif book is not None:
        wanted, got = f"known categories ({listed(book)})", f"another (code {value:g})"
    else:
        ends = [f"{first:.6g} to {last:.6g}" for first, last in domain.intervals[:3]]
        wanted, got = f"numbers of {' or '.join(ends)}", repr(float(value))
    return (
        f"{name} of `X` must hold {wanted}, got {got}: {model}, which the forest was converted "
        "from, does not accept it, so fill in, clip or drop such rows."
    )

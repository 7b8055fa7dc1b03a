"""Operations on the values of one column, and the values that each of them takes into a set.

An operation is known by its arithmetic, that of the library in its order and dtype, and by
`preimages`: from sets of its results to the sets of values that lead there. Sets are intervals of
float keys (`bitvec.core.key_intervals`), so that all of this is exact. A float column holds the
dtype that NumPy has there; whole numbers and truth values count as float64, which holds them.

Texts have no keys. A column of them is a list of all that it can hold: each text of a code book,
any other text, and what is missing; operations are applied to that list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import first_taken_to, key_of
from bitvec.core.inputs import Domain
from bitvec.core.key_intervals import (
    Values,
    complement,
    everything,
    intersection,
    joined,
    union,
)
from bitvec.core.shape_annotations import Bool, Float, Int64

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def float_of(dtype: np.dtype) -> np.dtype:
    """Return the float dtype that holds the numbers of a column of this dtype."""
    return SINGLE if dtype == SINGLE else DOUBLE


class Unseen:
    """Any text that no code book holds."""

    def __repr__(self) -> str:
        return "another text"


UNSEEN: Final = Unseen()


class Operation(Protocol):
    """A function of one column's values.

    `source` and `target` are the float dtypes of what it takes and gives; `labels` the texts that
    it knows, None where it takes numbers only.
    """

    @property
    def source(self) -> np.dtype:
        """The float dtype that it takes."""
        ...

    @property
    def target(self) -> np.dtype:
        """The float dtype that it gives."""
        ...

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The texts that it knows."""
        ...

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the results, and which values are taken at all."""
        ...

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return the numbers that lead into each set."""
        ...

    def domain(self) -> Values:
        """Return the numbers that are taken at all."""
        ...


def _in_place(ufunc: np.ufunc) -> Callable[..., Array]:
    """Return what `x op= a` computes: in the wider dtype of the two, rounded to that of x."""

    def computed(x: Array, a: Array) -> Array:
        result: Array = ufunc(x, a, out=np.empty_like(x), casting="same_kind")
        return result

    return computed


def _clip(x: Array, low: Array, high: Array) -> Array:
    result: Array = np.clip(x, low.astype(x.dtype), high.astype(x.dtype))
    return result


def _bin(x: Array, edges: Array) -> Array:
    place: Array = np.searchsorted(edges, x, side="right")
    return place.astype(x.dtype)


_FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    "subtract": _in_place(np.subtract),
    "add": _in_place(np.add),
    "divide": _in_place(np.divide),
    "multiply": _in_place(np.multiply),
    "clip": _clip,
    "bin": _bin,
    "exceeds": lambda x, a: (x > a).astype(x.dtype),
    "truncate": np.trunc,
    "cast": lambda x: x,
}
"""Functions that never fall, of numbers that are not NaN: each rounds a monotone one correctly."""


@dataclass(frozen=True, eq=False)
class Rising:
    """A function of `_FUNCTIONS`, with a cast to the target behind it.

    Parameters
    ----------
    name : str
    operands : tuple of arrays, (1,)
        Finite; factors and divisors greater than 0. One that is NaN makes every result NaN.
    source, target : numpy dtype
    """

    name: str
    operands: tuple[Array, ...]
    source: np.dtype
    target: np.dtype
    labels: ClassVar[None] = None

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return the results for numbers of the source's dtype."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            result: Array = _FUNCTIONS[self.name](x, *self.operands).astype(self.target)
        return np.where(np.isnan(x), self.target.type(np.nan), result)

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the results; every number is taken."""
        return self(x.astype(self.source)), np.ones(len(x), np.bool_)

    def domain(self) -> Values:
        """Return everything."""
        return everything(self.source)

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return, for each interval of results, the interval of numbers that leads there."""
        if any(np.isnan(operand).any() for operand in self.operands):
            return [Values(everything(self.source).intervals if s.nan else (), s.nan) for s in sets]
        wanted = np.array([e for s in sets for a, b in s.intervals for e in (a, b + 1)], np.int64)
        distinct, where = np.unique(wanted, return_inverse=True)
        ends = self.first_at_least(distinct)[where].tolist()
        result, at = [], 0
        for s in sets:
            stop = at + 2 * len(s.intervals)
            pairs = zip(ends[at:stop:2], ends[at + 1 : stop : 2], strict=True)
            result.append(Values(joined((a, b - 1) for a, b in pairs if a < b), s.nan))
            at = stop
        return result

    def first_at_least(self, key: Int64[Array, " n"]) -> Int64[Array, " n"]:
        """Return the keys of the smallest numbers whose results have at least these keys.

        One beyond infinity where there is none.
        """
        return first_taken_to(key, self, self.source)


def cast(source: np.dtype, target: np.dtype) -> Rising:
    """Return the cast of one float dtype to another."""
    return Rising("cast", (), source, target)


@dataclass(frozen=True, eq=False)
class Negate:
    """The number of the other sign, which is exact.

    Parameters
    ----------
    source : numpy dtype
    """

    source: np.dtype
    labels: ClassVar[None] = None

    @property
    def target(self) -> np.dtype:
        """The same dtype."""
        return self.source

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the results; every number is taken."""
        return -x.astype(self.source), np.ones(len(x), np.bool_)

    def domain(self) -> Values:
        """Return everything."""
        return everything(self.source)

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return each set mirrored at 0."""
        return [Values(joined((-b, -a) for a, b in s.intervals), s.nan) for s in sets]


@dataclass(frozen=True, eq=False)
class Require:
    """A check that lets some numbers pass, and every text, perhaps None.

    Parameters
    ----------
    source : numpy dtype
    nan, infinite : bool
        Whether these pass.
    most : float
        The largest magnitude of a finite number that passes.
    none : bool
        Whether None passes.
    """

    source: np.dtype
    nan: bool
    infinite: bool
    most: float = np.inf
    none: bool = True
    labels: ClassVar[None] = None

    @property
    def target(self) -> np.dtype:
        """The same dtype."""
        return self.source

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the values themselves, and which of them pass."""
        if x.dtype == object:
            passes = (self.none if v is None else self.nan or v == v for v in x.tolist())
            return x, np.array([*passes], np.bool_)
        within = np.isnan(x) | np.isinf(x) | (np.abs(x) <= self.most)
        return x, (self.nan | ~np.isnan(x)) & (self.infinite | ~np.isinf(x)) & within

    def domain(self) -> Values:
        """Return the numbers that pass."""
        found = everything(self.source, nan=self.nan, infinite=self.infinite)
        if np.isinf(self.most):
            return found
        ends = key_of(self.most, self.source), key_of(np.inf, self.source)
        inside, outside = ((-ends[0], ends[0]),), ((-ends[1], -ends[1]), (ends[1], ends[1]))
        return Values(joined((*inside, *(outside if self.infinite else ()))), self.nan)

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return the sets."""
        return sets


@dataclass(frozen=True, eq=False)
class Within:
    """A check that lets the numbers of a forest's own domain pass.

    Parameters
    ----------
    source : numpy dtype
    taken : Domain
    """

    source: np.dtype
    taken: Domain
    labels: ClassVar[None] = None

    @property
    def target(self) -> np.dtype:
        """The same dtype."""
        return self.source

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the values themselves, and which of them pass."""
        return x, self.taken.holds(x)

    def domain(self) -> Values:
        """Return the numbers that pass."""
        ends = ((key_of(a, self.source), key_of(b, self.source)) for a, b in self.taken.intervals)
        return Values(tuple(ends), self.taken.missing)

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return the sets."""
        return sets


@dataclass(frozen=True, eq=False)
class Replace:
    """Values that count as missing, replaced by one; with `other`, all others by another.

    Parameters
    ----------
    missing : float, str or None
        NaN, None, a number or a text.
    value : float or str
        What stands for it.
    other : float, optional
        What stands for everything else; itself if not given.
    source, target : numpy dtype
    """

    missing: Any
    value: Any
    source: np.dtype
    target: np.dtype
    other: float | None = None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The texts among what it replaces and by what."""
        found = tuple(v for v in (self.missing, self.value) if isinstance(v, str))
        return found or None

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the results; every value is taken."""
        hit = np.array([_same(v, self.missing) for v in x.tolist()], np.bool_)
        others = x if self.other is None else np.full(len(x), self.other)
        result = np.where(hit, np.array(self.value, object), others.astype(object))
        is_number = self.other is not None or x.dtype != object
        return (result.astype(self.target) if is_number else result), np.ones(len(x), np.bool_)

    def domain(self) -> Values:
        """Return everything."""
        return everything(self.source)

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return the sets, with what is missing in those that hold its value."""
        return [self._preimage(s) for s in sets]

    def _preimage(self, s: Values) -> Values:
        hit = _holds(s, self.value, self.target)
        others = s
        if self.other is not None:
            holds = _holds(s, self.other, self.target)
            others = everything(self.source) if holds else Values((), False)
        point = _point(self.missing, self.source)
        return union(others, point) if hit else intersection(others, complement(point, self.source))


@dataclass(frozen=True, eq=False)
class Encode:
    """Categories, each with its number.

    Parameters
    ----------
    categories : tuple
        Numbers or texts, among them perhaps NaN or None.
    numbers : float64 or bool, (n_categories,)
    unknown : float, optional
        The number of anything else; if not given, that is refused.
    source, target : numpy dtype
    """

    categories: tuple[Any, ...]
    numbers: Array
    unknown: float | None
    source: np.dtype
    target: np.dtype

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The texts among the categories."""
        found = tuple(c for c in self.categories if isinstance(c, str))
        return found or None

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the numbers, and which values are known or need not be."""
        place = _places(self.categories)
        found = np.array([place.get(_key(value), -1) for value in x.tolist()], np.int64)
        other = np.nan if self.unknown is None else self.unknown
        result = np.append(self.numbers, other).astype(self.target)[found]
        known = (found >= 0) | (self.unknown is not None)
        return result, known

    def domain(self) -> Values:
        """Return the categories, or everything where others have a number."""
        if self.unknown is not None:
            return everything(self.source)
        return _known(self.categories, self.source)[0]

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return the categories whose numbers are in each set, and all others if theirs is."""
        _, others = _known(self.categories, self.source)
        result = []
        for s in sets:
            held = s.holds(self.numbers.astype(self.target))
            found = _among(self.categories, np.flatnonzero(held).tolist(), self.source)
            if self.unknown is not None and _holds(s, self.unknown, self.target):
                found = union(found, others)
            result.append(found)
        return result


# A column of each category asks for these: each is made once for all of them.
@lru_cache(64)
def _places(categories: tuple[Any, ...]) -> dict[Any, int]:
    return {_key(category): at for at, category in enumerate(categories)}


@lru_cache(64)
def _points(categories: tuple[Any, ...], dtype: np.dtype) -> list[Values]:
    return [_point(category, dtype) for category in categories]


@lru_cache(64)
def _known(categories: tuple[Any, ...], dtype: np.dtype) -> tuple[Values, Values]:
    """Return the numbers among some categories, and all others."""
    known = _among(categories, range(len(categories)), dtype)
    return known, complement(known, dtype)


def _among(categories: tuple[Any, ...], which: Iterable[int], dtype: np.dtype) -> Values:
    every = _points(categories, dtype)
    points = [every[at] for at in which]
    intervals = joined(interval for point in points for interval in point.intervals)
    return Values(intervals, any(point.nan for point in points))


def _key(value: Any) -> Any:
    """Return what equal values share; one NaN equals another."""
    return ("NaN",) if value is not None and value != value else value


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None or isinstance(a, str | Unseen) or isinstance(b, str | Unseen):
        return type(a) is type(b) and a == b
    return bool(a == b or (a != a and b != b))


def _holds(s: Values, value: Any, dtype: np.dtype) -> bool:
    return bool(s.holds(np.array([value], dtype))[0])


def _point(value: Any, dtype: np.dtype) -> Values:
    """Return the set of one number, empty where the dtype does not hold it."""
    if value is None or isinstance(value, str):
        return Values((), False)
    number = float(value)
    if number != number:
        return Values((), True)
    with np.errstate(over="ignore"):
        if float(dtype.type(number)) != number:
            return Values((), False)
    return Values(((key_of(number, dtype),) * 2,), False)

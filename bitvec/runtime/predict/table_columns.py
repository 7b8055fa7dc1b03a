"""Columns of a table as numbers: values as they are, categories by the forest's code books."""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.inputs import Domain, Inputs
from bitvec.errors import InputError
from bitvec.runtime.predict.code_books import CodeBook, Hashes, WholeNumbers, book_of
from bitvec.runtime.predict.declared_dtypes import require_numbers, require_value
from bitvec.runtime.predict.distinct_values import distinct

FEW = 16
"""Rows up to which cells are looked up one by one."""
SPREAD = 64
"""Places that are all looked up rather than searched for those that occur."""
KEPT = 16
"""Forests whose books, and kinds of frames whose columns, are remembered."""


class Texts(NamedTuple):
    """The texts of the categories of a column; `size` is 0 where it is not known."""

    size: int
    at: Callable[[int], Any]
    every: Callable[[], list[Any]]


@dataclass(slots=True)
class Column:
    """One column of a table, read in parts.

    Parameters
    ----------
    name : str
        What messages call it.
    book : CodeBook, Hashes or WholeNumbers, optional
        None where the forest reads numbers.
    domain : Domain, optional
        What the column may hold, where its source computes with it.
    n_unseen : int
        How many of the values read so far are categories that the book does not hold.
    unseen : object
        The first of them.
    """

    name: str
    book: CodeBook | Hashes | WholeNumbers | None
    domain: Domain | None = None
    n_unseen: int = field(default=0, init=False)
    unseen: Any = field(default=None, init=False)

    @property
    def is_dropped(self) -> bool:
        """Return whether nothing of it is read."""
        return self.domain is not None and self.domain.dtype == "dropped"

    @property
    def reads_numbers(self) -> bool:
        """Return whether numbers are read as they are."""
        return self.book is None and not self.is_dropped

    @property
    def reads_texts(self) -> bool:
        """Return whether the code of a text is its place among the book's texts."""
        has_null = self.domain is None or (self.domain.dtype, self.domain.null) == ("text", "any")
        return type(self.book) is CodeBook and self.book.is_plain and has_null

    def texts(self) -> list[str]:
        """Return the texts of the book, in the order of their codes; others are left out."""
        return [label for label in getattr(self.book, "labels", ()) if isinstance(label, str)]

    def require_numbers(self, values: Array) -> Array:
        """Return numbers of a column, of a dtype that its domain takes."""
        if self.domain is not None:
            require_numbers(values, self.domain, self.name)
        return values

    def fill_codes(self, place: Array, texts: Texts, out: Array) -> bool:
        """Fill `out` with the codes of cells by the place of their text, -1 where it is null.

        Return whether each cell is null or a text of the book.
        """
        if not isinstance(self.book, CodeBook) or not self.reads_texts:
            return False
        if place.size <= FEW:
            cells = [None if at < 0 else texts.at(at) for at in place.tolist()]
            return self.fill_texts(cells, out)
        code_of = self.book.code_of_text
        if place.dtype == np.uint64:  # which not every NumPy takes for places
            place = place.astype(np.int64)
        if 0 < texts.size <= 4 * place.size:
            codes = [*map(code_of, texts.every()), math.nan]
            number = np.array(codes, out.dtype)
        else:
            first = int(place.view(f"u{place.itemsize}").min())  # as which -1 is the greatest
            last = int(place.max())
            occur: Any = range(first, last + 1)
            if len(occur) > SPREAD:
                known = place if place.dtype.kind == "u" else place[place >= 0]
                occur = np.flatnonzero(np.bincount(known)).tolist()
            codes = [code_of(texts.at(at)) for at in occur]
            number = np.full(last + 2, np.nan, out.dtype)
            number[slice(first, last + 1) if type(occur) is range else occur] = codes
        np.take(number, place, out=out, mode="wrap")
        return math.inf not in codes or not np.isinf(out).any()

    def fill_texts(self, cells: list[Any], out: Array) -> bool:
        """Fill `out` with the codes of texts, of which None is null, as `fill_codes` does."""
        assert isinstance(self.book, CodeBook)
        code_of = self.book.code_of_text
        codes = [math.nan if cell is None else code_of(cell) for cell in cells]
        out[...] = codes
        return math.inf not in codes

    def from_series(self, series: Any) -> Array:
        """Return a narwhals series as numbers."""
        import narwhals

        # NumPy has no such integers.
        is_wide = series.dtype in (narwhals.Int128, narwhals.UInt128)
        if self.domain is not None and series.dtype.is_numeric() and not is_wide:
            require_numbers(np.asarray(series.to_numpy()), self.domain, self.name)
        has_decimals = isinstance(self.book, CodeBook | Hashes) and self.book.decimals
        as_they_are = series.dtype.is_numeric() and not is_wide and not has_decimals
        if as_they_are and series.dtype != narwhals.Decimal:
            if self.book is not None:
                self.book.refuse_numbers(self.name)
            return _numbers(series)
        if series.dtype == narwhals.Boolean and self.book is None and series.null_count() == 0:
            return np.asarray(series.to_numpy())
        if series.dtype.is_temporal():
            raise InputError(
                f"`X` must hold real numbers, got {series.dtype} in {self.name}: convert it."
            )
        is_category = series.dtype in (narwhals.Categorical, narwhals.Enum)
        tells_nulls = self.domain is not None and self.domain.null != "any"
        found = None if tells_nulls else distinct(series)
        if found is not None:
            return self._from_distinct(*found, is_category=is_category)
        native = series.to_native()
        if is_wide:
            values = series.to_list()
        elif hasattr(native, "to_pylist"):  # narwhals loses nulls of pyarrow's dictionaries
            values = native.to_pylist()
        else:
            held = series.to_numpy()
            # NumPy makes whole numbers of times in nanoseconds.
            is_time = held.dtype.kind in "mM"
            objects = np.array(series.to_list(), object) if is_time else held.astype(object)
            if not tells_nulls or not hasattr(native, "iloc"):
                objects[series.is_null().to_numpy()] = None
            values = objects.tolist()
        are_codes = series.dtype.is_numeric()
        return self.from_values(
            values, null_is_nan=True, is_category=is_category, are_codes=are_codes
        )

    def _from_distinct(self, place: Array, values: list[Any], *, is_category: bool) -> Array:
        """Return cells as float64, of which only the values that occur are read."""
        codes = np.empty(place.size)
        if self.fill_codes(place, Texts(len(values), values.__getitem__, lambda: values), codes):
            return codes
        first = np.full(len(values) + 1, place.size)
        first[place[::-1]] = np.arange(place.size)[::-1]  # of several the last one stays
        count = np.bincount(place[place >= 0], minlength=len(values))
        number = np.full(len(values) + 1, np.nan)  # the last for null
        for at in sorted(np.flatnonzero(count).tolist(), key=first.__getitem__):
            n_unseen = self.n_unseen
            one = values[at : at + 1]
            number[at] = self.from_values(one, null_is_nan=True, is_category=is_category)[0]
            if self.n_unseen > n_unseen:
                self.n_unseen += int(count[at]) - 1
        return number[place]

    def from_cells(self, cells: list[Any]) -> Array:
        """Return the cells of a data frame as float64, of which each null is NaN."""
        if self.domain is None or self.domain.null == "any":
            cells = [None if _is_null(cell) else cell for cell in cells]
        return self.from_values(cells, null_is_nan=True)

    def from_values(
        self,
        values: list[Any],
        *,
        null_is_nan: bool = False,
        is_category: bool = False,
        are_codes: bool = False,
    ) -> Array:
        """Return Python values as float64: categories by code, other numbers as they are.

        A number among objects is a category, since texts may stand beside it; in a column of
        numbers (`are_codes`) it is a code.
        """
        book = self.book
        if self.is_dropped:
            return np.zeros(len(values))
        null_is_nan |= book is not None
        is_ambiguous = book is not None and book.is_ambiguous
        has_decimals = isinstance(book, CodeBook | Hashes) and book.decimals
        kinds: tuple[type, ...] = (str, bool, np.bool_)
        if has_decimals:
            kinds = (*kinds, int, np.integer)
        elif type(book) is CodeBook and not (is_ambiguous or are_codes):
            kinds = (*kinds, numbers.Real, Decimal)
        result = np.empty(len(values))
        for at, value in enumerate(values):
            if self.domain is not None:
                require_value(value, self.domain, self.name)
            is_null = _is_null(value)
            if (is_null and null_is_nan) or (isinstance(value, float) and value != value):
                result[at] = np.nan
            elif book is not None and (is_category or isinstance(value, kinds)):
                code = book.code(value, self.name)
                result[at] = book.unseen if code is None else code
                if code is None:
                    self.unseen = value if self.n_unseen == 0 else self.unseen
                    self.n_unseen += 1
            elif _is_number(value) and not is_category:
                if book is not None and (is_ambiguous or has_decimals):
                    book.refuse_numbers(self.name)
                result[at] = _as_float(value)
            else:
                remedy = "pass NaN for a missing value" if is_null else "encode it as a number"
                raise InputError(
                    f"`X` must hold real numbers in {self.name}, which has no categories in this "
                    f"forest, got {value!r}: {remedy}."
                )
        return result

    def warn_of_unseen(self) -> None:
        """Warn once of all values that the book does not hold."""
        if self.n_unseen:
            warnings.warn(
                f"`X` holds {self.n_unseen} values in {self.name} that the forest has no category "
                f"for, for example {self.unseen!r}: they go where each node sends an unknown "
                "category.",
                UserWarning,
                stacklevel=outside_stacklevel(),
            )


def _numbers(series: Any) -> Array:
    """Return a narwhals series of numbers as an array; null is NaN."""
    if series.implementation.is_pyarrow() and not series.null_count():
        native = series.to_native()
        parts = native.chunks if hasattr(native, "chunks") else [native]
        if len(parts) == 1:
            # `to_numpy` of pyarrow imports pandas, without need.
            return np.from_dlpack(parts[0])
    return np.asarray(series.to_numpy())


def columns(inputs: Inputs, names: Sequence[str]) -> list[Column]:
    """Return the columns that a forest reads, in its order, by the names of messages."""
    read = _books_and_domains(Same(inputs))
    return [
        # Hashes of all that was ever met are not kept.
        Column(name, Hashes() if book is Hashes else book, domain)
        for name, (book, domain) in zip(names, read, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Inputs that equal only themselves: to compare books takes longer than to read few rows."""

    inputs: Inputs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.inputs is self.inputs

    def __hash__(self) -> int:
        return id(self.inputs)


@lru_cache(maxsize=KEPT)
def _books_and_domains(of: Same) -> list[tuple[Any, Domain | None]]:
    inputs = of.inputs
    found: list[tuple[Any, Domain | None]] = []
    for at in range(inputs.n_features):
        domain = inputs.domains[at] if inputs.domains else None
        if at in inputs.category_hashes:
            found.append((Hashes, domain))
        elif at in inputs.whole_numbers:
            found.append((WholeNumbers(at in inputs.decimals), None))
        else:
            found.append((book_of(inputs, at), domain))
    return found


def outside_stacklevel() -> int:
    """Return the level of the first caller outside this package, whose line the warning names."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("bitvec."):
        frame, level = frame.f_back, level + 1
    return level


def _is_null(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of float64
        return math.inf if value > 0 else -math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | Decimal | np.bool_)

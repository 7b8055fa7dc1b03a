"""Code books: the category values of one column, by which a table's values become codes.

A code is a value's place in the book. Where `Inputs.hashed` names the column, some of the book's
whole numbers are hashes of categories, and a value is found by its hash; where `Inputs.decimals`
does, a whole number is found by its decimals. `WholeNumbers` are categories that stand for
themselves, without a book.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from bitvec.core.city_hash import category_hash, whole_number
from bitvec.core.inputs import Inputs, Label
from bitvec.errors import InputError

MOST_FOUND: Final = 1 << 12
"""Values beside its labels of which a book, which outlives a table, remembers what they are."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class CodeBook:
    """The categories of one column.

    Parameters
    ----------
    labels : tuple
        Categories whose place is the code.
    hashed : bool
        Whether whole numbers among the labels are hashes of categories.
    decimals : bool
        Whether a whole number is the category of its decimals, and a truth value "true" or "false".
    refuses_unseen : bool
        Whether a category that is not there is refused.
    """

    labels: tuple[Label, ...]
    hashed: bool = False
    decimals: bool = False
    refuses_unseen: bool = False
    unseen: ClassVar[float] = -1.0
    """The code of a category that is not there."""
    is_ambiguous: bool = field(init=False, repr=False, compare=False)
    """True where a number may be another category than the one of which it is the code."""
    _code: dict[Any, float] = field(init=False, repr=False, compare=False)
    _found: dict[Any, float | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keys: Iterable[Label] = self.labels
        if self.hashed:
            keys = (category_hash(key) if isinstance(key, str) else key for key in self.labels)
        code = {key: float(at) for at, key in enumerate(keys)}
        object.__setattr__(self, "_code", code)
        object.__setattr__(self, "_found", {})
        is_ambiguous = self.hashed or (
            not {*map(type, self.labels)} <= {str}
            and any(
                not isinstance(label, str) and label != at for at, label in enumerate(self.labels)
            )
        )
        object.__setattr__(self, "is_ambiguous", is_ambiguous)

    @property
    def is_plain(self) -> bool:
        """Return whether each text is looked up as it is."""
        return not self.hashed and not self.decimals

    def code_of_text(self, value: Any) -> float:
        """Return the code of a text of a plain book, infinity of all else."""
        return self._code.get(value, np.inf) if type(value) is str else np.inf

    @property
    def has_no_texts(self) -> bool:
        """Return whether a text can be no category, not even one that is missing here."""
        return (
            not self.hashed
            and len(self.labels) > 0
            and not any(isinstance(label, str) for label in self.labels)
        )

    def code(self, value: Any, name: str) -> float | None:
        """Return the code of a category, or None if the book does not hold it.

        Raises
        ------
        InputError
            If the value is of a kind that the column `name` can hold no category of.
        """
        key = value, type(value)  # True == 1
        code = self._found.get(key, np.nan)  # most values recur, and a hash takes a while
        if code != code:
            code = self._find(value, name)
            if len(self._found) < MOST_FOUND + len(self.labels):
                self._found[key] = code
        if code is None and self.refuses_unseen:
            raise InputError(
                f"{name} of `X` must hold categories of the forest ({listed(self.labels)}), "
                f"got {value!r}: the source library would refuse it or take it for another; "
                "to have it go where each node sends an unknown category, set "
                "`forest.inputs.refuses_unseen` to False with dataclasses.replace."
            )
        return code

    def holds(self, text: str) -> bool:
        """Return whether a text is one of the categories."""
        return (category_hash(text) if self.hashed else text) in self._code

    def refuse_numbers(self, name: str) -> None:
        """Refuse numbers that may be codes or the categories themselves."""
        if self.hashed:
            raise InputError(
                f"{name} of `X` must hold texts or be a category column, since the forest knows "
                "its categories by hashes of texts: got numbers, convert the column to text or "
                "categories, or pass an array of numbers that are codes."
            )
        if self.decimals:
            raise InputError(
                f"{name} of `X` must hold texts, whole numbers or categories, since a whole number "
                "is the category of its decimals: got other numbers, convert the column to text, "
                "or pass an array of numbers that are codes."
            )
        if self.is_ambiguous:
            raise InputError(
                f"{name} of `X` must be a category column, since its categories are numbers too "
                f"({listed(self.labels)}): got numbers, convert the column to categories, or pass "
                "an array of numbers that are codes."
            )

    def _find(self, value: Any, name: str) -> float | None:
        if isinstance(value, str):
            if self.has_no_texts:
                raise InputError(
                    f"{name} of `X` must hold categories that are numbers, as the forest's are "
                    f"({listed(self.labels)}), got the text {value[:40]!r}: convert the column to "
                    "categories of numbers, or pass an array of codes."
                )
            return self._code.get(category_hash(value) if self.hashed else value)
        is_truth = isinstance(value, bool | np.bool_)
        if not self.hashed and not self.decimals:
            code = self._code.get(value)
            if code is not None and is_truth is not isinstance(self.labels[int(code)], bool):
                # Python's True is 1; pandas and the source libraries tell them apart.
                raise InputError(
                    f"{name} of `X` must hold categories of the kind of the forest's "
                    f"({listed(self.labels)}), got {value!r}: convert the column."
                )
            return code
        # A library may keep whole numbers as floats beside null.
        is_whole = is_truth or isinstance(value, int | np.integer)
        if not is_whole and not (isinstance(value, float) and value.is_integer()):
            raise InputError(
                f"{name} of `X` must hold categories that are texts or whole numbers, got "
                f"{value!r}: convert it to text."
            )
        if self.hashed:
            return self._code.get(category_hash(int(value)))
        return self._code.get(str(value).lower() if is_truth else str(int(value)))


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """Categories that are whole numbers and stand for themselves.

    Parameters
    ----------
    decimals : bool
        Whether a text of decimals is the number, and another text a category that is not known;
        otherwise texts are refused.
    """

    decimals: bool = False
    is_ambiguous: ClassVar[bool] = False
    unseen: ClassVar[float] = np.nan
    """Number of a category that is not there: no test takes it for a category."""

    def code(self, value: Any, name: str) -> float | None:
        """Return the number that a category is, or None if no number is meant.

        Raises
        ------
        InputError
            If the value is of a kind that the column `name` can hold no category of.
        """
        if isinstance(value, numbers.Real | np.bool_):
            return float(value)
        if not (self.decimals and isinstance(value, str)):
            raise InputError(
                f"{name} of `X` must hold categories that are whole numbers, got "
                f"{str(value)[:40]!r}: convert the column to categories of numbers."
            )
        return None if (number := whole_number(value)) is None else float(number)

    def refuse_numbers(self, name: str) -> None:
        """Refuse none: a number is the category itself."""


@dataclass(frozen=True, slots=True)
class Hashes:
    """Categories that are texts or whole numbers, of which X holds the hashes."""

    decimals: ClassVar[bool] = True
    is_ambiguous: ClassVar[bool] = True
    unseen: ClassVar[float] = np.nan
    _found: dict[Any, float] = field(default_factory=dict, repr=False, compare=False)

    def code(self, value: Any, name: str) -> float:
        """Return the hash of a category.

        Raises
        ------
        InputError
            If the value is neither a text nor a whole number.
        """
        key = value, type(value)  # True == 1
        if key not in self._found:
            self._found[key] = float(category_hash(self._category(value, name)))
        return self._found[key]

    def holds(self, text: str) -> bool:
        """Return True: each text is a category."""
        return True

    def refuse_numbers(self, name: str) -> None:
        """Refuse numbers that may be hashes or the categories themselves."""
        raise InputError(
            f"{name} of `X` must hold texts, whole numbers or categories, since the forest knows "
            "its categories by hashes of texts: got other numbers, convert the column to text, or "
            "pass a float64 array whose columns of categories hold bitvec.core.city_hash."
            "category_hash of each."
        )

    def _category(self, value: Any, name: str) -> str | int:
        if isinstance(value, str):
            return value
        if isinstance(value, bool | np.bool_ | int | np.integer):
            return int(value)
        if isinstance(value, float) and value.is_integer():  # so kept beside null
            return int(value)
        raise InputError(
            f"{name} of `X` must hold categories that are texts or whole numbers, got {value!r}: "
            "convert it to text."
        )


def book_of(inputs: Inputs, column: int) -> CodeBook | Hashes | None:
    """Return the code book of a column, or None if X holds numbers there."""
    if column in inputs.category_hashes:
        return Hashes()
    labels = inputs.book(column)
    if labels is None:
        return None
    return CodeBook(
        labels, column in inputs.hashed, column in inputs.decimals, inputs.refuses_unseen
    )


def listed(values: Iterable[Any]) -> str:
    """Return the first few values as the words of a message."""
    values = list(values)
    shown = ", ".join(repr(value) for value in values[:_SHOWN])
    return shown if len(values) <= _SHOWN else f"{shown} and {len(values) - _SHOWN} more"

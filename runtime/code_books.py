"""Code books: the category values of one column, by which a table's values become codes.

A code is a value's place in the book. Where `Inputs.hashed` names the column, some of the book's
whole numbers are hashes of categories, and a value is found by its hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from bitvec.city_hash import category_hash
from bitvec.errors import InputError
from bitvec.inputs import Inputs, Label

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
    """

    labels: tuple[Label, ...]
    hashed: bool = False
    _code: dict[Any, float] = field(init=False, repr=False, compare=False)
    _found: dict[Any, float | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        def key(label: Label) -> Label:
            return category_hash(label) if self.hashed and isinstance(label, str) else label

        code = {key(label): float(at) for at, label in enumerate(self.labels)}
        object.__setattr__(self, "_code", code)
        object.__setattr__(self, "_found", {})

    @property
    def is_ambiguous(self) -> bool:
        """Whether a number may be another category than the one of which it is the code."""
        return self.hashed or any(
            not isinstance(label, str) and label != at for at, label in enumerate(self.labels)
        )

    @property
    def has_no_texts(self) -> bool:
        """Whether a text can be none of the categories, not even one that is missing here."""
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
        if value not in self._found:  # most values recur, and a hash takes a while
            self._found[value] = self._find(value, name)
        return self._found[value]

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
        if not self.hashed:
            return self._code.get(value)
        # A library may keep whole numbers as floats beside null.
        is_whole = isinstance(value, int | np.integer | np.bool_)
        if not is_whole and not (isinstance(value, float) and value.is_integer()):
            raise InputError(
                f"{name} of `X` must hold categories that are texts or whole numbers, got "
                f"{value!r}: convert it to text."
            )
        return self._code.get(category_hash(int(value)))


def book_of(inputs: Inputs, column: int) -> CodeBook | None:
    """Return the code book of a column, or None if the forest reads numbers there."""
    labels = None if inputs.categories is None else inputs.categories[column]
    return None if labels is None else CodeBook(labels, column in inputs.hashed)


def listed(values: Iterable[Any]) -> str:
    """Return the first few values as the words of a message."""
    values = list(values)
    shown = ", ".join(repr(value) for value in values[:_SHOWN])
    return shown if len(values) <= _SHOWN else f"{shown} and {len(values) - _SHOWN} more"

"""Numbers of X that stand for the categories of a CatBoost model.

CatBoost compares hashes. A column of X is one of three kinds, by what is known of its texts:

* All categories that tests know are whole numbers below 2**24: X holds these numbers themselves.
  The texts of small numbers are recognised by their hashes. `Inputs.decimals` says that a table may
  hold the texts, since CatBoost takes both for one category.
* Texts are known: X holds places in a code book. A text like "3" stands in it a second time as the
  number 3, since CatBoost takes both for one category. The book ends with a number that is no
  category, unless it holds numbers anyway.
* Of some the hashes are known only: the book holds these hashes instead, and `Inputs.hashed` says
  that what a table holds is hashed before it is looked up, as CatBoost does. X holds places in it.

Everything else in X (another number, NaN) is a category that no test knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bitvec.converters.catboost.model_features import Features
from bitvec.core.city_hash import category_hash, text_with_hash, whole_number, whole_numbers
from bitvec.core.inputs import Label
from bitvec.errors import FileFormatError

HIGHEST: Final = 2**24
"""Whole numbers below this are exact in float32, where no other number rounds to them."""


@dataclass(frozen=True, slots=True)
class Column:
    """Meaning of the numbers of one column of categories.

    Parameters
    ----------
    book : tuple, optional
        Categories whose place is the code; None where numbers stand for themselves.
    codes : dict
        By hash, the codes that stand for this category.
    hashed : bool
        Whether labels that are numbers are hashes.
    """

    book: tuple[Label, ...] | None
    codes: dict[int, tuple[int, ...]]
    hashed: bool = False

    def texts(self) -> dict[int, str]:
        """Return a text for each code, of the hash that CatBoost knows it by."""
        if self.book is None:
            return {code[0]: str(code[0]) for code in self.codes.values()}
        return {
            code: text_with_hash(hashed)
            if self.hashed and not isinstance(self.book[code], str)
            else str(self.book[code])
            for hashed, codes in self.codes.items()
            for code in codes
        }


def columns_of(features: Features) -> dict[int, Column]:
    """Return the meaning of each column of categories that a test reads."""
    for hashed, text in features.texts.items():
        if category_hash(text) != hashed:
            raise FileFormatError(
                f"`cat_features_hash` must hold the hashes of its texts, got {hashed} for "
                f"{text[:40]!r}."
            )
    used = {column: hashes for column, hashes in features.hashes.items() if hashes}
    return {column: _column(hashes, features.texts) for column, hashes in used.items()}


def _column(hashes: tuple[int, ...], texts: Mapping[int, str]) -> Column:
    known = [texts.get(hashed) for hashed in hashes]
    wholes = [
        whole_numbers().get(hashed) if text is None else whole_number(text)
        for hashed, text in zip(hashes, known, strict=True)
    ]
    if all(number is not None and abs(number) < HIGHEST for number in wholes):
        return Column(None, {h: (n,) for h, n in zip(hashes, wholes, strict=True) if n is not None})
    book: list[Label] = [
        hashed if text is None else text for hashed, text in zip(hashes, known, strict=True)
    ]
    codes: dict[int, tuple[int, ...]] = {hashed: (at,) for at, hashed in enumerate(hashes)}
    if None in known:
        return Column(tuple(book), codes, hashed=True)
    for hashed, text in zip(hashes, known, strict=True):
        number = whole_number(text or "")
        if number is not None and number not in book:
            codes[hashed] = (*codes[hashed], len(book))
            book.append(number)
    return Column((*book, *_guard(book)), codes)


def _guard(book: list[Label]) -> tuple[int, ...]:
    """Return a number to end a book with, which no category is and no place.

    By it a reader of tables sees that numbers may be categories, and takes none for a code: tests
    may know "unknown" only, in a column that also holds the numbers 0 and 1.
    """
    if any(isinstance(label, int) and label != at for at, label in enumerate(book)):
        return ()
    return (min([0, *(label for label in book if isinstance(label, int))]) - 1,)

"""The codes of categories in a header: a comment for each column, and macros for those with names.

A macro `NAME_COLUMN_LABEL` is written where letters and digits of ASCII tell its label from all
others; accents are left off.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from bitvec.core.inputs import Inputs, Label
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import comment

_OWN = re.compile(r"N_.*|H|NO_MATH|FINITE")
"""Names of the header's other macros, without the header's name in front."""


def add_categories(header: Header, inputs: Inputs) -> None:
    """Append what stands for each category of each column."""
    books = inputs.categories or ()
    names = inputs.feature_names or tuple(f"x{column}" for column in range(inputs.n_features))
    words = {
        (column, code): f"{_word(names[column])}_{word}"
        for column, book in enumerate(books)
        for code, label in enumerate(book or ())
        if (word := "" if _is_hash(inputs, column, label) else _word(str(label)))
    }
    times = Counter(words.values())
    for column, book in enumerate(books):
        if book is None:
            continue
        lines = [
            f"     {code}  {'hash ' * _is_hash(inputs, column, label)}{comment(str(label))}"
            for code, label in enumerate(book)
        ]
        title = f"/* The codes of the categories of x[{column}], {comment(names[column])}:"
        header.plain("\n".join([title, *lines]) + " */")
        macros = [
            f"#define @@{word} {code}\n"
            for code in range(len(book))
            if (word := words.get((column, code), ""))
            and times[word] == 1
            and not _OWN.fullmatch(word)
        ]
        if macros:
            header.code("".join(macros))


def _is_hash(inputs: Inputs, column: int, label: Label) -> bool:
    return column in inputs.hashed and not isinstance(label, str)


def _word(text: str) -> str:
    """Return the part of a macro that a text becomes; "" if none of it can stand there.

    >>> _word("são tomé, 2"), _word("-1")
    ('SAO_TOME_2', 'MINUS_1')
    """
    plain = unicodedata.normalize("NFKD", re.sub(r"^-(?=\d)", "minus ", text))
    plain = plain.encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Z0-9]+", "_", plain.upper()).strip("_")

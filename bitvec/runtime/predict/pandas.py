"""Data frames for a certificate: rows of a forest as the columns that its source was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pandas as pd

from bitvec.core.arrays import Array
from bitvec.core.city_hash import text_with_hash, whole_number, whole_numbers
from bitvec.core.inputs import Inputs, Label

MOST_HASHES = 256
"""Categories of a column that hashes are shown as."""
UNSEEN = "no category of this column"


@dataclass(frozen=True)
class _Categorical:
    """A column of categories: its labels in the forest's order, and one for each row.

    `at` holds places among the labels: -1 for a missing category, the number of labels for one that
    the forest does not know.
    """

    labels: tuple[Label, ...]
    at: Array

    @cached_property
    def known(self) -> Array:
        """The places with known categories only."""
        return np.where(
            (self.at < 0) | (self.at >= len(self.labels)),
            np.arange(self.at.size) % max(len(self.labels), 1),
            self.at,
        )

    @property
    def unseen(self) -> Label:
        """A category that is none of the labels, of their kind."""
        if all(isinstance(label, str) for label in self.labels):
            return UNSEEN
        return max(int(label) for label in self.labels if not isinstance(label, str)) + 1

    def values(self, *, missing: bool = False, unseen: bool = False) -> list[Any]:
        """Return one label for each row; what is not asked for is a known one instead."""
        labels = [*self.labels, self.unseen]
        keep = ((self.at == len(self.labels)) & unseen) | ((self.at < 0) & missing)
        places = np.where(keep, self.at, self.known).tolist()
        return [None if at < 0 else labels[at] for at in places]

    @property
    def is_whole(self) -> bool:
        """Return whether some labels are whole numbers, or texts of their decimals."""
        return any(_whole(label) is not None for label in self.labels)

    def numbers(self, *, missing: bool = False) -> list[int | None]:
        """Return the whole numbers of `values`, -1 for a text that is none."""
        values = self.values(missing=missing)
        numbers = [None if v is None else _whole(v) for v in values]
        return [
            -1 if number is None and value is not None else number
            for number, value in zip(numbers, values, strict=True)
        ]


def _whole(label: Label) -> int | None:
    if isinstance(label, str):
        return whole_number(label)
    return label if type(label) is int else None


def _plain(column: _Categorical) -> Any:
    return pd.Series(column.values())


_OF_CATEGORIES: Final[dict[str, Callable[[_Categorical], Any]]] = {
    "numbers and categories": lambda c: pd.Categorical(c.values(), list(c.labels)),
    "categories in another order": lambda c: pd.Categorical(c.values(), list(c.labels)[::-1]),
    "ordered categories": lambda c: pd.Categorical(c.values(), list(c.labels), ordered=True),
    "one category only": lambda c: pd.Categorical(c.values()[:1] * c.at.size),
    "missing categories": lambda c: pd.Categorical(c.values(missing=True), list(c.labels)),
    "unseen categories": lambda c: pd.Categorical(c.values(unseen=True), [*c.labels, c.unseen]),
    "plain columns": _plain,
    "plain columns with None": lambda c: pd.Series(c.values(missing=True), dtype=object),
    "plain columns, unseen": lambda c: pd.Series(c.values(unseen=True)),
    "categories as text": lambda c: pd.Categorical(list(map(str, c.values()))),
    "text": lambda c: pd.Series(list(map(str, c.values())), dtype="str"),
}
"""Functions from a column of categories to a column of a frame, by kind."""

_OF_WHOLE_NUMBERS: Final[dict[str, Callable[[_Categorical], Any]]] = {
    "whole numbers": lambda c: np.array(c.numbers(), np.int64),
    "nullable whole numbers": lambda c: pd.array(c.numbers(missing=True), "Int64"),
    "whole numbers as floats": lambda c: np.array(c.numbers(), np.float64),
}
"""The same for categories that are whole numbers, beside which others are plain."""


def frames(
    inputs: Inputs, rows: Array, *, truths: tuple[int, ...] = (), seed: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield pandas frames of rows, each with a word for its kind.

    Parameters
    ----------
    inputs : Inputs
        Without names and code books there is nothing to show, and no frame is made.
    rows : (n, n_features)
        As the forest reads them; codes of categories that are none are made known ones, or unseen
        or missing ones in the frames that are about these.
    truths : tuple of int
        Columns that hold truth values.
    seed : int
        Of the rows whose categories become missing and unseen ones.
    """
    named = inputs.feature_names or inputs.categories or inputs.whole_numbers
    if not len(rows) or not (named or inputs.category_hashes):
        return
    rng = np.random.default_rng(seed)
    columns = {
        at: _categorical(inputs, at, rows[:, at], rng)
        for at in range(inputs.n_features)
        if inputs.book(at) or at in (*inputs.whole_numbers, *inputs.category_hashes)
    }
    numeric = [at for at in range(inputs.n_features) if at not in columns]

    def frame(of: Callable[[_Categorical], Any], of_numbers: Callable[[Array], Any]) -> Any:
        given = {
            at: rows[:, at] >= 0.5 if at in truths else of_numbers(rows[:, at]) for at in numeric
        }
        given |= {at: of(column) for at, column in columns.items()}
        table = pd.DataFrame({at: given[at] for at in range(inputs.n_features)})
        return (
            table if inputs.feature_names is None else table.set_axis(inputs.feature_names, axis=1)
        )

    kinds = _OF_CATEGORIES if columns else {"numbers": _plain}
    for kind, of in kinds.items():
        yield kind, frame(of, _floats)
    if any(column.is_whole for column in columns.values()):
        for kind, of in _OF_WHOLE_NUMBERS.items():
            yield kind, frame(partial(_whole_or_plain, of), _floats)
    by_text = inputs.decimals or inputs.hashed or inputs.category_hashes
    own = _plain if by_text else _OF_CATEGORIES["numbers and categories"]
    if set(numeric) - set(truths):
        yield "integers", frame(own, _integers)
        yield "nullable integers", frame(own, _nullable)
    base = frame(own, _floats)
    if inputs.feature_names is not None and inputs.n_features > 1:
        yield "columns in another order", base[base.columns[::-1]]
        yield "a column too few", base[base.columns[1:]]
    yield "a column too many", base.assign(**{"no column of the forest": 0.0})


def _whole_or_plain(of: Callable[[_Categorical], Any], column: _Categorical) -> Any:
    return of(column) if column.is_whole else _plain(column)


def _floats(x: Array) -> Any:
    return x.astype(np.float64)


def _integers(x: Array) -> Array:
    return np.clip(np.nan_to_num(x), -(2.0**30), 2.0**30).astype(np.int64)


def _nullable(x: Array) -> Any:
    return pd.Series(_integers(x)).astype("Int64").mask(np.isnan(x))


def _categorical(inputs: Inputs, at: int, codes: Array, rng: np.random.Generator) -> _Categorical:
    book = inputs.book(at)
    if at in inputs.category_hashes:
        is_hash = (np.abs(codes) < 2.0**31) & (codes == np.floor(codes))
        known = np.unique(codes[is_hash])[:MOST_HASHES].astype(int).tolist()
        wholes = whole_numbers()
        named = [wholes.get(code, text_with_hash(code)) for code in known]
        labels: tuple[Label, ...] = tuple(named) or ("",)
        place = {float(h): code for code, h in enumerate(known)}
        found = np.array([place.get(code, len(labels)) for code in codes.tolist()])
    elif book is None:
        values = np.unique(codes[np.isfinite(codes) & (codes == np.floor(codes)) & (codes >= 0)])
        labels = tuple(int(value) for value in values[:255]) or (0,)
        place = {float(label): code for code, label in enumerate(labels)}
        found = np.array([place.get(code, len(labels)) for code in codes.tolist()])
    else:
        is_hash = at in inputs.hashed
        kept = [code for code, label in enumerate(book) if label != ""]
        labels = tuple(
            text_with_hash(int(label)) if is_hash and not isinstance(label, str) else label
            for label in (book[code] for code in kept)
        )
        place = {float(code): at for at, code in enumerate(kept)}
        found = np.array([place.get(code, len(labels)) for code in codes.tolist()])
    found[np.isnan(codes)] = -1
    found[rng.random(codes.size) < 0.1] = -1
    found[rng.random(codes.size) < 0.1] = len(labels)
    return _Categorical(labels, found)

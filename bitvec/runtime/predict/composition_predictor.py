"""A composition made ready to predict: its members' predictors, and how answers are combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.composition import Asked, Composition
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict import predictor, tables


class CompositionPredictor:
    """Predicts with one composition; made by `compile`.

    Parameters
    ----------
    composition : Composition
    options : engine, kernel, n_jobs, device, warm
        As of `bitvec.compile`, for each forest.
    """

    def __init__(self, composition: Composition, **options: Any) -> None:
        self.composition, self._options = composition, options
        self.members = [
            predictor.compile(member.model, **options)
            if isinstance(member.model, Forest)
            else CompositionPredictor(member.model, **options)
            for member in composition.members
        ]
        self._codes_differ = _codes_differ(composition)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _again, (self.composition, self._options)

    def __repr__(self) -> str:
        return f"CompositionPredictor({self.composition!r})"

    @property
    def info(self) -> list[Any]:
        """Return what each member says of how it runs."""
        return [member.info for member in self.members]

    def answer(self, X: Any) -> Array:
        """Return probabilities, (batch, n_classes), or a regressor's predictions, (batch,)."""
        if self._codes_differ and _is_numbers(X):
            raise InputError(
                "`X` must be a frame, since members of this ensemble have other codes of one "
                "category: got an array of numbers, pass the categories themselves."
            )
        parts, rows = [], None
        for member, own in zip(self.composition.members, self.members, strict=True):
            if member.columns is None:
                x = X
            else:
                rows = self._rows(X) if rows is None else rows
                x = rows[:, list(member.columns)]
            parts.append(_asked(own, member.asked, x))
        return self.composition.answer(parts)

    def _rows(self, X: Any) -> Array:
        """Return X as one array, of which members read some of the columns."""
        return tables.rows(X, self.composition.inputs, np.dtype(np.float64))

    def predict(self, X: Any) -> Array:
        """Return labels of a classifier, (batch,), or a regressor's predictions, (batch,)."""
        answer = self.answer(X)
        return answer if self.composition.classes is None else self.composition.labels(answer)

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities, (batch, n_classes).

        Raises
        ------
        InputError
            If it is no classifier.
        """
        if self.composition.classes is None:
            raise InputError("`predict_proba` needs a classifier, got a regressor: call predict.")
        return self.answer(X)


def _codes_differ(composition: Composition) -> bool:
    """Return whether members that read all columns have several code books of one of them."""
    every = [m.model.inputs.categories for m in composition.members if m.columns is None]
    columns = zip(*(books for books in every if books is not None), strict=True)
    return any(len({book for book in own if book is not None}) > 1 for own in columns)


def _is_numbers(X: Any) -> bool:
    """Return whether rows are an array of numbers, or a list of such."""
    X = tables.as_array(X) if isinstance(X, list | tuple) else X
    return isinstance(X, np.ndarray) and X.dtype.kind in "biuf"


def _again(composition: Composition, options: dict[str, Any]) -> CompositionPredictor:
    return CompositionPredictor(composition, **options)


def _asked(own: Any, asked: Asked, X: Any) -> Array:
    """Return what a composition takes of a member."""
    if asked == Asked.RAW:
        found: Array = own.raw(X)
    elif asked == Asked.PROBABILITIES:
        found = own.predict_proba(X)
    else:
        found = own.predict(X)
    return found

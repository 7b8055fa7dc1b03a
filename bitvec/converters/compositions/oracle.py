"""An ensemble's own answers to raw rows, and its members, to be certified one by one."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bitvec.converters import dispatch
from bitvec.converters.attribute_records import class_name, library_class
from bitvec.converters.compositions.format import COMBINING
from bitvec.converters.compositions.read import sources
from bitvec.converters.pipelines.read import chosen
from bitvec.converters.sklearn.skops import load
from bitvec.core.arrays import Array
from bitvec.errors import InputError, UnsupportedModelError, needs


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """The other side of a composition.

    Parameters
    ----------
    name, version : str
        Of the library.
    model : estimator
    members : list of estimators
    """

    name: str
    version: str
    model: Any
    members: list[Any]

    def answer(self, X: Any) -> Array:
        """Return probabilities, or a regressor's predictions."""
        asked = "predict_proba" if hasattr(self.model, "predict_proba") else "predict"
        return np.asarray(getattr(self.model, asked)(X))

    def predict(self, X: Any) -> Array:
        """Return labels, or a regressor's predictions."""
        return np.asarray(self.model.predict(X))


def ensemble_of(model: Any) -> Ensemble:
    """Return an ensemble, or a pipeline with one at its end, as the other side of a comparison.

    Parameters
    ----------
    model : estimator, or path of a .skops file of one
        A file is loaded in this process, once it has been converted and its types are on the list.

    Raises
    ------
    InputError
        If the model is none.
    UnsupportedModelError
        If it is not fitted.
    """
    with needs("scikit-learn", "sklearn", "Asking an ensemble"):
        import sklearn
    if isinstance(model, str | PathLike):
        model = load(Path(model), dispatch.convert)
    model = chosen(model)
    return Ensemble("sklearn", sklearn.__version__, model, _members(model))


def _members(model: Any) -> list[Any]:
    model = chosen(model)
    if library_class(model) == "Pipeline":
        *steps, (name, last) = model.steps
        return [type(model)([*steps, (name, member)]) for member in _members(last)]
    if library_class(model) not in COMBINING:
        raise InputError(
            f"a composition must be compared with the ensemble that it came from, got a "
            f"{class_name(model)}: pass that."
        )
    return [source.model for source in sources(model)]


def oracle_of(model: Any) -> NoReturn:
    """Refuse: no single forest answers as an ensemble of forests does.

    Raises
    ------
    UnsupportedModelError
    """
    what = Path(model).name if isinstance(model, str | PathLike) else f"a {class_name(model)}"
    raise UnsupportedModelError(
        f"a forest must be compared with one model, got {what}, which combines "
        "several: certify the composition that bitvec.convert makes of it."
    )

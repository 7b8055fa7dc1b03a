"""Answers of a forest as named columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bitvec import api
from bitvec.core.arrays import Array
from bitvec.core.composition import Composition, Converted
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict.composition_predictor import CompositionPredictor
from bitvec.runtime.predict.predictor import OF_RAW, Predictor

if TYPE_CHECKING:
    from bitvec.explanations.explainer import Explainer

Columns = dict[str, Array]
AnyPredictor = Predictor | CompositionPredictor

OF_COMPOSITIONS: Final = ("label", "proba")
"""Outputs of a composition, which has no raw scores of its own."""


def model_of(predictor: AnyPredictor) -> Converted:
    """Return what a predictor answers by."""
    if isinstance(predictor, CompositionPredictor):
        return predictor.composition
    return predictor.forest


def class_groups(model: Converted) -> tuple[Array, ...] | None:
    """Return the classes of each target of a classifier, None of a regressor."""
    if isinstance(model, Forest):
        return model.output.classes
    return None if model.classes is None else (model.classes,)


def _label(model: Converted, found: Array) -> Columns:
    return _numbered("prediction", found)


def _proba(model: Converted, found: Array | list[Array]) -> Columns:
    names = _class_names(class_groups(model) or ())
    matrices = found if isinstance(found, list) else [found]
    columns = [column for matrix in matrices for column in matrix.T]
    return {f"probability_{name}": column for name, column in zip(names, columns, strict=True)}


def _class_names(groups: tuple[Array, ...]) -> list[str]:
    return [
        f"{group}_{label}" if len(groups) > 1 else str(label)
        for group, labels in enumerate(groups)
        for label in labels.tolist()
    ]


def _raw(model: Converted, found: Array) -> Columns:
    return _numbered("raw", found)


def _score(model: Converted, found: Array) -> Columns:
    return _numbered("score", found)


def _leaves(model: Converted, found: Array) -> Columns:
    return {f"tree_{tree}": column for tree, column in enumerate(found.T)}


@lru_cache(maxsize=8)
def _explainer(predictor: Predictor) -> Explainer:
    from bitvec.explanations.explainer import explain  # a second of imports

    return explain(predictor.forest)


def _shap(predictor: Any, rows: Any) -> Columns:
    return shap_columns(predictor.forest, _explainer(predictor).values(rows), prefix="shap_")


def shap_columns(forest: Forest, values: Array, *, prefix: str = "") -> Columns:
    """Return Shapley values by the names of the forest's columns, or their numbers."""
    names = forest.inputs.feature_names or tuple(map(str, range(forest.n_features)))
    if values.ndim == 3:
        names = tuple(f"{name}_{output}" for name in names for output in range(values.shape[2]))
    columns = values.reshape(len(values), len(names)).T
    return {f"{prefix}{name}": column for name, column in zip(names, columns, strict=True)}


_BY_VERB: Final[dict[str, tuple[str, Callable[[Converted, Any], Columns]]]] = {
    "label": ("predict", _label),
    "proba": ("predict_proba", _proba),
    "raw": ("raw", _raw),
    "score": ("scores", _score),
    "leaves": ("apply", _leaves),
}
"""Verbs of a predictor, and what names the columns of their answers, by the name of an output."""

OUTPUTS: Final = (*_BY_VERB, "shap")
"""Names of the outputs."""


def require_outputs(outputs: Iterable[str], model: Converted) -> tuple[str, ...]:
    """Return the names of outputs that a forest, or a composition of several, has.

    Raises
    ------
    InputError
        If one is unknown or asked for twice, there is none, `proba` is asked of a regressor, or
        anything but labels and probabilities of a composition.
    """
    given = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    for name in given:
        if name not in OUTPUTS:
            raise InputError(
                f"`outputs` must be among {', '.join(OUTPUTS)}, got {name!r}: choose some of them."
            )
    if not given or len(set(given)) < len(given):
        raise InputError(f"`outputs` must name each output once, one at least, got {given}.")
    other = next((name for name in given if name not in OF_COMPOSITIONS), None)
    if other is not None and isinstance(model, Composition):
        raise InputError(
            f"a composition of several forests answers {' and '.join(OF_COMPOSITIONS)}, got "
            f"{other!r}: ask its members, `composition.forests`."
        )
    if "proba" in given and class_groups(model) is None:
        others = "label" if isinstance(model, Composition) else "label, raw or score"
        raise InputError(f"the output proba needs a classifier, got a regressor: ask for {others}.")
    return given


def answers(predictor: AnyPredictor, rows: Any, outputs: Iterable[str]) -> dict[str, Columns]:
    """Return the columns of each output; raw scores are computed once for all of them."""
    names = tuple(outputs)
    verbs = {_BY_VERB[name][0] for name in names if name in _BY_VERB}
    one = predictor if isinstance(predictor, Predictor) else None  # of several no raw scores
    raw = one.raw(rows) if one is not None and len(verbs & {*OF_RAW}) > 1 else None

    def answer(name: str) -> Columns:
        if name == "shap":
            return _shap(predictor, rows)
        verb, columns = _BY_VERB[name]
        if one is not None and raw is not None and verb in OF_RAW:
            return columns(one.forest, one.from_raw(verb, raw))
        return columns(model_of(predictor), getattr(predictor, verb)(rows))

    return {name: answer(name) for name in names}


def side_by_side(found: Mapping[str, Columns]) -> Columns:
    """Return the columns of all outputs."""
    return {name: column for columns in found.values() for name, column in columns.items()}


def answer_names(model: Converted, outputs: Iterable[str]) -> list[str]:
    """Return the names of the columns of some outputs; no kernels are loaded for them."""
    empty = np.zeros((0, model.n_features), model.dtype)
    found = answers(api.compile(model, engine="reference"), empty, outputs)
    return [*side_by_side(found)]


def _numbered(name: str, values: Array) -> Columns:
    if values.ndim == 1:
        return {name: values}
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}_{at}": column for at, column in enumerate(values.T)}

"""Answers of a forest as named columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from bitvec.core.arrays import Array
from bitvec.core.composition import Composition, Converted
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict.composition_predictor import CompositionPredictor
from bitvec.runtime.predict.predictor import Predictor

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


def _label(predictor: AnyPredictor, rows: Any) -> Columns:
    return _numbered("prediction", predictor.predict(rows))


def _proba(predictor: AnyPredictor, rows: Any) -> Columns:
    found = predictor.predict_proba(rows)
    names = _class_names(class_groups(model_of(predictor)) or ())
    matrices = found if isinstance(found, list) else [found]
    columns = [column for matrix in matrices for column in matrix.T]
    return {f"probability_{name}": column for name, column in zip(names, columns, strict=True)}


def _class_names(groups: tuple[Array, ...]) -> list[str]:
    return [
        f"{group}_{label}" if len(groups) > 1 else str(label)
        for group, labels in enumerate(groups)
        for label in labels.tolist()
    ]


def _raw(predictor: Predictor, rows: Any) -> Columns:
    return _numbered("raw", predictor.raw(rows))


def _leaves(predictor: Predictor, rows: Any) -> Columns:
    return {f"tree_{tree}": column for tree, column in enumerate(predictor.apply(rows).T)}


def _score(predictor: Predictor, rows: Any) -> Columns:
    return _numbered("score", predictor.scores(rows))


@lru_cache(maxsize=8)
def _explainer(predictor: Predictor) -> Explainer:
    from bitvec.explanations.explainer import explain  # a second of imports

    return explain(predictor.forest)


def _shap(predictor: Predictor, rows: Any) -> Columns:
    return shap_columns(predictor.forest, _explainer(predictor).values(rows), prefix="shap_")


def shap_columns(forest: Forest, values: Array, *, prefix: str = "") -> Columns:
    """Return Shapley values by the names of the forest's columns, or their numbers."""
    names = forest.inputs.feature_names or tuple(map(str, range(forest.n_features)))
    if values.ndim == 3:
        names = tuple(f"{name}_{output}" for name in names for output in range(values.shape[2]))
    columns = values.reshape(len(values), len(names)).T
    return {f"{prefix}{name}": column for name, column in zip(names, columns, strict=True)}


OUTPUTS: Final[dict[str, Callable[[Any, Any], Columns]]] = {
    "label": _label,
    "proba": _proba,
    "raw": _raw,
    "score": _score,
    "leaves": _leaves,
    "shap": _shap,
}
"""Functions that give the columns of an output, by its name."""


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


def answers(predictor: AnyPredictor, rows: Any, outputs: Iterable[str]) -> Columns:
    """Return the columns of some outputs, side by side."""
    found: Columns = {}
    for name in outputs:
        found.update(OUTPUTS[name](predictor, rows))
    return found


def _numbered(name: str, values: Array) -> Columns:
    if values.ndim == 1:
        return {name: values}
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}_{at}": column for at, column in enumerate(values.T)}

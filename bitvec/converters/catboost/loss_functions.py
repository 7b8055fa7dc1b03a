"""CatBoost's losses: links of raw scores, classes and their labels."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.converters.catboost.model_json import Document, items, member, numbers
from bitvec.core.arrays import Array
from bitvec.core.output import PostTransform
from bitvec.errors import FileFormatError, UnsupportedModelError

BINARY: Final = ("Logloss", "CrossEntropy", "Focal")
ONE_OF_MANY: Final = ("MultiClass", "MultiClassOneVsAll")
MULTILABEL: Final = ("MultiLogloss", "MultiCrossEntropy")
EXPONENTIAL: Final = ("Poisson", "Tweedie")
IDENTITY: Final = (
    *("RMSE", "MAE", "Quantile", "LogLinQuantile", "MAPE", "Lq", "Huber", "Expectile", "LogCosh"),
    *("RMSPE", "MultiRMSE", "MultiRMSEWithMissingValues", "MultiQuantile", "RMSEWithUncertainty"),
    *("SurvivalAft", "Cox", "GroupQuantile", "QueryRMSE", "QuerySoftMax", "QueryCrossEntropy"),
    *("PairLogit", "PairLogitPairwise", "YetiRank", "YetiRankPairwise", "LambdaMart"),
    *("StochasticFilter", "StochasticRank", "Combination"),
)
CUSTOM: Final = ("PythonUserDefinedPerObject", "PythonUserDefinedMultiTarget")
"""Losses that a caller defined; a model that does not say its loss is treated alike."""

SEVERAL_TARGETS: Final = (
    *MULTILABEL,
    *("MultiRMSE", "MultiRMSEWithMissingValues", "SurvivalAft", "PythonUserDefinedMultiTarget"),
)
"""Losses of labels with several columns, each of which may have statistics of its own."""

_LABEL_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "Integer": (int,),
    "Float": (int, float),
    "String": (str,),
    "Boolean": (bool,),
}
_KINDS: Final = {str: "String", bool: "Boolean", float: "Float"}
_DTYPES: Final = {"Integer": np.int64, "Float": np.float64, "String": np.str_, "Boolean": np.bool_}

MOST_CLASSES: Final = 2**16


@dataclass(frozen=True, slots=True)
class Answer:
    """Links and labels of a model.

    Parameters
    ----------
    n_outputs : int
    output : tuple of int
        The output that each value of a leaf adds to; outputs that none adds to are classes absent
        from the training data, whose raw score is -inf.
    post_transform : PostTransform
    classes : tuple of arrays, optional
    groups : tuple of int
    boundary : float, optional
        The raw score above which a row is of the second class.
    """

    n_outputs: int
    output: tuple[int, ...]
    post_transform: PostTransform = PostTransform.IDENTITY
    classes: tuple[Array, ...] | None = None
    groups: tuple[int, ...] = ()
    boundary: float | None = None


def may_have_targets(info: Document, dimension: int) -> bool:
    """Return whether a model may have been trained with labels of several columns."""
    loss = loss_name(info)
    return loss in SEVERAL_TARGETS or (loss is None and dimension > 1)


def loss_name(info: Document) -> str | None:
    """Return the name of the loss that a model was trained for; None if it does not say."""
    parameters = info.get("params")
    loss = parameters.get("loss_function") if isinstance(parameters, dict) else None
    if loss is None and isinstance(info.get("loss_function"), str):
        try:
            loss = json.loads(info["loss_function"])  # of a sum of models
        except (ValueError, RecursionError):
            raise FileFormatError("`loss_function` must be the text of an object.") from None
    if loss is None:
        return None
    name = loss.get("type") if isinstance(loss, dict) else loss
    if not isinstance(name, str):
        raise FileFormatError("`loss_function` must have a `type`.")
    return name


def answer_of(info: Document, dimension: int, *, labels: bool | None) -> Answer:
    """Return how a model answers.

    Parameters
    ----------
    info : JSON object
        The `model_info`.
    dimension : int
        Values of a leaf.
    labels : bool, optional
        Whether the object that holds the model answers with labels; None goes by the loss.

    Raises
    ------
    UnsupportedModelError
        If the loss is not known.
    """
    loss = loss_name(info)
    plain = Answer(dimension, tuple(range(dimension)))
    is_custom = loss is None or loss in CUSTOM
    classifies = loss in (*BINARY, *ONE_OF_MANY, *MULTILABEL)
    if labels is not None and not is_custom and labels != classifies:
        raise UnsupportedModelError(
            f"the loss {str(loss)[:80]!r} must be in a wrapper that answers as it does: load the "
            "model into a plain CatBoost and convert that."
        )
    if loss in BINARY or (is_custom and labels and dimension == 1):
        if dimension != 1:
            raise FileFormatError(f"a model of 2 classes must have 1 value a leaf, not {dimension}")
        sigmoid = PostTransform.SIGMOID
        return Answer(1, (0,), sigmoid, (_binary_labels(info),), (1,), _boundary(info))
    if loss in ONE_OF_MANY or (is_custom and labels):
        return _one_of_many(info, dimension, loss)
    if loss in MULTILABEL:
        pairs = tuple(np.arange(2) for _ in range(dimension))
        return Answer(dimension, plain.output, PostTransform.SIGMOID, pairs, (1,) * dimension)
    if loss in EXPONENTIAL:
        return Answer(dimension, plain.output, PostTransform.EXPONENTIAL)
    if loss in IDENTITY or is_custom:
        return plain
    raise UnsupportedModelError(
        f"the loss must be one whose link is known, got {str(loss)[:80]!r}: the model cannot be "
        "converted exactly."
    )


def _one_of_many(info: Document, dimension: int, loss: str | None) -> Answer:
    named, place = _class_names(info, dimension)
    if dimension < 2 or len(place) != dimension or len(set(place)) < dimension:
        raise FileFormatError(
            f"`class_to_label` must name a class for each of {dimension} (at least 2) values of a "
            f"leaf, got {len(place)}."
        )
    sigmoid = loss == "MultiClassOneVsAll"
    return Answer(
        named.size,
        place,
        PostTransform.SIGMOID if sigmoid else PostTransform.SOFTMAX,
        (named,),
        (named.size,),
    )


def _binary_labels(info: Document) -> Array:
    named, place = _class_names(info, 2)
    if len(place) != 2:
        raise FileFormatError(f"`class_to_label` must name 2 classes, got {len(place)}.")
    chosen: Array = named[list(place)]
    return chosen


def _class_names(info: Document, n_classes: int) -> tuple[Array, tuple[int, ...]]:
    """Return the labels, and of each class in the trees the place of its label."""
    parameters = info.get("class_params") or info.get("multiclass_params")
    if parameters is None:  # a loss of the caller's own
        names = _names_in_training(info)
        named = _labels({}, names, n_classes) if len(names) == n_classes else np.arange(n_classes)
        return named, tuple(range(n_classes))
    if not isinstance(parameters, dict):
        raise FileFormatError("`class_params` must be an object.")
    place = numbers(items(parameters, "class_to_label"), "class_to_label")
    names = items(parameters, "class_names")
    count = parameters.get("classes_count", 0)
    count = len(names) or (count if type(count) is int and count > 0 else place.size)
    if count > max(MOST_CLASSES, place.size):
        raise FileFormatError(f"a model must have at most {MOST_CLASSES} classes, got {count}.")
    if np.any((place != np.floor(place)) | (place < 0) | (place >= count)):
        raise FileFormatError(f"`class_to_label` must hold places of {count} classes.")
    return _labels(parameters, names, count), tuple(place.astype(int).tolist())


def _names_in_training(info: Document) -> list[Any]:
    options = info.get("params")
    for name in ("data_processing_options", "class_names"):
        options = options.get(name) if isinstance(options, dict) else None
    return options if isinstance(options, list) else []


def _labels(parameters: Document, names: list[Any], count: int) -> Array:
    if not names:
        return np.arange(count)
    kind = parameters.get("class_label_type", _KINDS.get(type(names[0]), "Integer"))
    if kind not in _LABEL_TYPES:
        raise UnsupportedModelError(f"labels must be among {', '.join(_DTYPES)}, got {kind!r}.")
    if not all(type(name) in _LABEL_TYPES[kind] for name in names):
        raise FileFormatError(f"`class_names` must be of the type {kind}, got others.")
    if kind == "Integer" and not all(-(2**63) <= name < 2**63 for name in names):
        raise FileFormatError("`class_names` must fit 64 bits.")
    return np.array(names, _DTYPES[kind])


def _boundary(info: Document) -> float | None:
    """Return the raw score at the probability that the second class must exceed."""
    if "binclass_probability_threshold" not in info:
        return None
    text = member(info, "binclass_probability_threshold", str)
    try:
        threshold = float(text)
    except ValueError:
        threshold = math.nan
    if not 0 < threshold < 1:
        raise UnsupportedModelError(
            f"`binclass_probability_threshold` must lie between 0 and 1, got {text[:40]!r}."
        )
    return -math.log(1 / threshold - 1)
